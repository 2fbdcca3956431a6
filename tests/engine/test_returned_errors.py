"""Errors that a tool returned as its result, as traces of other recorders have them: they come back as values, and still count as errors."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from builders import a_crossing, a_policy, an_envelope, replayed
from twiceshy.boundary import Boundary
from twiceshy.envelope import Crossing, Effect, Envelope, ErrorRecord, Kind
from twiceshy.history import History
from twiceshy.transcript import Transcript

POLICY = a_policy(find="read")
REFUSED = "Error: no funds"


def a_refusal(seq: int, **given: Any) -> Crossing:
    told = ErrorRecord(
        cls="twiceshy.ReturnedError", type="pay:1", message=REFUSED, definite=given.pop("definite", True)
    )
    return a_crossing(
        seq,
        "pay",
        **{"effect": Effect.WRITE, "seen": {"amount": 5}, "raw": UNSET, "shown": REFUSED, "error": told, **given},
    )


def a_run(*, refusal: Crossing) -> Envelope:
    """Pay, refused; then find, recorded where the refusal wrote nothing; then a model."""
    return an_envelope(
        refusal,
        a_crossing(2, "find", seen={"day": "thu"}, raw=["9:00"], shown=["9:00"], state=History(POLICY).state("find")),
        a_crossing(3, "planner", kind=Kind.MODEL, effect=None, raw={"parts": []}, shown={"parts": []}),
    )


def replay(envelope: Envelope, *, hook: Callable[[Any], Any] | None = None) -> tuple[Transcript, list[Any]]:
    got: list[Any] = []

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        pay, find = boundary.tool("pay", effect="write"), boundary.tool("find", effect="read")
        planner = boundary.model("planner", lambda request: request)
        if hook:
            boundary.hook("clean", hook, after="pay")

        def agent(_: Any) -> None:
            got.append(pay(amount=5))
            got.append(find(day="thu"))
            planner({})

        return agent

    return replayed(build, envelope, policy=POLICY), got


def test_returned_error_comes_back_as_it_was() -> None:
    told, got = replay(a_run(refusal=a_refusal(1)))
    assert (got, told.divergence) == ([REFUSED, ["9:00"]], None)
    assert not any(played.stale for played in told.played)


def test_returned_error_is_an_error_of_the_replay_too() -> None:
    told, _ = replay(a_run(refusal=a_refusal(1)))
    error = told.played[0].crossing.error
    assert error is not None
    assert (error.type, error.definite, told.played[0].crossing.raw) == ("pay:1", True, REFUSED)


def test_indefinite_returned_error_may_have_written() -> None:
    told, got = replay(a_run(refusal=a_refusal(1, definite=False)))
    assert (got, told.divergence) == ([REFUSED, ["9:00"]], None)  # recorded and replayed alike, after the same write


@pytest.mark.parametrize("side", ["raw", "shown"])
def test_other_answer_than_recorded_is_stale(side: str) -> None:
    refusal = msgspec.structs.replace(a_refusal(1), raw=REFUSED)
    told, got = replay(
        a_run(refusal=refusal), hook=(lambda text: text.lower()) if side == "shown" else (lambda text: text)
    )
    assert (got[0], told.played[-1].stale) == ((REFUSED.lower(), True) if side == "shown" else (REFUSED, False))


def test_live_hook_needs_the_returned_error_itself() -> None:
    told, _ = replay(a_run(refusal=a_refusal(1)), hook=str)
    assert told.divergence is not None
    assert told.divergence.kind.value == "side_unknown"
