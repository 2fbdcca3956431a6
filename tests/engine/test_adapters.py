"""The refund agent in each framework, with the real framework and a scripted model, recorded and replayed inside this process."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from builders import recorded, replayed
from examples import refund
from examples.frameworks import with_langchain, with_mcp, with_openai_agents, with_pydantic_ai
from twiceshy import policy
from twiceshy.boundary import Boundary
from twiceshy.candidates import Candidate, described
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Envelope, Kind
from twiceshy.errors import CandidateError
from twiceshy.outcome import Divergence, Mode

ROOT = Path(__file__).resolve().parents[2]
POLICY = policy.load(ROOT / "data/policies/refund/tools.yaml")
ADAPTED = [with_pydantic_ai, with_langchain, with_openai_agents, with_mcp]

# The frameworks take seconds to import.
pytestmark = pytest.mark.slow


def record(candidate: Callable[[Boundary], Any]) -> Envelope:
    return recorded(candidate, refund.T_1042, policy=POLICY)


def places(envelope: Envelope, kind: Kind) -> list[str]:
    return [crossing.name for crossing in envelope.crossings if crossing.kind is kind]


@pytest.mark.parametrize("framework", ADAPTED)
def test_recorded_run_replays_as_it_was(framework: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    envelope = record(framework.unguarded)
    assert [name for name in places(envelope, Kind.TOOL) if name != "tools/list"] == [
        "get_order",
        "issue_refund",
        "send_message",
    ]
    assert envelope.disposition.output["status"] == "refunded"
    for tool in ("get_order", "issue_refund", "send_message"):
        monkeypatch.setattr(refund.Shop, tool, lambda *_, **__: pytest.fail("a replay reached the shop"))
    told = replayed(framework.unguarded, envelope, policy=POLICY)
    assert told.divergence is None
    assert told.disposition is not None
    assert told.disposition.output == envelope.disposition.output
    assert [played.crossing.name for played in told.played if played.intent] == ["issue_refund", "send_message"]
    assert not any(played.drift or played.stale for played in told.played)


@pytest.mark.parametrize("framework", ADAPTED)
def test_guard_refuses_in_each_framework(framework: ModuleType) -> None:
    told = replayed(framework.guarded, record(framework.unguarded), policy=POLICY)
    refused = [played.crossing.blocked_by for played in told.played if played.crossing.name == "issue_refund"]
    assert refused == ["refund-approval"]


@pytest.mark.parametrize("framework", ADAPTED)
def test_live_run_is_told_as_it_is(framework: ModuleType) -> None:
    envelope = record(framework.guarded)
    assert envelope.disposition.output["status"] == "pending_approval"
    blocked = [crossing for crossing in envelope.crossings if crossing.blocked_by]
    assert [crossing.name for crossing in blocked] == ["issue_refund"]


@pytest.mark.parametrize("framework", ADAPTED)
def test_layers_of_a_framework_agent_are_known(framework: ModuleType) -> None:
    found = described(framework.unguarded, Candidate(workflow="refund"))
    assert found.versions.model.digest
    assert found.versions.prompt.digest
    assert {"model:planner", "tool:issue_refund", "hook:strip_internal_fields"} <= found.boundaries


def test_middleware_shows_both_sides() -> None:
    envelope = record(with_langchain.capped)
    step = next(crossing for crossing in envelope.crossings if crossing.name == "issue_refund")
    assert (step.proposed["amount_gbp"], step.seen["amount_gbp"]) == (750, 500)
    told = replayed(with_langchain.capped, envelope, policy=POLICY)
    assert told.divergence is None
    uncapped = replayed(with_langchain.unguarded, envelope, policy=POLICY)
    assert [
        played.crossing.seen["amount_gbp"] for played in uncapped.played if played.crossing.name == "issue_refund"
    ] == [750]


@pytest.mark.parametrize("framework", [with_pydantic_ai, with_langchain, with_openai_agents])
def test_frozen_model_never_runs(framework: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    envelope = record(framework.unguarded)
    monkeypatch.setattr(framework, "plan", lambda _: pytest.fail("the model ran"))
    assert replayed(framework.unguarded, envelope, policy=POLICY).divergence is None


@pytest.mark.parametrize("framework", [with_pydantic_ai, with_langchain, with_openai_agents])
def test_live_model_runs_beside_frozen_tools(framework: ModuleType) -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))
    told = replayed(framework.unguarded, record(framework.unguarded), policy=POLICY, cut=cut)
    assert told.divergence is None
    assert told.disposition is not None
    assert told.disposition.output["status"] == "refunded"


def test_effects_name_tools_that_exist() -> None:
    from pydantic_ai import Agent

    from twiceshy.adapters.pydantic_ai import bound

    with pytest.raises(CandidateError, match="get_ordr"):
        described(
            lambda boundary: bound(Agent("test"), boundary, effects={"get_ordr": "read"}).run_sync,
            Candidate(workflow="w"),
        )


def test_new_question_to_the_server_diverges() -> None:
    envelope = record(with_mcp.unguarded)
    bare = without(envelope, "tools/list")
    told = replayed(with_mcp.unguarded, bare, policy=POLICY)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.UNRECORDED_CALL


def without(envelope: Envelope, name: str) -> Envelope:
    from msgspec.structs import replace

    return replace(envelope, crossings=tuple(crossing for crossing in envelope.crossings if crossing.name != name))
