"""What a workflow is judged by, read once: its tools, its invariants, its done-predicate, and the harness state that rows and pinned results are bound to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twiceshy import invariants, policy
from twiceshy.champion import harness_state
from twiceshy.conditions import Condition
from twiceshy.identity import digest
from twiceshy.invariants import Invariants
from twiceshy.policy import ToolsPolicy


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """One workflow. invariants: None where it has none. done: its done-predicate, compiled; None where tools.yaml declares none."""

    policy: ToolsPolicy
    invariants: Invariants | None = None
    done: Condition | None = None

    @classmethod
    def unknown(cls, name: str) -> "Workflow":
        """A workflow without a policy: every tool of it is a write that touches everything."""
        return cls(policy=ToolsPolicy(workflow=name))


Workflows = Mapping[str, Workflow]
"""Workflow by name."""


def load(policies: Path) -> dict[str, Workflow]:
    """Every workflow that has a `tools.yaml` under `policies/<workflow>/`, by name. Raises PolicyError or InvariantError with file and line."""
    return {found.parent.name: _workflow(found.parent) for found in sorted(policies.glob("*/tools.yaml"))}


def _workflow(folder: Path) -> Workflow:
    path = folder / "tools.yaml"
    tools = policy.load(path)
    stated = folder / "invariants.yaml"
    return Workflow(
        policy=tools,
        invariants=invariants.load(stated, tools=tools.tools) if stated.exists() else None,
        done=Condition(tools.done, where=path) if tools.done else None,
    )


def state_of(workflows: Workflows) -> str:
    """The harness state of a corpus: a digest of the rules of all its workflows; a row made under other rules says so."""
    states = {
        name: harness_state(held.invariants, held.policy) if held.invariants else digest(_plain(held.policy))
        for name, held in workflows.items()
    }
    return digest(states)


def _plain(tools: ToolsPolicy) -> object:
    import msgspec

    return msgspec.to_builtins(tools)
