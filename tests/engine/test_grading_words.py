"""What a verdict and a refusal say, word for word; and what of a case and of its cut-point reaches those who judge."""

from typing import Any

import msgspec
import pytest

from builders import (
    TUESDAY_NS,
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
from twiceshy.casefile import Expect, Judge
from twiceshy.cutpoint import CutPoint
from twiceshy.dimensions import Score
from twiceshy.envelope import Clock, Disposition, Envelope, Kind, Pins, RunInput
from twiceshy.errors import CaseError, InvariantError
from twiceshy.grading import TrialVerdict, case_grader, judge_recorded
from twiceshy.invariants import Invariants
from twiceshy.outcome import AnsweredBy, BoundaryState, DimensionName, Divergence, Mode, Outcome
from twiceshy.transcript import Diverged, Transcript
from twiceshy.worlds.goals import Goal
from twiceshy.writes import DeclaredWrite

POLICY = a_policy(get_order="read", ask="write", tell="write")
FREE = [{"tool": "ask"}, {"tool": "tell"}]
READ = (a_crossing(1, "get_order"),)
ASKED = {"id": "asked", "kind": "must_happen", "at": {"tool": "ask"}}
TOLD = {"id": "told", "kind": "must_happen", "at": {"tool": "tell"}}
MS = 1_000_000
OFF = (
    "which is off here or has nothing to go by: it would never be judged. "
    "Switch it on in invariants.yaml, or say what is expected."
)


def graded(
    told: Transcript,
    *specs: dict[str, Any],
    envelope: Envelope | None = None,
    cut: CutPoint | None = None,
    **case: Any,
) -> TrialVerdict:
    """The verdict of one trial of a positive case over one read."""
    loaded = a_case(envelope or an_envelope(*READ), **{"kind": "positive", **case})
    return case_grader(loaded, some_invariants(*specs, allowed_writes=FREE), POLICY).trial(told, cut or CutPoint())


# How a run diverged that did not say so itself.


def test_a_run_that_never_came_there_diverged_at_its_end() -> None:
    write = an_envelope(a_crossing(1, "tell", effect="write"))
    assert graded(a_transcript(), envelope=write).divergence == Diverged(
        kind=Divergence.OPPORTUNITY_NOT_REACHED, place="end", boundary="run"
    )


def test_a_crash_after_an_improvised_answer_names_the_write() -> None:
    told = a_transcript(
        a_played(1),
        a_write(2, "ask", answered_by=AnsweredBy.OK),
        a_write(3, "tell", answered_by=AnsweredBy.OK),
        disposition=None,
    )
    assert graded(told).divergence == Diverged(
        kind=Divergence.WRITE_UNANSWERABLE, place="#2", boundary="tool:ask", detail="the run crashed after it"
    )


def test_what_rests_on_an_improvised_answer_is_named() -> None:
    told = a_transcript(a_played(1), a_write(2, "ask", answered_by=AnsweredBy.OK), a_write(3, "tell"))
    assert graded(told, ASKED).divergence == Diverged(
        kind=Divergence.WRITE_UNANSWERABLE, place="#2", boundary="tool:ask", detail="asked rests on it alone"
    )
    order = {"id": "asked-first", "kind": "order", "first": {"tool": "ask"}, "then": {"tool": "tell"}}
    assert graded(told, order).divergence == Diverged(
        kind=Divergence.WRITE_UNANSWERABLE, place="end", boundary="run", detail="asked-first rests on it alone"
    )


def test_what_stale_outputs_left_unproven_is_named() -> None:
    verdict = graded(a_transcript(a_played(1), a_model(2, stale=True)), ASKED, TOLD)
    assert verdict.divergence == Diverged(
        kind=Divergence.MODEL_EXHAUSTED, place="end", boundary="run",
        detail="only outputs that were recorded for other inputs are left to show asked, told",
    )  # fmt: skip


def test_frozen_code_that_would_have_had_to_refuse_is_named() -> None:
    guard = {"id": "refused", "kind": "must_happen", "at": {"guard": "limit", "blocked": True}}
    frozen = a_guard(2, "tell", "limit", blocked=True, boundary=BoundaryState.FROZEN)
    assert graded(a_transcript(a_played(1), frozen), guard).divergence == Diverged(
        kind=Divergence.NOT_EXERCISED, place="#2.1", boundary="guard:limit", detail="refused: limit was answered from the record"
    )  # fmt: skip


def test_a_check_that_had_nothing_to_judge_is_named() -> None:
    verdict = graded(a_transcript(a_played(1)), invariants=["context_drift"])
    assert verdict.divergence == Diverged(
        kind=Divergence.OPPORTUNITY_NOT_REACHED, place="end", boundary="run",
        detail="context_drift, for which the case stands, had nothing to judge",
    )  # fmt: skip


def test_a_divergence_of_the_run_itself_stands() -> None:
    own = a_divergence()
    write = an_envelope(a_crossing(1, "tell", effect="write"))
    assert graded(a_transcript(divergence=own), envelope=write).divergence == own


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        ({"crash": "wall"}, "the wall clock ran out before the run ended"),
        ({"crash": "signal", "signal": "SIGTERM"}, "SIGTERM ended the run before it came to its end"),
    ],
)
def test_an_end_that_is_ours_says_what_it_was(ending: dict[str, str], says: str) -> None:
    verdict = graded(a_transcript(a_played(1), **ending))
    assert (verdict.outcome, verdict.error) == (Outcome.ERROR, says)


# What is told besides.


def test_notes_tell_what_no_rule_counts() -> None:
    envelope = an_envelope(*READ, a_crossing(2, "tell", effect="write"))
    noted = ["GET /b", "GET /a", "GET /b", "GET /c", "GET /b"]
    told = a_transcript(a_played(1), a_played(2), a_model(3, drift="messages"), a_write(4, "tell"), noted=noted)
    assert graded(told, envelope=envelope).notes == [
        "prompt_drift (messages) at #3",
        "asked of the gateway, and no passage: GET /a, GET /b (3 times), GET /c",
        "call_counts, reported only: tool:get_order more often than the 1 recorded",
    ]
    assert graded(a_transcript(a_played(1), noted=["GET /a", "GET /a"])).notes == [
        "asked of the gateway, and no passage: GET /a (2 times)"
    ]
    assert graded(a_transcript(a_played(1))).notes == []


# What is refused before anything runs.


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"judge": [Judge(mode=Mode.STUB)]}, "the judging mode stub is for comparison only; no gate accepts it. Use full, cut-point or world."),
        ({"binding": ["asked"]}, "binding names 'asked', which is no invariant of the semantic tier."),
        ({"binding": ["kind", "nobody"]}, "binding names 'nobody', which is no invariant of the semantic tier."),
        ({"invariants": ["no_duplicate_write", "assked"]}, "invariant 'assked' is not in invariants.yaml. Did you mean 'asked'?"),
        ({"invariants": ["kind"]}, "the case stands for 'kind', which only reports here. Name it under binding."),
        ({"invariants": ["kind"], "binding": ["brief"]}, "the case stands for 'kind', which only reports here. Name it under binding."),
        ({"decided_by": ["kind"], "binding": ["kind"]}, "decided_by names 'kind', which is a output; only a must_happen can decide."),
        ({"latency": 1.5}, "it asks for a latency, and its record holds no times."),
        (
            {"invariants": ["latency"]},
            f"the case stands for latency, {OFF}",
        ),
    ],
)  # fmt: skip
def test_a_case_that_asks_for_what_is_not_is_refused(case: dict[str, Any], says: str) -> None:
    loaded = a_case(an_envelope(*READ), **{"kind": "positive", **case})
    with pytest.raises(CaseError) as refused:
        case_grader(loaded, asking(), POLICY)
    assert str(refused.value) == f"{loaded.path}: {says}"


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("goal", {"expect": Expect(goal=[Goal(table="letters", change="inserted")])}),
        ("nothing_else", {"expect": Expect(nothing_else=True)}),
        ("expected_writes", {"expect": Expect(in_order=True)}),
        ("expected_writes", {"expect": Expect(writes=[DeclaredWrite(tool="ask"), DeclaredWrite(tool="tell", times=1)])}),
        ("latency", {"latency": 1.5}),
    ],
)  # fmt: skip
def test_a_case_may_stand_for_a_check_that_it_asks_for(name: str, case: dict[str, Any]) -> None:
    timed = an_envelope(a_crossing(1, "get_order", start_ns=0, end_ns=10 * MS))
    loaded = a_case(timed, **{"kind": "positive", "world": "world.yaml", "invariants": [name], **case})
    assert case_grader(loaded, some_invariants(), POLICY).loaded is loaded
    without = a_case(timed, kind="positive", invariants=[name])
    with pytest.raises(CaseError, match=f"the case stands for {name}, which is off here"):
        case_grader(without, some_invariants(), POLICY)


def test_writes_that_are_only_allowed_are_not_counted() -> None:
    loaded = a_case(
        an_envelope(*READ), invariants=["expected_writes"], expect=Expect(writes=[DeclaredWrite(tool="ask")])
    )
    with pytest.raises(CaseError, match="the case stands for expected_writes"):
        case_grader(loaded, some_invariants(), POLICY)


def test_lost_facts_are_looked_for_unless_the_workflow_says_no() -> None:
    loaded = a_case(an_envelope(*READ), invariants=["context_drift"])
    case_grader(loaded, some_invariants(), POLICY)
    case_grader(loaded, some_invariants(checks={"context_drift": True}), POLICY)
    with pytest.raises(CaseError, match="the case stands for context_drift, which is off here"):
        case_grader(loaded, some_invariants(checks={"context_drift": False}), POLICY)


def asking() -> Invariants:
    """A workflow with an invariant of each tier."""
    kind, brief = (
        {"id": name, "kind": "output", "tier": "semantic", "rubric": f"is it {name}?"} for name in ("kind", "brief")
    )
    return some_invariants(ASKED, kind, brief, judge={"model": "m", "version": "1"})


def test_a_judge_may_bind() -> None:
    case_grader(a_case(an_envelope(*READ), binding=["kind"], invariants=["kind"]), asking(), POLICY)


def test_a_wrong_done_names_the_policy() -> None:
    policy = msgspec.structs.replace(POLICY, done="args.x >")
    with pytest.raises(InvariantError, match=r"^tools\.yaml of refund: CEL error"):
        case_grader(a_case(an_envelope(*READ)), some_invariants(), policy)


# What reaches those who judge.


def test_findings_come_by_onset_and_name_their_trace() -> None:
    end = {"id": "told", "kind": "must_happen", "at": {"tool": "tell"}}
    late = {"id": "late", "kind": "must_not", "at": {"tool": "get_order"}, "when": "args.n == 2"}
    early = {"id": "early", "kind": "must_not", "at": {"tool": "get_order"}, "when": "args.n == 1"}
    status = {"id": "status", "kind": "output", "schema": {"required": ["none"], "type": "object"}}
    envelope = an_envelope(*(a_crossing(seq, "get_order", seen={"n": seq}) for seq in (1, 2)))
    found = judge_recorded(envelope, some_invariants(status, end, late, early), POLICY)
    assert [finding.judgement.id for finding in found] == ["early", "late", "status", "told"]
    assert {finding.trace_id for finding in found} == {envelope.trace_id}


def score(verdict: TrialVerdict, name: DimensionName) -> Score:
    return next(score for score in verdict.dimensions if score.name is name)


def test_the_input_grounds_facts() -> None:
    """Each of the four places of the input gives one fact; the fifth was made up."""
    envelope = an_envelope(
        *READ, input=RunInput(system="limit 500", user="order A184", goal="refund 750"),
        pins=Pins(clock=Clock(instant_ns=TUESDAY_NS, as_given_to_agent="it is 2026-06-02")),
    )  # fmt: skip
    facts = ["500", "A184", "750", "2026-06-02", "999"]
    told = a_transcript(a_played(1), disposition=Disposition(output=facts))
    measured = score(graded(told, envelope=envelope), DimensionName.RESULT_UTILIZATION)
    assert (measured.hits, measured.n) == (4, 5)
    without = an_envelope(*READ, input=envelope.input, pins=Pins(clock=None))
    measured = score(graded(told, envelope=without), DimensionName.RESULT_UTILIZATION)
    assert (measured.hits, measured.n) == (3, 5)


def test_what_a_case_stands_for_is_part_of_its_task() -> None:
    told = a_transcript(a_played(1))
    assert score(graded(told), DimensionName.TASK_COMPLETION).n == 0
    assert score(graded(told, invariants=["no_duplicate_write"]), DimensionName.TASK_COMPLETION).n == 1


def test_what_the_user_began_with_may_get_lost() -> None:
    again = a_played(2, "customer", kind=Kind.USER, effect=None, raw="and now?")
    told = a_transcript(a_played(1, seen={"order": "A184"}), again, a_played(3, seen={}))
    for given in (RunInput(user="order A184"), RunInput(user="hello", goal="refund A184")):
        verdict = graded(told, envelope=an_envelope(*READ, input=given))
        assert [(found.id, found.place) for found in verdict.violations] == [("context_drift", "#3")]
    assert graded(told).violations == []


def test_a_live_boundary_has_no_count() -> None:
    envelope, told = an_envelope(*READ, a_crossing(2, "tell", effect="write")), a_transcript(a_write(1, "tell"))
    for live, violated in (("tool:get_order", []), ("model:planner", ["call_counts"])):
        cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({live}))
        assert [found.id for found in graded(told, envelope=envelope, cut=cut).violations] == violated


def test_a_latency_is_judged_where_the_case_asks() -> None:
    envelope = an_envelope(a_crossing(1, "get_order", start_ns=0, end_ns=10 * MS))
    twice = a_transcript(a_played(1, matched="#1"), a_played(2, matched="#1"))
    assert [found.id for found in graded(twice, envelope=envelope, latency=1.5).violations] == ["latency"]
    assert graded(twice, envelope=envelope).violations == []
