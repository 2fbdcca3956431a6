"""The short way of a plain read against the long way of every call: what is answered and what is written down are the same, whatever is recorded and asked."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

import small_worlds
from builders import a_crossing, a_policy, an_envelope, recorded, run
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, ErrorRecord
from twiceshy.journal import Journal
from twiceshy.outcome import Mode
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.replaying import Replay, RunDiverged, Terms
from twiceshy.replaying.plainreads import PlainReads
from twiceshy.worlds.authority import for_run

READS = ("find", "peek", "look", "ask", "book", "list")
POLICY = a_policy(**dict.fromkeys(READS, "read"), pay="write")
Asked = tuple[str, Any]

values = st.sampled_from(
    ["thu", "fri", "é", 1, 1.0, True, None, "1", (), ("thu",), ["thu"], {"$x": 1}, {"a": [1.5, {}]}]
)
answers = st.sampled_from([["9:00"], ["9:00"], [], None, {"slots": [1, 2.5]}, "ü", b"raw", (1,), ValueError("closed")])
scripts = st.lists(st.tuples(st.sampled_from([*READS, "pay", "model", "now"]), values), max_size=8)


class Shop:
    """Tools that answer what a list holds, one after another, and an agent that asks them as a script says.

    `list` and `ask` are hooked, `peek` has a default, `look` is refused each other time, `book` looks inside.
    """

    def __init__(self, script: list[Asked], told: list[Any], schema: dict[str, Any] | None = None) -> None:
        self.script, self.told, self.schema = script, list(told), schema
        self.heard: list[Any] = []

    def build(self, boundary: Boundary) -> Callable[[Any], Any]:
        """Declare it all."""
        turn = count(1)

        def answer(day: Any) -> Any:
            told = self.told.pop(0) if self.told else ["UTC"]
            if isinstance(told, Exception):
                raise told
            return told

        def zoned(day: Any, zone: str = "UTC") -> Any:
            return [answer(day), zone]

        tools: dict[str, Callable[..., Any]] = {
            name: boundary.tool(name, answer) for name in ("find", "look", "ask", "list", "pay")
        }
        tools["peek"] = boundary.tool("peek", zoned)
        tools["book"] = boundary.tool(
            "book", lambda day: [tools["find"](day=day), tools["peek"](day=day)], result_schema=self.schema
        )
        boundary.hook("tidy", lambda result: result, after="list")
        boundary.hook("fill", lambda given: {"day": given["day"] or "thu"}, before="ask")
        boundary.guard("odd", lambda _: next(turn) % 2 == 0, before="look")
        planner = boundary.model("planner", lambda request: {"parts": request["messages"]})
        tools["model"] = lambda day: planner({"messages": [str(day)]})
        tools["now"] = lambda day: [day, boundary.now()]
        return lambda _: [self.hear(tools[name], day) for name, day in self.script]

    def hear(self, tool: Callable[..., Any], day: Any) -> None:
        """Note what a call gives or raises."""
        try:
            self.heard.append(tool(day=day))
        except Exception as raised:  # noqa: BLE001 - whatever the tool raised
            self.heard.append(repr(raised))


Way = tuple[list[bytes], list[Any], int]


def both_ways(
    envelope: Envelope, script: list[Asked], *, schema: dict[str, Any] | None = None, **terms: Any
) -> list[Way]:
    """What is written down, what the agent hears, and how many calls went the short way: with it, and without."""
    return [one_way(envelope, Shop(script, [], schema), short=short, **terms) for short in (True, False)]


def one_way(envelope: Envelope, shop: Shop, *, short: bool, **terms: Any) -> Way:
    lines: list[bytes] = []
    taken = []
    answer = PlainReads.answer

    def counted(self: PlainReads, call: Any) -> Any:
        answered = answer(self, call) if short else None
        taken.append(answered is not None)
        return answered

    with patch.object(PlainReads, "answer", counted), suppress(RunDiverged):
        replay = Replay(envelope, Terms(**{"policy": POLICY, **terms}), Journal(lines.append))
        run(shop.build(Boundary(replay)), None)
    return lines, shop.heard, sum(taken)


def of_a_run(script: list[Asked], told: list[Any], *, policy: ToolsPolicy = POLICY) -> Envelope:
    return recorded(Shop(script, told).build, policy=policy)


@given(script=scripts, told=st.lists(answers, max_size=8), other=st.none() | scripts)
@example(script=[("model", 1), ("pay", 1), ("model", 2), ("find", 1)], told=[], other=None)
@example(script=[("find", 1), ("now", 1)], told=[], other=None)
@example(script=[("book", 1), ("pay", 1)], told=[], other=[("book", 1), ("book", 1), ("pay", 1)])
@example(script=[("list", 1)], told=[], other=None)
@example(script=[("ask", ())], told=[], other=None)
@example(script=[("look", 1)] * 6, told=[], other=None)
@example(script=[("find", ["thu"])], told=[], other=[("find", ("thu",))])
@example(script=[("find", 1), ("find", 1)], told=[["9:00"], ValueError("closed")], other=None)
def test_the_short_way_is_the_long_way(script: list[Asked], told: list[Any], other: list[Asked] | None) -> None:
    (lines, heard, _), (long_lines, long_heard, _) = both_ways(of_a_run(script, told), other or script)
    assert lines == long_lines
    assert repr(heard) == repr(long_heard)


def test_plain_reads_go_the_short_way() -> None:
    script = [("find", "thu"), ("peek", "thu"), ("find", "thu"), ("model", 1), ("pay", 1), ("find", "thu"), ("list", 1)]
    assert [taken for _, _, taken in both_ways(of_a_run(script, []), script)] == [4, 0]


def test_a_read_that_a_write_does_not_touch_goes_the_short_way_past_it() -> None:
    policy = a_policy(find=ToolPolicy(effect=Effect.READ, reads=("slots",)), pay=ToolPolicy(touches=("money",)))
    envelope, script = of_a_run([("find", "thu")], [], policy=policy), [("pay", 1), ("find", "thu")]
    (lines, heard, taken), (long_lines, long_heard, _) = both_ways(envelope, script, policy=policy)
    assert (lines, heard, taken) == (long_lines, long_heard, 1)


LONG: dict[str, tuple[ToolsPolicy, dict[str, Any]]] = {
    "volatile": (a_policy(find=ToolPolicy(effect=Effect.READ, volatile=("zone",))), {}),
    "keyed": (a_policy(find=ToolPolicy(effect=Effect.READ, idempotency_key="day")), {}),
    "write": (a_policy(find="write"), {}),
    "prefix": (POLICY, {"cut": CutPoint(mode=Mode.CUT_POINT, after=1)}),
    "stub": (POLICY, {"cut": CutPoint(mode=Mode.STUB)}),
    "live": (POLICY, {"cut": CutPoint(live=frozenset({"tool:find"}))}),
    "pseudonyms": (POLICY, {"pseudonymise": lambda _, seen: seen}),
    "world": (POLICY, {"world": for_run(small_worlds.a_world(), POLICY, first=False)}),
}


@pytest.mark.parametrize("why", LONG)
def test_any_other_call_goes_the_long_way(why: str) -> None:
    policy, terms = LONG[why]
    script = [("find", "thu"), ("find", "fri")]
    (lines, heard, taken), (long_lines, long_heard, _) = both_ways(
        of_a_run(script, [1, 2], policy=policy), script, policy=policy, **terms
    )
    assert (lines, heard, taken) == (long_lines, long_heard, 0)


def test_a_result_held_against_a_schema_goes_the_long_way() -> None:
    (lines, _, taken), (long_lines, _, _) = both_ways(
        of_a_run([("book", 1)], []), [("book", 1)], schema={"type": "string"}
    )
    assert (lines, taken) == (long_lines, 0)
    assert b"schema_mismatch" in lines[-1]


@pytest.mark.parametrize(
    "given",
    [
        {"seen": UNSET, "proposed": {"day": 1}},
        {"raw": UNSET, "shown": ["9:00"]},
        {"shown": UNSET},
        {"shown": [True], "raw": [1]},
        {"error": ErrorRecord(cls="Full", type="full", message="full", definite=True)},
    ],
    ids=str,
)
def test_a_record_that_says_less_or_more_goes_the_long_way(given: dict[str, Any]) -> None:
    envelope = an_envelope(a_crossing(1, "find", **{"seen": {"day": 1}, "raw": ["9:00"], "shown": ["9:00"], **given}))
    (lines, heard, taken), (long_lines, long_heard, _) = both_ways(envelope, [("find", 1)])
    assert (lines, heard, taken) == (long_lines, long_heard, 0)


def test_a_tool_declared_anew_is_looked_at_anew() -> None:
    envelope, policy = of_a_run([("find", 1)], []), a_policy()

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        read = boundary.tool("find", lambda day: day, effect="read")
        written = boundary.tool("find", lambda day: day, effect="write")
        return lambda _: [read(day=1), written(day=1)]

    lines: list[bytes] = []
    with suppress(RunDiverged):
        run(build(Boundary(Replay(envelope, Terms(policy=policy), Journal(lines.append)))), None)
    assert b'"effect":"write"' in lines[1]


def test_what_is_answered_is_the_agents_own() -> None:
    script = [("find", "thu"), ("find", "thu")]
    for _, heard, _ in both_ways(of_a_run(script, []), script):
        heard[0].append("mine")
        assert heard[1] == ["UTC"]
