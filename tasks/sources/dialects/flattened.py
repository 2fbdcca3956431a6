"""Attributes that spell a tree in their keys, `llm.input_messages.0.message.role`, back to the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def tree(held: Mapping[str, Any], prefix: str) -> Any:
    """What stands under a prefix (which ends with a point); numbered members become a list in the order of their numbers, gaps closed. None where nothing does."""
    nested: dict[str, Any] = {}
    for key, value in held.items():
        if key.startswith(prefix):
            _put(nested, key.removeprefix(prefix).split("."), value)
    return _listed(nested) if nested else None


def items(held: Mapping[str, Any], prefix: str) -> list[Any]:
    """The list under a prefix; empty where there is none."""
    found = tree(held, prefix)
    return found if isinstance(found, list) else []


def numbers(held: Mapping[str, Any], prefix: str) -> list[int]:
    """The numbers of the members under a prefix, in order."""
    found = {key.removeprefix(prefix).partition(".")[0] for key in held if key.startswith(prefix)}
    return sorted(int(number) for number in found if number.isdecimal())


def _put(nested: dict[str, Any], names: list[str], value: Any) -> None:
    for name in names[:-1]:
        below = nested.get(name)
        if not isinstance(below, dict):  # a value stands where a tree goes on: both cannot be kept under one name
            below = nested[name] = {} if below is None else {"": below}
        nested = below
    nested[names[-1]] = value


def _listed(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    if held and all(name.isdecimal() for name in held):
        return [_listed(held[name]) for name in sorted(held, key=int)]
    return {name: _listed(value) for name, value in held.items()}
