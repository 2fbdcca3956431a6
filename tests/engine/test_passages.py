"""How a passage is walked whatever stands behind it: arguments by name, async code, guards and hooks that misbehave, errors, the clock."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from builders import TUESDAY_NS, a_policy, an_envelope, recorded, replayed
from shop import POLICY, Agent, diverged, record, replay
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Clock, Disposition, Kind, Pins, RunInput
from twiceshy.outcome import BoundaryState, Divergence, Mode
from twiceshy.recording import Recorder, error_record


def test_a_cancelled_call_is_recorded() -> None:
    """A write that was cancelled may have happened; one that left no trace would be a write nobody knows of."""

    async def pay(amount: int) -> None:
        await asyncio.sleep(3600)

    recorder = Recorder()
    tool = Boundary(recorder).tool("pay", pay)

    async def agent() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(tool(amount=1), 0.01)

    asyncio.run(agent())
    envelope = recorder.envelope(**_about())
    assert [(c.name, c.error.type, c.error.definite) for c in envelope.crossings if c.error] == [
        ("pay", "CancelledError", False)
    ]


def _about() -> Any:
    return {
        "trace_id": "t",
        "source": "test",
        "workflow": "refund",
        "run_input": RunInput(),
        "disposition": Disposition(),
    }


def called(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """(what the boundary saw, what came back) of one recorded call."""
    recorder = Recorder()
    shown = Boundary(recorder).tool("tool", fn)(*args, **kwargs)
    return recorder.envelope(**_about()).crossings[0].seen, shown


def test_arguments_have_names_however_they_are_given() -> None:
    def fn(a: int, b: int = 2, **rest: int) -> Any:
        return [a, b, rest]

    by_name = called(fn, a=1, c=3)
    assert called(fn, 1, c=3) == by_name == ({"a": 1, "b": 2, "c": 3}, [1, 2, {"c": 3}])
    assert called(fn, 1, 5) == ({"a": 1, "b": 5}, [1, 5, {}])


def test_arguments_without_a_name_are_refused() -> None:
    with pytest.raises(TypeError, match="'rest' of a tool is given by position only"):
        called(lambda *rest: rest, 1, 2)
    with pytest.raises(TypeError, match="'a' of a tool is given by position only"):
        called(lambda a, /: a, 1)


def test_an_object_that_is_called_is_awaited_too() -> None:
    class Tool:
        async def __call__(self, day: str) -> str:
            await asyncio.sleep(0)
            return day

    def build(boundary: Boundary) -> Agent:
        look = boundary.tool("find", Tool(), effect="read")

        async def agent(_: Any) -> Any:
            return await look(day="thu")

        return agent

    envelope = recorded(build, policy=POLICY)
    assert envelope.disposition.output == "thu"
    assert replayed(build, envelope, policy=POLICY).disposition == envelope.disposition


def test_a_guard_that_nobody_awaits_refuses_nothing() -> None:
    async def limit(asked: Any) -> str:
        return "no"

    def guarded(boundary: Boundary, _: str) -> None:
        boundary.guard("limit", limit, before="pay")

    told = replay(record(), lambda user, find, pay, planner: pay(amount=1), with_guard=guarded)
    assert [p.crossing.blocked_by for p in told.played] == [None]
    assert told.disposition is not None
    assert told.disposition.error is not None
    assert "called plainly" in told.disposition.error.message


def careless(user: Any, find: Any, pay: Any, planner: Any) -> Any:
    with suppress(Exception):
        pay(amount=1)
    return "fine"


def test_a_guard_that_raises_lets_nothing_pass() -> None:
    def guarded(boundary: Boundary, _: str) -> None:
        boundary.guard("limit", lambda asked: asked["no such argument"], before="pay")

    told = replay(record(), careless, with_guard=guarded)
    assert [(p.crossing.kind, p.crossing.error is not None) for p in told.played] == [(Kind.GUARD, True)]


def test_hooks_may_call_tools_and_come_late() -> None:
    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda day: [day], effect="read")
        boundary.hook("more", lambda found: [*found, *look(day="fri")], after="find")
        look = boundary.tool("look", lambda day: [day], effect="read")
        return lambda _: find(day="thu")

    policy = a_policy(find="read", look="read")
    envelope = recorded(build, policy=policy)
    told = replayed(build, envelope, policy=policy)
    assert told.disposition is not None
    assert told.disposition.output == ["thu", "fri"]
    assert [(p.crossing.place, p.boundary) for p in told.played] == [
        ("#1", BoundaryState.FROZEN), ("#1.1", BoundaryState.LIVE), ("#2", BoundaryState.FROZEN)]  # fmt: skip


@pytest.mark.parametrize("tz", ["Europe/London", "America/New_York", "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize("day", [datetime(2026, 1, 15, 12, tzinfo=UTC), datetime(2026, 7, 15, 12, tzinfo=UTC)])
def test_now_is_the_pinned_instant_in_every_zone(tz: str, day: datetime) -> None:
    envelope = an_envelope(pins=Pins(clock=Clock(instant_ns=int(day.timestamp()) * 10**9, tz=tz)))
    told = replayed(lambda boundary: lambda _: boundary.now().timestamp(), envelope)
    assert told.disposition is not None
    assert told.disposition.output == day.timestamp()


def test_the_date_is_found_in_any_spelling_of_the_request() -> None:
    pins = Pins(clock=Clock(instant_ns=TUESDAY_NS, as_given_to_agent='Today is "Tuesday"\n2 June'))

    def asks(text: str) -> Callable[[Boundary], Agent]:
        def build(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", lambda _: {"parts": []})
            return lambda _: planner({"messages": [{"role": "system", "content": text}]})

        return build

    made = recorded(asks('Hello. Today is "Tuesday"\n2 June.'))
    envelope = an_envelope(*made.crossings, pins=pins)
    live = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))
    assert diverged(replayed(asks("Hello."), envelope, cut=live)) is Divergence.CLOCK_NOT_IN_PROMPT


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 10**12])
def test_no_length_of_time_is_no_sleep(seconds: float) -> None:
    told = replayed(lambda boundary: lambda _: boundary.sleep(seconds), record())
    assert told.disposition is not None
    assert told.disposition.error is not None
    assert told.disposition.error.cls == "builtins.ValueError"


class TwoWords(Exception):
    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


@pytest.mark.parametrize(
    "raised", [KeyError("order"), TwoWords("a", "b"), UnicodeDecodeError("utf-8", b"x", 0, 1, "bad")]
)
def test_recorded_errors_are_caught_as_their_own_class(raised: Exception) -> None:
    def find(day: str) -> None:
        raise raised

    def build(boundary: Boundary) -> Agent:
        look = boundary.tool("find", find, effect="read")

        def agent(_: Any) -> Any:
            try:
                look(day="thu")
            except type(raised) as caught:
                return str(caught)

        return agent

    envelope = recorded(build, policy=POLICY)
    told = replayed(build, envelope, policy=POLICY)
    assert (told.disposition, told.played[0].crossing.error) == (envelope.disposition, envelope.crossings[0].error)


def test_an_error_that_misbehaves_is_recorded_all_the_same() -> None:
    class Odd(Exception):
        definite = "yes"

        def code(self) -> str:
            return "grpc"

        def __str__(self) -> str:
            raise ValueError

    told = error_record(Odd(), ())
    assert (told.type, told.message, told.definite) == ("Odd", "", False)
    assert error_record(ValueError("\ud800"), ()).message == "\\ud800"
