"""Sets a Prefect server up for the pipeline: work pool, concurrency limits, automations, deployments. Done twice it changes nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectAlreadyExists

from tasks.prefect_tasks import LIMITS
from twiceshy.errors import InfrastructureError

POOL = "twiceshy"
AUTOMATIONS = Path(__file__).with_name("automations.yaml")


class NotDeployed(InfrastructureError):
    """Prefect refused the deployments."""

    @classmethod
    def because(cls, said: str) -> Self:
        """The last line that Prefect said."""
        return cls(
            f"the deployments were not applied: {said.strip().splitlines()[-1] if said.strip() else 'no reason given'}"
        )


class Deployed(NamedTuple):
    """The names of what stands on the server now."""

    pool: str
    limits: list[str]
    automations: list[str]
    deployments: list[str]


def deploy(root: Path, *, say: Callable[[str], None]) -> Deployed:
    """Everything on the server at PREFECT_API_URL. root: the checkout, which the workers must have at the same path. say: told of each stage. Raises NotDeployed."""
    say("work pool, limits and automations ...")
    with get_client(sync_client=True) as client:
        _make_pool(client)
        for name, limit in LIMITS.items():
            client.upsert_global_concurrency_limit_by_name(name, limit)
        automations = [_renewed(client, stated) for stated in yaml.safe_load(AUTOMATIONS.read_text(encoding="utf-8"))]
    say("deployments of prefect.yaml, which Prefect takes some 20 s for ...")
    _apply(root)
    named = [
        stated["name"] for stated in yaml.safe_load((root / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    ]
    return Deployed(POOL, sorted(LIMITS), automations, named)


def _make_pool(client: SyncPrefectClient) -> None:
    try:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
    except ObjectAlreadyExists:
        return


def _renewed(client: SyncPrefectClient, stated: dict[str, Any]) -> str:
    wanted = AutomationCore.model_validate(stated)
    held = client.read_automations_by_name(wanted.name)
    if held:
        client.update_automation(held[0].id, wanted)
    else:
        client.create_automation(wanted)
    return wanted.name


def _apply(root: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "prefect",
        "--no-prompt",
        "deploy",
        "--all",
        "--prefect-file",
        str(root / "prefect.yaml"),
    ]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "TWICESHY_ROOT": str(root)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotDeployed.because(done.stderr or done.stdout)
