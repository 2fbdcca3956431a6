"""What became of one leaf, in as few words as tell it: the values, the lines of a text that differ, or a long value around its first difference."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from twiceshy.reporting.escaping import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONG = 100
"""Characters of a text from which on only the surroundings of the first difference are shown."""
_AROUND = 30
_LINES = 12
"""Differing lines of a text that are shown."""


def change(before: Any | UnsetType, after: Any | UnsetType, *, payloads: bool) -> list[str]:
    """What stands behind the leaf's path, then further lines if it takes some. Without payloads it says only whether the leaf is new, gone or changed."""
    if not payloads:
        return [": added" if before is UNSET else ": removed" if after is UNSET else ": changed"]
    if isinstance(before, str) and isinstance(after, str):
        if "\n" in before or "\n" in after:
            return [":", *_lines(before, after)]
        if max(len(before), len(after)) > _LONG:
            return [f": {_near(before, after)} -> {_near(after, before)}"]
    return [f": {value(before)} -> {value(after)}"]


def value(found: Any | UnsetType) -> str:
    """A value on one line; nothing where it is not there."""
    return "nothing" if found is UNSET else plain(repr(found))


def _lines(before: str, after: str) -> Iterator[str]:
    differing = [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "-+"]
    yield from (f"{line[0]} {plain(line[2:])}" for line in differing[:_LINES])
    if len(differing) > _LINES:
        yield f"({len(differing) - _LINES} more lines differ)"


def _near(text: str, other: str) -> str:
    """The text around the first character in which it differs from the other."""
    at = next((at for at, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start, end = max(0, at - _AROUND), at + _AROUND
    return plain(f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}")
