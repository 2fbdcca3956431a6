import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from prefect_server import ROOT, a_server, a_worker, environment, prefect, waited

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

STATED = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))
RUNS = {
    "refresh/corpus-refresh": {"path": "data/samples/traces-2026-11-09.jsonl"},
    "gate/replay-gate": {"candidate": "examples.refund:buggy"},
    "breaks/break-tests": {"candidate": "refund"},
    "retention/retention": {},
}
"""Flow and deployment -> the parameters that differ. The nightly is started by the automation on a completed refresh."""

DEPLOYMENTS = {stated["name"]: stated for stated in STATED["deployments"]}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_entrypoint_is_a_flow(name: str) -> None:
    from prefect import Flow

    module, _, attribute = DEPLOYMENTS[name]["entrypoint"].rpartition(".")
    flow = getattr(importlib.import_module(module), attribute)
    assert isinstance(flow, Flow)
    assert flow.persist_result is False
    assert flow.timeout_seconds
    assert set(DEPLOYMENTS[name].get("parameters", {})) <= set(flow.parameters.properties)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_schedule_avoids_clock_changes(name: str) -> None:
    for schedule in DEPLOYMENTS[name].get("schedules", ()):
        assert ZoneInfo(schedule["timezone"])
        assert int(schedule["cron"].split()[1]) >= 3


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    with a_server(home) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        yield client


def states(client: Any, deployment: str, *, scheduled: bool) -> list[str]:
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName

    runs = client.read_flow_runs(deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[deployment])))
    return [run.state.name for run in runs if run.auto_scheduled is scheduled]


def test_deployments_apply_and_run(address: str, home: Path, client: Any, tmp_path: Path) -> None:
    from prefect.client.schemas.schedules import IntervalSchedule

    done = subprocess.run(
        [sys.executable, "-c", "from flows.cli import app; app(['deploy'])"], env=environment(address, home), cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    held = {deployment.name: deployment for deployment in client.read_deployments()}
    assert set(held) == set(DEPLOYMENTS)
    assert [one.name for one in client.read_automations_by_name("twiceshy-crash-silent-runs")]

    made = ("corpus", "published", "raw", "quarantine", "site")
    where = {f"TWICESHY_PATHS__{name.upper()}": str(tmp_path / name) for name in made}
    with a_worker(address, home, **where):
        for deployment, parameters in RUNS.items():
            given = [part for pair in parameters.items() for part in ("--param", "=".join(pair))]
            told = prefect(address, home, "deployment", "run", deployment, *given, "--watch", "--watch-timeout", "400")
            assert "Completed" in told
        waited(lambda: "Completed" in states(client, "signature-catalog", scheduled=False), what="the nightly")
        schedule = IntervalSchedule(interval=timedelta(seconds=10), anchor_date=datetime.now(UTC))
        client.create_deployment_schedules(held["retention"].id, [(schedule, True)])
        waited(lambda: "Completed" in states(client, "retention", scheduled=True), what="a scheduled run")
    assert (tmp_path / "site/index.html").is_file()
    (kept,) = (tmp_path / "published/gates").iterdir()
    assert json.loads(kept.read_bytes())["summary"]["exit_code"] == 1
    (kept,) = (tmp_path / "published/breaks").iterdir()
    assert [held["score"]["of_all"] for held in json.loads(kept.read_bytes())["candidates"]] == [1.0]
    assert os.environ.get("PREFECT_API_URL") is None
