"""The rows of a world as conditions see them: those of its closed tables, at the start of a turn or at the end of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import UNSET

from twiceshy.matching import fresh
from twiceshy.worlds.tables import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from twiceshy.transcript import RowChange
    from twiceshy.worlds.tables import Row, TableSeed


class Changing(Protocol):
    """A step of a run, of which only this matters here."""

    @property
    def changes(self) -> Sequence[RowChange]:
        """The rows that it changed."""
        ...

    @property
    def unsettled(self) -> Sequence[str]:
        """The tables that it changed in a way that nobody knows."""
        ...


def known_rows(seeds: Mapping[str, TableSeed], steps: Iterable[Changing]) -> dict[str, list[Row]]:
    """The rows of each table after these steps. Left out are tables of which nobody knows all rows: those that are not closed, and those changed unseen."""
    tables = {name: Table(name, seed) for name, seed in seeds.items() if seed.closed}
    for step in steps:
        for change in step.changes:
            if change.table in tables:
                _apply(tables[change.table], change)
        for name in step.unsettled:
            tables.pop(name, None)
    return {name: [fresh(row) for _, row in table.standing()] for name, table in tables.items()}


def _apply(table: Table, change: RowChange) -> None:
    after = None if change.after is UNSET else change.after
    row = after if after is not None else {} if change.before is UNSET else change.before
    table.set(table.key_of(row), after)
