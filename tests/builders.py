"""Small things with defaults, for tests: envelopes, crossings, policies, and runs inside one process."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from twiceshy.boundary import Boundary
from twiceshy.encoding import sealed
from twiceshy.envelope import Clock, Crossing, Disposition, Effect, Envelope, Kind, Pins, RunInput
from twiceshy.journal import Journal, transcript_of
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.recording import Recorder, run
from twiceshy.replaying import Replay, RunDiverged, Terms
from twiceshy.transcript import Transcript

Build = Callable[[Boundary], Callable[[Any], Any]]

TUESDAY_NS = 1_780_394_400_000_000_000
"""2026-06-02T10:00:00Z."""


def a_policy(workflow: str = "refund", **tools: ToolPolicy | Effect | str) -> ToolsPolicy:
    """A policy of tools, each given whole or by its effect."""
    listed = {
        name: tool if isinstance(tool, ToolPolicy) else ToolPolicy(effect=Effect(tool)) for name, tool in tools.items()
    }
    return ToolsPolicy(workflow=workflow, tools=listed)


def a_crossing(seq: int = 1, name: str = "get_order", **given: Any) -> Crossing:
    """A tool crossing; a read of nothing unless said otherwise."""
    return Crossing(
        **{
            "seq": seq,
            "kind": Kind.TOOL,
            "name": name,
            "effect": Effect.READ,
            "seen": {},
            "raw": None,
            "shown": None,
            **given,
        }
    )


def an_envelope(*crossings: Crossing, **given: Any) -> Envelope:
    """A sealed envelope of these crossings."""
    fields: dict[str, Any] = {
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "source": "test",
        "workflow": "refund",
        "input": RunInput(user="hello"),
        "pins": Pins(clock=Clock(instant_ns=TUESDAY_NS)),
        "disposition": Disposition(output={"status": "done"}),
    }
    return sealed(Envelope(**{**fields, **given}, crossings=crossings))


def recorded(build: Build, user: Any = "hello", *, policy: ToolsPolicy | None = None) -> Envelope:
    """The envelope of a real run of an agent, recorded inside this process with a stepping clock."""
    ticks = iter(range(TUESDAY_NS, TUESDAY_NS + 10**12, 1_000_000))
    recorder = Recorder(policy=policy, now_ns=lambda: next(ticks))
    disposition = run(build(Boundary(recorder)), user)
    return recorder.envelope(
        trace_id="0af7651916cd43dd8448eb211c80319c", source="test", workflow="refund", run_input=RunInput(user=user),
        disposition=disposition, pins=Pins(clock=Clock(instant_ns=TUESDAY_NS)),
    )  # fmt: skip


def replayed(
    build: Build, envelope: Envelope, *, boundary: Callable[[Replay], Boundary] = Boundary, **terms: Any
) -> Transcript:
    """The transcript of one replay inside this process. terms: fields of Terms."""
    lines: list[bytes] = []
    journal = Journal(lines.append)
    replay = Replay(envelope, Terms(**{"policy": a_policy(), **terms}), journal)
    with suppress(RunDiverged):
        journal.ended(run(build(boundary(replay)), envelope.input.user))
    return transcript_of(lines)
