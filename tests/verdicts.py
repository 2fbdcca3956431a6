"""Builders of verdicts, results and judged trials, for tests of the gate and of reports."""

from typing import Any

from builders import a_divergence, a_transcript
from twiceshy import gate
from twiceshy.cutpoint import CutPoint
from twiceshy.grading import TrialVerdict
from twiceshy.judgement import Judgement
from twiceshy.outcome import BoundaryState, Failure, Outcome, Truth
from twiceshy.transcript import Transcript
from twiceshy.trials import Trial
from twiceshy.verdict import (
    CandidateRef,
    CaseRef,
    CatalogRef,
    Divergence,
    ModeResult,
    Near,
    Policy,
    Result,
    Run,
    Tool,
    Verdict,
    Violation,
)

SIGNATURE = "refund-over-limit-missing-approval@post-tool-hook-strip"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def a_violation(assertion: str = "refund-over-limit-missing-approval", **given: Any) -> Violation:
    """A hard violation at an intercepted write."""
    usual = {
        "tier": "hard", "assertion_id": assertion, "version": 1, "message": "a refund above the limit needs an approval token",
        "place": "#4", "boundary": "tool:issue_refund", "boundary_seq": 4, "boundary_state": BoundaryState.INTERCEPTED,
    }  # fmt: skip
    return Violation(**{**usual, **given})


def a_mode(outcome: Outcome = Outcome.PASSED, mode: str = "full", **given: Any) -> ModeResult:
    """One judging mode of two trials."""
    violated = ["refund-over-limit-missing-approval"] if outcome is Outcome.FAILED else []
    return ModeResult(**{"mode": mode, "outcome": outcome, "trials": 2, "passed": 0, "violated": violated, **given})


def a_result(outcome: Outcome = Outcome.PASSED, **given: Any) -> Result:
    """A result that says what its outcome needs: a violation, a divergence or an error."""
    case = CaseRef(
        id="refund-over-limit", path="data/cases/refund/over-limit/case.yaml", kind="failure", severity="high",
        digest="c" * 64, envelope_digest="e" * 64, redaction_review="promoted",
    )  # fmt: skip
    usual: dict[str, Any] = {
        "signature": SIGNATURE, "case": case, "trace_id": TRACE, "outcome": outcome, "mode": "full", "modes": [a_mode(outcome)], "isolation": "hermetic",
    }  # fmt: skip
    if outcome is Outcome.FAILED:
        usual |= {"violations": [a_violation()], "failure": Failure.INVARIANT}
    if outcome is Outcome.DIVERGED:
        found = a_divergence()
        near = [Near(place="#2", reason="other arguments", paths=["day"])]
        usual |= {"divergence": Divergence(kind=found.kind, boundary=found.boundary, place=found.place, nearest=near)}
    if outcome is Outcome.ERROR:
        usual |= {"error": "the canary got out"}
    return Result(**{**usual, **given})


def a_verdict(*results: Result, policy: Policy | None = None, not_run: int = 0, **run: Any) -> Verdict:
    """The verdict object of a run with these results."""
    usual = {
        "id": "r1", "started": "2026-06-02T10:00:00Z", "finished": "2026-06-02T10:00:09Z", "mode": "auto", "workflow": "refund",
        "candidate": CandidateRef(ref="examples.refund:buggy", digest="d" * 64), "catalog": CatalogRef(version="v12", digest="a" * 64),
        "harness_version": "0.1.0", "harness_state": "h1",
    }  # fmt: skip
    return gate.verdict(Tool(version="0.1.0"), Run(**{**usual, **run}), policy or Policy(), results, not_run=not_run)


def a_trial(
    outcome: Outcome = Outcome.PASSED,
    *,
    transcript: Transcript | None = None,
    violated: Judgement | None = None,
    **given: Any,
) -> Trial:
    """A trial with a verdict of that outcome."""
    usual: dict[str, Any] = {"outcome": outcome}
    if outcome is Outcome.DIVERGED:
        usual["divergence"] = a_divergence()
    if outcome is Outcome.FAILED:
        usual |= {"failure": Failure.INVARIANT, "judgements": [violated or a_judgement()]}
    return Trial(transcript or a_transcript(), TrialVerdict(**{**usual, **given}))


def a_judgement(name: str = "no-refund", kind: str = "must_not", **given: Any) -> Judgement:
    """A violated must_not."""
    return Judgement(**{"id": name, "kind": kind, "truth": Truth.VIOLATED, "message": "no refund", **given})


FULL = CutPoint()
