"""What becomes of every field of a trace (`data/policies/<workflow>/redaction.yaml`), versioned and reviewed like code.

A field that no rule names holds its trace, as a tool that no policy lists is a write.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from twiceshy import documents, identity
from twiceshy.errors import PolicyError, nearest
from twiceshy.redaction import fieldpaths
from twiceshy.redaction.phones import REGIONS

if TYPE_CHECKING:
    from pathlib import Path

Action = Literal["drop", "generalize", "synthesize", "restrict", "keep"]

TYPES = ("email", "phone", "iban", "card", "ssn", "person_name", "address", "date_of_birth", "last_four")
"""Types with a canonical form and a synthesis of their own; any other name is a business id of the workflow, as `order_id`."""

DETECTORS = ("email", "phone", "iban", "card", "last_four", "ssn", "ip", "secret")


NAME_GROUPS = frozenset({"first_name", "last_name"})
"""Groups of a pattern of ids that are made of a person's name, as `mia_li_3668`: the name is then known wherever the id is."""


class _Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Band(_Shape, frozen=True, kw_only=True):
    """The field whose value an amount is compared with; looked for beside the amount, then anywhere in the trace."""

    relative_to: str


class FieldRule(_Shape, frozen=True, kw_only=True):
    """One rule. `pattern` says how an id is written, its group `id` (or all of it) being the id, its groups `first_name` and `last_name` a name that it spells; `band`, `to`: how to generalize."""

    path: str
    action: Action
    type: str | None = None
    pattern: str | None = None
    reason: str | None = None
    band: Band | None = None
    to: Literal["year_band_5", "date_shift"] | None = None

    @property
    def declared(self) -> bool:
        """Whether its type is a business id of the workflow."""
        return self.type is not None and self.type not in TYPES


class Defaults(_Shape, frozen=True, kw_only=True):
    """What happens where no rule speaks."""

    unknown_field: Literal["hold"] = "hold"
    free_text: Literal["detect+propagate"] = "detect+propagate"


class KAnonymity(_Shape, frozen=True, kw_only=True):
    """Groups of these quasi-identifiers smaller than k are coarsened over the admitted corpus."""

    k: int
    over: tuple[str, ...]


class RawCopies(_Shape, frozen=True, kw_only=True):
    """How long raw copies live, and who may read them."""

    ttl_days: int
    readers: tuple[str, ...] = ()


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The redaction policy of one workflow. Of the fields the first match wins; `key_id` names a secret that is in no file."""

    policy: str
    version: int
    namespace: str
    key_id: str
    default_region: str | None = None
    subject: str | None = None
    fields: tuple[FieldRule, ...] = ()
    detectors: dict[str, Action] = {}
    default: Defaults = Defaults()
    k_anonymity: KAnonymity | None = None
    raw: RawCopies | None = None

    @cached_property
    def digest(self) -> str:
        """The sha256 of its canonical form, stored with everything it redacted."""
        return identity.digest(msgspec.to_builtins(self))

    @cached_property
    def patterns(self) -> dict[str, tuple[re.Pattern[str], ...]]:
        """How the ids of each declared type are written, in the order of the rules."""
        found: dict[str, list[re.Pattern[str]]] = {}
        for rule in self.fields:
            if rule.declared and rule.type:
                known = found.setdefault(rule.type, [])
                if rule.pattern and all(pattern.pattern != rule.pattern for pattern in known):
                    known.append(re.compile(rule.pattern))
        return {name: tuple(patterns) for name, patterns in found.items()}

    def name_in(self, kind: str, text: str) -> tuple[str, str] | None:
        """The first and last name that an id of a declared type spells, by the groups `first_name` and `last_name` of its pattern; None where it spells none."""
        for pattern in self.patterns.get(kind, ()):
            hit = pattern.fullmatch(text.strip()) if pattern.groupindex.keys() >= NAME_GROUPS else None
            if hit is not None:
                return hit["first_name"], hit["last_name"]
        return None

    @cached_property
    def _compiled(self) -> tuple[re.Pattern[str], ...]:
        return tuple(fieldpaths.compiled(rule.path) for rule in self.fields)

    @cached_property
    def _places(self) -> dict[str, FieldRule | None]:
        return {}

    def rule(self, place: str) -> FieldRule | None:
        """The first rule that names a place, or None: the field is unknown."""
        if place not in self._places:
            hits = (at for at, pattern in enumerate(self._compiled) if pattern.fullmatch(f".{place}"))
            hit = next(hits, None)
            self._places[place] = None if hit is None else self.fields[hit]
        return self._places[place]


def load(path: Path) -> Policy:
    """The policy at `path`. Raises PolicyError with file and line for anything that cannot be applied as written."""
    document = documents.Document(path)
    policy = document.into(Policy, error=PolicyError)
    for at, rule in enumerate(policy.fields):
        for name, problem in _problems(rule):
            line = document.line(f"$.fields[{at}].{name}") or document.line(f"$.fields[{at}]")
            raise PolicyError.at(path, problem, line=line)
    if policy.default_region is not None and policy.default_region not in REGIONS:
        hint = "Did you mean 'GB'?" if policy.default_region == "UK" else nearest(policy.default_region, REGIONS)
        problem = f"{policy.default_region!r} is no region of ISO 3166."
        raise PolicyError.at(path, problem, line=document.line("$.default_region"), hint=hint)
    if policy.subject is not None and (broken := _path_problem(policy.subject)):
        raise PolicyError.at(path, broken, line=document.line("$.subject"))
    _check_detectors(document, policy)
    return policy


def _check_detectors(document: documents.Document, policy: Policy) -> None:
    known = {*DETECTORS, *(name for name, patterns in policy.patterns.items() if patterns)}
    for name, action in policy.detectors.items():
        line = document.line(f"$.detectors.{name}")
        if name not in known:
            problem = f"nothing detects {name!r}: neither a detector nor a type that a field rule gives a pattern."
            raise PolicyError.at(document.path, problem, line=line, hint=nearest(name, known))
        if (action == "synthesize" and name in {"ip", "secret"}) or (action == "generalize" and name != "ip"):
            problem = f"{name!r} in free text cannot be {action}d."
            raise PolicyError.at(document.path, problem, line=line, hint="Write drop, or restrict.")


def _problems(rule: FieldRule) -> list[tuple[str, str]]:
    """(key, what is wrong with it) for one rule."""
    found = [("path", _path_problem(rule.path)), ("pattern", _pattern_problem(rule.pattern))]
    match rule.action:
        case "keep":
            found.append(("action", "" if rule.reason else "keep needs a reason."))
        case "synthesize":
            found.append(("action", "" if rule.type else "synthesize needs a type."))
        case "generalize":
            found.append(
                (
                    "action",
                    "" if (rule.band is None) != (rule.to is None) else "generalize needs band or to, one of them.",
                )
            )
        case "drop" | "restrict":
            pass
    if rule.action != "generalize" and (rule.band or rule.to):
        found.append(("action", f"band and to belong to generalize, not to {rule.action}."))
    if rule.pattern and not rule.declared:
        found.append(("pattern", f"only a business id has a pattern, and {rule.type!r} is none."))
    return [(name, problem) for name, problem in found if problem]


def _path_problem(path: str) -> str:
    try:
        fieldpaths.compiled(path)
    except ValueError as broken:
        return f"{broken}."
    return ""


def _pattern_problem(pattern: str | None) -> str:
    try:
        groups = re.compile(pattern or "").groupindex.keys()
    except re.error as broken:
        return f"the pattern is no regular expression: {broken.msg} at {broken.pos}."
    strange = sorted(groups - NAME_GROUPS - {"id"})
    if strange:
        return f"the pattern names a group {strange[0]!r}; known are id, first_name and last_name."
    half = NAME_GROUPS & groups
    return (
        ""
        if half in (set(), NAME_GROUPS)
        else f"the pattern has a group {min(half)!r} without the other half of the name."
    )
