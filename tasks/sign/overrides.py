"""What people decided about signatures: `data/signatures/overrides.yaml`, versioned; undo = delete the line (signatures.md §2)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tasks.sign.keys import Key
from twiceshy.documents import Document
from twiceshy.errors import PolicyError
from twiceshy.identity import digest

SignatureId = Annotated[str, Meta(pattern="^sig_[0-9a-f]{12}$")]
KeyId = Annotated[str, Meta(pattern="^k1:[0-9a-f]{16}$")]
Slug = Annotated[str, Meta(pattern="^[a-z0-9_]+(?:-[a-z0-9_]+)*@[a-z]+(?:-[a-z0-9_]+)*$")]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Facet = Literal["invariant_id", "tool", "stage", "policy_boundary", "effect", "error_class"]


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of one line."""


class Merge(_Line, frozen=True, kw_only=True, rename={"source": "from"}):
    """Every key of one signature counts as another's; its id and slug stay as aliases."""

    source: SignatureId
    into: SignatureId
    by: str
    date: Day
    why: str


class Split(_Line, frozen=True, kw_only=True):
    """The keys of a signature that have these facets are a signature of their own."""

    sig: SignatureId
    when: dict[Facet, str]
    new_slug: Slug
    by: str
    date: Day
    why: str

    @property
    def signature(self) -> str:
        """Its id: a hash of what is split off, so the order of lines does not matter."""
        return f"sig_{digest(['split', self.sig, self.when])[:12]}"

    def holds(self, key: Key) -> bool:
        """Whether a key has these facets."""
        facets = {**key.block._asdict(), "effect": key.facets.effect, "error_class": key.facets.error_class}
        return all(facets[name] == wanted for name, wanted in self.when.items())


class Pin(_Line, frozen=True, kw_only=True):
    """The key whose text a signature is compared by, in place of its founding key's."""

    sig: SignatureId
    key: KeyId


class Rename(_Line, frozen=True, kw_only=True):
    """A slug that a person chose; the former one stays as an alias."""

    sig: SignatureId
    slug: Slug


class Alias(_Line, frozen=True, kw_only=True):
    """A renamed tool: without this, every key of the tool would change."""

    old: str
    new: str


class Overrides(_Line, frozen=True, kw_only=True):
    """The whole file; the default is none at all."""

    version: int = 1
    merge: list[Merge] = []
    split: list[Split] = []
    never_merge: list[tuple[SignatureId, SignatureId]] = []
    pin_representative: list[Pin] = []
    rename: list[Rename] = []
    tool_aliases: list[Alias] = []

    def tool(self, name: str) -> str:
        """The name a tool goes by today."""
        return _end({alias.old: alias.new for alias in self.tool_aliases}, name)

    def signature(self, assigned: str, key: Key) -> str:
        """The signature in force for a key that the ledger gave `assigned`: splits first, then merges, to the end of the chain."""
        split = next((line for line in self.split if line.sig == assigned and line.holds(key)), None)
        return self.settled(split.signature if split else assigned)

    def settled(self, signature: str) -> str:
        """Where merges lead from a signature."""
        return _end({line.source: line.into for line in self.merge}, signature)

    def merged_into(self, signature: str) -> list[str]:
        """The signatures whose keys count as this one's, sorted."""
        return sorted(line.source for line in self.merge if self.settled(line.source) == signature)

    def touched(self) -> frozenset[str]:
        """Signatures whose borders a person drew: no key joins them by likeness any more."""
        drawn = {name for line in self.merge for name in (line.source, line.into)}
        drawn |= {name for line in self.split for name in (line.sig, line.signature)}
        return frozenset(drawn.union(*self.never_merge) if self.never_merge else drawn)

    def slugs(self) -> dict[str, str]:
        """Signature -> the slug a person gave it."""
        return {line.signature: line.new_slug for line in self.split} | {line.sig: line.slug for line in self.rename}

    def pinned(self) -> dict[str, str]:
        """Signature -> the key it is compared by."""
        return {line.sig: line.key for line in self.pin_representative}


def load(path: Path) -> Overrides:
    """The overrides in a file. Raises PolicyError with file and line: unknown keys, a chain that closes on itself, a merge that `never_merge` forbids, a name given twice."""
    document = Document(path)
    overrides = document.into(Overrides, error=PolicyError)
    _refuse_doubles(document, overrides)
    _refuse_rings(document, "merge", {line.source: line.into for line in overrides.merge})
    _refuse_rings(document, "tool_aliases", {alias.old: alias.new for alias in overrides.tool_aliases})
    _refuse_forbidden(document, overrides)
    return overrides


def _end(moves: Mapping[str, str], name: str) -> str:
    while name in moves:
        name = moves[name]
    return name


def _refuse_doubles(document: Document, overrides: Overrides) -> None:
    named: dict[str, list[Any]] = {
        "merge": [line.source for line in overrides.merge],
        "split": [line.signature for line in overrides.split],
        "pin_representative": [line.sig for line in overrides.pin_representative],
        "rename": [line.sig for line in overrides.rename],
        "tool_aliases": [alias.old for alias in overrides.tool_aliases],
    }
    for part, names in named.items():
        for at, name in enumerate(names):
            if name in names[:at]:
                line = document.line(f"$.{part}[{at}]")
                raise PolicyError.at(document.path, f"{part} says something of {name!r} twice.", line=line)


def _refuse_rings(document: Document, part: str, moves: Mapping[str, str]) -> None:
    for at, start in enumerate(moves):
        here = start
        for _ in moves:
            here = moves.get(here, here)
        if here in moves:
            line = document.line(f"$.{part}[{at}]")
            raise PolicyError.at(document.path, f"{part} leads from {start!r} round in a ring.", line=line)


def _refuse_forbidden(document: Document, overrides: Overrides) -> None:
    for at, (one, other) in enumerate(overrides.never_merge):
        if overrides.settled(one) == overrides.settled(other):
            line = document.line(f"$.never_merge[{at}]")
            raise PolicyError.at(
                document.path, f"{one!r} and {other!r} are merged, and never_merge forbids it.", line=line
            )
