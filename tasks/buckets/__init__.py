"""Argument buckets (signatures.md §8): what is unusual about an argument, as a set of labels and one primary. Pure, on raw values.

Layer 1 is relative to the tool's schema, layer 2 to what the value says, layer 3 to a frozen profile of the argument. Redaction keeps them: the labels are
computed before it and travel on the span.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.buckets import profiles, relative, semantic
from twiceshy import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks.buckets.profiles import Profile
    from tasks.buckets.semantic import Surroundings

VERSION = "b1"

TYPICAL = "typical"

ORDER = (*relative.LABELS, *semantic.LABELS, *profiles.LABELS, TYPICAL)
"""Every label; the first of a value's labels in this order is its primary bucket."""

_RANK = {label: at for at, label in enumerate(ORDER)}


class Buckets(NamedTuple):
    """`labels`: leaf path (indices removed) -> labels, the primary first. `schema_known` is False for an unknown tool: layer 2 alone spoke."""

    labels: dict[str, tuple[str, ...]]
    schema_known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What arguments are looked at against: the tool's schema, the run around the call, and frozen profiles by leaf path."""

    schema: Mapping[str, Any] | None = None
    around: Surroundings = semantic.NOWHERE
    profiles: Mapping[str, Profile] = field(default_factory=dict)


_NOTHING_KNOWN = Reference()


def argument_buckets(arguments: Any, reference: Reference = _NOTHING_KNOWN) -> Buckets:
    """The labels of every leaf of a call's arguments, of every list, and of every argument that is missing."""
    found: dict[str, set[str]] = {}
    for path, value in _parts(arguments):
        found.setdefault(path, set()).update(semantic.labels(path, value, reference.around))
        if path in reference.profiles and not isinstance(value, list):
            found[path].update(profiles.labels(value, reference.profiles[path]))
    if reference.schema is not None:
        for path, label in relative.labels(arguments, reference.schema):
            found.setdefault(path, set()).add(label)
    ranked = {
        path: tuple(sorted(labels, key=_RANK.__getitem__)) or (TYPICAL,) for path, labels in sorted(found.items())
    }
    return Buckets(ranked, schema_known=reference.schema is not None)


def _parts(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(leaf path, leaf), and lists besides: how many items one has is a class of its own."""
    if isinstance(value, dict) and value:
        return [
            part for name, member in value.items() for part in _parts(member, f"{path}.{name}" if path else str(name))
        ]
    if isinstance(value, list | tuple):
        inside = [part for member in value for part in _parts(member, f"{path}[]")]
        return [(path, list(value)), *inside]
    return [(path, value)]


def leaf_values(arguments: Any) -> list[tuple[str, Any]]:
    """(leaf path with indices removed, leaf) for every leaf of the arguments."""
    return [(relative.without_indices(path), leaf) for path, leaf in paths.leaves(arguments)]
