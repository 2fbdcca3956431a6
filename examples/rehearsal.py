"""Recorded runs of the sample agents under a simulated clock: the real boundary and recorder, no waiting, the same bytes every time."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from examples.loop import as_told
from twiceshy import Boundary, candidates
from twiceshy.envelope import Clock, Kind, Pins, RunInput
from twiceshy.recording import Recorder, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy.boundary import Answer, Call
    from twiceshy.envelope import Envelope
    from twiceshy.policy import ToolsPolicy

# How long a passage takes, ms: (least, most).
_LATENCY_MS = {Kind.MODEL: (420, 2600), Kind.TOOL: (35, 380)}
_CODE_MS = (1, 3)


class _Simulated:
    """A recorder whose clock and chance come from a seed; everything else runs as it is."""

    def __init__(self, policy: ToolsPolicy | None, started: datetime, seed: str) -> None:
        self._started = started
        self._elapsed = timedelta()
        self._dice = random.Random(seed)  # noqa: S311 - latencies, no secret
        self.recorder = Recorder(policy=policy, now_ns=self.now_ns)

    def now(self) -> datetime:
        return self._started + self._elapsed

    def now_ns(self) -> int:
        return int(self._started.timestamp()) * 1_000_000_000 + self._elapsed // timedelta(microseconds=1) * 1000

    def cross(self, call: Call) -> Answer:
        answer = self.recorder.cross(call)
        if call.kind is Kind.CLOCK and call.name == "sleep":
            self._elapsed += timedelta(seconds=float(str(call.seen)))
            return replace(answer, live=False)
        if call.kind is Kind.CLOCK:
            return replace(answer, live=False, value=self.now())
        if call.kind is Kind.RANDOM:
            return replace(answer, live=False, value=self._dice.getrandbits(63))
        self._elapsed += timedelta(milliseconds=self._dice.randint(*_LATENCY_MS.get(call.kind, _CODE_MS)))
        return answer


def rehearse(
    spec: str, user: Any, *, started: datetime, world: object = None, policy: ToolsPolicy | None = None, trace_id: str = "T-1042",
    conversation_id: str | None = None,
) -> Envelope:  # fmt: skip
    """The sealed envelope of one live run of the candidate `spec` that began at `started` (whole seconds, with a zone).

    world: what its tools work on; by default the version's own. The trace id is the seed of latencies and chance.
    """
    factory, said = candidates.load(spec)
    backend = _Simulated(policy, started, trace_id)
    build: Callable[..., Callable[[Any], Any]] = factory
    boundary = Boundary(backend)
    disposition = run(build(boundary) if world is None else build(boundary, world), user)
    clock = Clock(
        instant_ns=int(started.timestamp()) * 1_000_000_000, tz=str(started.tzinfo), as_given_to_agent=as_told(started)
    )
    return backend.recorder.envelope(
        trace_id=trace_id, source="rehearsal", workflow=said.workflow, run_input=RunInput(user=user),
        disposition=disposition, pins=Pins(clock=clock, versions=candidates.layers(factory, said)),
        conversation_id=conversation_id,
    )  # fmt: skip
