"""Candidates that are a command, sealed and behind their gateway; a real program a trial."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commanding import a_session, a_weather_agent, output, played, task
from twiceshy import commands
from twiceshy.breaking import operators
from twiceshy.commands import Command
from twiceshy.envelope import Versions
from twiceshy.errors import CandidateError, IsolationNotHeld
from twiceshy.exercise import changed_layers
from twiceshy.gateway.hosting import last_value
from twiceshy.outcome import AnsweredBy, Divergence


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        yield made


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


REACHES = """
import socket
def reached(attempt):
    try: attempt()
    except OSError as refused: return type(refused).__name__
    return 'reached'
sys.stderr.write(json.dumps({
    'host port': reached(lambda: socket.create_connection(('127.0.0.1', int(sys.argv[2])), timeout=1)),
    'name': reached(lambda: socket.getaddrinfo('example.com', 443)),
    'unix': reached(lambda: socket.socket(socket.AF_UNIX)),
    'file': reached(lambda: open('mine', 'w')),
    'own tmp': reached(lambda: open('/tmp/mine', 'w')),
    'found': os.path.exists('/tmp/left'), 'left': reached(lambda: open('/tmp/left', 'w')),
    'sockets': [told for fd in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{fd}') and 'socket' in (told := os.readlink(f'/proc/self/fd/{fd}'))], 'key': os.environ['OPENAI_API_KEY'] == os.environ['TWICESHY_TOKEN'],
}))
"""


@pytest.mark.slow
def test_a_command_is_sealed(folder: Path) -> None:
    host = socket.create_server(("127.0.0.1", 0))
    told = []
    with host, a_session(folder, sys.executable, "agent.py", REACHES, str(host.getsockname()[1])) as session:
        assert {attempt.name for attempt in session.ready.canary if not attempt.reached} >= {
            "tcp",
            "udp",
            "unix_path",
            "signal",
        }
        for _ in range(2):
            session.play(task(folder))
            told.append(json.loads(session.said))
    assert told[0] == told[1]
    assert told[0] == {
        "host port": "ConnectionRefusedError", "name": "gaierror", "unix": "PermissionError", "file": "OSError", "own tmp": "reached", "found": False,
        "left": "reached", "sockets": [], "key": True,
    }  # fmt: skip


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


def versions_in(folder: Path, **given: Any) -> Versions:
    command = Command(argv=["true"], folder=str(folder), workflow="weather", tools=["http"], **given)
    return commands.versions_of(command)


def test_tools_of_a_command_count_as_changed_unless_it_says_what_they_are(tmp_path: Path) -> None:
    """It declares none by name, so what nobody speaks of would else be no layer at all, and equal."""
    tool, other = tmp_path / "tools" / "pay.mjs", tmp_path / "agent.mjs"
    tool.parent.mkdir()
    tool.write_text("pay 1")
    other.write_text("agent 1")
    silent = versions_in(tmp_path, versions={"harness": "1"})
    assert {"tool:pay", "tool:find"} <= changed_layers(silent, silent, ["pay", "find"])
    stated = versions_in(tmp_path, versions={"tools": "1", "tool:pay": "2"})
    assert not {"tool:pay", "tool:find"} & changed_layers(stated, stated, ["pay", "find"])
    newer = versions_in(tmp_path, versions={"tools": "1", "tool:pay": "3"})
    assert changed_layers(newer, stated, ["pay", "find"]) - {
        "prompt",
        "model",
        "routing",
        "memory",
        "skills",
        "harness",
    } == {"tool:pay"}
    sources = {"tools": ["tools/**/*.mjs"], "harness": ["agent.mjs"]}
    before = versions_in(tmp_path, sources=sources)
    assert not {"tool:pay", "harness"} & changed_layers(versions_in(tmp_path, sources=sources), before, ["pay"])
    tool.write_text("pay 2")
    assert {"tool:pay", "harness"} & changed_layers(versions_in(tmp_path, sources=sources), before, ["pay"]) == {
        "tool:pay"
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sources": {"tools": ["*.mjs"]}}, r"no file in .* fits '\*.mjs', of its layer 'tools'"),
        ({"sources": {"harness": ["/etc/passwd"]}}, "no file in .* fits '/etc/passwd'"),
        ({"versions": {"harnes": "1"}}, "no layer 'harnes'. Did you mean 'harness'"),
    ],
)
def test_a_layer_of_a_command_that_cannot_be_meant_is_refused(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(CandidateError, match=says):
        versions_in(tmp_path, **given)


def test_a_command_moves_with_its_copy(tmp_path: Path) -> None:
    command = Command(argv=["true"], folder="/srv/agent", workflow="weather", tools=["http"])
    assert commands.moved(command, {Path("/srv/agent"): tmp_path}).folder == str(tmp_path)
    with pytest.raises(CandidateError, match="not in its path"):
        commands.moved(command, {Path("/srv/other"): tmp_path})
