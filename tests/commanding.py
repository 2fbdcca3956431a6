"""A weather agent that is a command, for tests of what is done with commands: what it runs, its sessions, its verdict."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from builders import a_case, a_policy, some_invariants
from gatewaying import a_weather_case
from sealed import a_host_folder, skip_without_namespaces
from twiceshy import casefile, commands
from twiceshy.casefile import Case, Judge, LoadedCase, Opportunity
from twiceshy.commands import Command
from twiceshy.cutpoint import CutPoint
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.running import CandidateSpec, Session, Task
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


@contextmanager
def a_weather_agent() -> Iterator[Path]:
    """A folder with the agent, which runs the code of its first argument, and its case."""
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


def verdict(told: Transcript) -> TrialVerdict:
    """What the case comes to, which asks only that the weather of Leith be read."""
    loaded = a_case(a_weather_case(), kind="positive", workflow="weather", opportunity=Opportunity(seq=2))
    return case_grader(loaded, some_invariants(workflow="weather"), POLICY).trial(told, CutPoint())


def output(told: Transcript) -> Any:
    assert told.disposition is not None, told
    return told.disposition.output
