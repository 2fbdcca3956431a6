"""Agents that would lead past their boundary: refused when they are built, or their run ended as an error of ours."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import a_policy
from twiceshy.adapters.controlling import UncontrolledTool
from twiceshy.boundary import Boundary
from twiceshy.candidates import Candidate, described
from twiceshy.envelope import Envelope
from twiceshy.journal import Journal, transcript_of
from twiceshy.recording import run
from twiceshy.replaying import Replay, RunFaulted, Terms


def look(build: Callable[[Boundary], Any]) -> None:
    described(build, Candidate(workflow="refund"))


def refuses(build: Callable[[Boundary], Any], name: str) -> None:
    with pytest.raises(UncontrolledTool, match=f"tool '{name}'") as refused:
        look(build)
    assert refused.value.exit_code == 4


def faults(build: Callable[[Boundary], Any], envelope: Envelope, name: str) -> None:
    """The agent's replay ends as an error of ours that names the tool."""
    assert f"tool {name!r}" in fault_of(build, envelope)


def fault_of(build: Callable[[Boundary], Any], envelope: Envelope) -> str:
    """The error of ours as which the agent's replay ends."""
    lines: list[bytes] = []
    replay = Replay(envelope, Terms(policy=a_policy()), Journal(lines.append))
    with pytest.raises(RunFaulted):
        run(build(Boundary(replay)), "hello")
    fault = transcript_of(lines).fault
    assert fault is not None
    return fault
