"""Identity that never moves: an append-only map from key to signature, `data/signatures/ledger.jsonl` (signatures.md §2).

Nothing is ever clustered again. A key that is known keeps its signature for ever; a new one joins by likeness only within its exact block, only to a frozen
representative, and only where no other signature comes close; else it founds a signature. Biased to split: a false merge hides a failure from the gate.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from tasks.sign.keys import KEY_VERSION, Block, Facets, Key
from tasks.sign.overrides import Overrides
from twiceshy import identity
from twiceshy.errors import FormatError

ATTACH = 0.90
MARGIN = 0.05
MAYBE = 0.75
"""signatures.md §3: at 0.90 and above texts of the same cause lie, and some of different ones; hence the exact block first, and the margin."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line: a key, its signature, and why it got that one. `trace_id` is the run that brought the key first; `slug` stands on the founding line only."""

    key_id: str
    key_version: str = KEY_VERSION
    signature: str
    reason: Literal["new", "near"]
    score: float | None = None
    maybe: str | None = None
    slug: str | None = None
    batch: int
    trace_id: str
    first_seen_ns: int | None = None
    workflow: str | None = None
    invariant_id: str
    tool: str
    stage: str
    policy_boundary: str
    effect: str
    error_class: str
    schema_pairs: tuple[str, ...] = ()
    template: str | None = None

    @property
    def key(self) -> Key:
        """The key it speaks of."""
        block = Block(self.invariant_id, self.tool, self.stage, self.policy_boundary)
        return Key(block, Facets(self.effect, self.error_class, self.schema_pairs), self.template)


class Newcomer(NamedTuple):
    """A key as a batch brings it: first seen where and when, and the slug it would have if it founds a signature."""

    first_seen_ns: int | None
    key_id: str
    key: Key
    trace_id: str
    workflow: str | None
    slug: str


class _Match(NamedTuple):
    best: float
    signature: str
    second: float


_Group = tuple[Block, str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The lines so far, in the order in which they were written."""

    entries: tuple[Entry, ...] = ()

    @cached_property
    def by_key(self) -> dict[str, Entry]:
        """Key id -> its line."""
        return {entry.key_id: entry for entry in self.entries}

    @cached_property
    def founding(self) -> dict[str, Entry]:
        """Signature -> the line that founded it."""
        return {entry.signature: entry for entry in self.entries if entry.reason == "new"}

    def assigned(self, batch: Iterable[Newcomer], overrides: Overrides) -> "Ledger":
        """The ledger with a line for each key of the batch that it lacks.

        The batch is taken in order of (first seen, key id), so any permutation of it gives the same lines. Unknown times come first.
        """
        assigning = _Assigning(self, overrides)
        for newcomer in sorted(batch, key=_in_order):
            assigning.take(newcomer)
        return Ledger(entries=(*self.entries, *assigning.written))


def _in_order(newcomer: Newcomer) -> tuple[bool, int, str]:
    return (newcomer.first_seen_ns is not None, newcomer.first_seen_ns or 0, newcomer.key_id)


class _Assigning:
    """One batch under way."""

    def __init__(self, ledger: Ledger, overrides: Overrides) -> None:
        self._ledger = ledger
        self._overrides = overrides
        self._number = max((entry.batch for entry in ledger.entries), default=0) + 1
        self._known = set(ledger.by_key)
        self._slugs = {entry.slug for entry in ledger.entries} | set(overrides.slugs().values())
        self._representatives: dict[_Group, dict[str, str]] = defaultdict(dict)
        for signature, template in _representatives(ledger, overrides).items():
            self._represent(ledger.founding[signature].key, signature, template)
        self.written: list[Entry] = []

    def take(self, newcomer: Newcomer) -> None:
        """Write the line of a key, if it has none."""
        if newcomer.key_id in self._known:
            return
        match = self._match(newcomer.key)
        entry = self._attached(newcomer, match) if match else None
        entry = entry or self._founded(newcomer, match)
        self._known.add(entry.key_id)
        self.written.append(entry)

    def _match(self, key: Key) -> _Match | None:
        """The likest signature of the same block, effect and schema pairs, and how like the next one is."""
        if key.template is None or not key.facets.from_template:
            return None
        from rapidfuzz import fuzz, process

        candidates = self._representatives.get(_group(key), {})
        likest = process.extract(key.template, candidates, scorer=fuzz.token_sort_ratio, limit=2)
        ranked = sorted(
            ((score / 100, signature) for _, score, signature in likest), key=lambda pair: (-pair[0], pair[1])
        )
        return _Match(*ranked[0], ranked[1][0] if len(ranked) > 1 else 0.0) if ranked else None

    def _attached(self, newcomer: Newcomer, match: _Match) -> Entry | None:
        clear = match.best >= ATTACH and match.best - match.second >= MARGIN
        if not clear or match.signature in self._overrides.touched():
            return None
        return self._line(newcomer, match.signature, reason="near", score=match.best)

    def _founded(self, newcomer: Newcomer, match: _Match | None) -> Entry:
        signature = f"sig_{newcomer.key_id.removeprefix(f'{KEY_VERSION}:')[:12]}"
        slug = unused(newcomer.slug, self._slugs)
        self._slugs.add(slug)
        if newcomer.key.template is not None and newcomer.key.facets.from_template:
            self._represent(newcomer.key, signature, newcomer.key.template)
        maybe = match.signature if match and match.best >= MAYBE else None
        return self._line(newcomer, signature, reason="new", slug=slug, maybe=maybe)

    def _represent(self, key: Key, signature: str, template: str) -> None:
        self._representatives[_group(key)][signature] = template

    def _line(
        self, newcomer: Newcomer, signature: str, *, reason: Literal["new", "near"], score: float | None = None,
        slug: str | None = None, maybe: str | None = None,
    ) -> Entry:  # fmt: skip
        block, facets, template = newcomer.key
        return Entry(
            key_id=newcomer.key_id, signature=signature, reason=reason, score=score, maybe=maybe, slug=slug, batch=self._number,
            trace_id=newcomer.trace_id, first_seen_ns=newcomer.first_seen_ns, workflow=newcomer.workflow, **block._asdict(),
            **facets._asdict(), template=template,
        )  # fmt: skip


def _group(key: Key) -> _Group:
    return key.block, key.facets.effect, key.facets.schema_pairs


def _representatives(ledger: Ledger, overrides: Overrides) -> dict[str, str]:
    """Signature -> the frozen text it is compared by: that of its founding key, unless a person pinned another."""
    pinned = overrides.pinned()
    found = {}
    for signature, founding in ledger.founding.items():
        entry = ledger.by_key.get(pinned.get(signature, founding.key_id), founding)
        if entry.template is not None and entry.key.facets.from_template:
            found[signature] = entry.template
    return found


def unused(slug: str, used: Collection[str | None]) -> str:
    """The slug, or the first of slug-2, slug-3.. that is free."""
    number, free = 1, slug
    while free in used:
        number += 1
        free = f"{slug}-{number}"
    return free


def read(path: Path) -> Ledger:
    """The ledger in a file; empty where there is none. A torn last line (a writer was killed) counts as not written.

    Raises FormatError with the line for anything else that is broken, and for a key that stands twice.
    """
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(msgspec.json.decode(line, type=Entry))
        except msgspec.MsgspecError as broken:
            raise FormatError.at(path, f"not a line of the ledger: {broken}.", line=number) from None
    known: set[str] = set()
    for number, entry in enumerate(entries, start=1):
        if entry.key_id in known:
            raise FormatError.at(path, f"key {entry.key_id!r} stands twice.", line=number)
        known.add(entry.key_id)
    return Ledger(entries=tuple(entries))


def append(path: Path, entries: Sequence[Entry]) -> None:
    """Add lines at the end, after cutting off a torn last one; what stands there is never rewritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "w+b") as file:
        whole = file.read()
        file.seek(whole.rfind(b"\n") + 1)
        file.truncate()
        file.write(b"".join(identity.canonical(msgspec.to_builtins(entry)) + b"\n" for entry in entries))
        file.flush()
        os.fsync(file.fileno())
