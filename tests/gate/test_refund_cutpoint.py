"""The refund cut-point: steps 1 to 3 frozen, the guard live; and what frozen models alone cannot judge."""

from pathlib import Path
from typing import Any

import pytest

from builders import a_case
from examples import refund
from examples.refund import T_1042
from sample_runs import POLICIES, a_run, replayed
from twiceshy import breaking
from twiceshy.candidates import layers
from twiceshy.casefile import Opportunity
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Versions
from twiceshy.exercise import changed_layers
from twiceshy.grading import CaseGrader, TrialVerdict, case_grader
from twiceshy.invariants import load
from twiceshy.outcome import BoundaryState, Divergence, Mode, Outcome
from twiceshy.results import Candidacy, case_result
from twiceshy.transcript import Transcript
from twiceshy.trials import Trial, mode_run
from twiceshy.verdict import Result

AFTER_3 = CutPoint(mode=Mode.CUT_POINT, after=3)


@pytest.fixture(scope="module")
def grader() -> CaseGrader:
    loaded = a_case(
        a_run("refund:buggy", T_1042), kind="failure", opportunity=Opportunity(seq=4), decided_by=["guard-refused-refund"],
        invariants=["refund-over-limit-missing-approval"],
    )  # fmt: skip
    return case_grader(loaded, load(Path("data/policies/refund/invariants.yaml")), POLICIES["refund"])


def judged(grader: CaseGrader, version: str, *broken: str, cut: CutPoint = AFTER_3) -> tuple[Transcript, TrialVerdict]:
    told = replayed(f"refund:{version}", grader.loaded.envelope, cut, [breaking.parse(text) for text in broken])
    return told, grader.trial(told, cut)


def versions(version: str) -> Versions:
    factory: Any = getattr(refund, version)
    return layers(factory, factory.__twiceshy_candidate__)


def result(grader: CaseGrader, version: str, against: Candidacy, cut: CutPoint = AFTER_3) -> Result:
    trials = [Trial(*judged(grader, version, cut=cut)) for _ in range(2)]
    return case_result(grader, [mode_run(cut, trials)], candidacy=against, isolation="hermetic")


def test_a_live_guard_refuses_the_frozen_proposal(grader: CaseGrader) -> None:
    told, verdict = judged(grader, "hook_fixed_and_guarded")
    assert verdict.outcome is Outcome.PASSED
    states = {(p.crossing.place, p.crossing.name): (p.boundary, p.exercised) for p in told.played}
    assert states["#2.1", "strip_internal_fields"] == (BoundaryState.FROZEN, False)
    assert states["#3", "planner"] == (BoundaryState.FROZEN, False)
    assert states["#4.1", "refund-approval"] == (BoundaryState.LIVE, True)
    write = next(p for p in told.played if p.crossing.name == "issue_refund")
    assert (write.boundary, write.crossing.blocked_by) == (BoundaryState.INTERCEPTED, "refund-approval")


def test_without_its_guard_it_fails(grader: CaseGrader) -> None:
    _, verdict = judged(grader, "hook_fixed_and_guarded", "guard.off:refund-approval")
    assert verdict.outcome is Outcome.FAILED
    assert "refund-over-limit-missing-approval" in [judgement.id for judgement in verdict.violations]


def test_an_apology_never_comes_there(grader: CaseGrader) -> None:
    _, verdict = judged(grader, "apologises_only")
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.OPPORTUNITY_NOT_REACHED


def test_frozen_models_do_not_judge_a_prompt(grader: CaseGrader, monkeypatch: pytest.MonkeyPatch) -> None:
    version = "hook_fixed_and_guarded"
    champion = versions(version)
    monkeypatch.setattr("examples.refund.agent.PROMPT", "You answer customers of a shop, and briefly.\n")
    changed = changed_layers(versions(version), champion) & {"prompt"}
    assert changed == {"prompt"}

    diverged = result(grader, version, Candidacy(changed=changed))
    assert diverged.outcome is Outcome.DIVERGED
    assert diverged.divergence is not None
    assert (diverged.divergence.kind, "prompt" in diverged.divergence.detail) == (Divergence.NOT_EXERCISED, True)
    waived = result(grader, version, Candidacy(changed=changed, accepted=["prompt"]))
    assert waived.outcome is Outcome.PASSED
    live = result(
        grader, version, Candidacy(changed=changed), CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:*"}))
    )
    assert live.divergence is None or live.divergence.kind is not Divergence.NOT_EXERCISED
    assert result(grader, version, Candidacy()).outcome is Outcome.PASSED
