"""What a careless or mildly hostile candidate does to its boundary must never hide a passage from the judge."""

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from builders import a_crossing, a_policy, an_envelope, recorded, replayed
from shop import POLICY, Agent, build_with, diverged, record, replay
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing, Effect, Kind
from twiceshy.journal import Journal, transcript_of
from twiceshy.outcome import BoundaryState, Divergence, Mode
from twiceshy.recording import run
from twiceshy.replaying import Replay, RunDiverged, RunFaulted, Terms
from twiceshy.transcript import Transcript


class Money:
    """What no journal can hold."""


def faulted(body: Callable[..., Any], **given: Any) -> Transcript:
    """The transcript of a run that may end by a fault or a crash of its own."""
    lines: list[bytes] = []
    journal = Journal(lines.append)
    replaying = Replay(record(), Terms(policy=POLICY, **given), journal)
    with suppress(RunDiverged, RunFaulted):
        journal.ended(run(build_with(body)(Boundary(replaying)), "hello"))
    return transcript_of(lines)


def swallowing(ask: Callable[..., Any]) -> Callable[..., Any]:
    """A body that asks for something and makes as if nothing had happened."""

    def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        try:
            ask(find, pay)
        except Exception:  # noqa: BLE001 - what a careless agent does
            return "fine"

    return body


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [Money(), nested(300), {"a": Money()}, iter([])])
def test_a_call_that_cannot_be_keyed_ends_the_run(value: Any) -> None:
    told = replay(record(), swallowing(lambda find, pay: pay(amount=value)))
    assert diverged(told) is Divergence.ARGS_MISMATCH
    assert told.divergence is not None
    assert (told.divergence.place, told.divergence.boundary) == ("#1", "tool:pay")
    assert told.disposition is None


def test_an_unkeyable_call_of_a_new_tool_is_unrecorded() -> None:
    def build(boundary: Boundary) -> Agent:
        new = boundary.tool("new")

        def agent(_: Any) -> str:
            with suppress(Exception):
                new(value=Money())
            return "fine"

        return agent

    assert diverged(replayed(build, record(), policy=POLICY)) is Divergence.UNRECORDED_CALL


def test_a_result_that_cannot_be_written_is_a_fault() -> None:
    def hooked(boundary: Boundary, _: str) -> None:
        boundary.hook("wrap", lambda asked: Money(), after="find")

    lines: list[bytes] = []
    journal = Journal(lines.append)
    replaying = Replay(record(), Terms(policy=POLICY), journal)
    agent = build_with(swallowing(lambda find, pay: find(day="thu")), with_hook=hooked)(Boundary(replaying))
    with suppress(RunFaulted):
        journal.ended(run(agent, "hello"))
    told = transcript_of(lines)
    assert told.fault is not None
    assert "hook:wrap at #1.1: a Money has no canonical form" in told.fault
    assert told.disposition is None


def test_running_out_of_stack_inside_is_a_crash() -> None:
    def deep(find: Any, pay: Any) -> None:
        def down(left: int) -> None:
            if left:
                down(left - 1)
            else:
                pay(amount=1)

        for left in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit()):
            with suppress(RecursionError):
                down(left)

    told = faulted(swallowing(deep))
    assert (told.disposition, told.fault) == (None, None)


def test_a_journal_that_is_gone_is_a_crash() -> None:
    def gone(line: bytes) -> None:
        raise BrokenPipeError

    replaying = Replay(record(), Terms(policy=POLICY), Journal(gone))
    agent = build_with(swallowing(lambda find, pay: pay(amount=1)))(Boundary(replaying))
    with pytest.raises(RunFaulted):
        agent("hello")


def test_a_broken_schema_is_a_fault_with_its_place() -> None:
    def build(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", schema={"type": "no such type"})

        def agent(_: Any) -> str:
            with suppress(Exception):
                pay(amount=1)
            return "fine"

        return agent

    lines: list[bytes] = []
    journal = Journal(lines.append)
    with suppress(RunFaulted):
        journal.ended(run(build(Boundary(Replay(record(), Terms(policy=POLICY), journal))), "hello"))
    assert (transcript_of(lines).fault or "").startswith("tool:pay at #1: ")


def test_threads_take_turns() -> None:
    """Two threads never get one recording: each recorded answer is served once."""

    numbers = iter(range(40))

    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda day: [next(numbers)], effect="read")
        return lambda _: [found for _ in range(40) for found in find(day="thu")]

    def spread(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda day: [], effect="read")

        def agent(_: Any) -> list[int]:
            got: list[int] = []
            threads = [Thread(target=lambda: got.extend(find(day="thu"))) for _ in range(40)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return sorted(got)

        return agent

    envelope = recorded(build, policy=POLICY)
    assert replayed(spread, envelope, policy=POLICY).disposition == envelope.disposition


def test_calls_of_one_turn_count_alike_in_any_order() -> None:
    """Numbers go by arrival; the digest that bit-stability rests on does not."""

    def asks(*days: str) -> Callable[..., Any]:
        def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
            planner({"messages": [user]})
            found = {day: find(day=day) for day in days}
            pay(amount=1)
            planner({"messages": [user, found["fri"]]})
            return [found["thu"], found["fri"]]

        return body

    envelope = record(asks("thu", "fri"), with_hook=_with_look)
    first, second = (replay(envelope, asks(*days), with_hook=_with_look) for days in [("thu", "fri"), ("fri", "thu")])
    assert [p.crossing.seen for p in first.played] != [p.crossing.seen for p in second.played]
    assert first.digest == second.digest
    other = replay(envelope, lambda *args: [asks("thu", "fri")(*args), args[1](day="thu")][0], with_hook=_with_look)
    assert other.digest != first.digest


def _with_look(boundary: Boundary, _: str) -> None:
    boundary.hook("look", lambda found: found, after="find")


def test_turns_do_not_change_places() -> None:
    def asks(*days: str) -> Callable[..., Any]:
        def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
            for day in days:
                find(day=day)

        return body

    envelope = record(asks("thu", "fri"))
    assert replay(envelope, asks("thu", "fri")).digest != replay(envelope, asks("fri", "thu")).digest


def test_code_cannot_call_a_recorded_write_a_read() -> None:
    """Where tools.yaml is silent, the record outweighs what the candidate says of its own tool."""

    def build(effect: Any) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            send = boundary.tool("send", lambda: 1, effect=effect)
            return lambda _: [send(), send()]

        return make

    envelope = recorded(build("write"))
    assert [p.boundary for p in replayed(build("read"), envelope).played] == [BoundaryState.INTERCEPTED] * 2
    assert [p.boundary for p in replayed(build("none"), envelope).played] == [BoundaryState.INTERCEPTED] * 2


def test_a_new_tool_is_not_pure_because_it_says_so() -> None:
    def build(boundary: Boundary) -> Agent:
        send = boundary.tool("send", lambda: 1 / 0, effect="none")
        return lambda _: send()

    told = replayed(build, record())
    assert [(p.boundary, p.crossing.effect) for p in told.played] == [(BoundaryState.INTERCEPTED, Effect.WRITE)]


def test_other_output_of_a_live_model_makes_frozen_ones_stale() -> None:
    def build(word: str) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", lambda request: {"parts": [word]})
            writer = boundary.model("writer", lambda request: {"parts": ["text"]})
            return lambda _: [planner({"messages": [1]}), writer({"messages": [2]})]

        return make

    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))
    envelope = recorded(build("a"))
    assert [p.stale for p in replayed(build("b"), envelope, cut=cut).played] == [False, True]
    assert [p.stale for p in replayed(build("a"), envelope, cut=cut).played] == [False, False]


def test_a_frozen_hook_whose_answer_is_unknown_diverges() -> None:
    hook = Crossing(seq=1, sub=1, kind=Kind.HOOK, name="strip", at="after:find", seen=[1])
    envelope = an_envelope(a_crossing(1, "find", raw=[1], shown=[1]), hook)

    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", effect="read")
        boundary.hook("strip", lambda found: found, after="find")
        return lambda _: find()

    prefix = CutPoint(mode=Mode.CUT_POINT, after=1)
    frozen = CutPoint(mode=Mode.CUT_POINT, freeze=frozenset({"hook:strip"}))
    # In a prefix what was shown is known, so nothing rests on the hook.
    assert diverged(replayed(build, envelope, policy=a_policy(find="read"), cut=prefix)) is None
    assert diverged(replayed(build, envelope, policy=a_policy(find="read"), cut=frozen)) is Divergence.SIDE_UNKNOWN
    unseen = an_envelope(*envelope.crossings[:1], msgspec.structs.replace(hook, seen=UNSET))
    assert diverged(replayed(build, unseen, policy=a_policy(find="read"), cut=frozen)) is Divergence.ARGS_MISMATCH


def test_a_tuple_is_an_array_to_a_schema() -> None:
    def build(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", schema={"properties": {"lines": {"type": "array"}}})
        return lambda _: pay(lines=(1, 2))

    assert replayed(build, record()).played[0].crossing.error is None
