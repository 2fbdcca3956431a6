"""What the agent is told of a call that a break keeps from being made: what the record holds of it, else what a write would be answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from twiceshy import writes
from twiceshy.envelope import Effect
from twiceshy.identity import canonical
from twiceshy.matching import Recording, fresh, recordings

if TYPE_CHECKING:
    from twiceshy.envelope import Envelope
    from twiceshy.replaying import Terms
    from twiceshy.seam import Declared


class Answers:
    """The recorded answers of one case by call, whatever was written before them."""

    def __init__(self, envelope: Envelope, terms: Terms) -> None:
        self._terms = terms
        self._held: dict[tuple[str, str], Recording] = {}
        self._failed: set[tuple[str, bytes]] = set()
        for recording in recordings(envelope.crossings, terms.policy):
            name = recording.crossing.name
            if recording.crossing.error is None and recording.answer is not UNSET:
                self._held.setdefault((name, recording.key), recording)
                self._held.setdefault((name, _proposal(recording.crossing.proposed)), recording)
            elif recording.answer is not UNSET:
                self._failed.add((name, canonical(recording.answer)))

    def of(self, tool: Declared, proposed: dict[str, Any]) -> Any | UnsetType:
        """What this call would have shown; UNSET for a read that was not recorded, which nobody can answer."""
        asked = {**tool.defaults, **proposed}
        key = self._terms.policy.key(tool.name, asked, tool.schema)
        held = self._held.get((tool.name, key)) or self._held.get((tool.name, _proposal(proposed)))
        if held is not None:
            return fresh(held.answer if held.crossing.shown is UNSET else held.crossing.shown)
        if not tool.tightened and self._terms.policy.effect(tool.name, tool.effect) is not Effect.WRITE:
            return UNSET
        policy = self._terms.policy.of(tool.name)
        value, _ = writes.answer(
            tool.name, asked, declared=self._terms.declared, policy=policy, result_schema=tool.result_schema
        )
        return value

    def well(self, tool: Declared, proposed: dict[str, Any]) -> Any:
        """`of`, and for a read that was not recorded the smallest value its result may have: what hides an error."""
        known = self.of(tool, proposed)
        schema = tool.result_schema or self._terms.policy.of(tool.name).result_schema or {}
        return writes.made(schema) if known is UNSET else known

    def failed(self, tool: Declared, shown: object) -> bool:
        """Whether this value was recorded as an error that the tool returned as its result."""
        return bool(self._failed) and (tool.name, canonical(shown)) in self._failed


def _proposal(proposed: object) -> str:
    """A key of its own for what was asked before the hooks: they may have added what differs from run to run."""
    return "" if proposed is UNSET else f"proposed {canonical(proposed).hex()}"
