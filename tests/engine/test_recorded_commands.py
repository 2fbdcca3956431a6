"""`twiceshy record` and an unmodified agent: what it leaves is read by the pipeline, and replays."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gatewaying import OFFER, TOKEN, a_weather_case, serving
from recording_services import a_tool_server, read_back
from twiceshy.envelope import Effect
from twiceshy.policy import load as load_policy

CHAT_TOOLS: Any = [
    {"type": "function", "function": {name: OFFER[name] for name in ("name", "description", "parameters")}}
]


AGENT = """
import json, os, sys, urllib.request
user = json.load(sys.stdin)
body = {"model": "gpt", "messages": [{"role": "user", "content": user}], "tools": json.loads(sys.argv[1])}
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", data=json.dumps(body).encode(), headers=headers)
print(json.dumps(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]))
"""


@pytest.mark.slow
def test_what_the_command_records_the_source_reads(tmp_path: Path) -> None:

    with serving(a_weather_case()) as upstream:
        words = [
            "record",
            "-w",
            "weather",
            "-o",
            str(tmp_path / "run.jsonl"),
            "--input",
            '"Which?"',
            "--openai-upstream",
            f"{upstream.origin}/v1",
        ]
        done = subprocess.run(
            [sys.executable, "-c", "from twiceshy.cli import main; main()", *words, "--", sys.executable, "-c", AGENT, json.dumps(CHAT_TOOLS)],
            capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "OPENAI_API_KEY": TOKEN},
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, '"Let me look."\n'), done.stderr
    envelope = read_back((tmp_path / "run.jsonl").read_bytes())
    assert (envelope.input.user, envelope.disposition.output) == ("Which?", "Let me look.")
    (turn,) = envelope.crossings
    assert isinstance(turn.seen, dict)
    assert (turn.name, turn.seen["model"], turn.seen["tools"]) == ("gpt", "gpt", [OFFER])
    assert isinstance(turn.raw, dict)
    assert [part["type"] for part in turn.raw["parts"]] == ["text", "tool_call", "tool_call"]


TOOLED = """
import json, os, sys, time, urllib.request
user = json.load(sys.stdin)
def ask(url, body):
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    return json.load(urllib.request.urlopen(urllib.request.Request(url, data=json.dumps(body).encode(), headers=headers)))
shown = ask(os.environ["TWICESHY_TOOLS_URL"] + "/get_weather", {"city": user, "request_id": os.urandom(4).hex()})
ask(os.environ["TWICESHY_TOOLS_URL"] + "/warn", {"city": user})
print(json.dumps([shown, ask(os.environ["TWICESHY_TOOLS_URL"] + "/get_weather", {"city": user, "request_id": os.urandom(4).hex()})]))
"""
TOOLS_YAML = """workflow: weather
tools:
  get_weather: {effect: read, reads: [weather], volatile: [request_id]}
  warn: {touches: [people]}
"""


@pytest.mark.slow
def test_a_recorded_agent_replays_under_its_policy_without_hand_work(tmp_path: Path) -> None:
    """What tools.yaml says is in the record: effects, keys without what is drawn at random, and the state that each read saw."""
    (tmp_path / "data/policies/weather").mkdir(parents=True)
    (tmp_path / "data/policies/weather/tools.yaml").write_text(TOOLS_YAML)
    agent = [sys.executable, "-c", TOOLED]
    with a_tool_server() as tools:
        words = [
            "record",
            "-w",
            "weather",
            "-o",
            "run.jsonl",
            "--input",
            '"Leith"',
            "--tools-upstream",
            f"{tools}/tools",
            "--",
            *agent,
        ]
        done = subprocess.run(
            [sys.executable, "-c", "from twiceshy.cli import main; main()", *words], cwd=tmp_path,
            capture_output=True, text=True, timeout=120, check=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "TZ": "Asia/Tokyo"},
        )  # fmt: skip
    policy = load_policy(tmp_path / "data/policies/weather/tools.yaml")
    envelope = read_back((tmp_path / "run.jsonl").read_bytes(), policy)
    assert envelope.pins.clock is not None
    assert envelope.pins.clock.tz == "Asia/Tokyo"
    first, _, again = envelope.crossings
    assert [one.effect for one in envelope.crossings] == [Effect.READ, Effect.WRITE, Effect.READ]
    assert (first.key, first.state) == (again.key, again.state)
    with serving(envelope, policy) as replay:
        env = {"OPENAI_API_KEY": TOKEN, "TWICESHY_TOOLS_URL": f"{replay.origin}/tools"}
        told = subprocess.run(agent, env=env, input=b'"Leith"', capture_output=True, timeout=60, check=True)
        assert json.loads(told.stdout) == json.loads(done.stdout)
        assert [one.matched for one in replay.transcript.played] == ["#1", "#2", "#3"]


@pytest.mark.slow
def test_tools_that_the_policy_does_not_list_are_named(tmp_path: Path) -> None:
    (tmp_path / "data/policies/weather").mkdir(parents=True)
    (tmp_path / "data/policies/weather/tools.yaml").write_text(
        "workflow: weather\ntools: {get_weather: {effect: read}}\n"
    )
    with a_tool_server() as tools:
        words = [
            "record",
            "-w",
            "weather",
            "-o",
            "run.jsonl",
            "--input",
            '"Leith"',
            "--tools-upstream",
            f"{tools}/tools",
            "--",
        ]
        done = subprocess.run(
            [sys.executable, "-c", "from twiceshy.cli import main; main()", *words, sys.executable, "-c", TOOLED], cwd=tmp_path,
            capture_output=True, text=True, timeout=120, check=True, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
    assert "not in tools.yaml, and so a write that touches everything: warn\n" in done.stderr
