"""Closes flow runs that nobody runs any more: a killed worker leaves its runs RUNNING or PENDING for ever."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.context import FlowRunContext
from prefect.states import Crashed

FLOWS = ("refresh", "catalog", "gate", "retention")
LIMIT = timedelta(hours=6)
"""Longer than any flow here may take (its own timeout), so what is open for longer has nobody behind it."""


class Closed(NamedTuple):
    """One run that was closed."""

    flow_run: str
    was: str
    since: str


def close_abandoned(*, now: datetime, older_than: timedelta = LIMIT, flows: Sequence[str] = FLOWS) -> list[Closed]:
    """The runs of our flows that are RUNNING or PENDING since longer than that, now CRASHED; nothing outside a flow run, where no server is at hand."""
    mine = FlowRunContext.get()
    if mine is None or mine.flow_run is None:
        return []
    with get_client(sync_client=True) as client:
        return [_closed(client, run) for run in _open(client, now - older_than, flows) if run.id != mine.flow_run.id]


def _open(client: SyncPrefectClient, before: datetime, flows: Sequence[str]) -> list[FlowRun]:
    """Judged by when they should have started: a run that never got beyond PENDING has no start."""
    return client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=list(flows))),
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])),
            expected_start_time=FlowRunFilterExpectedStartTime.model_validate({"before_": before}),
        ),
    )


def _closed(client: SyncPrefectClient, run: FlowRun) -> Closed:
    message = f"Open since {run.expected_start_time}, longer than any flow here may take: its worker was killed."
    client.set_flow_run_state(UUID(str(run.id)), Crashed(message=message), force=True)
    return Closed(str(run.name), str(run.state.name if run.state else None), str(run.expected_start_time))
