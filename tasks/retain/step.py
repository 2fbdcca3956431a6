"""Takes away what has expired: raw copies and rows set aside past their time, what crashed writers left, generations that newer ones replaced."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from tasks.store import Corpus, Published, Shelf


class Retention(NamedTuple):
    """What may go. as_of_ns: the instant that counts as now, ns since the epoch. grace_ns: longer than the longest reader. keep: the newest generations that stay."""

    as_of_ns: int
    grace_ns: int
    keep: int


class Removed(NamedTuple):
    """The names of what went, sorted: references of raw copies and rows set aside, manifests, parts, what crashed writers left, and published editions."""

    raw: list[str]
    manifests: list[str]
    parts: list[str]
    temps: list[str]
    editions: list[str]

    @property
    def total(self) -> int:
        """How many things went."""
        return sum(map(len, self))


def retain(
    corpus: Corpus,
    published: Published,
    shelves: Sequence[Shelf],
    *,
    retention: Retention,
    pinned: Collection[str] = (),
) -> Removed:
    """Sweep the shelves, the corpus and the published runs.

    A generation that a published run was made from stays, so that what the site shows can be replayed; so do the `pinned` corpus ids of gates.
    Swept twice at the same instant, the second sweep removes nothing.
    """
    as_of, grace, keep = retention
    raw = sorted(ref for shelf in shelves for ref in shelf.sweep(now_ns=as_of, grace_ns=grace))
    editions = published.sweep(now_ns=as_of, grace_ns=grace) if published.root.exists() else []
    shown = {run.generation for run in published.runs()}
    if corpus.head() is None:
        return Removed(raw, [], [], [], editions)
    swept = corpus.sweep(now_ns=as_of, grace_ns=grace, keep=keep, pinned={*pinned, *shown})
    return Removed(raw, swept.manifests, swept.parts, swept.temps, editions)
