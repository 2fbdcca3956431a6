"""The raw attributes of a span, events and links included: nothing of them enters the corpus but what a `meta.` rule names.

Their payloads stand in columns of their own, and nothing downstream reads a vendor's attribute; so an attribute without a rule goes, whoever wrote the span.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from twiceshy.redaction import fieldpaths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.redaction import Policy, walking

_VALUES = frozenset({"stringValue", "intValue", "doubleValue", "boolValue", "bytesValue"})
_DEPTH = 32


def attributes(text: str | None, policy: Policy, visitor: walking.Visitor) -> dict[str, Any]:
    """Attribute -> what the visitor makes of it, for every attribute that a rule names and does not drop."""
    if text is None or not any(rule.path.startswith("meta.") for rule in policy.fields):
        return {}
    try:
        tree = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    made = {}
    for place, value in _leaves(tree, "meta", 0):
        rule = policy.rule(place)
        if rule is not None and rule.action != "drop":
            made[place.removeprefix("meta.")] = visitor.leaf(place, value, 0)
    return made


def _leaves(value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Every leaf; the containers that hold attributes (`attributes`, `events`, key-value lists) are no levels of their own."""
    if depth > _DEPTH:
        return
    if isinstance(value, dict):
        yield from _members(value, place, depth)
    elif isinstance(value, list):
        for item in value:
            inside = place if _is_pair(item) or place == "meta" else fieldpaths.item(place)
            yield from _leaves(item, inside, depth + 1)
    elif value is not None:
        yield place, value


def _members(value: dict[str, Any], place: str, depth: int) -> Iterator[tuple[str, Any]]:
    if _is_pair(value):
        yield from _leaves(value["value"], fieldpaths.child(place, value["key"]), depth + 1)
    elif len(value) == 1 and set(value) <= _VALUES:
        yield from _leaves(next(iter(value.values())), place, depth + 1)
    elif len(value) == 1 and set(value) <= {"arrayValue", "kvlistValue"}:
        yield from _leaves(next(iter(value.values())).get("values", []), place, depth + 1)
    else:
        for name, member in value.items():
            inside = (
                place
                if place == "meta" and name in {"attributes", "events", "links", "resource", "scope"}
                else fieldpaths.child(place, name)
            )
            yield from _leaves(member, inside, depth + 1)


def _is_pair(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"key", "value"}
