"""What one invariant says of one run, and the one context that every grader gets. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from twiceshy.envelope import Record
from twiceshy.invariants import Effect, Invariants, Severity, Tier
from twiceshy.outcome import BoundaryState, Divergence, Truth
from twiceshy.schemas import SchemaBreak
from twiceshy.worlds.goals import HowChanged, RowTerms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twiceshy.evidence import Run, Step
    from twiceshy.writes import DeclaredWrite


class RowDiff(Record, frozen=True, kw_only=True):
    """What became of one row of a world, without a value: its place in world.yaml and the paths that changed."""

    row: str
    change: HowChanged
    paths: list[str] = []
    invented: bool = False
    """Whether a person added the row to the world."""

    def __str__(self) -> str:
        """`appointments[1] updated (date, window)`."""
        return f"{self.row} {self.change}" + (f" ({', '.join(self.paths)})" if self.paths else "")


class Judgement(Record, frozen=True, kw_only=True):
    """The verdict of one invariant on one run. truth: None where it could not be judged, and `error` says why.

    place, boundary and boundary_state are those of the onset: the first crossing that violates it, or the one that satisfies it; None at the end of the run.
    """

    id: str
    version: int = 1
    tier: Tier = Tier.HARD
    kind: str
    truth: Truth | None = Truth.OPEN
    message: str = ""
    detail: str = ""
    """What exactly, without a recorded value: `required at $.order_id`."""
    place: str | None = None
    boundary: str | None = None
    boundary_state: BoundaryState | None = None
    evidence: list[str] = []
    """The places of every crossing it rests on, the onset first."""
    effect: Effect = "none"
    severity: Severity = "medium"
    schema: list[SchemaBreak] = []
    rows: list[RowDiff] = []
    """The rows of a world that are not as they must be."""
    improvised: bool = False
    """What satisfies it are improvised answers alone (semantics.md §5.2)."""
    stale: bool = False
    """Left open because frozen model outputs, served after what was shown had changed, prove nothing."""
    unknown: Divergence | None = None
    """Left open because this run cannot show it, and what that is: rows that a write changed unseen, code that was answered from the record. `place` is theirs."""
    advisory: bool = False
    """Reported, never counted."""
    error: str | None = None

    def at(self, *steps: Step, truth: Truth = Truth.VIOLATED, **more: Any) -> Judgement:
        """The same verdict, resting on these crossings; the first is the onset."""
        first = steps[0]
        return msgspec.structs.replace(
            self, truth=truth, place=first.crossing.place, boundary=first.called, boundary_state=first.boundary,
            evidence=[step.crossing.place for step in steps], **more,
        )  # fmt: skip

    def kept(self, run: Run, **more: Any) -> Judgement:
        """The same verdict where nothing speaks against it: satisfied at an undiverged end, open before."""
        return self.being(Truth.SATISFIED if run.ended else Truth.OPEN, **more)

    def being(self, truth: Truth | None, **more: Any) -> Judgement:
        """The same verdict with another truth, resting on no crossing of its own."""
        return msgspec.structs.replace(self, truth=truth, **more)


@dataclass(frozen=True, kw_only=True)
class CaseTerms:
    """What a case adds to what its workflow demands.

    names: the invariant ids the case itself stands for. opportunity: the steps at which the run reached it, none where it did not; several only where they
    stand beside each other. recorded: the recorded run. deciding: the recorded steps up to which call counts bind. live: boundaries that were named live (`model:planner`, `model:*`), whose counts are free.
    enforce_counts: whether a wrong count is a violation or a report. in_order: whether `expected` is an order. latency: of the record's duration; None is free.
    """

    names: frozenset[str]
    recorded: Run
    opportunity: Sequence[Step] = ()
    expected: Sequence[DeclaredWrite] = ()
    rows: RowTerms = field(default_factory=RowTerms)
    """What is expected of the rows of the case's world."""
    deciding: Sequence[Step] = ()
    live: frozenset[str] = frozenset()
    enforce_counts: bool = False
    in_order: bool = False
    latency: float | None = None

    @cached_property
    def recorded_writes(self) -> Mapping[tuple[str, str], int]:
        """How often each write (tool, key) of the recorded run may have happened; the attempts of one call are one."""
        nth = self.recorded.nth
        return {(write.crossing.name, write.key): nth[write.crossing.seq] for write in self.recorded.writes()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a grader sees: the run, the invariants of its workflow, and the terms of the case where one is judged."""

    run: Run
    invariants: Invariants
    case: CaseTerms | None = None
