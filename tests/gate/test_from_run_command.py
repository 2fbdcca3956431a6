"""A recorded and an explored run, drafted, reviewed and judged on the command line as a person would."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sample_cases import Ran, twiceshy
from twiceshy import casefile, keeping
from twiceshy.envelope import Disposition
from twiceshy.outcome import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOOLS = {
    "workflow": "desk", "version": 1,
    "tools": {
        "look": {"effect": "read", "reads": ["orders"]},
        "pay": {"effect": "write", "touches": ["payments"], "answer": {"paid": True}},
    },
}  # fmt: skip
INVARIANTS = {
    "workflow": "desk", "version": 1, "allowed_writes": [{"tool": "pay"}],
    "invariants": [
        {
            "id": "over-limit", "tier": "hard", "kind": "must_not", "at": {"tool": "pay"}, "on_missing": "violated", "severity": "high",
            "when": 'args.amount > result("look", {"order": args.order}).limit', "message": "no more than the limit is paid",
        }
    ],
}  # fmt: skip
AGENTS = """
import twiceshy


def agent_of(boundary, orders, amount, guarded=False):
    limits = {}

    def look_up(order):
        found = look(order=order)
        limits[order] = found["limit"]

    look = boundary.tool("look", lambda order: {"order": order, "limit": 500}, effect="read")
    pay = boundary.tool("pay", lambda order, amount: {"paid": True})
    if guarded:
        boundary.guard("limit", lambda asked: asked["amount"] <= limits[asked["order"]], before="pay")

    def agent(user):
        for order in orders:
            look_up(order)
        try:
            pay(order=orders[-1], amount=amount)
        except twiceshy.Blocked:
            return {"status": "refused"}
        return {"status": "paid"}

    return agent


@twiceshy.candidate(workflow="desk", versions={"harness": "1"})
def careful(boundary):
    return agent_of(boundary, ["A1"], 100)


@twiceshy.candidate(workflow="desk", versions={"harness": "2"})
def careless(boundary):
    return agent_of(boundary, ["A1", "A2"], 600)


@twiceshy.candidate(workflow="desk", versions={"harness": "3"})
def guarded(boundary):
    return agent_of(boundary, ["A1", "A2"], 600, guarded=True)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a recorded run, and an exploration of its case by an agent that goes further."""
    root = tmp_path_factory.mktemp("desk")
    policies = root / "data/policies/desk"
    policies.mkdir(parents=True)
    (root / "data/cases").mkdir()
    (root / "desk_agents.py").write_text(AGENTS)
    (policies / "tools.yaml").write_text(json.dumps(TOOLS))
    (policies / "invariants.yaml").write_text(json.dumps(INVARIANTS))
    told = ran(root, "record", "-c", "desk_agents:careful", "-o", "run.jsonl", "--input", '"hi"', "--run", "runs/real")
    assert told.code == 0, told
    drafted = ran(root, "case", "from-run", "runs/real", "--id", "base", "--unredacted")
    assert drafted.code == 0, drafted
    assert (" answers nobody recorded\n" in drafted.out, "accepted_simulated" in drafted.out) == (True, False)
    accept(root / "data/cases/desk/base")
    explored = ran(root, "explore", "base", "-c", "desk_agents:careless", "--run", "runs/careless")
    assert explored.code == 3, explored
    assert "kept: runs/careless/full" in explored.out
    return root


def ran(root: Path, *words: str) -> Ran:
    return twiceshy(*words, cwd=root)


def accept(path: Path, *digests: str, **review: Any) -> None:
    """What a person writes into case.yaml."""
    case = yaml.safe_load((path / "case.yaml").read_text())
    case["review"] = {"status": "promoted", "by": "@me", "accepted_simulated": list(digests), **review}
    (path / "case.yaml").write_text(yaml.safe_dump(case))


def test_a_recorded_run_is_a_case_once_it_is_accepted(project: Path) -> None:
    refusal = ran(project, "case", "from-run", "runs/real", "-o", "never")
    assert (refusal.code, refusal.out) == (2, "")
    assert "never redacted" in refusal.err
    case = casefile.load(project / "data/cases/desk/base").case
    assert (case.kind, case.tool) == ("positive", "pay")
    assert ran(project, "gate", "-c", "desk_agents:careful", "--select", "id:base").code == 0


def test_an_explored_path_judges_once_every_answer_is_accepted(project: Path) -> None:
    drafted = ran(project, "case", "from-run", "runs/careless", "--id", "over")
    assert drafted.code == 0, drafted
    path = project / "data/cases/desk/over"
    found = [line.split() for line in drafted.out.splitlines() if line.startswith("+ ")]
    assert [(words[1], words[2], " ".join(words[4:-1])) for words in found] == [
        ("#2", "tool:look", "nearest v1"),
        ("#3", "tool:pay", "template"),
    ]
    assert "A2" not in drafted.out
    assert "stands for   over-limit" in drafted.out
    shown = ran(project, "case", "show", "over").out
    assert f"#2     tool:look read simulated, not accepted: {found[0][-1]}" in shown
    gate = ["gate", "--select", "id:over", "-c"]
    for review in ({"status": "draft"}, {}):
        accept(path, found[0][-1], **review)
        refusal = ran(project, *gate, "desk_agents:guarded")
        assert (refusal.code, refusal.out) == (2, "")
        assert "data/cases/desk/over/case.yaml: " in refusal.err
    looked = ran(project, "replay", "over", "-c", "desk_agents:guarded")
    assert looked.code == 0
    assert "what it comes to proves nothing, and no gate takes it" in looked.out
    assert ran(project, "case", "validate").code == 2
    accept(path, *(words[-1] for words in found))
    assert ran(project, "case", "validate").code == 0
    failed = ran(project, *gate, "desk_agents:careless")
    assert failed.code == 1
    assert "assertion=over-limit at=#3 pay[intercepted]" in failed.out
    passed = ran(project, *gate, "desk_agents:guarded")
    assert passed.code == 0, passed


def test_an_explored_path_as_a_world_names_its_invented_rows(project: Path) -> None:
    drafted = ran(
        project, "case", "from-run", "runs/careless/full", "--to", "world", "--id", "world", "--show-payloads"
    )
    assert drafted.code == 0, drafted
    assert "! invented row in world.yaml: orders[1]" in drafted.out
    path = project / "data/cases/desk/world"
    gate = ["gate", "--select", "id:world", "-c"]
    assert ran(project, *gate, "desk_agents:guarded").code == 2
    accept(path)
    assert ran(project, *gate, "desk_agents:careless").code == 1
    passed = ran(project, *gate, "desk_agents:guarded", "--json", "-")
    assert passed.code == 0, passed
    assert json.loads(passed.out)["results"][0]["world"]["invented"] == ["orders[1]"]


def test_nothing_that_stands_is_overwritten(project: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for words, told in [
        (["case", "from-run", "runs/careless", "--id", "x", "-o", str(tmp_path / "there")], "it exists already; a draft overwrites nothing"),
        (["case", "from-run", "runs/careless", "--id", "base"], "there is a case 'base' already"),
        (["case", "from-run", "runs/careless", "--id", "../x"], "--id '../x'"),
        (["case", "from-run", "data"], "run.json: no such file"),
        (["explore", "base", "-c", "desk_agents:careless", "--run", "runs/careless"], "a kept run is never overwritten"),
        (["replay", "base", "-c", "desk_agents:careful", "--run", "runs/real"], "a kept run is never overwritten"),
        (["replay", "base", "-c", "desk_agents:careful", "--mode", "stub", "--run", "runs/stub"], "--run keeps nothing of the mode stub"),
        (["record", "-c", "desk_agents:careful", "-o", "y.jsonl", "--run", "runs/real"], "a kept run is never overwritten"),
    ]:  # fmt: skip
        refusal = ran(project, *words)
        assert (refusal.code, refusal.out) == (2, ""), refusal
        assert told in refusal.err
        assert len(refusal.err.splitlines()) == 1


def test_a_replay_is_kept_where_it_was_asked_for(project: Path) -> None:
    before = {path for path in project.rglob("*") if "__pycache__" not in str(path)}
    assert ran(project, "replay", "base", "-c", "desk_agents:careful").code == 0
    assert {path for path in project.rglob("*") if "__pycache__" not in str(path)} == before
    told = ran(project, "replay", "base", "-c", "desk_agents:careful", "--run", "runs/again")
    assert told.code == 0
    kept = keeping.load(project / "runs/again")
    assert (kept.run.source, kept.run.outcome, kept.run.simulated) == ("replay", Outcome.PASSED, [])
    assert kept.envelope.disposition == Disposition(output={"status": "paid"})
    assert kept.envelope.pins.versions.harness.version == "1"
