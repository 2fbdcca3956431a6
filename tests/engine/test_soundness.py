"""The soundness table of our peers' holes, each with the right answer: recorded were find(thu), find(fri), pay(100); a guard may refuse."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from builders import a_case, a_policy, recorded, replayed, some_invariants
from sealed import a_host_folder
from shop import Agent
from twiceshy import casefile
from twiceshy.boundary import Boundary
from twiceshy.casefile import Case, Judge
from twiceshy.cutpoint import CutPoint
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import Divergence, Mode, Outcome
from twiceshy.running import CandidateSpec, Session, Task
from twiceshy.sealing import Isolation
from twiceshy.transcript import Transcript

POLICY = a_policy(find="read")
FULL, CUT_POINT = CutPoint(), CutPoint(mode=Mode.CUT_POINT)
SLOTS = {"thu": None, "fri": ["9:00"], "sat": ["never recorded"]}


def build(body: Callable[..., Any], slots: dict[str, Any] = SLOTS) -> Callable[[Boundary], Agent]:
    def make(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda day: slots[day], effect="read")
        pay = boundary.tool("pay", lambda amount: {"ok": True, "amount": amount})
        return lambda _: body(find, pay)

    return make


def usual(find: Any, pay: Any) -> Any:
    return [find(day="thu"), find(day="fri"), pay(amount=100)]


RECORD = recorded(build(usual), policy=POLICY)


def played(body: Callable[..., Any], cut: CutPoint = FULL) -> tuple[Transcript, TrialVerdict]:
    told = replayed(build(body), RECORD, policy=POLICY, cut=cut)
    loaded = a_case(RECORD, kind="positive", id="booked")
    return told, case_grader(loaded, some_invariants(), POLICY).trial(told, cut)


def violated(verdict: TrialVerdict) -> list[str]:
    return [judgement.id for judgement in verdict.violations]


def kind(verdict: TrialVerdict) -> Divergence | None:
    return verdict.divergence.kind if verdict.divergence else None


def test_the_same_calls_pass() -> None:
    for cut in (FULL, CUT_POINT):
        told, verdict = played(usual, cut)
        assert verdict.outcome is Outcome.PASSED
        assert told.disposition == RECORD.disposition


def test_fewer_calls_are_counted() -> None:
    def fewer(find: Any, pay: Any) -> Any:
        return [find(day="thu"), pay(amount=100)]

    _, verdict = played(fewer, CUT_POINT)
    assert (verdict.outcome, violated(verdict)) == (Outcome.FAILED, ["call_counts"])
    _, reported = played(fewer, FULL)
    assert reported.outcome is Outcome.PASSED
    assert reported.notes == ["call_counts, reported only: tool:find 1 times fewer than recorded"]


def test_a_read_with_other_arguments_cannot_be_judged() -> None:
    told, verdict = played(lambda find, pay: [find(day="sat"), pay(amount=100)])
    assert (verdict.outcome, told.divergence and told.divergence.kind) == (Outcome.DIVERGED, Divergence.ARGS_MISMATCH)
    _, after = played(lambda find, pay: [find(day="thu"), pay(amount=100), find(day="sat")])
    assert (after.outcome, kind(after)) == (Outcome.DIVERGED, Divergence.ARGS_MISMATCH)


def test_a_write_with_other_arguments_is_judged() -> None:
    told, verdict = played(lambda find, pay: [find(day="thu"), find(day="fri"), pay(amount=999_999)])
    assert told.divergence is None
    assert (verdict.outcome, violated(verdict)) == (Outcome.FAILED, ["explained_writes"])


def test_reordered_calls_get_their_own_answers() -> None:
    told, verdict = played(lambda find, pay: [find(day="fri"), find(day="thu"), pay(amount=100)], CUT_POINT)
    assert verdict.outcome is Outcome.PASSED
    assert told.disposition is not None
    assert told.disposition.output[:2] == [SLOTS["fri"], SLOTS["thu"]]
    _, moved = played(lambda find, pay: [pay(amount=100), find(day="thu"), find(day="fri")])
    assert (moved.outcome, kind(moved)) == (Outcome.DIVERGED, Divergence.STATE_MISMATCH)


def test_extra_calls_are_counted() -> None:
    def extra(find: Any, pay: Any) -> Any:
        return [find(day="thu"), find(day="thu"), find(day="fri"), pay(amount=100)]

    told, verdict = played(extra, CUT_POINT)
    assert [one.answered_by for one in told.played] == ["recorded", "repeated", "recorded", "recorded"]
    assert (verdict.outcome, violated(verdict)) == (Outcome.FAILED, ["call_counts"])
    again, twice = played(lambda find, pay: [*usual(find, pay), pay(amount=100)])
    assert (twice.outcome, violated(twice)) == (Outcome.FAILED, ["no_duplicate_write"])
    assert again.played[-1].crossing.error is not None, "nothing may rest on a write that got no answer"
    _, more = played(lambda find, pay: [*usual(find, pay), pay(amount=1)])
    assert (more.outcome, violated(more)) == (Outcome.FAILED, ["explained_writes"])


def test_a_swallowed_miss_ends_the_run() -> None:
    def swallows(find: Any, pay: Any) -> Any:
        with suppress(Exception):
            find(day="sat")
        return [find(day="thu"), find(day="fri"), pay(amount=100)]

    told, verdict = played(swallows)
    assert told.played == []
    assert told.disposition is None
    assert verdict.outcome is Outcome.DIVERGED


class SlotsClosed(LookupError):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.code = "closed"


def test_a_recorded_exception_is_raised_again() -> None:
    def closed(day: str) -> Any:
        raise SlotsClosed(f"{day} is closed")

    def make(boundary: Boundary) -> Agent:
        find = boundary.tool("find", closed, effect="read")

        def agent(_: Any) -> Any:
            try:
                return find(day="thu")
            except LookupError as raised:
                return [type(raised).__name__, str(raised), getattr(raised, "code", None)]

        return agent

    envelope = recorded(make, policy=POLICY)
    told = replayed(make, envelope, policy=POLICY)
    assert told.disposition == envelope.disposition
    assert told.disposition is not None
    assert told.disposition.output == ["SlotsClosed", "thu is closed", "closed"]


@pytest.mark.parametrize(
    "value", [None, ["9:00", {"at": [1.5, True]}], b"\x00\xff", bytearray(b"ab"), (1, "two"), 2**70]
)
def test_answers_keep_their_type(value: Any) -> None:
    made = build(lambda find, pay: [find(day="thu")], {"thu": value})
    told = replayed(made, recorded(made, policy=POLICY), policy=POLICY)
    assert told.disposition is not None
    (answer,) = told.disposition.output
    assert (answer, isinstance(answer, bytes | type(value))) == (value, True)


UNDECORATED = """
import socket
import twiceshy

@twiceshy.candidate(workflow="refund")
def build(boundary):
    find = boundary.tool("find", lambda day: None, effect="read")

    def charge(port):
        with socket.create_connection(("127.0.0.1", port), timeout=2) as card:
            card.sendall(b"charged")
        return "charged"

    def agent(port):
        find(day="thu")
        try:
            return charge(port)
        except OSError as refused:
            return type(refused).__name__

    return agent
"""


@pytest.mark.slow
def test_an_undecorated_tool_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shopper.py").write_text(UNDECORATED, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as till:
        till.settimeout(0.2)
        port = till.getsockname()[1]
        envelope = recorded(
            lambda boundary: lambda _: boundary.tool("find", lambda day: None, effect="read")(day="thu"),
            port,
            policy=POLICY,
        )
        path = tmp_path / "case"
        casefile.save(path, Case(id="till", kind="positive", workflow="refund", trace_id=envelope.trace_id), envelope)
        spec = CandidateSpec(factory="shopper:build", path=[tmp_path])
        with a_host_folder() as folder, Session(spec, env={}, folder=folder, cases=[path]) as session:
            assert session.ready.isolation is Isolation.HERMETIC
            told = session.play(Task(loaded=casefile.load(path), judge=Judge(), policy=POLICY)).transcript
        assert told.disposition is not None
        assert told.disposition.output == "ConnectionRefusedError"
        with pytest.raises(TimeoutError):
            till.accept()
