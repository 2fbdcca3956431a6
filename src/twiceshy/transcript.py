"""What one replayed run came to: every crossing with what the replay did at it, the first divergence, and how the run ended. Data only."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy.encoding import crossing_line, record_line
from twiceshy.envelope import Crossing, Disposition, Record
from twiceshy.identity import canonical
from twiceshy.ordering import Order, renumbered
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Drift = Literal["template", "messages"]
"""How a frozen model's request differs from the recorded one."""

Crash = Literal["crashed", "cpu", "wall", "output", "signal"]
"""How a trial ended that left no end marker: on its own, at its CPU limit, at its wall clock, at the limit of its journal, by a signal that somebody sent."""


class FieldDiff(Record, frozen=True, kw_only=True):
    """One leaf in which a call differs from a recording; UNSET is "not there"."""

    path: str
    recorded: Any | UnsetType = UNSET
    got: Any | UnsetType = UNSET


class Near(Record, frozen=True, kw_only=True):
    """A recorded crossing that was near, and why it was not served."""

    place: str
    reason: Literal[
        "already served",
        "other writes came before it",
        "other arguments",
        "other scope",
        "an error",
        "not proposed here",
    ]
    fields: list[FieldDiff] = []


class Diverged(Record, frozen=True, kw_only=True):
    """The first divergence of a run: what was asked, where, and the nearest recordings with the reason each was refused."""

    kind: Divergence
    place: str
    boundary: str
    """`tool:list_open_slots`"""
    detail: str = ""
    asked: Any | UnsetType = UNSET
    nearest: list[Near] = []


class RowChange(Record, frozen=True, kw_only=True):
    """A row of a world that a call changed. UNSET is "not there": before an insertion, after a deletion."""

    table: str
    row: str
    """Its place in world.yaml, as `appointments[1]`; `appointments[new]` for a row that was not there at the start."""
    key: dict[str, Any]
    before: dict[str, Any] | UnsetType = UNSET
    after: dict[str, Any] | UnsetType = UNSET
    invented: bool = False
    """Whether a person added the row to the world."""


class Played(Record, frozen=True, kw_only=True):
    """One crossing of a replayed run. Grain: (seq, sub)."""

    crossing: Crossing
    boundary: BoundaryState
    answered_by: AnsweredBy | None = None
    matched: str | None = None
    """The place of the recorded crossing whose answer was served."""
    stale: bool = False
    """A frozen model output served after something shown had already differed from the record."""
    drift: Drift | None = None
    """How a frozen model's request differs from the recorded one."""
    idempotency_key: Any = None
    exercised: bool = True
    """Whether candidate code ran here."""
    changes: list[RowChange] = []
    """The rows of the world that it changed, in order."""
    unsettled: list[str] = []
    """Tables of the world that it changed, or may have, in a way that nobody knows."""

    @property
    def intent(self) -> bool:
        """Whether this is a write that was intercepted."""
        return self.boundary is BoundaryState.INTERCEPTED


class Transcript(Record, frozen=True, kw_only=True):
    """One trial of one case, as the parent process saw it.

    played: crossings in order of (seq, sub). disposition: None when the run never returned (see `crash`). fault: our own failure, which makes the outcome ERROR.
    noted: requests to a gateway that are no passage, by name.
    """

    played: list[Played] = []
    noted: list[str] = []
    divergence: Diverged | None = None
    disposition: Disposition | None = None
    crash: Crash | None = None
    signal: str | None = None
    """The name of the signal that ended it, where that is how it ended."""
    fault: str | None = None

    @property
    def simulated(self) -> int:
        """How many answers were simulated: a run with any is no evidence."""
        return sum(played.answered_by is AnsweredBy.SIMULATED for played in self.played)

    @property
    def digest(self) -> str:
        """The sha256 of everything in the transcript, in (group, scope, key) order: what bit-stability is defined on.

        Steps are numbered anew in that order, so that calls of one turn count the same whichever thread came first.
        """
        total = hashlib.sha256()
        for crossing, played in _in_order(self.played):
            total.update(crossing_line(crossing))
            total.update(canonical([played.boundary, played.answered_by, played.matched, played.stale, played.drift]))
            for change in played.changes:
                total.update(record_line(change))
            total.update(canonical(played.unsettled) if played.unsettled else b"")
        for rest in (self.divergence, self.disposition):
            total.update(record_line(rest) if rest is not None else b"-")
        total.update(canonical([self.crash, self.fault, *([self.signal] if self.signal else [])]))
        return total.hexdigest()


def _in_order(played: Sequence[Played]) -> Iterator[tuple[Crossing, Played]]:
    order = Order(one.crossing for one in played)
    steps = sorted((one.crossing for one in played if not one.crossing.sub), key=order.place)
    numbers = {step.seq: at for at, step in enumerate(steps, start=1)}
    for one in sorted(played, key=lambda one: (numbers.get(one.crossing.seq, 0), one.crossing.sub)):
        crossing = one.crossing
        group = None if crossing.group is None else numbers.get(crossing.group, 0)
        seq = numbers.get(crossing.seq, 0)
        yield (
            msgspec.structs.replace(
                crossing, seq=seq, group=group, parent=renumbered(crossing.parent, lambda step: numbers.get(step, 0))
            ),
            one,
        )
