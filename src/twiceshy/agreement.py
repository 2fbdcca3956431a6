"""When a recorded user turn may answer what the agent says now (semantics.md §4): the same message, a condition of the case, or any message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twiceshy.conditions import Condition, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAMES = frozenset({"recorded", "said"})
"""What a condition on messages may name: what the agent said when the turn was recorded, and what it says now."""

ANY = "any"


@dataclass(frozen=True, slots=True)
class _Messages:
    recorded: Any
    said: Any

    def value(self, name: str) -> Any:
        return getattr(self, name)

    def result(self, tool: str, selector: Mapping[str, Any] | None) -> Any:  # noqa: ARG002 - the protocol of facts
        raise Unanswered("a condition on messages asks for no results", missing=False)


def agreement(user_turns: str | None, *, where: object) -> Callable[[Any, Any], bool] | None:
    """Whether (recorded, said) agree, by the case's `user_turns`: `any`, or a CEL condition. None is the same message by identity rules.

    where: names the case in errors. Raises InvariantError for a condition that does not compile; using it raises ConditionError where it has no value.
    """
    if user_turns is None:
        return None
    if user_turns == ANY:
        return lambda recorded, said: True  # noqa: ARG005 - any message will do
    condition = Condition(user_turns, where=where, names=NAMES)
    return lambda recorded, said: condition.holds(_Messages(recorded, said))
