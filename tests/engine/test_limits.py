"""A trial that takes too much is stopped by the kernel, and the parent can tell why."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from twiceshy.sealing import Limits, cpu_spent

TRIAL = """
import os, signal, sys
from twiceshy.sealing import Limits, impose
impose(Limits(cpu_s=1, memory_bytes=1 << 30, file_bytes=4096, open_files=16))
try:
    exec(sys.argv[1])
except (MemoryError, OSError) as error:
    sys.exit({"MemoryError": 11, "OSError": 12}[type(error).__name__])
"""
TIGHT = Limits(cpu_s=1)
SPIN = "while True: pass"


def a_trial(work: str) -> tuple[int, float]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", TRIAL, work], env=env)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return status, usage.ru_utime + usage.ru_stime


@pytest.mark.parametrize(
    ("work", "ended_by"),
    [(SPIN, signal.SIGXCPU), (f"signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n{SPIN}", signal.SIGKILL)],
    ids=["plain", "deaf"],
)
def test_cpu_budget_ends_a_trial(work: str, ended_by: int) -> None:
    status, cpu_s = a_trial(work)
    assert os.WTERMSIG(status) == ended_by
    assert cpu_spent(status, cpu_s, TIGHT)


@pytest.mark.parametrize("work", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(24)", "pass"])
def test_other_ends_spend_no_budget(work: str) -> None:
    status, _ = a_trial(work)
    assert not cpu_spent(status, 0.1, TIGHT)


def test_memory_is_bounded() -> None:
    assert os.waitstatus_to_exitcode(a_trial("bytearray(2 << 30)")[0]) == 11


def test_file_size_is_bounded(tmp_path: Path) -> None:
    status, _ = a_trial(f"with open({str(tmp_path / 'big')!r}, 'wb') as file: file.write(bytes(8192))")
    assert os.waitstatus_to_exitcode(status) == 12
    assert (tmp_path / "big").stat().st_size == 4096


def test_descriptors_are_bounded() -> None:
    assert os.waitstatus_to_exitcode(a_trial("[os.pipe() for _ in range(16)]")[0]) == 12


def test_limits_cannot_be_raised() -> None:
    status, cpu_s = a_trial(f"impose(Limits(cpu_s=100, file_bytes=4096))\n{SPIN}")
    assert cpu_spent(status, cpu_s, TIGHT)
