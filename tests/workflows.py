"""The sample workflows as the steps take them, and their runs as traces."""

from pathlib import Path

import msgspec

from sample_runs import a_run
from tasks.detect.step import Workflow
from twiceshy import invariants, policy
from twiceshy.conditions import Condition
from twiceshy.encoding import sealed
from twiceshy.envelope import Envelope

TRACE = "1" * 32


def a_workflow(name: str) -> Workflow:
    """A committed workflow: its tools, its invariants, its done-predicate."""
    root = Path("data/policies") / name
    tools = policy.load(root / "tools.yaml")
    done = Condition(tools.done, where=root / "tools.yaml") if tools.done else None
    return Workflow(policy=tools, invariants=invariants.load(root / "invariants.yaml"), done=done)


WORKFLOWS = {name: a_workflow(name) for name in ("refund", "research", "scheduling")}


def a_trace(spec: str, user: dict[str, str], trace_id: str = TRACE) -> Envelope:
    """A recorded run of `workflow:version` under a trace id as sources give them."""
    return sealed(msgspec.structs.replace(a_run(spec, user), trace_id=trace_id))
