"""Candidates that are a command, sealed and behind their gateway; a real program a trial."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_policy
from gatewaying import a_weather_case
from sealed import a_host_folder, skip_without_namespaces
from twiceshy import casefile, commands
from twiceshy.breaking import operators
from twiceshy.casefile import Case, Judge, LoadedCase
from twiceshy.commands import Command, keeps_its_clock
from twiceshy.errors import CandidateError, IsolationNotHeld
from twiceshy.gateway.hosting import last_value
from twiceshy.outcome import AnsweredBy, Divergence
from twiceshy.running import CandidateSpec, Session, Task
from twiceshy.sealing import Isolation, Limits
from twiceshy.transcript import Transcript

POLICY = a_policy("weather", get_weather="read")
HAS_FAKETIME = pytest.mark.skipif(
    commands.faketime_library() is None, reason="libfaketime is not installed: apt-get install faketime"
)

AGENT = """
import json, os, sys, time, urllib.error, urllib.request

def ask(path, body=None, url=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": "Bearer " + os.environ["TWICESHY_TOKEN"], "content-type": "application/json"}
    return json.load(urllib.request.urlopen(urllib.request.Request(path, data=data, headers=headers), timeout=20))

def tool(name, **asked):
    return ask(f"{os.environ['TWICESHY_TOOLS_URL']}/{name}", asked)

user = json.load(sys.stdin)
exec(sys.argv[1])
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    skip_without_namespaces()
    with a_host_folder() as made:
        (made / "agent.py").write_text(AGENT)
        envelope = a_weather_case()
        case = Case(id="warmer", kind="failure", workflow="weather", trace_id=envelope.trace_id)
        casefile.save(made / "case", case, envelope)
        yield made


def a_command(folder: Path, *argv: str, **given: Any) -> CandidateSpec:
    command = Command(**{"argv": list(argv), "folder": str(folder), "workflow": "weather", "tools": ["http"], **given})
    return CandidateSpec(factory="weather-agent", path=[folder], command=command)


def a_session(folder: Path, *argv: str, **given: Any) -> Session:
    return Session(a_command(folder, *argv), env=os.environ, folder=folder, cases=[folder / "case"], **given)


def task(folder: Path, **given: Any) -> Task:
    loaded: LoadedCase = casefile.load(folder / "case")
    return Task(**{"loaded": loaded, "judge": Judge(), "policy": POLICY, **given})


def played(folder: Path, code: str, **given: Any) -> Transcript:
    with a_session(folder, sys.executable, "agent.py", code) as session:
        return session.play(task(folder, **given)).transcript


def output(told: Transcript) -> Any:
    assert told.disposition is not None, told
    return told.disposition.output


@pytest.mark.slow
def test_a_command_replays_by_its_environment(folder: Path) -> None:
    code = "print('a log line'); print(json.dumps([user, tool('get_weather', city='Leith'), tool('warn', city='Leith')], indent=1))"
    with a_session(folder, sys.executable, "agent.py", code) as session:
        assert (session.ready.workflow, session.ready.boundaries) == ("weather", [])
        told = [session.play(task(folder, number=number)).transcript for number in range(3)]
    assert output(told[0]) == ["hello", {"city": "Leith", "celsius": 7}, {"ok": True}]
    assert [(one.crossing.name, one.answered_by) for one in told[0].played] == [
        ("get_weather", AnsweredBy.RECORDED),
        ("warn", AnsweredBy.OK),
    ]
    assert len({trial.digest for trial in told}) == 1


@pytest.mark.slow
def test_a_miss_ends_the_run_whatever_the_command_does(folder: Path) -> None:
    code = """
try: tool('get_weather', city='Rome')
except urllib.error.HTTPError as missed: pass
time.sleep(0.2)
tool('warn', city='Rome')
print(json.dumps('as if nothing had happened'))
"""
    told = played(folder, code)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.ARGS_MISMATCH
    assert (told.played, told.disposition) == ([], None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "kind"),
    [("sys.exit(3)", "exit_3"), ("print('done')", "no_output"), ("1 / 0", "exit_1")],
)
def test_a_command_without_an_output_has_crashed(folder: Path, code: str, kind: str) -> None:
    told = played(folder, f"tool('get_weather', city='Leith'); {code}")
    assert told.disposition is not None
    assert told.disposition.error is not None
    assert (told.disposition.ended, told.disposition.error.type, len(told.played)) == (False, kind, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "crash", "limits"),
    [
        ("while True: pass", "cpu", Limits(cpu_s=1, wall_s=60)),
        ("time.sleep(100)", "wall", Limits(wall_s=1)),
        ("import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nwhile True: print('x' * 9999)", "output", Limits(file_bytes=1 << 20, wall_s=60)),
        ("os.kill(os.getpid(), 9)", "crashed", Limits()),
        ("os.kill(os.getppid(), 9); time.sleep(9)", "crashed", Limits()),
    ],
)  # fmt: skip
def test_limits_hold_for_a_command(folder: Path, code: str, crash: str, limits: Limits) -> None:
    with a_session(folder, sys.executable, "agent.py", code) as session:
        told = session.play(task(folder, limits=limits)).transcript
        again = session.play(task(folder, limits=limits)).transcript
    assert (told.crash, told.disposition, told.fault) == (crash, None, None)
    assert again.crash == crash


@pytest.mark.slow
def test_memory_is_bounded(folder: Path) -> None:
    told = played(folder, "x = bytearray(1 << 29)", limits=Limits(memory_bytes=1 << 28))
    assert told.disposition is not None
    assert not told.disposition.ended


REACHES = """
import socket
def reached(attempt):
    try: attempt()
    except OSError as refused: return type(refused).__name__
    return 'reached'
print(json.dumps({
    'host port': reached(lambda: socket.create_connection(('127.0.0.1', int(sys.argv[2])), timeout=1)),
    'name': reached(lambda: socket.getaddrinfo('example.com', 443)),
    'file': reached(lambda: open('mine', 'w')),
    'own tmp': reached(lambda: open('/tmp/mine', 'w')),
    'found': os.path.exists('/tmp/left'), 'left': reached(lambda: open('/tmp/left', 'w')),
    'sockets': [told for fd in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{fd}') and 'socket' in (told := os.readlink(f'/proc/self/fd/{fd}'))], 'key': os.environ['OPENAI_API_KEY'] == os.environ['TWICESHY_TOKEN'],
}))
"""


@pytest.mark.slow
def test_a_command_is_sealed(folder: Path) -> None:
    host = socket.create_server(("127.0.0.1", 0))
    with host, a_session(folder, sys.executable, "agent.py", REACHES, str(host.getsockname()[1])) as session:
        assert {attempt.name for attempt in session.ready.canary if not attempt.reached} >= {
            "tcp",
            "udp",
            "unix_path",
            "signal",
        }
        told = [output(session.play(task(folder)).transcript) for _ in range(2)]
    assert told[0] == told[1]
    assert told[0] == {
        "host port": "ConnectionRefusedError", "name": "gaierror", "file": "OSError", "own tmp": "reached", "found": False, "left": "reached",
        "sockets": [], "key": True,
    }  # fmt: skip


@pytest.mark.slow
def test_what_a_command_left_running_is_ended(folder: Path) -> None:
    code = """
import subprocess
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'], start_new_session=True)
print(len([pid for pid in os.listdir('/proc') if pid.isdecimal()]))
"""
    with a_session(folder, sys.executable, "agent.py", code) as session:
        told = [output(session.play(task(folder)).transcript) for _ in range(3)]
    assert told == [4, 4, 4]  # the first process, the gateway, the command, what it started


@pytest.mark.slow
@HAS_FAKETIME
def test_a_command_sees_the_clock_of_the_run(folder: Path) -> None:
    code = "import datetime; before = time.time(); tool('get_weather', city='Leith'); print(json.dumps([before, time.time(), ask(os.environ['TWICESHY_CLOCK_URL'])['unix_ms']]))"
    with a_session(folder, sys.executable, "agent.py", code) as session:
        assert session.ready.isolation is Isolation.HERMETIC
        assert output(session.play(task(folder)).transcript) == [1_780_394_400, 1_780_394_400, 1_780_394_400_000]


@pytest.mark.slow
@HAS_FAKETIME
def test_a_process_that_drops_the_clock_is_no_evidence(folder: Path) -> None:
    child = "import os, subprocess, sys; subprocess.run([sys.executable, 'agent.py', \"tool('get_weather', city='Leith')\"], env={n: v for n, v in os.environ.items() if n != 'LD_PRELOAD'}, input=b'1')"
    told = played(folder, f"exec({child!r}); print(1)")
    assert told.fault is not None
    assert "libfaketime does not reach it" in told.fault
    assert told.played == []


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
def test_there_is_no_weak_command(folder: Path) -> None:
    with pytest.raises(IsolationNotHeld, match="no weak isolation"), a_session(folder, "true", weak=True):
        pass


@pytest.mark.slow
def test_a_program_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(CandidateError, match="no program 'no-such-agent'"), a_session(folder, "no-such-agent"):
        pass


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("log\n[1,\n 2]\n\n", [1, 2]),
        ('1\n"two"', "two"),
        ('{\n "a": {\n  "b": 1\n }\n}', {"a": {"b": 1}}),
    ],
)
def test_the_last_value_is_the_output(said: str, value: Any) -> None:
    assert last_value(said.encode()) == value


@pytest.mark.parametrize("said", ["", "done", '{"a": 1}\nthat is all'])
def test_an_output_must_end_with_a_value(said: str) -> None:
    import msgspec

    assert last_value(said.encode()) is msgspec.UNSET


CLIENTS = """
import asyncio, json, os, sys
import anthropic, httpx2, openai
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

json.load(sys.stdin)
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

async def main():
    auth = {"authorization": "Bearer " + os.environ["TWICESHY_TOKEN"]}
    async with httpx2.AsyncClient(headers=auth) as http, Client(streamable_http_client(os.environ["TWICESHY_MCP_URL"], http_client=http)) as tools:
        (listed,) = (await tools.list_tools()).tools
        offered = {"name": listed.name, "description": listed.description, "input_schema": listed.input_schema}
        with anthropic.Anthropic() as client, client.messages.stream(model="m", max_tokens=99, messages=[{"role": "user", "content": "?"}], tools=[offered]) as stream:
            turn = stream.get_final_message()
        for use in [block for block in turn.content if block.type == "tool_use"]:
            await tools.call_tool(use.name, use.input)
    function = {"name": listed.name, "description": listed.description, "parameters": listed.input_schema}
    with openai.OpenAI() as client, client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "?"}], tools=[{"type": "function", "function": function}]) as stream:
        return stream.get_final_completion().choices[0].message.content

print(asyncio.run(main()))
"""


@pytest.mark.slow
def test_unmodified_clients_replay_sealed(folder: Path) -> None:
    (folder / "clients.py").write_text(CLIENTS)
    with a_session(folder, sys.executable, "clients.py") as session:
        told = session.play(task(folder)).transcript
        assert output(told) == {"warmer": "neither"}, session.said
    assert [one.matched for one in told.played] == ["#1", "#2", "#3", "#4"]


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


@pytest.mark.slow
def test_breaks_apply_to_a_command(folder: Path) -> None:
    code = "print(json.dumps(tool('get_weather', city='Leith')))"
    with a_session(folder, sys.executable, "agent.py", code) as session:
        stripped = session.play(task(folder, breaks=["hook.strip:get_weather.celsius"]))
        assert (output(stripped.transcript), stripped.applied) == (
            {"city": "Leith"},
            {"hook.strip:get_weather.celsius"},
        )
        with session.broken(operators.parse(operators.CodeBreak(env={"GREETING": "hello"})), folder / "case") as broken:
            assert output(broken.play(task(folder)).transcript) == {"city": "Leith", "celsius": 7}


def test_a_command_moves_with_its_copy(tmp_path: Path) -> None:
    command = Command(argv=["true"], folder="/srv/agent", workflow="weather", tools=["http"])
    assert commands.moved(command, {Path("/srv/agent"): tmp_path}).folder == str(tmp_path)
    with pytest.raises(CandidateError, match="not in its path"):
        commands.moved(command, {Path("/srv/other"): tmp_path})
