import importlib
import os

import pytest

from flows.surroundings import settle

pytestmark = pytest.mark.slow


def test_task_is_its_step() -> None:
    from tasks import prefect_tasks

    for name, task in prefect_tasks.TABLE.items():
        room = "publish" if name == "measure" else name
        step = getattr(importlib.import_module(f"tasks.{room}.step"), name)
        assert task.fn is step
        assert getattr(prefect_tasks, name) is task


def test_nothing_is_kept_or_cached() -> None:
    from prefect.cache_policies import NO_CACHE

    from tasks import prefect_tasks

    for name, task in prefect_tasks.TABLE.items():
        assert (task.persist_result, task.cache_policy) == (False, NO_CACHE)
        # Replays come side by side in threads, where Prefect ends nothing; the step kills its engine at a limit of its own.
        assert bool(task.timeout_seconds) == (name != "replay")
        assert task.tags


def test_limits_are_declared() -> None:
    from tasks import prefect_tasks

    named = {task.limit for task in prefect_tasks.TABLE.values()} - {None}
    assert named <= set(prefect_tasks.LIMITS)


def test_outside_a_flow_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks import prefect_tasks

    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")

    def step(number: int) -> int:
        return number + 1

    task = prefect_tasks.StepTask(step, timeout=10, tags=["cpu"], limit="no-such-limit")
    assert task(1) == 2


def test_empty_address_is_taken_out() -> None:
    environment = {"PREFECT_API_URL": "", "DO_NOT_TRACK": "0"}
    settle(environment)
    assert "PREFECT_API_URL" not in environment
    assert environment["DO_NOT_TRACK"] == "0"
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS" not in os.environ
