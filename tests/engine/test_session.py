"""The whole way: a fresh process, sealed, proved by its canary, warmed, then one fork a trial on a frozen clock."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from sealed import a_host_folder, skip_without_namespaces
from twiceshy.sealing import CanaryReport, host_targets, scrubbed_environment

CANDIDATE = """
import os, random, time, uuid
from datetime import datetime
from time import sleep
COUNT = [0]
async def wait(): import asyncio; await asyncio.sleep(3600)
def agent():
    import asyncio
    COUNT[0] += 1
    sleep(30)
    asyncio.run(wait())
    found = sorted(os.listdir(os.environ["TMPDIR"]))
    open(os.environ["TMPDIR"] + "/left-behind", "w").write("x")
    return {"now": str(datetime.now()), "count": COUNT[0], "id": str(uuid.uuid4()), "dice": random.random(), "found": found,
            "key": os.environ["OPENAI_API_KEY"]}
"""

ZYGOTE = """
import json, os, socket, sys
from pathlib import Path
import msgspec
from twiceshy.frozen import Draws, FrozenClock, install
from twiceshy.sealing import Limits, Targets, canary, cpu_spent, impose, seal

parent = socket.socket(fileno=int(sys.argv[1]))
asked = json.loads(parent.recv(65536))
held = seal(keep=[parent.fileno()], readable=[Path(asked["candidate"])])
report = canary(msgspec.convert(asked["targets"], Targets))
parent.sendall(msgspec.json.encode(report) + b"\\n")
parent.recv(1)                                    # the parent has looked at its targets

install(FrozenClock(0), Draws(b"import"))
sys.path.insert(0, asked["candidate"])
import candidate

def trial(number):
    impose(Limits(cpu_s=10))
    install(FrozenClock(1_785_240_000 * 10**9, "Europe/London"), Draws(b"case", number))
    parent.sendall(json.dumps(candidate.agent()).encode() + b"\\n")
    os._exit(0)

for number in asked["trials"]:
    child = os.fork()
    if child == 0:
        trial(number)
    _, status, usage = os.wait4(child, 0)
    parent.sendall(json.dumps([status, cpu_spent(status, usage.ru_utime, Limits(cpu_s=10))]).encode() + b"\\n")
    held.sweep()
"""


def session(folder: Path, candidate: Path, trials: list[int]) -> tuple[CanaryReport, list[str], list[Any]]:
    ours, theirs = socket.socketpair()
    env = {"PYTHONPATH": os.pathsep.join(sys.path), "OPENAI_API_KEY": "real"}
    with ours, host_targets(folder) as host:
        with theirs:
            zygote = subprocess.Popen(
                [sys.executable, "-c", ZYGOTE, str(theirs.fileno())],
                env=scrubbed_environment(os.environ | env),
                pass_fds=[theirs.fileno()],
            )
        asked = {"candidate": str(candidate), "targets": msgspec.to_builtins(host.targets), "trials": trials}
        with zygote, ours.makefile("rw") as pipe:
            pipe.write(json.dumps(asked))
            pipe.flush()
            report = msgspec.json.decode(pipe.readline(), type=CanaryReport)
            arrivals = host.arrivals()
            pipe.write("!")
            pipe.flush()
            said = [json.loads(line) for line in pipe]
    assert zygote.returncode == 0
    return report, arrivals, said


def test_session_forks_trials_in_a_seal(tmp_path: Path) -> None:
    skip_without_namespaces()
    (tmp_path / "candidate.py").write_text(CANDIDATE)
    with a_host_folder() as folder:
        report, arrivals, said = session(folder, tmp_path, trials=[1, 2, 1])
    assert (report.escapes, arrivals) == ([], [])
    first, second, again = said[::2]
    assert said[1::2] == [[0, False]] * 3
    assert first["now"] == "2026-07-28 14:00:30"  # 12:00 UTC in British summer, thirty seconds and an hour later
    assert (first["count"], first["key"]) == (1, "twiceshy-sealed")
    assert "left-behind" not in second["found"]
    assert first == again
    assert {name for name in first if first[name] != second[name]} == {"id", "dice"}
