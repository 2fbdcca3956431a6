"""A case recorded from each framework's agent, judged in sealed processes: the guard holds, its absence is red, and breaks kill."""

import os
from pathlib import Path

import pytest

from examples import refund
from sample_cases import REFUND, ROOT, SIGNATURE, record
from twiceshy import breakage, casefile, judging
from twiceshy.casefile import Case, Layer, Opportunity, Review
from twiceshy.outcome import Outcome
from twiceshy.redaction import Keyring
from twiceshy.results import Candidacy
from twiceshy.running import CandidateSpec, Session

pytestmark = pytest.mark.slow


def save_case(root: Path, framework: str) -> Path:
    from importlib import import_module

    module = import_module(f"examples.frameworks.{framework}")
    envelope = record(module.unguarded, refund.T_1042, "refund", REFUND)
    wrong = next(crossing.seq for crossing in envelope.crossings if crossing.name == "issue_refund")
    case = Case(
        id=framework, kind="failure", workflow="refund", trace_id=REFUND, signature=SIGNATURE, tool="issue_refund", severity="high",
        layer=Layer(name="harness.tool"), opportunity=Opportunity(seq=wrong), invariants=["refund-over-limit-missing-approval"],
        decided_by=["guard-refused-refund"], breaks=["guard.off:refund-approval"],
        review=Review(status="promoted", by="@team", date="2026-11-12", why="reproduced"),
    )  # fmt: skip
    casefile.save(root / framework, case, envelope)
    return root / framework


@pytest.mark.timeout(600)
@pytest.mark.parametrize("framework", ["with_pydantic_ai", "with_langchain", "with_openai_agents", "with_mcp"])
def test_framework_agent_is_judged_sealed(framework: str, tmp_path: Path) -> None:
    loaded = casefile.load(save_case(tmp_path, framework))
    rules = judging.rules_of(ROOT / "data/policies", "refund", Keyring.of({}))
    terms = judging.Terms(trials=2)
    (grader,) = judging.graders([loaded], rules, terms)
    outcomes = {}
    for version in ("unguarded", "guarded"):
        spec = CandidateSpec(factory=f"examples.frameworks.{framework}:{version}", path=[ROOT])
        with Session(spec, env=os.environ, folder=ROOT, cases=[tmp_path]) as session:
            outcomes[version] = judging.judge_case(session, grader, rules, terms, Candidacy()).result
            if version == "guarded":
                runs = breakage.broken_case(session, grader, rules, terms).runs
    assert outcomes["unguarded"].outcome is Outcome.FAILED
    assert outcomes["guarded"].outcome is Outcome.PASSED, outcomes["guarded"]
    assert {run.state for run in runs} == {"killed"}
    assert all(len(set(mode.transcripts)) == 1 for result in outcomes.values() for mode in result.modes)
