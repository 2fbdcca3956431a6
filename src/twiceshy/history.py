"""The state of the world as a replay knows it: the history of effective writes (semantics.md §4)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.envelope import Effect, Kind
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.envelope import Crossing
    from twiceshy.policy import ToolsPolicy

_START = "s0"


class Write(NamedTuple):
    """One effective write: where it was asked for, and the call it was."""

    scope: str
    tool: str
    key: str


class History:
    """The effective writes of one run so far, and the state that each tool sees.

    Every crossing of a group sees the state at the group's start; the writes of a group enter sorted by (scope, tool, key), so arrival order changes nothing.
    A crossing that no model turn asked for is a group of its own.
    """

    def __init__(self, policy: ToolsPolicy) -> None:
        self._policy = policy
        self._settled: list[Write] = []
        self._pending: list[Write] = []
        self._group: tuple[str, int] | None = None
        self._digests: dict[tuple[str, ...] | None, tuple[int, str]] = {}

    def begin(self, scope: str, group: int | None) -> None:
        """Say that a crossing of this group comes next; the writes of the group before it take effect."""
        here = None if group is None else (scope, group)
        if here is None or here != self._group:
            self._settled += sorted(self._pending)
            self._pending.clear()
        self._group = here

    def enter(self, scope: str, tool: str, key: str) -> None:
        """Add an effective write of the group that has begun."""
        self._pending.append(Write(scope, tool, key))

    def state(self, tool: str) -> str:
        """The digest of the effective writes that touch what this tool reads or writes, in order; "s0" where there are none."""
        resources = self._policy.of(tool).resources
        seen, state = self._digests.get(resources, (0, _START))
        for write in self._settled[seen:]:
            if self._touch(write.tool, resources):
                state = "s:" + hashlib.sha256(state.encode() + canonical([write.tool, write.key])).hexdigest()[:32]
        self._digests[resources] = (len(self._settled), state)
        return state

    def writes(self) -> Sequence[Write]:
        """Every effective write so far, those of the running group last."""
        return [*self._settled, *sorted(self._pending)]

    def touches(self, write: str, tool: str) -> bool:
        """Whether a write of one tool touches what the other rests on."""
        return self._touch(write, self._policy.of(tool).resources)

    def _touch(self, writer: str, resources: tuple[str, ...] | None) -> bool:
        touched = self._policy.of(writer).touches
        return touched is None or resources is None or not set(touched).isdisjoint(resources)


class Attempts:
    """Counts attempts: the same (scope, name, key) again after an error answer is the next attempt; otherwise it is a call of its own."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str], tuple[int, bool]] = {}

    def next(self, scope: str, name: str, key: str) -> int:
        """The number of the attempt that is asked for now, from 1."""
        number, failed = self._last.get((scope, name, key), (0, False))
        return number + 1 if failed else 1

    def answered(self, crossing: Crossing) -> None:
        """Say how an attempt ended."""
        self._last[crossing.scope, crossing.name, crossing.key] = (crossing.attempt, crossing.error is not None)


def effective(crossing: Crossing, policy: ToolsPolicy) -> bool:
    """Whether a crossing changed the world or may have: a write that was neither blocked nor answered with a definite error.

    A timeout, a reset, a 5xx or an unknown error is ambiguous and counts as effective.
    """
    if (
        crossing.kind not in (Kind.TOOL, Kind.MEMORY)
        or policy.effect(crossing.name, crossing.effect) is not Effect.WRITE
    ):
        return False
    if crossing.blocked_by is not None:
        return False
    error = crossing.error
    return error is None or not (error.definite or error.type in policy.of(crossing.name).definite_errors)
