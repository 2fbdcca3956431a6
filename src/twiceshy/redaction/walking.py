"""The walk over a recorded value: every leaf and every key, through JSON held in strings, never touching the input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import UNSET

from twiceshy.errors import InputError
from twiceshy.redaction import fieldpaths, jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping


class Limits(NamedTuple):
    """Bounds of a walk: nesting, JSON in strings included, and characters of one value. Beyond them a trace is held, never passed."""

    depth: int = 64
    characters: int = 8_000_000


LIMITS = Limits()
"""The bounds of a walk unless others are given."""


class BoundExceeded(InputError):
    """A value is nested deeper or is longer than the walk may go; `reason` is the hold it leads to."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a value is larger or nested deeper than redaction follows ({reason}).")
        self.reason = reason


class Visitor(Protocol):
    """What becomes of what the walk meets. A value that comes back UNSET is taken out; from a list, a null stays in its place."""

    def dropped(self, place: str) -> bool:
        """Whether what stands at a place goes, whatever it holds."""
        ...

    def whole(self, place: str) -> bool:
        """Whether a string at a place is one value, even where it reads like JSON."""
        ...

    def leaf(self, place: str, value: Any, depth: int) -> Any:
        """The new value of a leaf."""
        ...

    def name(self, place: str, key: str) -> str:
        """The new spelling of a key."""
        ...


def walked(value: Any, place: str, visitor: Visitor, *, limits: Limits = LIMITS, depth: int = 0) -> Any:
    """A new value in which the visitor has seen every leaf and key. Raises BoundExceeded."""
    return _Walk(visitor, limits).value(place, value, depth)


class _Walk:
    def __init__(self, visitor: Visitor, limits: Limits) -> None:
        self._visitor = visitor
        self._limits = limits

    def value(self, place: str, value: Any, depth: int) -> Any:
        if self.dropped(place):
            return UNSET
        if isinstance(value, dict):
            return self._members(place, value, self.deeper(depth))
        if isinstance(value, list | tuple | set | frozenset):
            return self._items(place, value, self.deeper(depth))
        return self.scalar(place, value, depth)

    def _members(self, place: str, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        names = fieldpaths.key_of(place)
        for key, member in value.items():
            new = self.value(fieldpaths.child(place, key), member, depth)
            if new is not UNSET:
                made[self.name(names, key) if isinstance(key, str) else key] = new
        return made

    def _items(self, place: str, value: Any, depth: int) -> Any:
        inside = fieldpaths.item(place)
        new = (self.value(inside, member, depth) for member in value)
        return type(value)(None if member is UNSET else member for member in new)

    def scalar(self, place: str, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            if len(value) > self._limits.characters:
                raise BoundExceeded("size_exceeded")
            if jsontext.looks_like_json(value) and not self._visitor.whole(place):
                made = jsontext.edited(value, place, self, self.deeper(depth))
                if made is not None:
                    return made
        return self._visitor.leaf(place, value, depth)

    def dropped(self, place: str) -> bool:
        return self._visitor.dropped(place)

    def name(self, place: str, key: str) -> str:
        return self._visitor.name(place, key)

    def deeper(self, depth: int) -> int:
        if depth >= self._limits.depth:
            raise BoundExceeded("depth_exceeded")
        return depth + 1
