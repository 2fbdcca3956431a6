"""A Python candidate sees one time and one chance, whatever the machine's clock, zone, folder and hash seed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy.frozen import Draws, FrozenClock, UnknownZone
from twiceshy.frozen.clock import nanoseconds

START = 1_785_240_000_123_456_789  # 2026-07-28 12:00:00.123456789 UTC, a Tuesday

SETTING = """
import asyncio, json, sys
{early}
from twiceshy.frozen import Draws, FrozenClock, install
install(FrozenClock({start}, {tz!r}), Draws(b"case", {trial}))
{work}
print(json.dumps(seen))
"""


def run(
    work: str, *, tz: str = "Europe/London", trial: int = 1, early: str = "", cwd: Path | None = None, **env: str
) -> Any:
    """What the work, in a fresh process with a frozen clock, leaves in `seen`."""
    code = SETTING.format(start=START, tz=tz, trial=trial, early=early, work=work)
    path = os.pathsep.join(str(Path(entry or ".").resolve()) for entry in sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **env},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CLOCKS = """
import datetime as dt, email.utils, logging, time, uuid
from datetime import date, datetime
from time import monotonic, perf_counter, sleep, time as now
sleep(1)
time.sleep(0.5)
record = logging.LogRecord("n", 20, "p", 1, "m", (), None)
seen = {
    "now": str(datetime.now()), "aware": str(datetime.now(dt.UTC)), "today": [str(date.today()), str(datetime.today())],
    "local": str(datetime.now().astimezone()), "utcnow": str(datetime.utcnow()), "time": [now(), time.time_ns()],
    "clock": [time.clock_gettime_ns(kind) for kind in range(12)], "mono": [monotonic(), time.monotonic_ns()],
    "perf": [perf_counter(), time.perf_counter_ns()], "cpu": [time.process_time(), time.thread_time_ns()],
    "text": [time.ctime(), time.asctime(), time.strftime("%c %Z"), email.utils.formatdate()],
    "broken down": [time.localtime()[:6], time.gmtime()[:6]], "log": record.created, "zone": time.tzname,
    "uuid1": uuid.uuid1().time,
}
"""


def test_every_clock_reads_the_frozen_instant() -> None:
    seen = run(CLOCKS)
    later = START + 1_500_000_000
    assert seen["now"] == "2026-07-28 13:00:01.623456"
    assert seen["local"] == "2026-07-28 13:00:01.623456+01:00"
    assert seen["aware"] == "2026-07-28 12:00:01.623456+00:00"
    assert seen["utcnow"] == "2026-07-28 12:00:01.623456"
    assert seen["today"] == ["2026-07-28", "2026-07-28 13:00:01.623456"]
    assert seen["time"] == [later / 1e9, later]
    assert [value for value in seen["clock"] if value not in (later, 1_500_000_000)] == []
    assert seen["clock"][0] == later
    assert seen["mono"] == seen["perf"] == seen["cpu"] == [1.5, 1_500_000_000]
    assert seen["text"] == [
        "Tue Jul 28 13:00:01 2026",
        "Tue Jul 28 13:00:01 2026",
        "Tue Jul 28 13:00:01 2026 BST",
        "Tue, 28 Jul 2026 12:00:01 -0000",
    ]
    assert seen["broken down"] == [[2026, 7, 28, 13, 0, 1], [2026, 7, 28, 12, 0, 1]]
    assert seen["log"] == later / 1e9
    assert seen["uuid1"] == later // 100 + 0x01B21DD213814000


CHANCE = """
import os, random, secrets, tempfile, uuid
from os import urandom
from random import Random, SystemRandom, random as dice
from uuid import uuid4
seen = {
    "bytes": [os.urandom(5).hex(), urandom(40).hex(), os.getrandom(3).hex()],
    "global": [dice(), random.randint(1, 10**9), random.sample(range(99), 3)],
    "own": [Random().random(), Random(7).random(), SystemRandom().random()],
    "reseeded": [random.seed(), random.random()],
    "secrets": [secrets.token_hex(), secrets.randbelow(10**9), secrets.choice("abcdef")],
    "ids": [str(uuid.uuid1()), str(uuid4()), uuid.getnode()],
    "name": next(tempfile._get_candidate_names()),
}
"""


def test_chance_is_one_sequence(tmp_path: Path) -> None:
    first = run(CHANCE, PYTHONHASHSEED="1", TZ="UTC")
    second = run(CHANCE, PYTHONHASHSEED="2", TZ="Asia/Tokyo", cwd=tmp_path)
    assert first == second
    assert first["ids"][2] >> 40 & 1
    assert len({*first["global"][:1], *first["own"], first["reseeded"][1]}) == 5


def test_clocks_do_not_depend_on_the_machine(tmp_path: Path) -> None:
    assert run(CLOCKS, PYTHONHASHSEED="1", TZ="UTC") == run(CLOCKS, PYTHONHASHSEED="2", TZ="Asia/Tokyo", cwd=tmp_path)


def test_trials_draw_differently() -> None:
    first, second = run(CHANCE, trial=1), run(CHANCE, trial=2)
    same = {name for name in first if first[name] == second[name]}
    assert same == set()


NUMPY = """
import numpy
seen = [float(numpy.random.rand()), float(numpy.random.default_rng().random()), int(numpy.random.RandomState().randint(9**9))]
"""


@pytest.mark.parametrize("early", ["", "import numpy"], ids=["imported after", "imported before"])
def test_numpy_draws_from_the_key(early: str) -> None:
    pytest.importorskip("numpy")
    assert run(NUMPY, early=early) == run(NUMPY, early=early)


LOOP = """
import time
order = []
async def after(delay, name):
    await asyncio.sleep(delay)
    order.append([name, time.monotonic(), asyncio.get_running_loop().time()])
async def main():
    start = time.time_ns()
    await asyncio.gather(after(30, "c"), after(0.1, "a"), after(7, "b"), after(86400 * 3, "d"))
    try:
        await asyncio.wait_for(asyncio.Event().wait(), timeout=60)
    except TimeoutError:
        order.append(["timeout", time.monotonic()])
    async with asyncio.timeout(5):
        time.sleep(2)
        await asyncio.sleep(1)
    return time.time_ns() - start
seen = [asyncio.run(main()), order]
"""


def test_loop_fires_timers_in_order() -> None:
    day = 86400.0
    ends, order = run(LOOP)
    assert order == [
        ["a", 0.1, 0.1],
        ["b", 7.0, 7.0],
        ["c", 30.0, 30.0],
        ["d", 3 * day, 3 * day],
        ["timeout", 3 * day + 60],
    ]
    assert ends == (3 * 86400 + 63) * 10**9


DIRECT = """
import time
loop = asyncio.SelectorEventLoop()
loop.run_until_complete(asyncio.sleep(40))
loop.close()
seen = time.monotonic()
"""


def test_loop_made_by_its_class_is_virtual() -> None:
    assert run(DIRECT) == 40.0


IO = """
import socket, threading, time
ours, theirs = socket.socketpair()
def parent():
    asked = theirs.recv(100)
    threading.Event().wait(0.02)
    theirs.sendall(b"answer to " + asked)
worker = threading.Thread(target=parent)
worker.start()
async def ask():
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(b"get_order")
    answer = await asyncio.wait_for(reader.read(100), timeout=30)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(10)
    return [answer.decode(), time.monotonic()]
seen = asyncio.run(ask())
worker.join()
"""


def test_loop_still_reads_a_socket() -> None:
    assert run(IO) == ["answer to get_order", 10.0]


SILENT = """
import socket, time
from twiceshy.frozen import Patience
install(FrozenClock(0), Draws(b""), patience=Patience(io=0.05))
ours, theirs = socket.socketpair()
async def ask():
    reader, _ = await asyncio.open_connection(sock=ours)
    try:
        return await asyncio.wait_for(reader.read(100), timeout=3600)
    except TimeoutError:
        return time.monotonic()
seen = asyncio.run(ask())
"""


def test_silent_socket_times_out() -> None:
    assert run(SILENT) == 3600.0


THREADS = """
import threading, time
def tool():
    threading.Event().wait(0.3)
    return "done"
async def main():
    answer = await asyncio.wait_for(asyncio.to_thread(tool), timeout=2)
    return [answer, time.monotonic()]
seen = asyncio.run(main())
"""


def test_timeout_waits_for_a_thread() -> None:
    assert run(THREADS) == ["done", 0.0]


EARLY = """
import asyncio
from time import time as old_time
from datetime import datetime as old_datetime, date as old_date
from random import Random as OldRandom, SystemRandom as OldSystemRandom
from uuid import uuid4 as old_uuid4
"""
BOUND = """
seen = [old_time(), str(old_datetime.now()), str(old_date.today()), OldRandom().random(), OldSystemRandom().random(), str(old_uuid4())]
"""


def test_names_bound_before_are_frozen() -> None:
    seen = run(BOUND, early=EARLY)
    assert seen == run(BOUND, early=EARLY)
    assert seen[:3] == [START / 1e9, "2026-07-28 13:00:00.123456", "2026-07-28"]


AGAIN = """
import os, random, time
from time import sleep
from datetime import datetime
sleep(100)
first = [os.urandom(4).hex(), random.random()]
install(FrozenClock(0, "America/New_York"), Draws(b"other", 2))
sleep(1)
seen = [str(datetime.now().astimezone()), time.monotonic(), first != [os.urandom(4).hex(), random.random()]]
"""


def test_second_install_takes_over() -> None:
    assert run(AGAIN) == ["1969-12-31 19:00:01-05:00", 1.0, True]


WAITS = """
import queue, subprocess, sys, threading, time
lock = threading.Condition()
with lock:
    lock.wait_for(lambda: False, timeout=0.05)
try:
    queue.Queue().get(timeout=0.05)
except queue.Empty:
    pass
try:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(20)"], timeout=0.2)
except subprocess.TimeoutExpired:
    pass
seen = time.monotonic()
"""


def test_real_waits_end_and_tell_no_time() -> None:
    assert run(WAITS) == 0.0


SLEEPS = """
import time
words = []
for length in (-1, float("nan"), "1", None):
    try:
        time.sleep(length)
    except (ValueError, TypeError) as error:
        words.append(type(error).__name__)
seen = [words, time.monotonic(), "pytest" in sys.modules]
"""


def test_bad_sleeps_are_refused() -> None:
    assert run(SLEEPS) == [["ValueError", "ValueError", "TypeError", "TypeError"], 0.0, False]


@pytest.mark.parametrize("tz", ["Mars/Olympus", "", "../../etc/passwd", "Europe", "EST5EDT4,nonsense"])
def test_unknown_zone_is_refused(tz: str) -> None:
    with pytest.raises(UnknownZone, match="Pin an IANA name"):
        FrozenClock(0, tz)


@given(st.lists(st.integers(-(10**12), 10**12)))
def test_clock_never_goes_back(steps: list[int]) -> None:
    clock = FrozenClock(START)
    seen = [START]
    for step in steps:
        clock.advance(step)
        seen.append(clock.now_ns())
    assert seen == sorted(seen)
    assert clock.elapsed_ns() == sum(step for step in steps if step > 0)


@given(st.binary(), st.integers(0, 99), st.lists(st.integers(0, 100), max_size=5))
def test_draws_repeat_and_fit(key: bytes, trial: int, sizes: list[int]) -> None:
    first, second = Draws(key, trial), Draws(key, trial)
    drawn = [first.take(size) for size in sizes]
    assert drawn == [second.take(size) for size in sizes]
    assert [len(draw) for draw in drawn] == sizes
    long = [draw for draw in drawn if len(draw) >= 16]
    assert len(set(long)) == len(long)


@given(st.integers(1, 300))
def test_integers_fit_their_bits(bits: int) -> None:
    assert 0 <= Draws(b"k").integer(bits) < 1 << bits


def test_seconds_become_whole_ns() -> None:
    assert [nanoseconds(value) for value in (0.1, 3, 1e-9, 2**40)] == [10**8, 3 * 10**9, 1, 2**40 * 10**9]
