"""What the record did is not what the candidate did: frozen code and stale outputs satisfy nothing that must happen."""

from typing import Any

import pytest

from builders import (
    Build,
    a_case,
    a_crossing,
    a_divergence,
    a_guard,
    a_model,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    recorded,
    replayed,
    some_invariants,
)  # fmt: skip
from shop import Agent, diverged
from twiceshy.boundary import Boundary
from twiceshy.casefile import Expect
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import BoundaryState, DimensionName, Divergence, Mode, Outcome
from twiceshy.policy import ToolPolicy
from twiceshy.semantic import with_semantics
from twiceshy.transcript import Played, RowChange
from twiceshy.worlds.goals import Goal
from twiceshy.writes import DeclaredWrite

POLICY = a_policy(issue_refund="write", create_approval="write")
REFUSED = {"id": "refused", "kind": "must_happen", "at": {"guard": "refund-approval", "blocked": True}}
APPROVED = {"id": "approved", "kind": "must_happen", "at": {"tool": "create_approval"}}
TWICE = {"id": "twice", "kind": "count", "at": {"tool": "create_approval"}, "min": 1}


def graded(*played: Played, specs: Any = (), **given: Any) -> TrialVerdict:
    ending = {name: given.pop(name) for name in list(given) if name == "divergence"}
    record = a_crossing(1, "create_approval", effect=Effect.WRITE), a_crossing(2, "issue_refund", effect=Effect.WRITE)
    case = a_case(an_envelope(*record), **{"kind": "positive", **given})
    return case_grader(case, some_invariants(*specs), POLICY).trial(a_transcript(*played, **ending), CutPoint())


def why(verdict: TrialVerdict) -> tuple[Outcome, Divergence | None]:
    return verdict.outcome, verdict.divergence and verdict.divergence.kind


def refusing(boundary: BoundaryState) -> tuple[Played, ...]:
    return (
        a_write(1, "create_approval"),
        a_guard(2, "issue_refund", blocked=True, boundary=boundary),
        a_write(2, "issue_refund", blocked_by="refund-approval"),
    )


def test_a_guard_that_was_answered_from_the_record_has_refused_nothing() -> None:
    """In a frozen prefix, or named in --freeze: the candidate's guard did not run, and may be gone."""
    assert why(graded(*refusing(BoundaryState.LIVE), specs=[REFUSED])) == (Outcome.PASSED, None)
    verdict = graded(*refusing(BoundaryState.FROZEN), specs=[REFUSED])
    assert why(verdict) == (Outcome.DIVERGED, Divergence.NOT_EXERCISED)
    assert verdict.divergence is not None
    assert (verdict.divergence.place, verdict.divergence.boundary) == ("#2.1", "guard:refund-approval")


def test_a_frozen_guard_decides_nothing() -> None:
    decided = {"decided_by": ["refused"], "divergence": a_divergence()}
    assert graded(*refusing(BoundaryState.LIVE), specs=[REFUSED], **decided).decided
    assert graded(*refusing(BoundaryState.FROZEN), specs=[REFUSED], **decided).outcome is Outcome.DIVERGED


def approved(*, stale: bool, changes: Any = ()) -> tuple[Played, ...]:
    return a_model(1, stale=stale), a_write(2, "create_approval", group=1, changes=list(changes))


ROW = RowChange(table="approvals", row="approvals[new]", key={"#": "1"}, after={"amount": 5})


@pytest.mark.parametrize(
    "asked",
    [
        {"specs": [APPROVED]},
        {"specs": [TWICE]},
        {"expect": Expect(writes=[DeclaredWrite(tool="create_approval", times=1)])},
        {
            "expect": Expect(goal=[Goal(table="approvals", change="inserted", fields={"amount": 5})]),
            "world": "world.yaml",
        },
    ],
    ids=["must_happen", "count", "expected_writes", "goal"],
)
def test_what_a_stale_output_asks_for_shows_nothing(asked: Any) -> None:
    """The output was recorded for what the agent was shown then. Shown something else, a model may not ask for it."""
    fresh, stale = (graded(*approved(stale=stale, changes=[ROW]), **asked) for stale in (False, True))
    assert why(fresh) == (Outcome.PASSED, None)
    assert why(stale) == (Outcome.DIVERGED, Divergence.MODEL_EXHAUSTED)


def test_no_dimension_is_passed_that_stale_outputs_keep_from_being_measured() -> None:
    """With a threshold and nothing measured, none was missed."""
    thresholds = {"dimensions": {DimensionName.PLAN_COHERENCE: 0.5}}
    assert why(graded(*approved(stale=False), **thresholds)) == (Outcome.PASSED, None)
    assert why(graded(*approved(stale=True))) == (Outcome.PASSED, None)
    assert why(graded(*approved(stale=True), **thresholds)) == (Outcome.DIVERGED, Divergence.MODEL_EXHAUSTED)


class Pleased:
    """A judge that likes everything, and counts."""

    def __init__(self) -> None:
        self.asked = 0

    def reply(self, request: dict[str, Any], *, version: str, sample: int) -> str:
        self.asked += 1
        return '{"verdict": "pass", "reason": "fine"}'


@pytest.mark.parametrize("stale", [False, True])
def test_no_judge_is_asked_about_stale_outputs(*, stale: bool) -> None:
    """The text is another run's, however polite it is."""
    polite = {"id": "polite", "tier": "semantic", "kind": "output", "rubric": "Is the reply polite?"}
    case = a_case(an_envelope(a_crossing(2, "create_approval", effect=Effect.WRITE)), kind="positive", binding=["polite"])  # fmt: skip
    grader = case_grader(case, some_invariants(polite, judge={"model": "judge-1", "version": "1"}), POLICY)
    told, bench = a_transcript(*approved(stale=stale)), Pleased()
    verdict = with_semantics(grader.trial(told, CutPoint()), told, grader, bench)
    expected = (Outcome.DIVERGED, Divergence.MODEL_EXHAUSTED) if stale else (Outcome.PASSED, None)
    assert (why(verdict), bench.asked) == (expected, 0 if stale else 1)


def paying(amount: int, request: int = 0) -> Build:
    """An agent whose payment is rounded by a hook and passed by a guard."""

    def build(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", lambda amount, request: "paid")
        boundary.hook("round", lambda asked: {**asked, "amount": asked["amount"] // 10 * 10}, before="pay")
        boundary.guard("limit", lambda asked: "too much" if asked["amount"] > 100 else None, before="pay")
        return lambda _: pay(amount=amount, request=request)

    return build


def test_code_in_a_prefix_answers_what_it_was_asked() -> None:
    """Whatever the agent asked for, a frozen hook gave the recorded arguments back, and a frozen guard passed them."""
    policy = a_policy(pay=ToolPolicy(volatile=("request",)))
    envelope = recorded(paying(100), policy=policy)
    prefix = CutPoint(mode=Mode.CUT_POINT, after=1)
    other, same = (
        replayed(build, envelope, policy=policy, cut=prefix) for build in (paying(990), paying(100, request=7))
    )
    assert diverged(other) is Divergence.ARGS_MISMATCH
    assert (diverged(same), [played.crossing.seen for played in same.played if played.intent]) == (
        None,
        [{"amount": 100, "request": 0}],
    )
