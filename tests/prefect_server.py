"""A real Prefect server and worker on loopback, for tests; both end with the `with` block."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
PATIENCE_S = 240
"""A first start makes the database; loaded, that took over a minute."""


def environment(address: str, home: Path, **more: str) -> dict[str, str]:
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("src", ""))
    return {
        **os.environ, "PREFECT_HOME": str(home), "PREFECT_API_URL": address, "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1",
        "PYTHONPATH": paths, "PREFECT_WORKER_QUERY_SECONDS": "2", **more,
    }  # fmt: skip


@contextmanager
def a_server(home: Path) -> Iterator[str]:
    """The address of its API, once it answers."""
    port = _free_port()
    address = f"http://127.0.0.1:{port}/api"
    with _running(["server", "start", "--host", "127.0.0.1", "--port", str(port)], environment(address, home), home):
        waited(lambda: _healthy(address), what="the server")
        yield address


@contextmanager
def a_worker(address: str, home: Path, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process worker of our pool."""
    command = ["worker", "start", "--pool", "twiceshy", "--name", "tests"]
    with _running(command, environment(address, home, **more), home) as process:
        yield process


def prefect(address: str, home: Path, *arguments: str, **more: str) -> str:
    """What one command of Prefect's prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "prefect", *arguments], env=environment(address, home, **more), cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def waited(done: object, *, what: str, seconds: float = PATIENCE_S) -> None:
    """Until a callable is true."""
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"{what}: nothing after {seconds} s"
        time.sleep(0.5)


def _healthy(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health", timeout=5).is_success
    except httpx.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(arguments: list[str], env: Mapping[str, str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (home / f"{arguments[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", *arguments], env=env, cwd=ROOT, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
