"""Which boundaries are frozen, live or intercepted in a replay (semantics.md §6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from twiceshy.envelope import CODE_KINDS, Effect, Kind
from twiceshy.errors import InputError
from twiceshy.outcome import BoundaryState, Mode
from twiceshy.seam import Call

if TYPE_CHECKING:
    from collections.abc import Collection

    from twiceshy.policy import ToolsPolicy


_NEVER_LIVE = frozenset({Kind.USER, Kind.HUMAN, Kind.CLOCK, Kind.RANDOM, Kind.FLAG})
"""A person who is asked live is somebody at work; a candidate that answers for one grants itself what it wants."""

_CALLED = {Kind.TOOL: None, Kind.MEMORY: None, Kind.RETRIEVAL: Effect.READ}
"""What is called by arguments, with the effect where the policy is silent: None is a write."""


class LivePerson(InputError):
    """A cut-point that would let a replay ask a person, or read the real clock, chance or flags."""

    @classmethod
    def named(cls, boundary: str) -> LivePerson:
        """The boundary, and what stands in for it."""
        return cls(
            f"--live {boundary}: people, clock, chance and flags come from the record. Declare what was not recorded in case.yaml (expect.grants, user_turns, flags)."
        )


class LiveWrite(InputError):
    """A cut-point that would let a replay execute a write."""

    @classmethod
    def named(cls, boundary: str) -> LiveWrite:
        """The boundary, and why it stays intercepted."""
        return cls(
            f"--live {boundary}: this tool is a write (or not listed as a read in tools.yaml), and no replay executes a write. "
            "List it with `effect: read` if it changes nothing."
        )


class UnknownBoundary(InputError):
    """A name for a boundary that is not `kind:name`."""

    @classmethod
    def written(cls, text: str) -> UnknownBoundary:
        """The text as given, with the form it should have."""
        kinds = ", ".join(kind.value for kind in Kind)
        return cls(f"{text!r} names no boundary. Write kind:name, as in model:planner; kinds are {kinds}.")

    @classmethod
    def among(cls, name: str, known: Collection[str]) -> UnknownBoundary:
        """A boundary that a candidate does not declare, with those it does: a typo would judge nothing, silently."""
        return cls(f"the candidate declares no boundary {name!r}. It declares {', '.join(sorted(known)) or 'none'}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPoint:
    """A mode with what it is varied by: boundaries named live, a frozen prefix (steps 1..after), boundaries frozen besides. Names are `kind:name`; `kind:*` is all of a kind."""

    mode: Mode = Mode.FULL
    live: frozenset[str] = frozenset()
    after: int | None = None
    freeze: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse names that are no boundaries. Raises UnknownBoundary."""
        for name in self.live | self.freeze:
            kind, colon, rest = name.partition(":")
            if not colon or not rest or kind not in set(Kind):
                raise UnknownBoundary.written(name)

    def refuse_live_writes(self, policy: ToolsPolicy) -> None:
        """Raise LiveWrite where a boundary named live is a tool that is not a read and not pure."""
        for name in sorted(self.live):
            kind, _, called = name.partition(":")
            if kind in _NEVER_LIVE:
                raise LivePerson.named(name)
            if kind in _CALLED and (called == "*" or policy.effect(called, _CALLED[Kind(kind)]) is Effect.WRITE):
                raise LiveWrite.named(name)

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise UnknownBoundary for a name, live or frozen, that is not among the boundaries (`kind:name`) of a candidate."""
        kinds = {f"{name.partition(':')[0]}:*" for name in known}
        for name in sorted(self.live | self.freeze):
            if name not in known and name not in kinds:
                raise UnknownBoundary.among(name, known)

    @property
    def has_live_model(self) -> bool:
        """Whether a model was named live, so that trials may differ by chance."""
        live = self.live - self.freeze
        return f"{Kind.MODEL}:*" not in self.freeze and any(name.partition(":")[0] == Kind.MODEL for name in live)

    def in_prefix(self, seq: int) -> bool:
        """Whether a step comes from the record, hooks and guards included."""
        return self.mode is Mode.STUB or (self.after is not None and seq <= self.after)

    def state(self, call: Call, effect: Effect | None) -> BoundaryState:
        """What a replay does at this passage. A write is intercepted in every mode."""
        if call.kind in _CALLED and effect is Effect.WRITE:
            return BoundaryState.INTERCEPTED
        names = {f"{call.kind}:{call.name}", f"{call.kind}:*"}
        frozen = not names.isdisjoint(self.freeze)
        if call.kind is Kind.HANDOFF:  # the agent's own loop: it runs in a prefix and in `stub` too
            return BoundaryState.FROZEN if frozen else BoundaryState.LIVE
        if frozen or call.kind in _NEVER_LIVE or self.in_prefix(call.seq):
            return BoundaryState.FROZEN
        if call.kind in CODE_KINDS or not names.isdisjoint(self.live):
            return BoundaryState.LIVE
        if (
            call.kind is Kind.TOOL
            and effect is Effect.NONE
            and call.declared is not None
            and call.declared.fn is not None
        ):
            return BoundaryState.LIVE
        return BoundaryState.FROZEN

    def manifest(self, declared: Collection[str], policy: ToolsPolicy) -> dict[str, str]:
        """What a replay does at every boundary that a candidate declares (`kind:name`), met or not: frozen, live or intercepted; after a prefix, past its end.

        By the policy alone: a tool that only the code calls a read shows as intercepted, and what was really done stands with each step.
        """
        states = {}
        for name in sorted(declared):
            kind, _, called = name.partition(":")
            effect = policy.effect(called, _CALLED[Kind(kind)]) if kind in _CALLED else None
            call = Call(kind=Kind(kind), name=called, seq=(self.after or 0) + 1)
            states[name] = self.state(call, effect).value
        return states

    @property
    def label(self) -> str:
        """How outputs name it: `cut-point --after 3`."""
        parts = [self.mode.value]
        parts += [f"--live {name}" for name in sorted(self.live)]
        parts += [f"--after {self.after}"] if self.after is not None else []
        parts += [f"--freeze {name}" for name in sorted(self.freeze)]
        return " ".join(parts)
