"""The refund agent's versions against the failure T-1042, replayed inside this process and graded under the committed policies."""

from pathlib import Path
from typing import Any

import pytest

from builders import a_case
from examples.refund import BELOW_LIMIT, T_1042
from sample_runs import POLICIES, a_run, replayed
from twiceshy import gate
from twiceshy.casefile import Opportunity
from twiceshy.grading import CaseGrader, case_grader, judge_recorded
from twiceshy.invariants import load
from twiceshy.outcome import Divergence, Outcome
from twiceshy.reporting.console import line
from twiceshy.results import case_result
from twiceshy.trials import Trial, mode_run
from twiceshy.verdict import Policy, Result

INVARIANTS = load(Path("data/policies/refund/invariants.yaml"))
SIGNATURE = "refund-over-limit-missing-approval@post-tool-hook-strip"


@pytest.fixture(scope="module")
def failure() -> CaseGrader:
    return a_grader(
        T_1042,
        kind="failure",
        signature=SIGNATURE,
        opportunity=Opportunity(seq=4),
        decided_by=["guard-refused-refund"],
        invariants=["refund-over-limit-missing-approval"],
    )


@pytest.fixture(scope="module")
def positive() -> CaseGrader:
    return a_grader(BELOW_LIMIT, kind="positive", id="refund-below-limit")


def a_grader(user: dict[str, str], **case: Any) -> CaseGrader:
    return case_grader(a_case(a_run("refund:buggy", user), **case), INVARIANTS, POLICIES["refund"])


def judged(grader: CaseGrader, version: str) -> Result:
    modes = []
    for cut in (judge.cut for judge in grader.loaded.case.judges()):
        transcripts = [replayed(f"refund:{version}", grader.loaded.envelope, cut) for _ in range(2)]
        modes.append(mode_run(cut, [Trial(transcript, grader.trial(transcript, cut)) for transcript in transcripts]))
    return case_result(grader, modes, isolation="hermetic")


def exit_code(*results: Result) -> int:
    return gate.summary(results, Policy()).exit_code


def test_recorded_failure_is_found() -> None:
    found = judge_recorded(a_run("refund:buggy", T_1042), INVARIANTS, POLICIES["refund"])
    assert [(finding.judgement.id, finding.place, finding.judgement.effect) for finding in found] == [
        ("refund-over-limit-missing-approval", "#4", "extra")
    ]
    assert judge_recorded(a_run("refund:buggy", BELOW_LIMIT), INVARIANTS, POLICIES["refund"]) == []


def test_buggy_names_everything(failure: CaseGrader, positive: CaseGrader) -> None:
    result = judged(failure, "buggy")
    assert exit_code(result, judged(positive, "buggy")) == 1
    shown = line(result)
    assert shown.startswith(f"FAILED {SIGNATURE} trace={failure.loaded.envelope.trace_id} ")
    assert "assertion=refund-over-limit-missing-approval at=#4 issue_refund[intercepted]" in shown


def test_repaired_version_passes(failure: CaseGrader, positive: CaseGrader) -> None:
    results = [judged(failure, "hook_fixed_and_guarded"), judged(positive, "hook_fixed_and_guarded")]
    assert [result.outcome for result in results] == [Outcome.PASSED, Outcome.PASSED]
    assert [mode.mode for mode in results[0].modes] == ["full", "cut-point --after 3"]
    assert exit_code(*results) == 0


def test_removed_approval_fails(failure: CaseGrader) -> None:
    assert judged(failure, "approval_removed").outcome is Outcome.FAILED


def test_fixed_hook_alone_fails(failure: CaseGrader) -> None:
    assert judged(failure, "hook_fixed").outcome is Outcome.FAILED


def test_refusing_everything_covers_nothing(failure: CaseGrader, positive: CaseGrader) -> None:
    assert judged(failure, "guarded").outcome is Outcome.PASSED
    assert judged(positive, "guarded").outcome is not Outcome.PASSED


def test_apology_alone_cannot_be_judged(failure: CaseGrader) -> None:
    result = judged(failure, "apologises_only")
    assert result.outcome is Outcome.DIVERGED
    assert result.divergence is not None
    assert result.divergence.kind is Divergence.OPPORTUNITY_NOT_REACHED
    assert exit_code(result) == 3
