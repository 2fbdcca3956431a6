"""The rows of a world in one run: found by key, searched where a table is closed, changed by whole calls or not at all (semantics.md §6.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn

import msgspec
from msgspec import UNSET

from twiceshy.identity import canonical, digest, equal
from twiceshy.matching import fresh
from twiceshy.policy import folded
from twiceshy.transcript import RowChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row = dict[str, Any]

LOG = "#"
"""The name that stands for the key of a table without one: each of its rows is a row of its own."""


class TableSeed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table as it stands at the start. key: the fields that name a row; none makes it a log, to which rows are only added."""

    key: list[str] = []
    closed: bool = False
    """Whether a row that is not here does not exist. Only then may a search answer, and a missing row be "none"."""
    fold: list[str] = []
    """Key fields that are compared without case and with white space folded, as tools.yaml has it."""
    rows: list[Row] = []
    """As recorded."""
    invented: list[Row] = []
    """As a person added them."""
    absent: list[Row] = []
    """Keys that were recorded as not there."""


class WorldMiss(Exception):
    """A world that cannot answer. Its text holds names and places, never a value."""


class Meeting(WorldMiss):
    """Two calls of one model turn that meet at a row which one of them changes."""


class _Place:
    """A row as it stands now, and where it came from."""

    __slots__ = ("invented", "name", "row")

    def __init__(self, row: Row | None, name: str, *, invented: bool = False) -> None:
        self.row = row
        self.name = name
        self.invented = invented


class Table:
    """One table in one run. A row is never changed in place, so what was told of it stays as it was."""

    def __init__(self, name: str, seed: TableSeed) -> None:
        self.name = name
        self.seed = seed
        self._places: dict[bytes, _Place] = {}
        for at, row in enumerate([*seed.rows, *seed.invented]):
            name_of_row = f"{name}[{at}]"
            self._places[self.key_of(row)] = _Place(row, name_of_row, invented=at >= len(seed.rows))
        for key in seed.absent:
            self._places[self.key_of(key)] = _Place(None, f"{name}[new]")

    def key_of(self, row: Mapping[str, Any]) -> bytes:
        """The bytes by which a row is found. Raises KeyError for a field that it lacks."""
        if not self.seed.key:
            return canonical([digest(row), sum(equal(held.row, row) for held in self._places.values())])
        return canonical([folded(row[name]) if name in self.seed.fold else row[name] for name in self.seed.key])

    def at(self, key: bytes) -> _Place | None:
        """The place of a key; None where the table does not know of it."""
        return self._places.get(key)

    def standing(self) -> Iterable[tuple[bytes, Row]]:
        """Every row that is there, in the order in which they came."""
        return ((key, place.row) for key, place in self._places.items() if place.row is not None)

    def set(self, key: bytes, row: Row | None) -> RowChange | None:
        """Let a row be this, or be gone; what changed, or None."""
        place = self._places.setdefault(key, _Place(None, f"{self.name}[new]"))
        before, place.row = place.row, row
        if equal(before, row):
            return None
        return RowChange(
            table=self.name, row=place.name, key=self._named(key, row or before or {}), invented=place.invented,
            before=UNSET if before is None else before, after=UNSET if row is None else row,
        )  # fmt: skip

    def forget(self, key: bytes) -> None:
        """Take a key out that was never known."""
        self._places.pop(key, None)

    def _named(self, key: bytes, row: Row) -> Row:
        return {name: row[name] for name in self.seed.key} or {LOG: digest(msgspec.json.decode(key))[:12]}


class Tables:
    """All tables of a world in one run. A call sees copies; what it changes stands once it has answered, and not at all where it raised."""

    def __init__(self, seeds: Mapping[str, TableSeed]) -> None:
        self._tables = {name: Table(name, seed) for name, seed in seeds.items()}
        self.changes: list[RowChange] = []
        self.met: dict[tuple[str, bytes | Literal["*"]], bool] = {}
        """The rows that the running call came to, and whether it changed them; "*" is a search through all."""
        self.unsettling: list[str] = []
        """The tables that the running call changed in a way that nobody knows."""
        self.missed: WorldMiss | None = None
        """What the running call asked and nobody knows: whatever code makes of it, it has no answer."""
        self._undo: list[tuple[Table, bytes, Row | None, bool]] = []
        self._unsettled: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """The names of all tables."""
        return frozenset(self._tables)

    def begin(self) -> None:
        """Say that another call begins."""
        self._unsettled.update(self.unsettling)
        self.changes, self.met, self.unsettling, self.missed, self._undo = [], {}, [], None, []

    def undo(self) -> None:
        """Take back what the running call changed."""
        for table, key, row, known in reversed(self._undo):
            if known:
                table.set(key, row)
            else:
                table.forget(key)
        self.changes, self.unsettling, self._undo = [], [], []
        self.met = dict.fromkeys(self.met, False)

    def find(self, table: str, **key: Any) -> Row | None:
        """A copy of the row with this key; None where it is known not to exist. Raises WorldMiss where nobody knows."""
        held = self._table(table)
        sought = self._key(held, key)
        self.met.setdefault((table, sought), False)
        place = held.at(sought)
        if place is None and not held.seed.closed:
            self._miss(f"table {table} has no such row, and it is not closed")
        return None if place is None or place.row is None else fresh(place.row)

    def rows(self, table: str) -> list[Row]:
        """Copies of all rows. Raises WorldMiss for a table that is not closed: rows that nobody recorded would be left out."""
        held = self._table(table)
        if not held.seed.closed:
            self._miss(f"table {table} cannot be searched, since it is not closed")
        self.met.setdefault((table, "*"), False)
        return [fresh(row) for _, row in held.standing()]

    def insert(self, table: str, row: Row) -> None:
        """Add a row. Raises WorldMiss where its key is there already, or may be."""
        held = self._table(table)
        key = (
            held.key_of(row) if not held.seed.key else self._key(held, {name: row.get(name) for name in held.seed.key})
        )
        place = held.at(key)
        if place is not None and place.row is not None:
            self._miss(f"a row is added to table {table} whose key is there already")
        if place is None and held.seed.key and not held.seed.closed:
            self._miss(f"a row is added to table {table}, which is not closed, so nobody knows whether it was there")
        self._set(held, key, fresh(row))

    def update(self, table: str, row: Row) -> None:
        """Put a row in the place of the one with its key. Raises WorldMiss where there is none."""
        held = self._table(table)
        key = self._key(held, {name: row.get(name) for name in held.seed.key})
        place = held.at(key)
        if place is None or place.row is None:
            self._miss(f"table {table} has no such row to change")
        self._set(held, key, fresh(row))

    def delete(self, table: str, **key: Any) -> None:
        """Take a row out. Raises WorldMiss where there is none."""
        if self.find(table, **key) is None:
            self._miss(f"table {table} has no such row to take out")
        held = self._table(table)
        self._set(held, self._key(held, key), None)

    def key(self, table: str, row: Mapping[str, Any]) -> bytes:
        """The bytes by which a row of a table is found. Raises KeyError for a field that it lacks."""
        return self._table(table).key_of(row)

    def unsettle(self, table: str) -> None:
        """Say that a call changed a table and nobody knows how: from here on it answers nothing."""
        self.met[table, "*"] = True
        self.unsettling.append(table)

    def _set(self, table: Table, key: bytes, row: Row | None) -> None:
        place = table.at(key)
        self._undo.append((table, key, None if place is None else place.row, place is not None))
        self.met[table.name, key] = True
        change = table.set(key, row)
        if change is not None:
            self.changes.append(change)

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._miss(f"there is no table {name}")
        if name in self._unsettled or name in self.unsettling:
            self._miss(f"a write changed table {name}, and the world does not say how")
        return self._tables[name]

    def _key(self, table: Table, key: Mapping[str, Any]) -> bytes:
        if set(key) != set(table.seed.key) or not table.seed.key:
            self._miss(f"table {table.name} is not found by {', '.join(key) or 'nothing'}")
        return table.key_of(key)

    def _miss(self, problem: str) -> NoReturn:
        self.missed = WorldMiss(problem)
        raise self.missed
