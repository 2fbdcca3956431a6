"""`twiceshy record`: who is recorded, what a wrong call says, and that a factory's run comes back from the file as it was."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from traces import HARNESS, a_raw
from twiceshy.envelope import Envelope

AGENT = """
import twiceshy

@twiceshy.candidate(workflow="notes", versions={"harness": "1"})
def build(boundary):
    search = boundary.retrieval("docs", lambda query: [f"about {query}"])
    remember = boundary.memory("notebook", lambda text: {"kept": text})
    pay = boundary.tool("pay", lambda amount: {"paid": amount})
    boundary.hook("strip", lambda found: found[:1], after="docs")
    boundary.guard("limit", lambda asked: asked["amount"] < 100, before="pay")
    model = boundary.model("planner", lambda request: {"parts": [{"type": "text", "content": "go"}], "finish_reason": "stop"})

    def agent(user):
        model({"messages": [{"role": "user", "parts": [{"type": "text", "content": user["message"]}]}], "tools": []})
        remember(text=search(query=user["message"])[0])
        try:
            pay(amount=user["amount"])
        except twiceshy.Blocked:
            return {"status": "refused"}
        raise LookupError("no such account")

    return agent
"""


def ran(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "notes.py").write_text(AGENT)
    return subprocess.run(
        [sys.executable, "-m", "twiceshy", "record", *words],
        capture_output=True, text=True, timeout=120, check=False, cwd=folder, env={"PATH": os.environ["PATH"], **env},
    )  # fmt: skip


def notes(folder: Path, amount: int) -> subprocess.CompletedProcess[str]:
    given = json.dumps({"message": "cats", "amount": amount})
    return ran(folder, "-c", "notes:build", "-o", "traces/run.jsonl", "--input", given)


def read_back(content: bytes) -> list[Envelope]:
    from tasks.envelopes import envelopes
    from tasks.normalize.step import normalize, unredacted
    from tasks.sources import otlp

    mapped = otlp.spans(a_raw(content), harness_state=HARNESS)
    read = normalize(unredacted(mapped.spans), mapped.scores, policies={}, harness_state=HARNESS)
    return envelopes(read.traces, read.crossings)


def test_a_factory_is_recorded_live(tmp_path: Path) -> None:
    done = notes(tmp_path, 500)
    assert (done.returncode, done.stdout) == (0, '{"status":"refused"}\n'), done.stderr
    assert "6 crossings, not redacted" in done.stderr
    spans = json.loads((tmp_path / "traces/run.jsonl").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    told = [{held["key"]: held["value"].get("stringValue") for held in span["attributes"]} for span in spans]
    assert [one.get("twiceshy.kind") for one in told] == [
        None, "model", "retrieval", "hook", "memory", "tool", "guard"
    ]  # fmt: skip
    assert told[2]["twiceshy.shown"] == '["about cats"]'
    assert told[4]["twiceshy.proposed"] == '{"text":"about cats"}'
    assert told[5]["twiceshy.blocked_by"] == "limit"


def test_an_agent_that_raises_is_recorded_and_said(tmp_path: Path) -> None:
    notes(tmp_path, 500)
    done = notes(tmp_path, 50)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the agent raised builtins.LookupError: no such account" in done.stderr
    assert len((tmp_path / "traces/run.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_what_a_factory_recorded_the_source_reads(tmp_path: Path) -> None:
    notes(tmp_path, 500)
    (envelope,) = read_back((tmp_path / "traces/run.jsonl").read_bytes())
    told: list[Any] = [(one.place, one.kind.value, one.name, one.shown) for one in envelope.crossings if not one.sub]
    assert (envelope.workflow, envelope.input.user) == ("notes", {"message": "cats", "amount": 500})
    assert [place for place, *_ in told] == ["#1", "#2", "#3", "#4"]
    assert told[1][1:] == ("retrieval", "docs", ["about cats"])
    assert told[2][1:] == ("memory", "notebook", {"kept": "about cats"})
    assert [one.group for one in envelope.crossings if one.name in ("docs", "notebook", "pay")] == [1, 1, 1]
    assert [one.blocked_by for one in envelope.crossings if one.name == "pay"] == ["limit"]


def test_a_run_that_cannot_be_kept_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("a file")
    done = notes(tmp_path, 500)
    assert (done.returncode, done.stdout) == (2, "")
    assert "traces/run.jsonl: cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "write one agent to record: --candidate NAME, or its command after --."),
        (["-c", "notes:build", "--", "true"], "write one agent to record"),
        (["-c", "notes:build", "-w", "notes"], "--workflow is for a command"),
        (["--", "true"], "a command needs its --workflow."),
        (["-c", "notes"], "candidate 'notes' is not in twiceshy.toml"),
        (["-c", "notes:bild"], "module 'notes' has no 'bild'. Did you mean 'build'?"),
        (["-c", "notes:build", "--input", "{"], "--input is not JSON"),
    ],
)
def test_a_wrong_call_is_one_line_and_two(tmp_path: Path, words: list[str], told: str) -> None:
    done = ran(tmp_path, "-o", "run.jsonl", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run.jsonl").exists() or not (tmp_path / "run.jsonl").read_bytes()


def test_a_candidate_of_another_interpreter_is_sent_there(tmp_path: Path) -> None:
    (tmp_path / "twiceshy.toml").write_text(
        '[candidate.notes]\nfactory = "notes:build"\npython = "/opt/other/bin/python"\n'
    )
    done = ran(tmp_path, "-c", "notes", "-o", "run.jsonl")
    assert done.returncode == 2
    assert "/opt/other/bin/python -m twiceshy record" in done.stderr


def test_a_command_of_the_settings_is_recorded_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "twiceshy.toml").write_text(
        '[candidate.shell]\ncommand = ["./agent.sh"]\nworkflow = "notes"\ntools = ["http"]\nversions = {harness = "7"}\n'
    )
    (tmp_path / "agent.sh").write_text('#!/bin/sh\nprintf \'{"status": "%s"}\' "$(cat)"\n')
    (tmp_path / "agent.sh").chmod(0o755)
    (tmp_path / "deeper").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "twiceshy", "record", "-c", "shell", "-o", "run.jsonl", "--input", "1"],
        capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path / "deeper", env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, '{"status": "1"}'), done.stderr
    kept = (tmp_path / "deeper/run.jsonl").read_text()
    assert '"harness","version":"7"' in kept.replace("\\", "")
