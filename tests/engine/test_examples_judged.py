"""What the workflows' invariants say of each version: of its own run, and of its replay against the failed one."""

from pathlib import Path

import pytest

from examples.refund import BELOW_LIMIT, T_1042
from examples.research import ONE_PAPER, TWO_PAPERS
from examples.scheduling import TO_JULY_32, TO_THURSDAY, TO_WEDNESDAY
from sample_runs import POLICIES, a_run, replayed
from twiceshy import breaking, invariants
from twiceshy.casefile import Case, LoadedCase, Opportunity
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Envelope
from twiceshy.grading import TrialVerdict, case_grader, judge_recorded
from twiceshy.outcome import Divergence, Mode, Outcome

INVARIANTS = {workflow: invariants.load(Path(f"data/policies/{workflow}/invariants.yaml")) for workflow in POLICIES}
FULL = CutPoint()
PLANNER_LIVE = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))


def findings(envelope: Envelope) -> list[str]:
    found = judge_recorded(envelope, INVARIANTS[envelope.workflow], POLICIES[envelope.workflow])
    return [finding.judgement.id for finding in found]


def judged(
    spec: str, recorded: Envelope, cut: CutPoint = FULL, case: Case | None = None, broken: str | None = None
) -> TrialVerdict:
    breaks = [breaking.parse(broken)] if broken else []
    workflow = recorded.workflow
    case = case or Case(id="a-case", kind="failure", workflow=workflow, trace_id=recorded.trace_id)
    loaded = LoadedCase(case=case, envelope=recorded, path=Path("a-case"))
    return case_grader(loaded, INVARIANTS[workflow], POLICIES[workflow]).trial(
        replayed(spec, recorded, cut, breaks), cut
    )


def t_1042(recorded: Envelope) -> Case:
    return Case(
        id="t-1042", kind="failure", workflow="refund", trace_id=recorded.trace_id, decided_by=["guard-refused-refund"],
        invariants=["refund-over-limit-missing-approval"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "user", "ids"),
    [
        ("refund:buggy", T_1042, ["refund-over-limit-missing-approval"]),
        ("refund:approval_removed", T_1042, ["refund-over-limit-missing-approval"]),
        ("refund:hook_fixed", T_1042, []),
        ("refund:guarded", T_1042, []),
        ("refund:hook_fixed_and_guarded", T_1042, []),
        ("refund:apologises_only", T_1042, []),
        ("refund:hook_fixed_and_guarded", BELOW_LIMIT, []),
        ("scheduling:buggy", TO_THURSDAY, ["confirmation-before-reschedule"]),
        ("scheduling:confirms_first", TO_THURSDAY, ["confirmation-before-reschedule"]),
        ("scheduling:fixed", TO_THURSDAY, []),
        ("scheduling:buggy", TO_WEDNESDAY, []),
        ("scheduling:july32_swallowed", TO_JULY_32, ["impossible-date-corrected"]),
        ("scheduling:july32_corrected", TO_JULY_32, []),
        ("research:looping", ONE_PAPER, ["no_loop"]),
        ("research:misreads_total", TWO_PAPERS, ["brief-hides-its-hits"]),
        ("research:no_done_condition", TWO_PAPERS, ["search-after-done"]),
        ("research:fixed", ONE_PAPER, []),
        ("research:fixed", TWO_PAPERS, []),
    ],
)
def test_recorded_run_has_its_failure(spec: str, user: dict[str, str], ids: list[str]) -> None:
    assert findings(a_run(spec, user)) == ids


@pytest.mark.parametrize(
    ("version", "outcome", "decided"),
    [
        ("buggy", Outcome.FAILED, False),
        ("hook_fixed", Outcome.FAILED, False),
        ("approval_removed", Outcome.FAILED, False),
        ("guarded", Outcome.PASSED, True),
        ("hook_fixed_and_guarded", Outcome.PASSED, True),
        ("apologises_only", Outcome.DIVERGED, False),
    ],
)
@pytest.mark.parametrize("cut", [FULL, CutPoint(mode=Mode.CUT_POINT, after=3)], ids=["full", "after-3"])
def test_t_1042_is_judged(version: str, outcome: Outcome, decided: object, cut: CutPoint) -> None:
    recorded = a_run("refund:buggy", T_1042)
    verdict = judged(f"refund:{version}", recorded, cut, t_1042(recorded))
    assert (verdict.outcome, verdict.decided) == (outcome, decided)


@pytest.mark.parametrize(
    ("broken", "outcome"),
    [
        ("guard.off:refund-approval", Outcome.FAILED),
        # The guard fails closed: without the limit it still refuses, so this break alone does not bring the failure back.
        ("hook.strip:get_order.policy_limit_gbp", Outcome.PASSED),
    ],
)
def test_repair_stands_on_its_guard(broken: str, outcome: Outcome) -> None:
    recorded = a_run("refund:buggy", T_1042)
    assert judged("refund:hook_fixed_and_guarded", recorded, case=t_1042(recorded), broken=broken).outcome is outcome


def test_apology_never_reaches_the_opportunity() -> None:
    recorded = a_run("refund:buggy", T_1042)
    verdict = judged("refund:apologises_only", recorded, case=t_1042(recorded))
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.OPPORTUNITY_NOT_REACHED


@pytest.mark.parametrize(
    ("version", "outcome"),
    [
        ("buggy", Outcome.PASSED),
        ("hook_fixed_and_guarded", Outcome.PASSED),
        ("guarded", Outcome.DIVERGED),
        ("apologises_only", Outcome.DIVERGED),
    ],
)
def test_guard_that_refuses_all_passes_no_positive(version: str, outcome: Outcome) -> None:
    recorded = a_run("refund:hook_fixed_and_guarded", BELOW_LIMIT)
    positive = Case(id="below-limit", kind="positive", workflow="refund", trace_id=recorded.trace_id)
    assert judged(f"refund:{version}", recorded, case=positive).outcome is outcome


@pytest.mark.parametrize(
    ("version", "outcome"),
    [("buggy", Outcome.FAILED), ("confirms_first", Outcome.FAILED), ("fixed", Outcome.DIVERGED)],
)
def test_thursday_is_judged_with_planner_live(version: str, outcome: Outcome) -> None:
    assert judged(f"scheduling:{version}", a_run("scheduling:buggy", TO_THURSDAY), PLANNER_LIVE).outcome is outcome


@pytest.mark.parametrize(
    ("version", "outcome"), [("july32_swallowed", Outcome.FAILED), ("july32_corrected", Outcome.PASSED)]
)
def test_july_32_is_judged_with_planner_live(version: str, outcome: Outcome) -> None:
    recorded = a_run("scheduling:july32_swallowed", TO_JULY_32)
    assert judged(f"scheduling:{version}", recorded, PLANNER_LIVE).outcome is outcome


@pytest.mark.parametrize(("version", "user"), [("looping", ONE_PAPER), ("misreads_total", TWO_PAPERS)])
def test_research_code_fails_until_fixed(version: str, user: dict[str, str]) -> None:
    recorded = a_run(f"research:{version}", user)
    assert judged(f"research:{version}", recorded).outcome is Outcome.FAILED
    assert judged("research:fixed", recorded).outcome is Outcome.PASSED


def test_research_prompt_fails_until_fixed() -> None:
    recorded = a_run("research:no_done_condition", TWO_PAPERS)
    saved = Case(
        id="done", kind="failure", workflow="research", trace_id=recorded.trace_id,
        opportunity=Opportunity(tool="save_brief"),
    )  # fmt: skip
    assert judged("research:no_done_condition", recorded, PLANNER_LIVE, saved).outcome is Outcome.FAILED
    assert judged("research:fixed", recorded, PLANNER_LIVE, saved).outcome is Outcome.PASSED
