"""Breaks around calls, plain ones and those of a framework alike: in which step they are made, to whom they are told, what ends them (semantics.md §8.2)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from broken_runs import broken
from builders import Build, a_policy, recorded
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Kind
from twiceshy.errors import InputError
from twiceshy.outcome import Mode
from twiceshy.passing import Passage, passing
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Transcript

Calls = Sequence[tuple[str, dict[str, Any]]]
Call = Callable[[str, dict[str, Any]], Any]

POLICY = a_policy(
    find=ToolPolicy(effect=Effect.READ, reads=("c",)), pay=ToolPolicy(touches=("a",)), tell=ToolPolicy(touches=("b",)), fail=ToolPolicy(touches=("d",)),
)  # fmt: skip
"""No call of these sees another."""


def answer(name: str, asked: dict[str, Any]) -> Any:
    if name == "fail":
        raise LookupError("no such thing")
    return {"of": name, **asked}


def plainly(boundary: Boundary) -> Call:
    def answering(name: str) -> Callable[..., Any]:
        return lambda **asked: answer(name, asked)

    tools = {name: boundary.tool(name, answering(name)) for name in POLICY.tools}
    return lambda name, asked: tools[name](**asked)


def framed(boundary: Boundary) -> Call:
    """The same calls on their way through a framework."""
    for name in POLICY.tools:
        boundary.tool(name)

    def call(name: str, asked: dict[str, Any]) -> Any:
        passage = Passage(boundary, name, asked)
        reach = lambda: passage.reach(asked, lambda seen: answer(name, seen))  # noqa: E731 - what the framework calls
        return passing(passage, lambda: passage.returned(reach()))

    return call


def agent(calls: Calls, declared: Callable[[Boundary], Call]) -> Build:
    """An agent that makes these calls and tells what it was told of each."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        call = declared(boundary)

        def run(_: Any) -> list[Any]:
            told: list[Any] = []
            for name, asked in calls:
                try:
                    told.append(call(name, asked))
                except LookupError:
                    told.append("lost")
            return told

        return run

    return build


def told_of(told: Transcript) -> Any:
    """The calls that crossed, in order, with what went back (of an error a framework alone tells that); and the output."""
    made = [played.crossing for played in told.played if played.crossing.kind is Kind.TOOL]
    shown = [(crossing.name, crossing.seen, crossing.error or crossing.shown) for crossing in made]
    return shown, told.disposition and told.disposition.output, told.divergence and told.divergence.kind


PAY, TELL = ("pay", {"n": 1}), ("tell", {"n": 2})
AROUND = [
    "call.drop:{0}",
    "call.duplicate:{0}",
    "args.set:{0}.n=1",
    "hook.strip:{0}.of",
    "error.swallow:{0}",
    "order.swap:{0},{1}",
]
names = st.sampled_from(["find", "pay", "tell", "fail"])
some_calls = st.lists(st.tuples(names, st.fixed_dictionaries({"n": st.integers(0, 1)})), max_size=5)


@example([PAY], "call.duplicate:{0}", ["pay", "tell"], 0)
@example([PAY, TELL], "order.swap:{0},{1}", ["pay", "tell"], 1)
@given(some_calls, st.sampled_from(AROUND), st.lists(names, min_size=2, max_size=2, unique=True), st.integers(0, 5))
def test_a_call_of_a_framework_is_broken_as_a_plain_one(
    calls: Calls, pattern: str, pair: list[str], after: int
) -> None:
    text, cut = pattern.format(*pair), CutPoint(mode=Mode.CUT_POINT, after=after)
    (plain, applied), (told, applied_framed) = (
        broken(agent(calls, declared), recorded(agent(calls, declared), policy=POLICY), text, policy=POLICY, cut=cut)
        for declared in (plainly, framed)
    )
    assert told_of(told) == told_of(plain)
    assert applied_framed == applied


@example([PAY, TELL], "order.swap:{0},{1}", ["pay", "tell"])
@given(some_calls, st.sampled_from(AROUND), st.lists(names, min_size=2, max_size=2, unique=True))
def test_every_call_is_a_step_of_its_own_time_and_ends(calls: Calls, pattern: str, pair: list[str]) -> None:
    build = agent(calls, framed)
    told, _ = broken(build, recorded(build, policy=POLICY), pattern.format(*pair), policy=POLICY)
    made = [played.crossing for played in told.played if not played.crossing.sub]
    assert [crossing.seq for crossing in made] == sorted({crossing.seq for crossing in made})
    assert told.divergence or all(crossing.error or crossing.shown is not UNSET for crossing in made)


def test_calls_are_swapped_where_one_is_made_by_an_agent_that_is_handed_to() -> None:
    """The call that waited was known to the first agent alone, so it was never made."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        call = plainly(boundary)
        teller = boundary.handoff("teller", lambda within: lambda _: plainly(within)(*TELL))
        return lambda user: [call(*PAY), teller(user)]

    told, applied = broken(build, recorded(build, policy=POLICY), "order.swap:pay,tell", policy=POLICY)
    made = [played.crossing.name for played in told.played if played.crossing.kind is Kind.TOOL]
    assert (made, applied) == (["tell", "pay"], ["order.swap:pay,tell"])


@pytest.mark.parametrize("text", ["args.set:pay.n=9", "hook.strip:pay.n"])
def test_a_tool_that_is_declared_while_the_agent_runs_is_broken(text: str) -> None:
    """The hooks of a break were placed where everything was declared, and on nothing that came later."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        return lambda _: [plainly(boundary)(*PAY), plainly(boundary)(*PAY)]

    told, applied = broken(build, recorded(build, policy=POLICY), text, policy=POLICY)
    assert applied == [text]
    code = [played.crossing.name for played in told.played if played.crossing.kind is Kind.HOOK]
    assert code == [f"break {text}"] * 2


class Waits(Exception):
    """Somebody is asked first."""


@pytest.mark.parametrize("raised", [Waits("for ann"), InputError("our own")])
def test_what_is_no_error_of_the_tool_is_not_swallowed(raised: Exception) -> None:
    """Whoever was to be asked was not, and the call was told as done."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        boundary.tool("work", effect="none")

        def work(_: Any) -> Any:
            raise raised

        def run(_: Any) -> Any:
            passage = Passage(boundary, "work", {}, waits=(Waits,))
            try:
                return passing(passage, lambda: passage.returned(passage.reach({}, work)))
            except (Waits, InputError) as heard:
                return str(heard)

        return run

    policy = a_policy(work="none")
    told, applied = broken(build, recorded(build, policy=policy), "error.swallow:work", policy=policy)
    assert applied == []
    assert told.disposition is not None
    assert told.disposition.output == str(raised)


def test_a_call_that_waits_for_a_person_is_not_the_other_of_a_swap() -> None:
    """What had waited for it was made before it, and the two stood in the order that they always had."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        call = plainly(boundary)
        asked: list[int] = []

        def telling(seen: dict[str, Any]) -> Any:
            asked.append(1)
            if len(asked) == 1:
                raise Waits("for ann")
            return answer("tell", seen)

        def tell() -> Any:
            passage = Passage(boundary, *TELL, waits=(Waits,))
            return passing(passage, lambda: passage.returned(passage.reach(TELL[1], telling)))

        def run(_: Any) -> Any:
            paid = call(*PAY)
            with suppress(Waits):
                tell()
            return [paid, tell()]

        return run

    policy = msgspec.structs.replace(
        POLICY, tools={**POLICY.tools, "tell": ToolPolicy(touches=("b",), definite_errors=("Waits",))}
    )
    told, applied = broken(build, recorded(build, policy=policy), "order.swap:pay,tell", policy=policy)
    made = [(played.crossing.name, played.crossing.error is None) for played in told.played]
    assert (made, applied) == ([("tell", False), ("tell", True), ("pay", True)], ["order.swap:pay,tell"])
