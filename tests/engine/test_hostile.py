"""Candidates that race, fork, vanish and flood, each in a real sealed session: none of them comes out better than it is."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_policy, recorded
from twiceshy import casefile
from twiceshy.casefile import Case, Judge, LoadedCase
from twiceshy.errors import CandidateError
from twiceshy.outcome import Divergence, Mode
from twiceshy.running import CandidateSpec, Played, Session, Task
from twiceshy.sealing import Limits
from twiceshy.transcript import Transcript

pytestmark = pytest.mark.slow

POLICY = a_policy("clinic", find="read")

CLINIC = """
import asyncio, atexit, concurrent.futures, datetime, multiprocessing, os, signal, socket, subprocess, sys, threading, time
import twiceshy

IMPORTED = str(datetime.datetime.now())
fork = multiprocessing.get_context("fork")

def candidate(body, **said):
    @twiceshy.candidate(workflow="clinic", **said)
    def build(boundary):
        find = boundary.tool("find", lambda day: ["9:00"], effect="read")
        book = boundary.tool("book", lambda day: "booked")
        return lambda user: body(boundary, find, book)
    return build

def quiet(fn, **asked):
    try:
        return fn(**asked)
    except Exception:
        return None

def in_thread(daemon):
    def body(boundary, find, book):
        threading.Thread(target=lambda: (time.sleep(1), book(day="late")), daemon=daemon).start()
        return "done"
    return candidate(body)

in_thread_joined, in_thread_left = in_thread(False), in_thread(True)

def in_pool(boundary, find, book):
    pool = concurrent.futures.ThreadPoolExecutor()
    pool.submit(book, day="late")
    return "done"

in_pool = candidate(in_pool)
at_exit = candidate(lambda boundary, find, book: atexit.register(lambda: book(day="late")) and "done")

def in_task(boundary, find, book):
    async def later():
        await asyncio.sleep(30)
        book(day="late")

    async def agent():
        asyncio.get_running_loop().kept = asyncio.create_task(later())
        return "done"

    return agent()

in_task = candidate(in_task)

def forks(boundary, find, book):
    child = os.fork()
    if child == 0:
        quiet(book, day="forked")
        os._exit(0)
    os.waitpid(child, 0)
    return find(day="thu")

forks = candidate(forks)

def works_in_processes(boundary, find, book):
    fork.Process(target=lambda: quiet(book, day="forked")).start()
    return "done"

works_in_processes = candidate(works_in_processes)

def shuts_the_door(boundary, find, book):
    find(day="thu")
    os.closerange(3, 100)
    quiet(book, day="hidden")
    return "done"

shuts_the_door = candidate(shuts_the_door)
becomes_another = candidate(lambda boundary, find, book: [find(day="thu"), os.execv(sys.executable, [sys.executable, "-c", "0"])])

def others():
    return sum(pid.isdigit() and pid != str(os.getpid()) for pid in os.listdir("/proc"))

def daemonises(boundary, find, book):
    before = others()
    between = os.fork()
    if between == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    os.waitpid(between, 0)
    return before, others()

daemonises = candidate(daemonises)

def floods(boundary, find, book):
    for _ in range(100):
        os.write(1, b"x" * 1_000_000)
        os.write(2, b"x" * 1_000_000)
    return find(day="thu")

floods = candidate(floods)

def never_ends(boundary, find, book):
    while True:
        find(day="thu")

never_ends = candidate(never_ends)
says_much = candidate(lambda boundary, find, book: "y" * 3_000_000)

def says_much_at_once(boundary, find, book):
    threads = [threading.Thread(target=lambda at=at: quiet(book, day=str(at) * 200_000)) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "done"

says_much_at_once = candidate(says_much_at_once)
def dials():
    try:
        socket.create_connection(("10.0.0.1", 443), timeout=1)
    except OSError:
        return "policy service down"

def guarded_by_a_service(boundary):
    book = boundary.tool("book", lambda day: "booked")
    boundary.guard("service", lambda asked: dials(), before="book")
    return lambda user: quiet(book, day="thu")

guarded_by_a_service = twiceshy.candidate(workflow="clinic")(guarded_by_a_service)

def reads_a_service(boundary):
    find = boundary.tool("find", lambda day: dials(), effect="read")
    return lambda user: find(day="thu")

reads_a_service = twiceshy.candidate(workflow="clinic")(reads_a_service)
reports = candidate(lambda boundary, find, book: [dials(), find(day="thu")])
waits = candidate(lambda boundary, find, book: os.read(os.pipe()[0], 1))
generates = candidate(lambda boundary, find, book: (book(day=day) for day in ["fri"]))
leaves = candidate(lambda boundary, find, book: sys.exit(0))
interrupts = candidate(lambda boundary, find, book: signal.raise_signal(signal.SIGINT))

def times_itself(boundary, find, book):
    def late(*_):
        raise ValueError
    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    for _ in range(300):
        quiet(find, day="thu")
    signal.setitimer(signal.ITIMER_REAL, 0)
    quiet(book, day="thu")
    return "done"

times_itself = candidate(times_itself)
cold = candidate(lambda boundary, find, book: [IMPORTED, str(datetime.datetime.now())], warm=False)

KEPT = {}

@twiceshy.candidate(workflow="clinic")
def keeps(boundary):
    if not KEPT:
        KEPT["book"] = boundary.tool("book", lambda day: "booked")
    return lambda user: quiet(KEPT["book"], day="hidden")

@twiceshy.candidate(workflow="clinic")
def unbuildable(boundary):
    raise KeyError("SETTING")
"""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "clinic.py").write_text(textwrap.dedent(CLINIC))
    (folder / "leaving.py").write_text("import sys\nsys.exit('no licence')\n")
    return folder


@pytest.fixture(scope="module")
def case(clinic: Path) -> LoadedCase:
    def build(boundary: Any) -> Any:
        find = boundary.tool("find", lambda day: ["9:00"], effect="read")
        return lambda _: find(day="thu")

    envelope = recorded(build, policy=POLICY, workflow="clinic")
    path = clinic / "cases" / "thursday"
    casefile.save(path, Case(id="thursday", kind="failure", workflow="clinic", trace_id=envelope.trace_id), envelope)
    return casefile.load(path)


def a_session(clinic: Path, name: str) -> Session:
    spec = CandidateSpec(factory=name, path=[clinic])
    return Session(spec, env=dict(os.environ), folder=clinic.parent, cases=[clinic / "cases"])


def trials(clinic: Path, case: LoadedCase, name: str, *, times: int = 1, **given: Any) -> Iterator[Played]:
    with a_session(clinic, f"clinic:{name}") as session:
        for _ in range(times):
            yield session.play(Task(loaded=case, judge=Judge(), policy=POLICY, **given))


def played(clinic: Path, case: LoadedCase, name: str, **given: Any) -> Transcript:
    return next(trials(clinic, case, name, **given)).transcript


def output(told: Transcript) -> Any:
    assert told.disposition is not None, told
    return told.disposition.output


@pytest.mark.parametrize("name", ["in_thread_joined", "in_thread_left", "in_pool", "at_exit", "in_task"])
def test_what_outlives_the_agent_belongs_to_the_run(clinic: Path, case: LoadedCase, name: str) -> None:
    told = played(clinic, case, name)
    assert [(p.crossing.name, p.intent, p.crossing.seen) for p in told.played] == [("book", True, {"day": "late"})]
    assert output(told) is not None


@pytest.mark.parametrize("name", ["forks", "works_in_processes"])
def test_no_forked_process_crosses_unseen(clinic: Path, case: LoadedCase, name: str) -> None:
    assert "forked" in (played(clinic, case, name).fault or "")


@pytest.mark.parametrize("name", ["shuts_the_door", "becomes_another", "leaves", "interrupts"])
def test_a_run_without_its_end_is_a_crash(clinic: Path, case: LoadedCase, name: str) -> None:
    told = played(clinic, case, name)
    assert (told.crash, told.disposition) == ("crashed", None)


@pytest.mark.parametrize(
    ("name", "boundary"), [("guarded_by_a_service", "guard:service"), ("reads_a_service", "tool:find")]
)
def test_live_code_that_dials_out_cannot_be_judged(clinic: Path, case: LoadedCase, name: str, boundary: str) -> None:
    with a_session(clinic, f"clinic:{name}") as session:
        judge = Judge(mode=Mode.CUT_POINT, live=["tool:find"])
        told = session.play(Task(loaded=case, judge=judge, policy=POLICY)).transcript
    assert told.divergence is not None
    assert (told.divergence.kind, told.divergence.boundary) == (Divergence.LIVE_UNCONTROLLED, boundary)


def test_the_loop_may_dial_in_vain(clinic: Path, case: LoadedCase) -> None:
    assert output(played(clinic, case, "reports")) == ["policy service down", ["9:00"]]


def test_a_factory_must_declare_anew(clinic: Path, case: LoadedCase) -> None:
    assert "declared tool:book when it was loaded" in (played(clinic, case, "keeps").fault or "")


def test_daemons_end_with_their_trial(clinic: Path, case: LoadedCase) -> None:
    """What each trial finds running, and what it leaves: counted once the process between it and its daemon is gone, as its own scheduling decides nothing."""
    first, second = (output(done.transcript) for done in trials(clinic, case, "daemonises", times=2))
    assert first == second
    assert first[1] == first[0] + 1


PARENT = """
import os, sys
from pathlib import Path
from twiceshy import casefile
from twiceshy.casefile import Judge
from twiceshy.running import CandidateSpec, Session, Task
from builders import a_policy
clinic = Path(sys.argv[1])
spec = CandidateSpec(factory="clinic:waits", path=[clinic])
with Session(spec, env=dict(os.environ), folder=clinic.parent, cases=[clinic / "cases"]) as session:
    print(session._process.pid, flush=True)
    session.play(Task(loaded=casefile.load(clinic / "cases" / "thursday"), judge=Judge(), policy=a_policy("clinic", find="read")))
"""


def test_a_session_ends_with_its_parent(clinic: Path, case: LoadedCase) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT, clinic], stdout=subprocess.PIPE, env=env, text=True) as parent:
        assert parent.stdout is not None
        keeper = Path("/proc", parent.stdout.readline().strip())
        time.sleep(1)
        assert keeper.exists()
        parent.kill()
    deadline = time.monotonic() + 20
    while keeper.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not keeper.exists()


def test_printing_costs_nobody_anything(clinic: Path, case: LoadedCase) -> None:
    assert [output(done.transcript) for done in trials(clinic, case, "floods", times=2)] == [["9:00"]] * 2


def test_a_run_without_end_is_ended(clinic: Path, case: LoadedCase) -> None:
    with a_session(clinic, "clinic:never_ends") as session:
        task = Task(loaded=case, judge=Judge(), policy=POLICY, limits=Limits(output_bytes=200_000))
        assert [session.play(task).transcript.crash for _ in range(2)] == ["output"] * 2


def test_large_messages_stay_whole(clinic: Path, case: LoadedCase) -> None:
    assert output(played(clinic, case, "says_much")) == "y" * 3_000_000
    told = played(clinic, case, "says_much_at_once")
    assert sorted(p.crossing.seen["day"][0] for p in told.played) == list("01234567")


def test_an_output_that_cannot_be_told_is_no_end(clinic: Path, case: LoadedCase) -> None:
    told = played(clinic, case, "generates")
    assert told.disposition is not None
    assert not told.disposition.ended
    assert told.disposition.error is not None
    assert "a generator has no canonical form" in told.disposition.error.message


def test_a_signal_hides_no_passage(clinic: Path, case: LoadedCase) -> None:
    told = played(clinic, case, "times_itself")
    assert told.disposition is None or told.played[-1].crossing.name == "book"


def test_a_cold_candidate_imports_at_the_instant_of_its_case(clinic: Path, case: LoadedCase) -> None:
    outputs = [output(done.transcript) for done in trials(clinic, case, "cold", times=2)]
    assert outputs == [["2026-06-02 10:00:00", "2026-06-02 10:00:00"]] * 2


@pytest.mark.parametrize(
    ("name", "phrase"),
    [("leaving:build", "SystemExit: no licence"), ("clinic:unbuildable", "KeyError while it was built")],
)
def test_a_candidate_that_cannot_be_built_is_named(clinic: Path, name: str, phrase: str) -> None:
    with pytest.raises(CandidateError, match=phrase), a_session(clinic, name):
        pass
