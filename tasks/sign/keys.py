"""The exact key of a failure, k1: a must-match block and facets; it rests on the violated invariant and the state effect (signatures.md §1)."""

from collections.abc import Sequence
from typing import NamedTuple

from tasks.sign.schema import NONE
from twiceshy.identity import digest

KEY_VERSION = "k1"
"""Rises when any part of a key changes its meaning; templates have their own version inside."""

_TEMPLATE = "t:"


class Block(NamedTuple):
    """B: what must be equal for two failures ever to be one. `policy_boundary` is the guard, or the tool whose middleware changed the field; `-` where neither."""

    invariant_id: str
    tool: str
    stage: str
    policy_boundary: str


class Facets(NamedTuple):
    """F: effect, error class (a declared code, `t:` and the hash of a template, or `-`), and schema pairs, sorted."""

    effect: str
    error_class: str
    schema_pairs: tuple[str, ...]

    @property
    def from_template(self) -> bool:
        """Whether the error class rests on text: only then may a key be matched by likeness."""
        return self.error_class.startswith(_TEMPLATE)


class Key(NamedTuple):
    """An exact key. `template` is the parameterised error text, where the error class rests on it."""

    block: Block
    facets: Facets
    template: str | None = None

    @property
    def id(self) -> str:
        """`k1:` and 16 hex digits of the sha256 of [version, B, F]."""
        return f"{KEY_VERSION}:{digest([KEY_VERSION, list(self.block), _plain(self.facets)])[:16]}"


def error_class(tool: str, code: str | None, template: str | None) -> str:
    """The error facet: a code that somebody declared, else the hash of the template, else `-`."""
    if code and code != "unknown" and not code.startswith(f"{tool}:"):
        return code
    return f"{_TEMPLATE}{digest(template)[:16]}" if template else NONE


def branch_id(key_id: str, paths: Sequence[str], buckets: Sequence[tuple[str, str]], skeleton: Sequence[str]) -> str:
    """The finer identity of a failure: 12 hex digits over the key, the argument paths and primary buckets of the violating call, and the way there."""
    collapsed = [name for at, name in enumerate(skeleton) if at == 0 or skeleton[at - 1] != name]
    return digest([key_id, sorted(set(paths)), sorted(map(list, set(buckets))), collapsed])[:12]


def _plain(facets: Facets) -> list[object]:
    return [facets.effect, facets.error_class, list(facets.schema_pairs)]
