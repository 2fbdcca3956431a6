"""Paths into JSON values, as policies write them: `filters.tags[]`, `*` for any one name, `[]` for any item."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.identity import equal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PART = re.compile(r"\[\]|[^.\[\]]+")


def parse(path: str) -> tuple[str, ...]:
    """The parts of a path: names, `*` and `[]`. Raises ValueError for anything else."""
    parts = tuple(_PART.findall(path))
    if not parts or "".join(parts).replace("[]", "") != path.replace(".", "").replace("[]", ""):
        raise ValueError(f"{path!r} is no path; write names, *, [] joined by dots, as in items[].id")
    return parts


def edited(value: Any, parts: tuple[str, ...], edit: Callable[[Any], Any]) -> Any:
    """The value with `edit` applied wherever the path leads; an edit that returns UNSET removes the place. The input is not touched."""
    if not parts:
        return edit(value)
    part, rest = parts[0], parts[1:]
    if part == "[]":
        return _edited_items(value, rest, edit) if isinstance(value, list) else value
    if not isinstance(value, dict):
        return value
    hit = list(value) if part == "*" else [part] if part in value else []
    if not hit:
        return value
    copy = dict(value)
    for name in hit:
        made = edited(value[name], rest, edit)
        if made is UNSET:
            del copy[name]
        else:
            copy[name] = made
    return copy


def found(value: Any, parts: tuple[str, ...]) -> Iterator[Any]:
    """Every value the path leads to, in order."""
    if not parts:
        yield value
    elif parts[0] == "[]":
        for item in value if isinstance(value, list) else ():
            yield from found(item, parts[1:])
    elif isinstance(value, dict):
        for name in list(value) if parts[0] == "*" else [parts[0]] if parts[0] in value else []:
            yield from found(value[name], parts[1:])


def leads_to(value: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether every path leads into the value to what is wanted there and to nothing else, under identity rules."""
    for path, stated in wanted.items():
        held = list(found(value, parse(path)))
        if not held or not all(equal(one, stated) for one in held):
            return False
    return True


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, leaf) for every leaf, indices kept; an empty object or list is a leaf."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple) and value:
        for at, item in enumerate(value):
            yield from leaves(item, f"{path}[{at}]")
    else:
        yield path, value


def _edited_items(value: list[Any], rest: tuple[str, ...], edit: Callable[[Any], Any]) -> list[Any]:
    made = (edited(item, rest, edit) for item in value)
    return [item for item in made if item is not UNSET]
