from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def prefect_harness() -> Iterator[None]:
    """A Prefect server for this session, with the limits that `twiceshy deploy` makes."""
    from prefect.client.orchestration import get_client
    from prefect.testing.utilities import prefect_test_harness

    from tasks.prefect_tasks import LIMITS

    with prefect_test_harness(server_startup_timeout=180), get_client(sync_client=True) as client:
        for name, limit in LIMITS.items():
            client.upsert_global_concurrency_limit_by_name(name, limit)
        yield
