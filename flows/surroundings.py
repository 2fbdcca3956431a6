"""What a flow finds around it: Prefect's own settings, which must stand in the environment before Prefect is imported. Light: it imports nothing of Prefect."""

import os
from collections.abc import MutableMapping

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
}
"""Nothing phones home."""

EMBEDDED = {
    # The first start makes a database; on a loaded machine that took 62 s.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    # The command line tells progress and errors itself, an error in one line; Prefect would print its traceback besides.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    # Results are frames of redacted traces; they belong in the store and nowhere else.
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
}


def settle(environment: MutableMapping[str, str] | None = None) -> None:
    """The environment, with our defaults where it says nothing: no telemetry, and a server inside this process unless PREFECT_API_URL names one.

    An empty PREFECT_API_URL goes: Prefect takes it for an address and then loses every event.
    """
    held = os.environ if environment is None else environment
    if not held.get("PREFECT_API_URL", "x"):
        del held["PREFECT_API_URL"]
    for name, value in (QUIET | EMBEDDED).items():
        held.setdefault(name, value)


def server() -> str | None:
    """The address of the server that PREFECT_API_URL names; None where runs use the embedded one."""
    return os.environ.get("PREFECT_API_URL")
