# ruff: noqa: S108 - the private /tmp of a sealed process is what these tests are about
"""What a sealed process can still do, what it leaves behind, and when it refuses to be sealed."""

import asyncio
import ctypes
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from sealed import USERS, inside, skip_without_namespaces
from twiceshy import sealing
from twiceshy.sealing import Isolation, probe, seal
from twiceshy.sealing.faults import ThreadsRunning, UnsafeDescriptor

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> dict[str, object]:
    skip_without_namespaces()


def ordinary_work(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    async def ping() -> str:
        server = await asyncio.start_server(lambda _, out: (out.write(b"pong"), out.close()), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, _ = await asyncio.open_connection("127.0.0.1", port)
        return (await reader.read()).decode()

    threads = []
    worker = threading.Thread(target=lambda: threads.append("ran"))
    worker.start()
    worker.join()
    told = subprocess.run(
        ["/bin/sh", "-c", "cat /proc/self/status | grep CapEff"], capture_output=True, text=True, check=True
    )
    Path("/tmp/note").write_text("kept for this trial")
    Path("/dev/null").write_text("swallowed")
    return {
        "loop": asyncio.run(ping()),
        "threads": threads,
        "shell": told.stdout.split(),
        "note": Path("/tmp/note").read_text(),
        "pid": os.getpid(),
        "isolation": held.isolation,
    }


@pytest.mark.parametrize("user", USERS)
def test_ordinary_work_goes_on(user: str) -> None:
    said = inside(ordinary_work, user=user)
    assert said == {
        "loop": "pong",
        "threads": ["ran"],
        "shell": ["CapEff:", "0" * 16],
        "note": "kept for this trial",
        "pid": 1,
        "isolation": Isolation.HERMETIC,
        "arrivals": [],
    }


def look_at(held: sealing.Seal, targets: sealing.Targets, folder: str) -> dict[str, object]:
    found = sorted(str(path) for path in Path("/tmp").rglob("*") if path.is_file())
    try:
        Path(folder, "source.py").write_text("changed")
    except OSError as error:
        return {"found": found, "text": Path(folder, "source.py").read_text(), "errno": error.errno}
    return {}


def test_sources_below_tmp_stay_readable(tmp_path: Path) -> None:
    candidate = tmp_path / "candidate"
    candidate.mkdir(parents=True)
    (candidate / "source.py").write_text("answer = 42")
    (tmp_path / "elsewhere.txt").write_text("not for the candidate")
    said = inside(look_at, str(candidate), readable=[str(candidate), str(candidate / "source.py")])
    assert said["text"] == "answer = 42"
    assert said["errno"] in (13, 30)
    assert said["found"] == [str(candidate / "source.py")]


def reach_out(held: sealing.Seal, targets: sealing.Targets, folder: str) -> dict[str, object]:
    said: dict[str, object] = {}
    for name in ("fifo", "new"):
        try:
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_NONBLOCK | (os.O_CREAT if name == "new" else 0)))
            said[name] = "opened"
        except OSError as error:
            said[name] = error.errno
    with tempfile.NamedTemporaryFile() as file:
        said["temporary"] = any(file.name.startswith(f"{place}/") for place in held.scratch)
    return said


def test_fifo_of_a_shown_folder_below_tmp_stays_shut(tmp_path: Path) -> None:
    candidate = tmp_path / "candidate"
    candidate.mkdir()
    os.mkfifo(candidate / "fifo")
    reader = os.open(candidate / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    said = inside(reach_out, str(candidate), readable=[str(candidate)])
    os.close(reader)
    assert said["fifo"] in (13, 30)
    assert said["new"] in (13, 30)
    assert said["temporary"] is True


IMPORTS = """
import sys
from twiceshy.sealing import seal
seal()
import late, os
print(late.word, sorted(os.listdir()))
"""


def test_own_code_below_tmp_stays_importable(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("word = 'imported'")
    env = ENV | {"PYTHONPATH": f"{ENV['PYTHONPATH']}{os.pathsep}{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, env=env, cwd=tmp_path, check=True
    )
    assert done.stdout == "imported ['late.py']\n"


def sweep_up(held: sealing.Seal, targets: sealing.Targets, shown: str) -> dict[str, object]:
    def trial() -> dict[str, object]:
        if os.fork() == 0:  # outlives the trial
            time.sleep(60)
        for place in held.scratch:
            Path(place, "folder").mkdir()
            Path(place, "folder", "file").write_text("left")
            Path(place, "link").symlink_to("/etc")
        os._exit(0)

    child = os.fork()
    if child == 0:
        trial()
    os.waitpid(child, 0)
    before = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    held.sweep()
    left = [str(path) for place in held.scratch for path in Path(place).rglob("*") if path.is_file()]
    return {
        "before": len(before),
        "after": [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()],
        "left": left,
        "shown": Path(shown).exists(),
    }


def test_sweep_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "shown.txt").write_text("stays")
    shown = str(tmp_path / "shown.txt")
    said = inside(sweep_up, shown, readable=[shown])
    assert (said["before"], said["after"]) == (2, ["1"])
    assert (said["left"], said["shown"]) == ([], True)
    assert Path("/etc/passwd").exists()


def unsweepable(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    os.chdir("/")
    Path("/tmp/closed").mkdir()
    Path("/tmp/closed/file").write_text("left")
    Path("/tmp/closed").chmod(0)
    try:
        held.sweep()
    except sealing.LeftoversRemain as error:
        return {"said": str(error)}
    return {"said": ""}


def test_leftover_that_stays_is_an_error() -> None:
    said = inside(unsweepable)["said"]
    assert "cannot empty /tmp after a trial: EACCES" in said


def descriptors(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    return {"open": [entry.name for entry in Path("/proc/self/fd").iterdir() if entry.exists()]}


def test_only_named_descriptors_stay() -> None:
    assert len(inside(descriptors)["open"]) == 4  # the three standard ones and the answer's pipe


def refused_calls(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    def word(attempt: object) -> dict[str, object]:
        try:
            attempt()
        except OSError as error:
            return error.errno
        return 0

    first, second = socket.socketpair()
    first.sendall(b"x")
    return {
        "stream pair": second.recv(1).decode(),
        "unix": word(lambda: socket.socket(socket.AF_UNIX)),
        "netlink": word(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)),
        "audit netlink": word(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)),
        "packet": word(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
        "raw": word(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
        "hardware": word(lambda: os.open("/dev/kmsg", os.O_RDONLY)),
        "sysctl": word(lambda: Path("/proc/sys/kernel/core_pattern").write_text("|/bin/false")),
        "interpreter": word(lambda: os.open("/proc/self/exe", os.O_WRONLY)),
    }


@pytest.mark.parametrize("user", USERS)
def test_refusals_have_their_reason(user: str) -> None:
    said = inside(refused_calls, user=user)
    assert said["stream pair"] == "x"
    assert said["netlink"] == 0
    assert said["unix"] == said["audit netlink"] == said["packet"] == 1
    assert {said["raw"], said["hardware"], said["sysctl"], said["interpreter"]} <= {1, 2, 13, 26, 30}


def foreign_calls(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    def ended_by(attempt: object) -> dict[str, object]:
        child = os.fork()
        if child == 0:
            attempt()
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def thirty_two_bit() -> dict[str, object]:
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        ctypes.CFUNCTYPE(ctypes.c_int)(address)()

    return {
        "x32": ended_by(lambda: ctypes.CDLL(None).syscall(0x40000000 + 39)),
        "i386": ended_by(thirty_two_bit),
        "plain": ended_by(lambda: ctypes.CDLL(None).syscall(39)),
    }


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="these entries exist on x86_64 alone")
def test_other_architectures_are_killed() -> None:
    said = inside(foreign_calls)
    assert (said["x32"], said["i386"], said["plain"]) == (-signal.SIGSYS, -signal.SIGSYS, 0)


SESSION = """
import ctypes, os, sys, time
from twiceshy.sealing import seal
seal()
print(os.getpid(), flush=True)
{then}
"""


def a_session(then: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", SESSION.format(then=then)], stdout=subprocess.PIPE, env=ENV)


@pytest.mark.parametrize(
    ("then", "code"), [("sys.exit(7)", 7), ("os.kill(1, 9); ctypes.string_at(0)", -signal.SIGSEGV)]
)
def test_keeper_ends_as_the_session_ends(then: str, code: int) -> None:
    with a_session(then) as session:
        session.communicate()
    assert session.returncode == code


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_session_dies_with_its_keeper(by: signal.Signals) -> None:
    with a_session("os.fork(); time.sleep(60)") as session:
        assert session.stdout.readline() == b"1\n"
        session.send_signal(by)
        assert session.stdout.read() == b""  # ends when the last process inside has closed it
    assert session.returncode == -by


def test_session_survives_its_own_signals() -> None:
    with a_session("os.kill(1, 2); os.kill(1, 15); print('alive')") as session:
        assert session.communicate()[0] == b"1\nalive\n"


def test_threads_refuse_the_seal() -> None:
    stop = threading.Event()
    worker = threading.Thread(target=stop.wait)
    worker.start()
    try:
        with pytest.raises(ThreadsRunning, match=r"that has [0-9]+ threads"):
            seal()
    finally:
        stop.set()
        worker.join()


def test_directory_descriptor_is_refused() -> None:
    code = "import os; from twiceshy.sealing import seal; seal(keep=[os.open('/', os.O_RDONLY)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV, check=False)
    assert UnsafeDescriptor.__name__ in done.stderr


def test_probe_names_the_level() -> None:
    found = probe()
    assert (found.isolation, found.reason) == (Isolation.HERMETIC, "")


FEW_NAMESPACES = """
import json
from pathlib import Path
from twiceshy.sealing import kernel, namespaces, probe
namespaces.enter(kernel.CLONE_NEWNS)
Path("/proc/sys/user/max_user_namespaces").write_text("0")
found = probe()
print(json.dumps([found.isolation, found.reason]))
"""


def test_probe_says_why_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FEW_NAMESPACES], capture_output=True, text=True, env=ENV, check=True, timeout=60
    )
    level, reason = json.loads(done.stdout)
    assert level == Isolation.WEAK
    assert "cannot enter fresh namespaces: ENOSPC" in reason
    assert "max_user_namespaces" in reason
    assert "--allow-weak-isolation" in reason


def probe_in_a_seal(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    found = sealing.probe()
    return {"level": found.isolation, "reason": found.reason}


def test_probe_needs_its_targets() -> None:
    said = inside(probe_in_a_seal)
    assert said["level"] == Isolation.WEAK
    assert "cannot open targets for the canary: EPERM" in said["reason"]


def weakly(held: sealing.Seal, targets: sealing.Targets) -> dict[str, object]:
    try:
        socket.socket(socket.AF_INET)
    except OSError as error:
        return {"errno": error.errno, "isolation": held.isolation, "scratch": held.scratch}
    return {}


def test_weak_still_refuses_sockets() -> None:
    lost = ["network", "processes", "queues", "read_only", "masked_sockets", "landlock"]
    assert inside(weakly, without=lost) == {"errno": 1, "isolation": "weak", "scratch": [], "arrivals": []}


MASKING = """
import os, socket, sys
from pathlib import Path
from twiceshy.sealing import kernel, namespaces

def bound(path):
    held = socket.socket(socket.AF_UNIX)
    held.bind(path)
    return held, os.open(path, os.O_PATH)

stays, vanishes = f"{sys.argv[1]}/stays", f"{sys.argv[1]}/vanishes"
kept = [bound(stays), bound(vanishes)]
os.unlink(vanishes)
namespaces.enter(kernel.CLONE_NEWNS)
namespaces.detach_mounts()
namespaces.cover(kept[1][1])
namespaces.mask([vanishes, stays])
print(Path(stays).is_char_device(), Path(vanishes).exists())
kept.append(bound(vanishes))
kernel.mount("tmpfs", "/dev", "tmpfs")
try:
    namespaces.mask([vanishes])
except Exception as refused:
    print(type(refused).__name__, "ENOENT" in str(refused))
"""


def test_socket_that_vanished_needs_no_mask(tmp_path: Path) -> None:
    """One that is still there does: where it cannot be masked, be it for a file that is missing, nothing may run."""
    done = subprocess.run(
        [sys.executable, "-c", MASKING, tmp_path], env=ENV, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "False", "StepRefused", "True"], done.stderr
