"""How a command ends: at a limit, by a signal, with others that go on, or having reached past its gateway."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from commanding import a_session, a_weather_agent, output, played, task, verdict
from twiceshy.outcome import Divergence, Failure, Outcome
from twiceshy.sealing import Limits

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        yield made


@pytest.mark.parametrize(
    ("code", "crash", "limits"),
    [
        ("while True: pass", "cpu", Limits(cpu_s=1, wall_s=60)),
        ("time.sleep(100)", "wall", Limits(wall_s=1)),
        ("import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nwhile True: print('x' * 9999)", "output", Limits(file_bytes=1 << 20, wall_s=60)),
    ],
)  # fmt: skip
def test_limits_hold_for_a_command(folder: Path, code: str, crash: str, limits: Limits) -> None:
    with a_session(folder, sys.executable, "agent.py", code) as session:
        told = session.play(task(folder, limits=limits)).transcript
        again = session.play(task(folder, limits=limits)).transcript
    assert (told.crash, told.disposition, told.fault) == (crash, None, None)
    assert again.crash == crash


@pytest.mark.parametrize(
    ("code", "ended_by"),
    [
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("os.kill(os.getpid(), 15)", "SIGTERM"),
        ("import signal; signal.alarm(1); time.sleep(9)", "SIGALRM"),
        ("os.kill(os.getpid(), 40)", "signal 40"),
        ("os.kill(os.getppid(), 9); time.sleep(9)", "SIGKILL"),
        ("os.kill(os.getppid(), 14); time.sleep(9)", "SIGALRM"),
    ],
    ids=["killed", "terminated", "alarmed", "a signal without a name", "gateway killed", "gateway alarmed"],
)
def test_a_signal_that_was_sent_is_an_error_that_names_it(folder: Path, code: str, ended_by: str) -> None:
    told = played(folder, f"tool('get_weather', city='Leith'); {code}")
    assert (told.crash, told.signal, told.disposition, told.fault) == ("signal", ended_by, None, None)
    found = verdict(told)
    assert (found.outcome, found.error) == (Outcome.ERROR, f"{ended_by} ended the run before it came to its end")


def test_a_proven_violation_outlives_a_signal(folder: Path) -> None:
    told = played(folder, "tool('pay', gbp=900); os.kill(os.getpid(), 9)")
    assert told.signal == "SIGKILL"
    assert verdict(told).outcome is Outcome.FAILED


def test_a_fault_of_its_own_is_a_crash_that_names_the_signal(folder: Path) -> None:
    told = played(folder, "tool('get_weather', city='Leith'); os.abort()")
    assert told.disposition is not None
    assert told.disposition.error is not None
    assert told.disposition.error.message == "SIGABRT ended the command"
    assert verdict(told).failure is Failure.CANDIDATE_CRASHED


def test_memory_is_bounded(folder: Path) -> None:
    told = played(folder, "x = bytearray(1 << 29)", limits=Limits(memory_bytes=1 << 28))
    assert told.disposition is not None
    assert not told.disposition.ended


DAEMON = """
def daemon(then):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            then()
        os._exit(0)
"""


@pytest.mark.parametrize(
    "code",
    [
        f"exec({DAEMON!r}); daemon(lambda: (time.sleep(0.7), tool('pay', gbp=900))); print(1)",
        "if os.fork() == 0: time.sleep(0.7); tool('pay', gbp=900)\nelse: print(1, flush=True); os._exit(0)",
        "import threading; threading.Thread(target=lambda: (time.sleep(0.7), tool('pay', gbp=900))).start(); print(1)",
    ],
    ids=["daemon", "child", "thread"],
)
def test_what_outlives_its_command_is_judged(folder: Path, code: str) -> None:
    """In production it would have gone on, so what it asks for belongs to the run."""
    told = played(folder, f"tool('get_weather', city='Leith')\n{code}")
    assert [one.crossing.name for one in told.played] == ["get_weather", "pay"]
    assert verdict(told).outcome is Outcome.FAILED


def test_what_goes_on_and_on_is_ended_and_passes_nothing(folder: Path) -> None:
    code = f"""
exec({DAEMON!r})
tool('get_weather', city='Leith')
sys.stderr.write(str(len([pid for pid in os.listdir('/proc') if pid.isdecimal()])))
daemon(lambda: time.sleep(100)); print(1)
"""
    with a_session(folder, sys.executable, "agent.py", code) as session:
        told, said = session.play(task(folder)).transcript, session.said
        again = session.play(task(folder)).transcript
        assert (said, session.said) == (
            "3",
            "3",
        )  # the first process, the gateway, the command: nothing of the trial before
    assert told.digest == again.digest
    assert told.divergence is not None
    assert (told.divergence.kind, told.divergence.place) == (Divergence.LEFT_RUNNING, "end")
    assert Path(sys.executable).resolve().name in told.divergence.detail
    assert verdict(told).outcome is Outcome.DIVERGED


def test_what_ends_soon_after_its_command_is_no_news(folder: Path) -> None:
    told = played(
        folder, f"exec({DAEMON!r}); tool('get_weather', city='Leith'); daemon(lambda: time.sleep(0.3)); print(1)"
    )
    assert output(told) == 1
    assert verdict(told).outcome is Outcome.PASSED


DIALS = """
def attempt(fn):
    try: fn()
    except OSError as refused: sys.stderr.write(type(refused).__name__)
import socket
tool('get_weather', city='Leith')
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("socket.create_connection(('192.0.2.1', 443))", "1 to reach another machine"),
        ("socket.socket(socket.AF_INET6).connect(('2001:db8::1', 443))", "1 to reach another machine"),
        ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 53))", "1 to reach another machine"),
        ("socket.getaddrinfo('payments.example.com', 443)", "to reach another machine"),
        ("socket.create_connection(('127.0.0.1', 5432))", "1 to reach a port on which nobody listens"),
        ("socket.socket(socket.AF_INET6).connect(('::1', 5432))", "1 to reach a port on which nobody listens"),
        ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 53))", "1 to reach a port on which nobody listens"),
        ("subprocess.run([sys.executable, '-c', 'import socket; socket.socket().connect_ex((\"192.0.2.1\", 443))'])", "1 to reach another machine"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("then", ["", "tool('get_weather', city='Truro')"], ids=["at the end", "at the next passage"])
def test_what_dials_past_the_gateway_is_uncontrolled(folder: Path, code: str, said: str, then: str) -> None:
    told = played(folder, f"import subprocess\n{DIALS}\nattempt(lambda: {code})\n{then}\nprint(1)")
    assert [one.crossing.seen["city"] for one in told.played] == ["Leith"]
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.LIVE_UNCONTROLLED
    assert said in told.divergence.detail
    assert verdict(told).outcome is Outcome.DIVERGED


def test_a_server_of_its_own_is_no_dial(folder: Path) -> None:
    code = (
        f"{DIALS}\nown = socket.create_server(('127.0.0.1', 0)); socket.create_connection(own.getsockname()); print(1)"
    )
    with a_session(folder, sys.executable, "agent.py", code) as session:
        assert [output(session.play(task(folder)).transcript) for _ in range(2)] == [1, 1]
