"""What a case asks for beyond its workflow: writes by count and order, a latency, invariants of its own; and errors that may not be swallowed."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    a_case,
    a_crossing,
    a_divergence,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)
from twiceshy import casefile
from twiceshy.casefile import Case, Expect
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, ErrorRecord
from twiceshy.errors import CaseError, InvariantError
from twiceshy.evidence import recorded_run, replayed_run
from twiceshy.graders import judgements
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.invariants import Selector, Sort, Spec
from twiceshy.judgement import CaseTerms, Context, Judgement
from twiceshy.outcome import AnsweredBy, Divergence, Failure, Outcome, Truth
from twiceshy.transcript import Played, Transcript
from twiceshy.writes import DeclaredWrite

POLICY = a_policy(find="read", issue_refund="write", send_message="write", get_order="read")
TIMEOUT = ErrorRecord(cls="TimeoutError", type="timeout", message="took too long")
DENIED = ErrorRecord(cls="PermissionError", type="permission", message="not yours", definite=True)
MS = 1_000_000


def said(name: str, transcript: Transcript, *, recorded: Envelope | None = None, **terms: Any) -> Judgement:
    """What one check says of a replay of a case with these terms."""
    envelope = recorded or an_envelope(a_crossing(1, "find"))
    case = CaseTerms(names=frozenset(), recorded=recorded_run(envelope, POLICY), **terms)
    run = replayed_run(transcript, POLICY)
    found = judgements(Context(run=run, invariants=some_invariants(checks={"explained_writes": False}), case=case))
    return next(judgement for judgement in found if judgement.id == name)


def writes(*played: Played, expected: list[DeclaredWrite], in_order: bool = False, **ending: Any) -> Judgement:
    return said("expected_writes", a_transcript(*played, **ending), expected=expected, in_order=in_order)


def paid(seq: int, amount: int = 100, **given: Any) -> Played:
    return a_write(seq, "issue_refund", seen={"amount": amount}, **given)


ONCE = [DeclaredWrite(tool="issue_refund", args={"amount": 100}, times=1)]


def test_more_often_than_expected_is_violated() -> None:
    judgement = writes(
        paid(1), paid(2, amount=5), paid(3, idempotency_key="k"), expected=ONCE, divergence=a_divergence()
    )
    assert (judgement.truth, judgement.place, judgement.effect) == (Truth.VIOLATED, "#3", "extra")
    assert writes(paid(1), paid(2, amount=5), expected=ONCE).truth is Truth.SATISFIED
    assert writes(paid(1, error=TIMEOUT), paid(2), expected=ONCE).truth is Truth.VIOLATED
    assert writes(paid(1, error=DENIED), paid(2), expected=ONCE).truth is Truth.SATISFIED


def test_none_expected_is_a_count_too() -> None:
    never = [DeclaredWrite(tool="issue_refund", times=0)]
    assert writes(paid(1), expected=never).truth is Truth.VIOLATED
    assert writes(expected=never).truth is Truth.SATISFIED


def test_fewer_is_open_until_an_undiverged_end() -> None:
    twice = [DeclaredWrite(tool="issue_refund", times=2)]
    assert writes(paid(1), expected=twice, divergence=a_divergence()).truth is Truth.OPEN
    judgement = writes(paid(1), expected=twice)
    assert (judgement.truth, judgement.effect, judgement.detail) == (
        Truth.VIOLATED,
        "missing",
        "issue_refund 1 of 2 times",
    )
    stale = writes(a_model(1, stale=True), paid(2), expected=twice)
    assert (stale.truth, stale.stale) == (Truth.OPEN, True)


def test_ambiguous_write_is_not_surely_made() -> None:
    assert writes(paid(1, error=TIMEOUT), expected=ONCE).truth is Truth.VIOLATED


def test_improvised_write_carries_nothing() -> None:
    assert writes(paid(1, answered_by=AnsweredBy.OK), expected=ONCE).improvised
    assert not writes(paid(1, answered_by=AnsweredBy.DECLARED), expected=ONCE).improvised


ORDERED = [DeclaredWrite(tool="issue_refund"), DeclaredWrite(tool="send_message")]


def test_writes_come_in_the_expected_order() -> None:
    told = a_write(2, "send_message")
    assert writes(paid(1), told, expected=ORDERED, in_order=True).truth is Truth.SATISFIED
    judgement = writes(told, paid(3), expected=ORDERED, in_order=True)
    assert (judgement.truth, judgement.place, judgement.effect) == (Truth.VIOLATED, "#2", "order")
    assert writes(told, expected=ORDERED, in_order=True, divergence=a_divergence()).truth is Truth.VIOLATED
    assert writes(paid(1), expected=ORDERED, in_order=True).truth is Truth.SATISFIED


def test_one_turn_has_no_order_of_writes() -> None:
    both = (a_model(1), paid(2, group=1), a_write(3, "send_message", group=1))
    assert writes(*both, expected=ORDERED, in_order=True).truth is Truth.VIOLATED


@given(st.lists(st.sampled_from(["issue_refund", "send_message"]), max_size=6), st.integers(0, 3))
def test_count_is_exact_at_the_end(names: list[str], times: int) -> None:
    played = [a_write(seq, name, seen={"n": seq}) for seq, name in enumerate(names, 1)]
    judgement = writes(*played, expected=[DeclaredWrite(tool="issue_refund", times=times)])
    assert (judgement.truth is Truth.SATISFIED) == (names.count("issue_refund") == times)


def test_nothing_is_expected_unless_asked_for() -> None:
    with pytest.raises(StopIteration):
        writes(paid(1), expected=[DeclaredWrite(tool="issue_refund")])


TIMED = an_envelope(
    a_crossing(1, "find", start_ns=0, end_ns=100 * MS),
    a_crossing(2, "get_order", start_ns=100 * MS, end_ns=400 * MS),
)


def slow(*played: Played, latency: float = 1.5, **ending: Any) -> Judgement:
    return said("latency", a_transcript(*played, **ending), recorded=TIMED, latency=latency)


def test_latency_is_that_of_the_record() -> None:
    found, held = a_played(1, "find", matched="#1"), a_played(2, "get_order", matched="#2")
    assert slow(found, held).truth is Truth.SATISFIED
    judgement = slow(found, held, a_played(3, "get_order", matched="#2"), divergence=a_divergence())
    assert (judgement.truth, judgement.place, judgement.detail) == (
        Truth.VIOLATED,
        "#3",
        "more than 1.5 times the record's 400 ms",
    )
    assert slow(found, latency=0.5).truth is Truth.SATISFIED
    assert slow(found, divergence=a_divergence()).truth is Truth.OPEN


def test_unrecorded_step_takes_the_mean() -> None:
    assert slow(a_played(1, "find"), latency=0.24).truth is Truth.VIOLATED
    assert slow(a_played(1, "find"), latency=0.26).truth is Truth.SATISFIED
    assert slow(a_write(1, "send_message"), latency=0.49).truth is Truth.VIOLATED
    assert slow(a_write(1, "send_message"), latency=0.51).truth is Truth.SATISFIED


def test_latency_needs_recorded_times() -> None:
    with pytest.raises(CaseError, match="holds no times"):
        case_grader(a_case(an_envelope(a_crossing(1, "find")), latency=2.0), some_invariants(), POLICY)


def swallowed(*played: Played, **ending: Any) -> Judgement:
    return said("no_swallowed_error", a_transcript(*played, **ending))


def asks(seq: int, *texts: str, **given: Any) -> Played:
    return a_model(seq, seen={"messages": [{"content": text} for text in ("Tell of every error.", *texts)]}, **given)


FAILED = {"group": 1, "error": TIMEOUT, "raw": msgspec.UNSET, "shown": msgspec.UNSET}


def test_disguised_error_is_swallowed() -> None:
    judgement = swallowed(a_played(1, "find", raw={"error": "down"}, shown={"slots": []}))
    assert (judgement.truth, judgement.place) == (Truth.VIOLATED, "#1")
    assert swallowed(a_played(1, "find", raw={"error": "down"}, shown={"error": "try later"})).truth is Truth.SATISFIED
    assert swallowed(a_played(1, "find", raw="Error: down", shown="Error: down")).truth is Truth.SATISFIED
    assert (
        swallowed(a_played(1, "find", raw={"status": 404}, shown={"status": 404}, error=TIMEOUT)).truth
        is Truth.SATISFIED
    )
    assert swallowed(a_played(1, "find", raw=msgspec.UNSET, shown=[], error=TIMEOUT)).truth is Truth.VIOLATED


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("TimeoutError", Truth.SATISFIED),
        ("it took too long", Truth.SATISFIED),
        ("The call FAILED", Truth.SATISFIED),
        ("no slots", Truth.VIOLATED),
    ],
)
def test_model_must_be_told(text: str, truth: Truth) -> None:
    assert swallowed(asks(1, "hello"), a_played(2, "find", **FAILED), asks(3, "hello", text)).truth is truth


def test_prompt_that_speaks_of_errors_tells_nothing() -> None:
    assert swallowed(asks(1), a_played(2, "find", **FAILED), asks(3)).truth is Truth.VIOLATED


def test_retry_leaves_nothing_to_tell() -> None:
    again = a_played(3, "find", attempt=2, group=1)
    assert swallowed(asks(1), a_played(2, "find", **FAILED), again, asks(4, "slots")).truth is Truth.SATISFIED


def test_code_and_other_agents_need_not_be_told() -> None:
    alone = {**FAILED, "group": None}
    assert swallowed(asks(1), a_played(2, "find", **alone), asks(3, "no slots")).truth is Truth.SATISFIED
    assert swallowed(asks(1), a_played(2, "find", **FAILED), asks(3, scope="sub[0]")).truth is Truth.SATISFIED
    assert swallowed(asks(1), a_played(2, "find", **FAILED)).truth is Truth.SATISFIED
    blocked = {**FAILED, "error": None, "raw": {"error": "no"}, "blocked_by": "guard"}
    assert swallowed(asks(1), a_played(2, "find", **blocked), asks(3, "no slots")).truth is Truth.SATISFIED


def test_swallowed_error_can_be_left_to_others() -> None:
    off = some_invariants(checks={"no_swallowed_error": False})
    run = replayed_run(a_transcript(a_played(1)), POLICY)
    assert "no_swallowed_error" not in {found.id for found in judgements(Context(run=run, invariants=off))}


NO_LARGE = {"id": "no-large", "kind": "must_not", "at": {"tool": "issue_refund"}, "when": "args.amount > 500"}


def saved(folder: Path, **given: Any) -> casefile.LoadedCase:
    """A case on disk, as an overlay has to stand in a file that people review."""
    envelope = an_envelope(a_crossing(1, "issue_refund", effect=Effect.WRITE, seen={"amount": 750}))
    fields = {"id": "t", "kind": "positive", "workflow": "refund", "trace_id": envelope.trace_id, **given}
    casefile.save(folder / "t", Case(**fields), envelope)
    return casefile.load(folder / "t")


def graded(loaded: casefile.LoadedCase, *played: Played) -> TrialVerdict:
    return case_grader(loaded, some_invariants(NO_LARGE), POLICY).trial(a_transcript(*played), CutPoint())


def test_overlay_stands_in_place_of_the_workflow(tmp_path: Path) -> None:
    refund = Selector(tool="issue_refund")
    looser = Spec(id="no-large", kind=Sort.MUST_NOT, at=refund, when="args.amount > 1000", message="for this case")
    more = Spec(id="told", kind=Sort.MUST_HAPPEN, at=Selector(tool="send_message"))
    asked = paid(1, 750)
    assert graded(saved(tmp_path / "a"), asked).failure is Failure.INVARIANT
    assert graded(saved(tmp_path / "b", overlay=[looser]), asked).outcome is Outcome.PASSED
    verdict = graded(saved(tmp_path / "c", overlay=[looser, more], invariants=["told"]), asked)
    assert (verdict.failure, verdict.open) == (Failure.OPEN_MUST_HAPPEN, ["told"])


def test_overlay_reads_back_as_written(tmp_path: Path) -> None:
    overlay = [
        Spec(
            id="a",
            kind=Sort.ORDER,
            first=Selector(tool="find", succeeded=True),
            then=Selector(tool="issue_refund", args={"n": 1}),
        )
    ]
    loaded = saved(tmp_path, overlay=overlay)
    assert loaded.case.overlay == overlay
    assert "null" not in (loaded.path / "case.yaml").read_text()
    assert loaded.case.digest != saved(tmp_path).case.digest


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (Spec(id="no_loop", kind=Sort.OUTPUT, holds="true"), "the name of a built-in check"),
        (Spec(id="x", kind=Sort.MUST_NOT, at=Selector(tool="isue_refund")), "'isue_refund' is not listed"),
        (Spec(id="x", kind=Sort.MUST_NOT, at=Selector(tool="find"), max=1), "takes no max"),
    ],
)
def test_wrong_overlay_names_its_line(tmp_path: Path, spec: Spec, says: str) -> None:
    with pytest.raises(InvariantError, match=says) as raised:
        graded(saved(tmp_path, overlay=[spec]))
    assert "case.yaml:" in str(raised.value)


def test_grant_is_told_by_what_came_back() -> None:
    spec = {
        "id": "granted",
        "kind": "order",
        "first": {"tool": "get_order", "returned": {"approved": True}},
        "then": {"tool": "issue_refund"},
    }
    for approved, truth in ((True, Truth.SATISFIED), (False, Truth.VIOLATED), (1, Truth.VIOLATED)):
        run = replayed_run(a_transcript(a_played(1, raw={"approved": approved}), paid(2)), POLICY)
        found = judgements(Context(run=run, invariants=some_invariants(spec)))
        assert next(judgement.truth for judgement in found if judgement.id == "granted") is truth


def test_expected_counts_decide_the_case() -> None:
    loaded = a_case(
        an_envelope(a_crossing(1, "issue_refund", effect=Effect.WRITE, seen={"amount": 100})),
        kind="positive",
        expect=Expect(writes=ONCE),
    )
    grader = case_grader(loaded, some_invariants(), POLICY)
    assert grader.trial(a_transcript(paid(1)), CutPoint()).outcome is Outcome.PASSED
    twice = grader.trial(a_transcript(paid(1), a_write(2, "send_message"), paid(3)), CutPoint())
    assert "expected_writes" in {found.id for found in twice.violations}
    improvised = grader.trial(a_transcript(paid(1, answered_by=AnsweredBy.OK)), CutPoint())
    assert improvised.divergence is not None
    assert improvised.divergence.kind is Divergence.WRITE_UNANSWERABLE
