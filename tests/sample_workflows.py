"""The sample workflows as the steps take them, and their runs as traces."""

from pathlib import Path

import msgspec

from sample_runs import a_run
from tasks.workflows import load
from twiceshy.encoding import sealed
from twiceshy.envelope import Envelope

TRACE = "1" * 32


WORKFLOWS = load(Path("data/policies"))


def a_trace(spec: str, user: dict[str, str], trace_id: str = TRACE) -> Envelope:
    """A recorded run of `workflow:version` under a trace id as sources give them."""
    return sealed(msgspec.structs.replace(a_run(spec, user), trace_id=trace_id))
