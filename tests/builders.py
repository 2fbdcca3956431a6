"""Small things with defaults, for tests: envelopes, crossings, policies, and runs inside one process."""

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from twiceshy import invariants
from twiceshy.boundary import Boundary
from twiceshy.casefile import Case, LoadedCase
from twiceshy.encoding import sealed
from twiceshy.envelope import CODE_KINDS, Clock, Crossing, Disposition, Effect, Envelope, Kind, Pins, RunInput
from twiceshy.identity import key
from twiceshy.invariants import Invariants
from twiceshy.journal import Journal, transcript_of
from twiceshy.outcome import BoundaryState, Divergence
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.recording import Recorder, run
from twiceshy.replaying import Replay, RunDiverged, RunFaulted, Terms
from twiceshy.transcript import Diverged, Played, Transcript

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


def recorded(
    build: Build, user: Any = "hello", *, policy: ToolsPolicy | None = None, workflow: str = "refund"
) -> Envelope:
    """The envelope of a real run of an agent, recorded inside this process with a stepping clock."""
    ticks = iter(range(TUESDAY_NS, TUESDAY_NS + 10**12, 1_000_000))
    recorder = Recorder(policy=policy, now_ns=lambda: next(ticks))
    disposition = run(build(Boundary(recorder)), user)
    return recorder.envelope(
        trace_id="0af7651916cd43dd8448eb211c80319c", source="test", workflow=workflow, run_input=RunInput(user=user),
        disposition=disposition, pins=Pins(clock=Clock(instant_ns=TUESDAY_NS)),
    )  # fmt: skip


def replayed(
    build: Build, envelope: Envelope, *, boundary: Callable[[Replay], Boundary] = Boundary, **terms: Any
) -> Transcript:
    """The transcript of one replay inside this process. terms: fields of Terms."""
    lines: list[bytes] = []
    journal = Journal(lines.append)
    replay = Replay(envelope, Terms(**{"policy": a_policy(), **terms}), journal)
    with suppress(RunDiverged, RunFaulted):
        journal.ended(run(build(boundary(replay)), envelope.input.user))
    return transcript_of(lines)


def some_invariants(*specs: dict[str, Any], **file: Any) -> Invariants:
    """Compiled invariants, written to a file and loaded as the engine does. file: the other keys of invariants.yaml."""
    return _loaded(json.dumps({"workflow": "refund", **file, "invariants": list(specs)}))


@cache
def _loaded(text: str) -> Invariants:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "invariants.yaml"
        path.write_text(text, encoding="utf-8")
        return invariants.load(path)


def a_played(seq: int = 1, name: str = "get_order", **given: Any) -> Played:
    """A crossing of a replay: a frozen read, a live hook or guard, an intercepted write. given: fields of Played, the rest of its crossing."""
    played = {field: given.pop(field) for field in Played.__struct_fields__ if field in given}
    crossing = a_crossing(seq, name, **given)
    usual = BoundaryState.LIVE if crossing.kind in CODE_KINDS else BoundaryState.FROZEN
    if crossing.kind is Kind.TOOL and crossing.effect is Effect.WRITE:
        usual = BoundaryState.INTERCEPTED
    crossing = msgspec.structs.replace(crossing, key=crossing.key or key(name, crossing.asked))
    return Played(**{"crossing": crossing, "boundary": usual, **played})


def a_write(seq: int = 1, name: str = "issue_refund", **given: Any) -> Played:
    """An intercepted write."""
    return a_played(seq, name, effect=Effect.WRITE, **given)


def a_guard(seq: int, tool: str, name: str = "refund-approval", *, blocked: bool, **given: Any) -> Played:
    """A guard's answer before a tool."""
    verdict = {"blocked": blocked, "reason": "no" if blocked else None}
    return a_played(seq, name, kind=Kind.GUARD, effect=None, sub=1, at=f"before:{tool}", raw=verdict, **given)


def a_model(seq: int, name: str = "planner", **given: Any) -> Played:
    """A frozen model output."""
    return a_played(seq, name, kind=Kind.MODEL, effect=None, **given)


def a_transcript(*played: Played, **given: Any) -> Transcript:
    """A transcript of these crossings that ended well unless said otherwise."""
    usual: dict[str, Any] = {"disposition": Disposition(output={"status": "done"})}
    if given.keys() & {"divergence", "crash", "fault"}:
        usual = {}
    return Transcript(**{"played": list(played), **usual, **given})


def a_divergence(
    kind: Divergence = Divergence.ARGS_MISMATCH, place: str = "#9", boundary: str = "tool:get_order"
) -> Diverged:
    """A first divergence."""
    return Diverged(kind=kind, place=place, boundary=boundary)


def a_case(envelope: Envelope, **given: Any) -> LoadedCase:
    """A loaded case over an envelope: a failure whose opportunity is the default one, judged in full mode."""
    fields = {
        "id": "refund-over-limit",
        "kind": "failure",
        "workflow": "refund",
        "trace_id": envelope.trace_id,
        **given,
    }
    case = Case(**fields, envelope_digest=envelope.digest)
    return LoadedCase(case=case, envelope=envelope, path=Path("data/cases/refund/refund-over-limit"))
