"""Run a test's function inside a real seal, in a process of its own, as root or as nobody.

The function is sent as source and sees the modules imported below: as nobody nothing can be imported once the user has
changed, because this interpreter may lie under a 0700 home.
"""

import __future__

import asyncio  # noqa: F401
import ctypes
import inspect
import json
import mmap  # noqa: F401
import os
import random  # noqa: F401
import shutil
import signal  # noqa: F401
import socket  # noqa: F401
import subprocess
import sys
import tempfile
import textwrap
import threading  # noqa: F401
import time  # noqa: F401
import traceback
import uuid  # noqa: F401
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import escapes  # noqa: F401
from twiceshy import sealing
from twiceshy.sealing import kernel

NOBODY = 65534
USERS = ("root", "nobody") if os.geteuid() == 0 else ("self",)
_ALL_NEW = kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC
_SET_DUMPABLE = 4
_UNEVALUATED = __future__.annotations.compiler_flag  # the tests name types that are not imported here


@contextmanager
def a_host_folder() -> Iterator[Path]:
    """A folder of the host that anyone may write and that no seal makes private."""
    places = (Path("/run"), Path(os.environ.get("XDG_RUNTIME_DIR", "/nowhere")), Path.home(), Path.cwd())
    place = next(p for p in places if os.access(p, os.W_OK))
    folder = Path(tempfile.mkdtemp(prefix="twiceshy-test-", dir=place))
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def inside(
    function: Callable[..., Any], *args: Any, user: str = USERS[0], without: Collection[str] = (), **options: Any
) -> Any:
    """What `function(held, targets, *args)` gives inside a seal without the named protections; JSON values only."""
    source = textwrap.dedent(inspect.getsource(function))
    with a_host_folder() as folder:
        asked = {
            "source": source,
            "name": function.__name__,
            "args": args,
            "user": user,
            "without": sorted(without),
            "options": options,
            "folder": str(folder),
        }
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, __file__],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
            check=False,
        )
    assert not done.stderr, done.stderr
    return json.loads(done.stdout)


def skip_without_namespaces() -> None:
    """Skip where this machine refuses namespaces outright; where it does not, a seal that fails is a failure."""
    code = "from sealed import enter_namespaces; enter_namespaces()"
    import pytest

    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60, check=False
    )
    if done.returncode:
        pytest.skip(f"namespaces are refused on this machine: {done.stderr.strip().splitlines()[-1]}")


def enter_namespaces() -> None:
    kernel.unshare(_ALL_NEW)
    kernel.mount("", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    kernel.prctl(_SET_DUMPABLE, 1)  # as a program started by nobody would be


def _main() -> None:
    asked = json.load(sys.stdin)
    for module in ("encodings.idna", "encodings.latin_1", "encodings.ascii", "linecache"):
        __import__(module)
    exec(compile(asked["source"], "inside", "exec", flags=_UNEVALUATED), globals())  # noqa: S102
    if asked["user"] == "nobody":
        os.chdir("/")
        _become_nobody()
    with sealing.host_targets(Path(asked["folder"])) as host:
        answers, answer = os.pipe()
        child = os.fork()
        if child == 0:
            _run_sealed(asked, host.targets, answer)
        os.close(answer)
        with os.fdopen(answers) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        sys.stdout.write(json.dumps(json.loads(said or "{}") | {"arrivals": host.arrivals()}))


def _run_sealed(asked: dict[str, Any], targets: sealing.Targets, answer: int) -> None:
    try:
        options = asked["options"]
        readable = [Path(path) for path in options.get("readable", ())]
        protections = sealing.Protections(**dict.fromkeys(asked["without"], False))
        held = sealing.seal(keep=[answer], readable=readable, protections=protections)
        result = globals()[asked["name"]](held, targets, *asked["args"])
        os.write(answer, json.dumps(result).encode())
    except BaseException:  # noqa: BLE001 - the test reads it from standard error
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    ctypes.CDLL(None)
    _main()
