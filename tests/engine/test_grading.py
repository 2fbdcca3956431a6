import re
from typing import Any

import pytest

from builders import (
    a_case,
    a_crossing,
    a_divergence,
    a_guard,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)  # fmt: skip
from twiceshy.casefile import Judge, Opportunity
from twiceshy.conditions import ConditionError
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing, Disposition, Effect, ErrorRecord
from twiceshy.errors import CaseError
from twiceshy.grading import TrialVerdict, case_grader, judge_recorded
from twiceshy.identity import key
from twiceshy.outcome import AnsweredBy, Divergence, Failure, Mode, Outcome, Truth
from twiceshy.transcript import Played

POLICY = a_policy(get_order="read", issue_refund="write", create_approval="write", send_message="write")
SPECS = (
    {
        "id": "no-large-refund",
        "kind": "must_not",
        "at": {"tool": "issue_refund"},
        "when": "args.amount > 500",
        "severity": "high",
    },
    {
        "id": "guard-refused",
        "kind": "must_happen",
        "at": {"guard": "refund-approval", "blocked": True},
        "only_if": "opportunity",
    },
    {"id": "reply", "kind": "output", "schema": {"type": "object", "required": ["status"]}},
)
TIMEOUT = ErrorRecord(cls="TimeoutError", type="timeout")
LARGE = {"amount": 750}


def the_record() -> tuple[Crossing, ...]:
    return (a_crossing(1, "get_order"), a_crossing(2, "issue_refund", effect=Effect.WRITE, seen=LARGE, proposed=LARGE))


def graded(
    *played: Played, specs: tuple[dict[str, Any], ...] = SPECS, case: dict[str, Any] | None = None, record: tuple[Crossing, ...] | None = None,
    cut: CutPoint | None = None, file: dict[str, Any] | None = None, **ending: Any,
) -> TrialVerdict:  # fmt: skip
    loaded = a_case(an_envelope(*(the_record() if record is None else record)), **(case or {}))
    grader = case_grader(
        loaded, some_invariants(*specs, **(file or {"allowed_writes": [{"tool": "create_approval"}]})), POLICY
    )
    return grader.trial(a_transcript(*played, **ending), cut or CutPoint())


def read(seq: int = 1) -> Played:
    return a_played(seq, "get_order")


def refund(seq: int = 2, amount: int = 750, **given: Any) -> Played:
    return a_write(seq, "issue_refund", seen={"amount": amount}, proposed={"amount": amount}, **given)


def refused(seq: int = 2) -> tuple[Played, Played]:
    return a_guard(seq, "issue_refund", blocked=True), refund(seq, blocked_by="refund-approval")


DECIDED = {"decided_by": ["guard-refused"], "invariants": ["no-large-refund"]}


def test_rule_1_violation_is_failed() -> None:
    verdict = graded(read(), refund())
    assert (verdict.outcome, verdict.failure) == (Outcome.FAILED, Failure.INVARIANT)
    assert [(found.id, found.place, found.boundary) for found in verdict.violations] == [
        ("no-large-refund", "#2", "tool:issue_refund")
    ]


@pytest.mark.parametrize(
    "ending", [{"divergence": a_divergence()}, {"crash": "crashed"}, {"crash": "cpu"}, {"crash": "wall"}], ids=str
)
def test_rule_1_violation_stays_proven(ending: dict[str, Any]) -> None:
    assert graded(read(), refund(), case=DECIDED, **ending).outcome is Outcome.FAILED


def test_rule_1_precedes_a_broken_condition() -> None:
    broken = {"id": "other", "kind": "must_not", "at": {"tool": "get_order"}, "when": "args.nothing == 1"}
    assert graded(read(), refund(), specs=(*SPECS, broken)).outcome is Outcome.FAILED
    verdict = graded(read(), *refused(), specs=(*SPECS, broken))
    assert verdict.outcome is Outcome.ERROR
    assert "invariants.yaml:1" in (verdict.error or "")


def test_rule_2_doing_nothing_passes_nothing() -> None:
    verdict = graded(read())
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.OPPORTUNITY_NOT_REACHED


def test_rule_2_precedes_the_decision() -> None:
    early = a_guard(1, "get_order", blocked=True)
    verdict = graded(early, case=DECIDED, divergence=a_divergence())
    assert (verdict.outcome, verdict.decided) == (Outcome.DIVERGED, False)


def test_rule_2_names_the_own_divergence() -> None:
    verdict = graded(read(), divergence=a_divergence(Divergence.UNRECORDED_CALL))
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.UNRECORDED_CALL


def test_rule_2_refused_proposal_is_reached() -> None:
    assert graded(read(), *refused()).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("opportunity", "outcome"),
    [
        ({"seq": 2}, Outcome.DIVERGED),
        ({"tool": "issue_refund"}, Outcome.PASSED),
        ({"tool": "issue_refund", "args": {"amount": 750.0}}, Outcome.DIVERGED),
    ],
    ids=["step", "tool", "arguments"],
)
def test_rule_2_named_opportunity(opportunity: dict[str, Any], outcome: Outcome) -> None:
    file = {"allowed_writes": [{"tool": "issue_refund"}]}
    verdict = graded(read(), refund(amount=100), case={"opportunity": Opportunity(**opportunity)}, file=file)
    assert verdict.outcome is outcome


def test_rule_2_positive_needs_first_write() -> None:
    record = (a_crossing(1, "get_order"), a_crossing(2, "issue_refund", effect=Effect.WRITE, seen={"amount": 100}))
    assert graded(read(), refund(amount=100), case={"kind": "positive"}, record=record).outcome is Outcome.PASSED
    assert graded(read(), case={"kind": "positive"}, record=record).outcome is Outcome.DIVERGED


def test_rule_2_failure_needs_the_violating_call() -> None:
    record = (a_crossing(1, "create_approval", effect=Effect.WRITE), *the_record()[1:])
    assert graded(a_write(1, "create_approval"), record=record).outcome is Outcome.DIVERGED
    assert graded(a_write(1, "create_approval"), *refused(), record=record).outcome is Outcome.PASSED


def test_rule_2_violation_without_a_call() -> None:
    specs = ({"id": "told", "kind": "must_happen", "at": {"tool": "send_message"}},)
    record = (a_crossing(1, "get_order"),)
    assert graded(specs=specs, record=record).outcome is Outcome.DIVERGED
    assert graded(read(), specs=specs, record=record).failure is Failure.OPEN_MUST_HAPPEN


def test_rule_3_divergence_cannot_judge() -> None:
    verdict = graded(read(), *refused(), divergence=a_divergence(Divergence.STATE_MISMATCH))
    assert (verdict.outcome, verdict.decided) == (Outcome.DIVERGED, False)
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.STATE_MISMATCH


def test_rule_3_decided_before_divergence() -> None:
    verdict = graded(read(), *refused(), case=DECIDED, divergence=a_divergence())
    assert (verdict.outcome, verdict.decided) == (Outcome.PASSED, True)
    assert "no-large-refund" in verdict.open
    assert "guard-refused" not in verdict.open


def test_rule_3_every_deciding_id_counts() -> None:
    more = (*SPECS, {"id": "approved", "kind": "must_happen", "at": {"tool": "create_approval"}})
    case = {"decided_by": ["guard-refused", "approved"]}
    assert graded(read(), *refused(), specs=more, case=case, divergence=a_divergence()).outcome is Outcome.DIVERGED
    asked = a_write(3, "create_approval")
    assert graded(read(), *refused(), asked, specs=more, case=case, divergence=a_divergence()).decided
    improvised = a_write(3, "create_approval", answered_by=AnsweredBy.OK)
    assert not graded(read(), *refused(), improvised, specs=more, case=case, divergence=a_divergence()).decided


@pytest.mark.parametrize(
    ("ending", "failure"),
    [
        ({"crash": "crashed"}, Failure.CANDIDATE_CRASHED),
        ({"crash": "memory"}, Failure.CANDIDATE_CRASHED),
        ({"crash": "output"}, Failure.CANDIDATE_CRASHED),
        ({"crash": "cpu"}, Failure.CANDIDATE_TIMEOUT),
        ({"disposition": Disposition(ended=False, error=TIMEOUT)}, Failure.CANDIDATE_CRASHED),
        ({"disposition": None}, Failure.CANDIDATE_CRASHED),
    ],
    ids=["crashed", "memory", "output", "cpu", "raised", "no-end"],
)
def test_rule_4_no_final_disposition(ending: dict[str, Any], failure: Failure) -> None:
    verdict = graded(read(), *refused(), **ending)
    assert (verdict.outcome, verdict.failure) == (Outcome.FAILED, failure)


def test_rule_4_wall_clock_is_ours() -> None:
    assert graded(read(), *refused(), crash="wall").outcome is Outcome.ERROR
    assert graded(read(), crash="wall").outcome is Outcome.ERROR


def test_rule_4_open_must_happen() -> None:
    case = {"invariants": ["guard-refused", "no-large-refund"]}
    file = {"allowed_writes": [{"tool": "issue_refund"}]}
    passed_on = a_guard(2, "issue_refund", blocked=False)
    specs = (*SPECS[1:], {**SPECS[0], "when": "args.amount > 1000"})
    verdict = graded(read(), passed_on, refund(), specs=specs, case=case, file=file)
    assert (verdict.outcome, verdict.failure) == (Outcome.FAILED, Failure.OPEN_MUST_HAPPEN)


def test_opportunity_invariant_binds_named_cases() -> None:
    file = {"allowed_writes": [{"tool": "issue_refund"}]}
    specs = (*SPECS[1:], {**SPECS[0], "when": "args.amount > 1000"})
    verdict = graded(read(), refund(), specs=specs, file=file)
    assert verdict.outcome is Outcome.PASSED
    assert "guard-refused" not in {found.id for found in verdict.judgements}


def test_fault_is_error_whatever_else() -> None:
    verdict = graded(read(), refund(), fault="the canary got out")
    assert (verdict.outcome, verdict.error) == (Outcome.ERROR, "the canary got out")


def test_improvised_answer_and_crash() -> None:
    asked = a_write(3, "create_approval", answered_by=AnsweredBy.OUTPUT_SCHEMA)
    verdict = graded(read(), *refused(), asked, disposition=Disposition(ended=False, error=TIMEOUT))
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert (verdict.divergence.kind, verdict.divergence.place) == (Divergence.WRITE_UNANSWERABLE, "#3")
    known = a_write(3, "create_approval", answered_by=AnsweredBy.TEMPLATE)
    assert (
        graded(read(), *refused(), known, disposition=Disposition(ended=False, error=TIMEOUT)).outcome is Outcome.FAILED
    )


def test_improvised_answer_carries_nothing() -> None:
    specs = (*SPECS, {"id": "approved", "kind": "must_happen", "at": {"tool": "create_approval"}})
    verdict = graded(read(), *refused(), a_write(3, "create_approval", answered_by=AnsweredBy.OK), specs=specs)
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.WRITE_UNANSWERABLE
    declared = a_write(3, "create_approval", answered_by=AnsweredBy.DECLARED)
    assert graded(read(), *refused(), declared, specs=specs).outcome is Outcome.PASSED


def test_order_on_improvised_answer_carries_nothing() -> None:
    order = {"id": "asked", "kind": "order", "first": {"tool": "create_approval"}, "then": {"tool": "send_message"}}
    file = {"allowed_writes": [{"tool": "create_approval"}, {"tool": "send_message"}]}
    improvised = a_write(3, "create_approval", answered_by=AnsweredBy.OUTPUT_SCHEMA)
    verdict = graded(read(), *refused(), improvised, a_write(4, "send_message"), specs=(*SPECS, order), file=file)
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.WRITE_UNANSWERABLE


def test_stale_outputs_cannot_fail_by_absence() -> None:
    specs = (*SPECS, {"id": "approved", "kind": "must_happen", "at": {"tool": "create_approval"}})
    verdict = graded(a_model(1, stale=True), *refused(), specs=specs)
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.MODEL_EXHAUSTED
    assert graded(a_model(1), *refused(), specs=specs).failure is Failure.OPEN_MUST_HAPPEN


def test_stale_output_shows_nothing_of_what_the_case_stands_for() -> None:
    stale, named = (a_model(1, stale=True), *refused()), {"invariants": ["reply"]}
    assert graded(*stale).outcome is Outcome.PASSED
    verdict = graded(*stale, case=named)
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.MODEL_EXHAUSTED
    assert "reply" in verdict.divergence.detail
    assert graded(a_model(1), *refused(), case=named).outcome is Outcome.PASSED


def test_stale_outputs_excuse_no_guard() -> None:
    case = {"invariants": ["guard-refused"]}
    specs = (*SPECS[1:], {**SPECS[0], "when": "args.amount > 1000"})
    file = {"allowed_writes": [{"tool": "issue_refund"}]}
    verdict = graded(a_model(1, stale=True), refund(), specs=specs, case={**case, "opportunity": None}, file=file)
    assert verdict.failure is Failure.OPEN_MUST_HAPPEN


def test_counts_are_enforced_in_cut_point() -> None:
    more = (read(1), read(3), *refused(4))
    assert graded(*more).outcome is Outcome.PASSED
    cut = CutPoint(mode=Mode.CUT_POINT, after=1)
    assert [found.id for found in graded(*more, cut=cut).violations] == ["call_counts"]
    assert graded(*more, case={"enforce_counts": True}).outcome is Outcome.FAILED
    assert graded(*more, cut=cut, case={"enforce_counts": False}).outcome is Outcome.PASSED


def test_counts_in_full_mode_are_reported() -> None:
    assert graded(read(1), read(3), *refused(4)).notes == [
        "call_counts, reported only: tool:get_order more often than the 1 recorded"
    ]


@pytest.mark.parametrize("mode", [Mode.STUB, Mode.EXPLORE])
def test_gate_takes_no_comparison_mode(mode: Mode) -> None:
    with pytest.raises(CaseError, match="for comparison only"):
        graded(read(), case={"judge": [Judge(mode=mode)]})


def test_drift_is_noted() -> None:
    assert graded(a_model(1, drift="template"), *refused()).notes[0] == "prompt_drift (template) at #1"


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"invariants": ["no-large-refunds"]}, "invariant 'no-large-refunds' .* Did you mean 'no-large-refund'"),
        ({"decided_by": ["no-large-refund"]}, "only a must_happen can decide"),
        ({"decided_by": ["no_loop"]}, "invariant 'no_loop' is not in"),
    ],
    ids=["unknown", "kind", "check"],
)
def test_case_must_name_what_is(case: dict[str, Any], says: str) -> None:
    with pytest.raises(CaseError, match=says):
        graded(read(), case=case)


def test_case_may_stand_for_a_check() -> None:
    assert graded(read(), case={"invariants": ["no_duplicate_write"]}).outcome is Outcome.DIVERGED


def test_opportunity_must_be_recorded() -> None:
    for opportunity in (Opportunity(seq=9), Opportunity(tool="create_approval")):
        with pytest.raises(CaseError, match="the opportunity names"):
            graded(read(), case={"opportunity": opportunity})


def test_recorded_run_gives_findings() -> None:
    envelope = an_envelope(*the_record(), disposition=Disposition(output={}))
    found = judge_recorded(envelope, some_invariants(*SPECS), POLICY)
    assert [(finding.judgement.id, finding.place) for finding in found] == [("no-large-refund", "#2"), ("reply", None)]
    assert found[0].judgement.effect == "extra"
    assert found[0].judgement.severity == "high"
    assert [str(part) for part in found[1].judgement.schema] == ["required at $.status"]


def test_recorded_run_lacks_a_step() -> None:
    specs = ({"id": "told", "kind": "must_happen", "at": {"tool": "send_message"}},)
    (found,) = judge_recorded(an_envelope(*the_record()), some_invariants(*specs), POLICY)
    assert (found.judgement.truth, found.judgement.effect, found.place) == (Truth.VIOLATED, "missing", None)
    unended = an_envelope(*the_record(), disposition=Disposition(ended=False))
    assert judge_recorded(unended, some_invariants(*specs), POLICY) == []


def test_recorded_run_explains_its_writes() -> None:
    assert judge_recorded(an_envelope(*the_record()), some_invariants(), POLICY) == []


def test_recorded_condition_without_value_raises() -> None:
    specs = ({"id": "x", "kind": "must_not", "at": {"tool": "issue_refund"}, "when": "args.nothing > 1"},)
    with pytest.raises(ConditionError, match=re.escape("invariants.yaml:1")):
        judge_recorded(an_envelope(*the_record()), some_invariants(*specs), POLICY)


def test_recorded_run_replayed_is_red() -> None:
    replayed = [
        a_played(1, "get_order", matched="#1"),
        a_write(2, "issue_refund", seen=LARGE, proposed=LARGE, key=key("issue_refund", LARGE), matched="#2"),
    ]
    assert graded(*replayed).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("opportunity", "after"), [(None, 1), (Opportunity(tool="get_order"), None), (Opportunity(tool="send_message"), 2)]
)  # fmt: skip
def test_default_modes_start_at_the_opportunity_of_the_record(
    opportunity: Opportunity | None, after: int | None
) -> None:
    record = (*the_record(), a_crossing(3, "send_message", effect=Effect.WRITE))
    loaded = a_case(an_envelope(*record), opportunity=opportunity)
    grader = case_grader(loaded, some_invariants(*SPECS), POLICY)
    assert [judge.cut.label for judge in grader.judges] == [
        "full",
        *([f"cut-point --after {after}"] if after else []),
    ]
