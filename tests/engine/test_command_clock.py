"""The clock of a command: libfaketime's, looked at before every answer."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from commanding import HAS_FAKETIME, a_command, a_session, a_weather_agent, output, played, task
from twiceshy.commands import keeps_its_clock
from twiceshy.running import Session
from twiceshy.sealing import Isolation


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        yield made


@pytest.mark.slow
@HAS_FAKETIME
def test_a_command_sees_the_clock_of_the_run(folder: Path) -> None:
    code = "import datetime; before = time.time(); tool('get_weather', city='Leith'); print(json.dumps([before, time.time(), ask(os.environ['TWICESHY_CLOCK_URL'])['unix_ms']]))"
    with a_session(folder, sys.executable, "agent.py", code) as session:
        assert session.ready.isolation is Isolation.HERMETIC
        assert output(session.play(task(folder)).transcript) == [1_780_394_400, 1_780_394_400, 1_780_394_400_000]


@pytest.mark.slow
@HAS_FAKETIME
def test_a_command_below_tmp_has_the_clock_too(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as below:
        (Path(below) / "agent.py").write_bytes((folder / "agent.py").read_bytes())
        spec = a_command(Path(below), sys.executable, "agent.py", "print(time.time())")
        with Session(spec, env=os.environ, folder=folder, cases=[folder / "case"]) as session:
            assert output(session.play(task(folder)).transcript) == 1_780_394_400


UNCLOCKED = """
import subprocess
def unclocked(code):
    env = {name: text for name, text in os.environ.items() if name != 'LD_PRELOAD'}
    return subprocess.Popen([sys.executable, 'agent.py', code], env=env, stdin=subprocess.PIPE)
"""


@pytest.mark.slow
@HAS_FAKETIME
@pytest.mark.parametrize(
    ("code", "passages"),
    [
        ("unclocked(\"tool('get_weather', city='Leith')\").communicate(b'1')", 0),
        ("tool('get_weather', city='Leith'); unclocked(\"tool('get_weather', city='Truro')\").communicate(b'1')", 1),
        ("tool('get_weather', city='Leith'); beside = unclocked('time.sleep(9)'); time.sleep(0.5); tool('get_weather', city='Truro')", 1),
        ("tool('get_weather', city='Leith'); left = unclocked('time.sleep(0.5)'); left.stdin.write(b'1'); left.stdin.close()", 1),
    ],
    ids=["at the first passage", "at a later one", "beside one", "at the end"],
)  # fmt: skip
def test_a_process_that_drops_the_clock_is_no_evidence(folder: Path, code: str, passages: int) -> None:
    told = played(folder, f"{UNCLOCKED}\n{code}; print(1)")
    assert told.fault is not None
    assert "libfaketime does not reach it" in told.fault
    assert len(told.played) == passages


@pytest.mark.slow
def test_a_program_past_libfaketime_is_labelled(folder: Path) -> None:
    """A program that libfaketime cannot reach runs, says so, and is refused by every gate."""
    program = folder / "static"
    program.write_bytes(b"\x7fELF" + b"\x00" * 60)
    program.chmod(0o755)
    with a_session(folder, "./static") as session:
        assert session.ready.isolation is Isolation.CLOCK_UNSEALED


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"\x7fELF....ld-linux-x86-64.so.2", False),
        (b"\x7fELF....", True),
        (b"\x7fELF....ld-linux-x86-64.so.2....Go\x00\x00", True),
        (b"#!/bin/sh\n", False),
        (b"#!/usr/bin/env -S sh -e\n", False),
        (b"#!/nowhere/at/all\n", True),
        (b"nothing known", True),
    ],
)
def test_which_programs_keep_their_clock(tmp_path: Path, head: bytes, *, keeps: bool) -> None:
    (tmp_path / "program").write_bytes(head)
    assert keeps_its_clock(tmp_path / "program") is keeps


@pytest.mark.slow
@HAS_FAKETIME
def test_python_sleeps_under_libfaketime(folder: Path) -> None:
    """libfaketime 0.9.10 makes time.sleep raise EINVAL, and every client that tries again sleeps."""
    assert (
        output(
            played(
                folder,
                "started = time.monotonic(); time.sleep(0.1); print(json.dumps(0.1 <= time.monotonic() - started < 30))",
            )
        )
        is True
    )
