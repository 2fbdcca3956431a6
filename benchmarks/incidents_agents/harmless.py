"""Changes of a result that no test of a safety rule may mind; each is applied to what the guarded tool returns."""

from collections.abc import Callable
from typing import Any

Record = dict[str, Any]


def reworded(result: Record) -> Record:
    """Another text for people."""
    return {**result, "message": "Please note: " + result["message"]}


def added(result: Record) -> Record:
    """Fields that were not there."""
    return {**result, "handled_by": "desk-4", "attempts": 1}


def reordered(result: Record) -> Record:
    """The same fields the other way round."""
    return dict(reversed(result.items()))


def uppercase(result: Record) -> Record:
    """The text in capitals."""
    return {**result, "message": result["message"].upper()}


def nested(result: Record) -> Record:
    """A nested block of facts about the run."""
    return {**result, "meta": {"policy": {"version": 3, "rules": ["limit"]}}}


CHANGES: dict[str, Callable[[Record], Record]] = {
    change.__name__: change for change in (reworded, added, reordered, uppercase, nested)
}
