"""What a replay takes from the pins of its record: a clock that moves only when it is told to, and chance that is drawn from a key (semantics.md §4)."""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from zoneinfo import ZoneInfo

from twiceshy.envelope import Clock, Kind
from twiceshy.paths import leaves

if TYPE_CHECKING:
    from twiceshy.envelope import Crossing, Envelope

_EPOCH = datetime.fromtimestamp(0, UTC)


class VirtualClock(Protocol):
    """A clock that only moves when it is told to."""

    def now_ns(self) -> int:
        """The instant, ns since the epoch."""
        ...

    def advance(self, ns: int) -> None:
        """Move on by so many ns."""
        ...


@dataclass(slots=True)
class SteppedClock:
    """The plain virtual clock, for a replay inside one process."""

    instant_ns: int = 0

    def now_ns(self) -> int:
        """The instant, ns since the epoch."""
        return self.instant_ns

    def advance(self, ns: int) -> None:
        """Move on by so many ns."""
        self.instant_ns += max(0, ns)


class Pinned:
    """The clock and the chance of one replayed run. seed: of draws past the record."""

    def __init__(self, envelope: Envelope, clock: VirtualClock | None, seed: bytes) -> None:
        self._pin = envelope.pins.clock or Clock(instant_ns=0)
        self._told = envelope.pins.clock is not None
        self._clock: VirtualClock = clock or SteppedClock(self._pin.instant_ns)
        self._seeds: dict[tuple[str, str | None], deque[int]] = defaultdict(deque)
        for crossing in envelope.crossings:
            if crossing.kind is Kind.RANDOM and isinstance(crossing.raw, int):
                self._seeds[crossing.scope, crossing.parent].append(crossing.raw)
        self._seed = seed
        self._draws = 0

    def now(self) -> datetime:
        """The instant of the run, in the pinned zone."""
        # From UTC: arithmetic in a zone is on its wall clock, an hour off across a change of offset.
        return (_EPOCH + timedelta(microseconds=self._clock.now_ns() // 1000)).astimezone(ZoneInfo(self._pin.tz))

    def sleep(self, seconds: float) -> None:
        """Move on at once."""
        self._clock.advance(int(seconds * 1_000_000_000))

    def passes(self, recorded: Crossing) -> None:
        """Move on by what a served crossing took."""
        if recorded.start_ns is not None and recorded.end_ns is not None:
            self._clock.advance(recorded.end_ns - recorded.start_ns)

    def draw(self, scope: str = "", parent: str | None = None) -> int:
        """The recorded seed of this agent's loop, or of the passage in whose code it is drawn; past the record HMAC(seed of the case and trial, n), 63 bits."""
        seeds = self._seeds.get((scope, parent))
        if seeds:
            return seeds.popleft()
        self._draws += 1
        return int.from_bytes(hmac.digest(self._seed, str(self._draws).encode(), hashlib.sha256)[:8]) >> 1

    def date_lacking(self, recorded: Any, request: Any) -> str | None:
        """The date that a recorded request told the model and this one does not; None where it does, or where the recorded one did not either."""
        if not self._told:
            return None
        start = (_EPOCH + timedelta(microseconds=self._pin.instant_ns // 1000)).astimezone(ZoneInfo(self._pin.tz))
        date = self._pin.as_given_to_agent or start.date().isoformat()
        return date if _says(recorded, date) and not _says(request, date) else None


def _says(request: Any, text: str) -> bool:
    return any(isinstance(leaf, str) and text in leaf for _, leaf in leaves(request))
