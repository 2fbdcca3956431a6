import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_policy, recorded
from twiceshy import casefile
from twiceshy.casefile import Case, Judge, LoadedCase
from twiceshy.errors import CandidateError, InfrastructureError
from twiceshy.outcome import Divergence, Mode
from twiceshy.running import CandidateSpec, Session, Task
from twiceshy.sealing import Isolation, Limits
from twiceshy.transcript import Transcript

pytestmark = pytest.mark.slow

POLICY = a_policy("clinic", find="read")

CLINIC = """
import asyncio, datetime, os, random, signal, socket, subprocess, sys, threading, time, uuid
import twiceshy

IMPORTED = time.time()

def candidate(body, **versions):
    @twiceshy.candidate(workflow="clinic", versions=versions)
    def build(boundary):
        find = boundary.tool("find", lambda day: ["9:00"], effect="read")
        book = boundary.tool("book", lambda day: "booked")
        boundary.guard("free", lambda asked: None, before="book")
        return lambda user: body(boundary, find, book)
    return build

def usual(boundary, find, book):
    return [find(day="thu"), book(day="thu")]

versioned = candidate(usual, harness="1", model="1")
usual = candidate(usual)
crashes = candidate(lambda boundary, find, book: [find(day="thu"), 1 / 0])
vanishes = candidate(lambda boundary, find, book: [find(day="thu"), os._exit(0)])
killed = candidate(lambda boundary, find, book: [find(day="thu"), os.kill(os.getpid(), signal.SIGKILL)])
sleepy = candidate(lambda boundary, find, book: [time.sleep(3600), asyncio.run(asyncio.sleep(3600)), find(day="thu")])
looks = candidate(lambda boundary, find, book: [str(datetime.datetime.now()), str(boundary.now()), str(uuid.uuid4()), random.random(), IMPORTED])
environment = candidate(lambda boundary, find, book: [sorted(os.environ), os.getcwd()])

def dials(boundary, find, book):
    try:
        socket.create_connection(("127.0.0.1", int(os.environ.get("PORT", "9"))), timeout=1)
    except OSError as refused:
        return type(refused).__name__
    return "reached"

dials = candidate(dials)

def spins(boundary, find, book):
    while True:
        pass

spins = candidate(spins)

def hangs(boundary, find, book):
    r, w = os.pipe()
    os.read(r, 1)

hangs = candidate(hangs)

def swallows(boundary, find, book):
    try:
        find(day="fri")
    except BaseException:
        pass
    finally:
        book(day="fri")
    return "as if nothing had happened"

swallows = candidate(swallows)

def threads(boundary, find, book):
    def work():
        try:
            find(day="fri")
        except BaseException:
            pass
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return book(day="thu")

threads = candidate(threads)

def leaves_traces(boundary, find, book):
    seen = sorted(os.listdir(os.environ["TMPDIR"]))
    open(os.environ["TMPDIR"] + "/mine", "w").write("x")
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    return seen

leaves_traces = candidate(leaves_traces)
"""


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "clinic.py").write_text(textwrap.dedent(CLINIC))
    (folder / "broken.py").write_text("import nothing_of_that_name\n")
    return folder


@pytest.fixture(scope="module")
def case(clinic: Path) -> LoadedCase:
    def build(boundary: Any) -> Any:
        find = boundary.tool("find", lambda day: ["9:00"], effect="read")
        book = boundary.tool("book", lambda day: "booked")
        return lambda _: [find(day="thu"), book(day="thu")]

    envelope = recorded(build, policy=POLICY, workflow="clinic")
    path = clinic / "cases" / "thursday"
    casefile.save(path, Case(id="thursday", kind="failure", workflow="clinic", trace_id=envelope.trace_id), envelope)
    return casefile.load(path)


def a_session(clinic: Path, name: str, **given: Any) -> Session:
    env = {**os.environ, **given.pop("env", {})}
    spec = CandidateSpec(factory=name, path=[clinic], **given.pop("spec", {}))
    return Session(spec, env=env, folder=clinic.parent, cases=[clinic / "cases"], **given)


def played(clinic: Path, case: LoadedCase, name: str, **given: Any) -> Transcript:
    with a_session(clinic, f"clinic:{name}") as session:
        return session.play(Task(loaded=case, judge=Judge(), policy=POLICY, **given)).transcript


def output(told: Transcript) -> Any:
    assert told.disposition is not None, told
    return told.disposition.output


def test_a_trial_replays_the_case_sealed(clinic: Path, case: LoadedCase) -> None:
    with a_session(clinic, "clinic:usual") as session:
        assert session.ready.isolation is Isolation.HERMETIC
        assert session.ready.workflow == "clinic"
        assert {attempt.name for attempt in session.ready.canary if not attempt.reached} >= {
            "tcp",
            "udp",
            "unix_path",
            "signal",
        }
        told = [session.play(Task(loaded=case, judge=Judge(), policy=POLICY, number=at)).transcript for at in range(3)]
    assert output(told[0]) == [["9:00"], "booked"]
    assert len({trial.digest for trial in told}) == 1


@pytest.mark.parametrize(("name", "crash"), [("vanishes", "crashed"), ("killed", "crashed")])
def test_no_end_marker_is_a_crash(clinic: Path, case: LoadedCase, name: str, crash: str) -> None:
    told = played(clinic, case, name)
    assert (told.crash, told.disposition) == (crash, None)
    assert [p.crossing.name for p in told.played] == ["find"]


def test_what_the_agent_raised_is_how_it_ended(clinic: Path, case: LoadedCase) -> None:
    told = played(clinic, case, "crashes")
    assert told.disposition is not None
    assert not told.disposition.ended
    assert told.disposition.error is not None
    assert told.disposition.error.cls == "builtins.ZeroDivisionError"


def test_versions_of_the_settings_outweigh_those_of_the_factory(clinic: Path) -> None:
    spec = {"versions": {"harness": "9", "tool:find": "3"}}
    with a_session(clinic, "clinic:versioned", spec=spec) as session:
        versions = session.ready.versions
    assert (versions.harness.version, versions.model.version, versions.tools["find"].version) == ("9", "1", "3")


@pytest.mark.parametrize("name", ["swallows", "threads"])
def test_a_divergence_ends_the_process(clinic: Path, case: LoadedCase, name: str) -> None:
    told = played(clinic, case, name)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.ARGS_MISMATCH
    assert told.played == []
    assert told.disposition is None


def test_limits_end_a_trial_not_the_session(clinic: Path, case: LoadedCase) -> None:
    with a_session(clinic, "clinic:spins") as session:
        spun = session.play(Task(loaded=case, judge=Judge(), policy=POLICY, limits=Limits(cpu_s=1, wall_s=60)))
        assert spun.transcript.crash == "cpu"
        again = session.play(Task(loaded=case, judge=Judge(), policy=POLICY, limits=Limits(cpu_s=1, wall_s=60)))
        assert again.transcript.crash == "cpu"
    with a_session(clinic, "clinic:hangs") as session:
        hung = session.play(Task(loaded=case, judge=Judge(), policy=POLICY, limits=Limits(wall_s=1)))
        assert hung.transcript.crash == "wall"


def test_sleeping_takes_no_time(clinic: Path, case: LoadedCase) -> None:
    assert output(played(clinic, case, "sleepy", limits=Limits(wall_s=20)))[2] == ["9:00"]


def test_no_real_time_or_chance_leaks_in(clinic: Path, case: LoadedCase) -> None:
    first, second = played(clinic, case, "looks"), played(clinic, case, "looks")
    assert output(first) == output(second)
    assert output(first)[1].startswith("2026-06-02 10:00:00")
    other = output(played(clinic, case, "looks", number=1))
    assert (other[:2], other[2] != output(first)[2]) == (output(first)[:2], True)


def test_a_trial_sees_nothing_of_the_one_before(clinic: Path, case: LoadedCase) -> None:
    with a_session(clinic, "clinic:leaves_traces") as session:
        seen = [output(session.play(Task(loaded=case, judge=Judge(), policy=POLICY)).transcript) for _ in range(2)]
    assert "mine" not in seen[1]
    assert seen[0] == seen[1]


def test_secrets_stay_out_of_its_environment(clinic: Path, case: LoadedCase) -> None:
    with a_session(
        clinic,
        "clinic:environment",
        env={"OPENAI_API_KEY": "real", "MY_SECRET": "x", "HTTPS_PROXY": "http://proxy", "TWICESHY_KEY_K1": "00"},
    ) as session:
        names, _ = output(session.play(Task(loaded=case, judge=Judge(), policy=POLICY)).transcript)
    assert not {"MY_SECRET", "HTTPS_PROXY", "TWICESHY_KEY_K1"} & set(names)


def test_the_network_is_not_there(clinic: Path, case: LoadedCase) -> None:
    assert output(played(clinic, case, "dials")) != "reached"


def test_breaks_that_changed_something_are_told(clinic: Path, case: LoadedCase) -> None:
    with a_session(clinic, "clinic:usual") as session:
        done = session.play(
            Task(loaded=case, judge=Judge(), policy=POLICY, breaks=["guard.off:free", "guard.off:other"])
        )
    assert done.applied == {"guard.off:free"}


def test_modes_reach_the_trial(clinic: Path, case: LoadedCase) -> None:
    with a_session(clinic, "clinic:usual") as session:
        told = session.play(Task(loaded=case, judge=Judge(mode=Mode.STUB), policy=POLICY)).transcript
    assert [p.boundary.value for p in told.played if p.crossing.name == "free"] == ["frozen"]


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("clinic:usaul", "Did you mean 'usual'"),
        ("clinic:IMPORTED", "has no 'IMPORTED'|not marked"),
        ("broken:build", "nothing_of_that_name"),
        ("nowhere:build", "No module named 'nowhere'"),
        ("clinic", "package.module:factory"),
    ],
)
def test_a_candidate_that_cannot_be_imported_is_named(clinic: Path, name: str, phrase: str) -> None:
    with pytest.raises(CandidateError, match=phrase) as raised, a_session(clinic, name):
        pass
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)


def test_an_interpreter_without_the_engine_is_an_infrastructure_fault(clinic: Path) -> None:
    with (
        pytest.raises(InfrastructureError, match="before it was ready") as raised,
        a_session(clinic, "clinic:usual", spec={"python": "/usr/bin/python3"}),
    ):
        pass
    assert raised.value.exit_code == 4


def test_a_lost_session_is_our_fault_and_the_next_trial_runs(clinic: Path, case: LoadedCase) -> None:
    with a_session(clinic, "clinic:usual") as session:
        task = Task(loaded=case, judge=Judge(), policy=POLICY)
        session.play(task)
        assert session._process is not None
        session._process.kill()
        assert session.play(task).transcript.fault is not None
        assert session.play(task).transcript.fault is None


def test_weak_isolation_says_so(clinic: Path) -> None:
    with a_session(clinic, "clinic:usual", weak=True) as session:
        assert session.ready.isolation is Isolation.WEAK
        assert session.ready.canary == ()


@pytest.fixture(autouse=True)
def _no_leftovers(clinic: Path) -> Iterator[None]:
    yield
    assert not list(clinic.parent.glob(".twiceshy-canary-*"))
