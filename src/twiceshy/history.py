"""The state of the world as a replay knows it: the history of effective writes (semantics.md §4)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.envelope import Effect, Kind
from twiceshy.identity import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.envelope import Crossing
    from twiceshy.policy import ToolsPolicy

START = "s0"
"""The state before any effective write."""


class Write(NamedTuple):
    """One effective write: where it was asked for, and the call it was."""

    scope: str
    tool: str
    key: str


@dataclass(slots=True)
class _Branch:
    """The history as one agent sees it: what stood when it began, then its own writes and those of the agents it handed to."""

    settled: list[Write]
    own: list[Write] = field(default_factory=list)
    """Everything it and its agents wrote, in order: what its parent takes over."""
    taken: int = 0
    """How much of `own` its parent has."""
    pending: list[Write] = field(default_factory=list)
    group: int | None = None
    children: dict[str, _Branch] = field(default_factory=dict)
    digests: dict[tuple[str, ...] | None, tuple[int, str]] = field(default_factory=dict)

    def settle(self) -> None:
        """The group is over: its writes take effect, then those of the agents it handed to, scope by scope."""
        written = sorted(self.pending)
        self.pending.clear()
        for scope in sorted(self.children):
            written += self.children[scope].handed_over()
        self.settled += written
        self.own += written

    def handed_over(self) -> list[Write]:
        """What its parent has not taken over yet."""
        self.settle()
        written = self.own[self.taken :]
        self.taken = len(self.own)
        return written

    def writes(self) -> list[Write]:
        """Every write it knows of, those of the running group last."""
        held = [*self.settled, *sorted(self.pending)]
        for scope in sorted(self.children):
            child = self.children[scope]
            held += [*child.own[child.taken :], *sorted(child.pending)]
        return held


class History:
    """The effective writes of one run so far, and the state that each tool sees.

    Every crossing of a group sees the state at the group's start; the writes of a group enter sorted by (scope, tool, key), so arrival order changes nothing.
    A crossing that no model turn asked for is a group of its own. An agent that was handed to sees what stood when its first call began and what it writes
    itself; its parent sees that once the group of the handoff is over, so agents that run side by side do not see each other.
    """

    def __init__(self, policy: ToolsPolicy) -> None:
        self._policy = policy
        self._branches: dict[str, _Branch] = {"": _Branch([])}

    def begin(self, scope: str, group: int | None) -> None:
        """Say that a crossing of this group comes next; the writes of the group before it take effect."""
        branch = self._branches.get(scope) or self._branch(scope)
        if (group is None or group != branch.group) and (branch.pending or branch.children):
            branch.settle()
        branch.group = group

    def enter(self, scope: str, tool: str, key: str) -> None:
        """Add an effective write of the group that has begun."""
        self._branch(scope).pending.append(Write(scope, tool, key))

    def state(self, tool: str, scope: str = "") -> str:
        """The digest of the effective writes that touch what this tool reads or writes, in order; "s0" where there are none."""
        branch = self._branches.get(scope) or self._branch(scope)
        resources = self._policy.of(tool).resources
        seen, state = branch.digests.get(resources, (0, START))
        if seen == len(branch.settled):
            return state
        for write in branch.settled[seen:]:
            if self._touch(write.tool, resources):
                state = "s:" + hashlib.sha256(state.encode() + canonical([write.tool, write.key])).hexdigest()[:32]
        branch.digests[resources] = (len(branch.settled), state)
        return state

    def writes(self) -> Sequence[Write]:
        """Every effective write so far, those of the running group last."""
        return self._branches[""].writes()

    def touches(self, write: str, tool: str) -> bool:
        """Whether a write of one tool touches what the other rests on."""
        return self._touch(write, self._policy.of(tool).resources)

    def _branch(self, scope: str) -> _Branch:
        branch = self._branches.get(scope)
        if branch is None:
            parent = self._branch(scope.rpartition("/")[0])
            branch = self._branches[scope] = parent.children[scope] = _Branch([*parent.settled])
        return branch

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

    def passed(self, scope: str, name: str, key: str) -> int:
        """The number of the attempt that is asked for now and answered at once, without an error."""
        number = self.next(scope, name, key)
        self._last[scope, name, key] = (number, False)
        return number

    def answered(self, crossing: Crossing, *, failed: bool | None = None) -> None:
        """Say how an attempt ended; by default as the crossing says."""
        ended = crossing.error is not None if failed is None else failed
        self._last[crossing.scope, crossing.name, crossing.key] = (crossing.attempt, ended)


class Scopes:
    """Names the scopes of agents that are handed to: who handed to them, the key of the handoff, and which of equal ones it was."""

    def __init__(self) -> None:
        self._spawned: dict[tuple[str, str, str], int] = {}

    def spawned(self, scope: str, name: str, key: str) -> str:
        """The scope of the next agent that this handoff makes."""
        index = self._spawned.get((scope, name, key), 0)
        self._spawned[scope, name, key] = index + 1
        return f"{scope}/{name.replace('/', '%2F')}:{key.removeprefix('c1:')[:12]}#{index}"


def effective(crossing: Crossing, policy: ToolsPolicy) -> bool:
    """Whether a crossing changed the world or may have: a write that was neither blocked nor answered with a definite error.

    A timeout, a reset, a 5xx or an unknown error is ambiguous and counts as effective.
    """
    called = crossing.kind in (Kind.TOOL, Kind.MEMORY, Kind.RETRIEVAL) and crossing.blocked_by is None
    if not called or policy.effect_of(crossing) is not Effect.WRITE:
        return False
    error = crossing.error
    return error is None or not (error.definite or error.type in policy.of(crossing.name).definite_errors)
