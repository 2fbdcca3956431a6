"""Where a replay asks the world, and where it only tells it what others answered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from twiceshy.answered import Answered
from twiceshy.envelope import Effect, Kind
from twiceshy.history import effective
from twiceshy.outcome import AnsweredBy
from twiceshy.raising import raised_again
from twiceshy.recording import error_record
from twiceshy.worlds.authority import Served

if TYPE_CHECKING:
    from twiceshy.boundary import Call
    from twiceshy.cutpoint import CutPoint
    from twiceshy.envelope import Crossing
    from twiceshy.policy import ToolsPolicy
    from twiceshy.worlds.authority import Authority

_NO_ANSWER = frozenset({AnsweredBy.WORLD, AnsweredBy.GUARD, AnsweredBy.LIVE, AnsweredBy.VALIDATION})
"""Calls that nobody answered in the world's place: it answered itself, or the call never came through, or the candidate's own code did."""


class WorldSide:
    """The world's side of one replay; without a world it never answers."""

    def __init__(self, authority: Authority | None, cut: CutPoint, policy: ToolsPolicy) -> None:
        self._authority = authority
        self._cut = cut
        self._policy = policy

    def begin(self, call: Call) -> None:
        """Say that a call comes next."""
        if self._authority is not None:
            self._authority.begin(call.scope, call.group)

    def leads(self, call: Call, effect: Effect) -> bool:
        """Whether the world speaks for this call. A write that it does not answer goes the ordinary way, and leaves unknown what it touches."""
        if self._authority is None or effect is Effect.NONE or self._elsewhere(call):
            return False
        return self._authority.leads(call.name) and (effect is Effect.READ or self._authority.knows(call.name))

    def may_take(self, call: Call, effect: Effect) -> bool:
        """Whether the world may take over at a miss of the record; never inside a frozen prefix, which comes from the record."""
        if self._authority is None or effect is Effect.NONE or self._elsewhere(call):
            return False
        return self._authority.may_take(call.name)

    def _elsewhere(self, call: Call) -> bool:
        """Whether the world has no say: in a frozen prefix, and of what is no tool."""
        return self._cut.in_prefix(call.seq) or call.kind is not Kind.TOOL

    def passed(self, crossing: Crossing) -> list[str]:
        """Take note of a write inside a recorded passage, which nobody asked the world about; the tables that are unknown from here on."""
        if self._authority is None or not effective(crossing, self._policy):
            return []
        return self._authority.unseen(crossing.name)

    def answer(self, crossing: Crossing) -> Answered:
        """What the world answers. Raises WorldMiss."""
        if self._authority is None:
            raise TypeError("there is no world to ask")
        told = self._authority.answer(crossing)
        if told.error is not None and told.raised:
            return Answered(error=raised_again(told.error), by=AnsweredBy.WORLD)
        return Answered(
            value=told.value, by=AnsweredBy.WORLD, returned=told.error, changes=told.changes, unsettled=told.unsettled
        )

    def beside(self, crossing: Crossing, effect: Effect, answered: Answered) -> Answered:
        """The answer of others with the rows that the world has changed for it."""
        if self._authority is None or effect is Effect.NONE or answered.by in _NO_ANSWER:
            return answered
        if crossing.kind is not Kind.TOOL and effect is Effect.READ and crossing.name not in self._policy.tools:
            return answered  # a document or a memory that no policy counts among the tools' resources
        definite = self._policy.of(crossing.name).definite_errors
        error = error_record(answered.error, definite) if answered.error is not None else answered.returned
        changed = effective(msgspec.structs.replace(crossing, error=error), self._policy)
        noted = self._authority.beside(crossing, Served(answered.value, error, changed))
        return replace(answered, changes=noted.changes, unsettled=noted.unsettled)
