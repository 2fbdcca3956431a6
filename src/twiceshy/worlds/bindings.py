"""What a world.yaml says of a tool, compiled: every reference checked when it is loaded, every call answered from the rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from twiceshy.envelope import ErrorRecord
from twiceshy.errors import nearest
from twiceshy.worlds.tables import WorldMiss
from twiceshy.worlds.templates import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twiceshy.conditions import Condition
    from twiceshy.transcript import RowChange
    from twiceshy.worlds.tables import Tables
    from twiceshy.worlds.templates import Fill, Names, Writing
    from twiceshy.worlds.worldfile import Changing, Fails, Lookup, WorldFile


class WorldAnswer(NamedTuple):
    """What a world answers to one call: a value, or an error that is raised where `raised`, else returned as the value."""

    value: Any = None
    error: ErrorRecord | None = None
    raised: bool = False
    changes: Sequence[RowChange] = ()
    unsettled: Sequence[str] = ()
    """Tables that it changed in a way that nobody knows."""


class Failed(Exception):
    """A call that fails: what comes back instead of a result."""

    def __init__(self, answer: WorldAnswer) -> None:
        super().__init__()
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    name: str
    table: str
    key: Fill | None
    where: Condition | None
    absent: Callable[[Names], WorldAnswer] | None
    optional: bool

    def row(self, tables: Tables, names: Names) -> Any:
        """The row, the rows, or null. Raises Failed or WorldMiss."""
        if self.where is not None:
            condition = self.where
            return [row for row in tables.rows(self.table) if condition.holds(Facts({**names, "row": row}))]
        found = tables.find(self.table, **(self.key(names) if self.key else {}))
        if found is not None or self.optional:
            return found
        if self.absent is None:
            raise WorldMiss(f"no row of table {self.table}, and the world does not say what then")
        raise Failed(self.absent(names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    update: str | None
    delete: str | None
    insert: str | None
    unsettle: str | None
    fill: Fill
    when: Condition | None

    def make(self, tables: Tables, names: Names, found: dict[str, _Found]) -> None:
        if self.when is not None and not self.when.holds(Facts(names)):
            return
        if self.unsettle is not None:
            tables.unsettle(self.unsettle)
            return
        if self.insert is not None:
            tables.insert(self.insert, self.fill(names))
            return
        name = self.update or self.delete or ""
        row, held = names[name], found[name]
        if row is None:
            raise WorldMiss(f"a row of table {held.table} is changed that is not there")
        if self.delete is not None:
            tables.delete(held.table, **(held.key(names) if held.key else {}))
        else:
            tables.update(held.table, {**row, **self.fill(names)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One tool of a world.yaml."""

    writes: bool
    found: dict[str, _Found]
    errors: Sequence[tuple[Condition, Callable[[Names], WorldAnswer]]]
    changes: Sequence[_Change]
    result: Fill

    def answer(self, tables: Tables, args: Any) -> WorldAnswer:
        """What the tool answers, its changes made. Raises Failed (nothing may stand then) or WorldMiss."""
        names: dict[str, Any] = {"args": args}
        for name, lookup in self.found.items():
            names[name] = lookup.row(tables, names)
        for condition, failing in self.errors:
            if condition.holds(Facts(names)):
                raise Failed(failing(names))
        for change in self.changes:
            change.make(tables, names, self.found)
        return WorldAnswer(value=self.result(names), changes=tables.changes, unsettled=tables.unsettling)

    @property
    def tables(self) -> frozenset[str]:
        """The tables that it looks at or changes."""
        changed = (change.insert or change.unsettle for change in self.changes)
        return frozenset([*(found.table for found in self.found.values()), *filter(None, changed)])


def bound(writing: Writing, file: WorldFile, tool: str) -> Bound:
    """The binding of a tool, compiled. Raises CaseError with file and line for whatever it names that is not there."""
    here, binding = f"$.tools.{tool}", file.tools[tool]
    known = {"args"}
    found = {}
    for name, lookup in binding.rows.items():
        if name in known or name == "row":
            raise writing.error(f"{here}.rows.{name}", f"a row cannot go by the name {name!r}.")
        found[name] = _found(writing, file, f"{here}.rows.{name}", name, lookup, frozenset(known))
        known.add(name)
    names = frozenset(known)
    errors = []
    for at, fails in enumerate(binding.errors):
        place = f"{here}.errors[{at}]"
        if fails.when is None:
            raise writing.error(place, "an error needs `when`, a condition.")
        errors.append((writing.condition(f"{place}.when", fails.when, names), _failing(writing, place, fails, names)))
    changes = [
        _change(writing, file, f"{here}.changes[{at}]", change, names, found)
        for at, change in enumerate(binding.changes or ())
    ]
    result = writing.template(f"{here}.result", binding.result, names)
    return Bound(
        writes=binding.changes is not None, found=found, errors=errors, changes=changes, result=result,
    )  # fmt: skip


def _found(
    writing: Writing, file: WorldFile, place: str, name: str, lookup: Lookup, known: frozenset[str]
) -> _Found:  # fmt: skip
    seed = file.tables.get(lookup.table)
    if seed is None:
        hint = nearest(lookup.table, file.tables)
        raise writing.error(f"{place}.table", f"there is no table {lookup.table!r}.", hint=hint)
    if (lookup.where is None) == (not lookup.key):
        raise writing.error(place, "a row is looked up by `key`, or rows by `where`: exactly one of them.")
    if lookup.where is not None and not seed.closed:
        raise writing.error(
            f"{place}.where", f"table {lookup.table!r} is not closed, so a search could leave out rows that nobody recorded.",
            hint="Declare it `closed: true` if these are all its rows.",
        )  # fmt: skip
    if lookup.key and set(lookup.key) != set(seed.key):
        raise writing.error(
            f"{place}.key", f"the key of table {lookup.table!r} is {', '.join(seed.key) or 'nothing'}, not {', '.join(lookup.key)}."
        )  # fmt: skip
    absent = None if lookup.absent is None else _failing(writing, f"{place}.absent", lookup.absent, known)
    return _Found(
        name=name, table=lookup.table, absent=absent, optional=lookup.optional,
        key=writing.template(f"{place}.key", lookup.key, known) if lookup.key else None,
        where=None if lookup.where is None else writing.condition(f"{place}.where", lookup.where, known | {"row"}),
    )  # fmt: skip


def _change(
    writing: Writing, file: WorldFile, place: str, change: Changing, names: frozenset[str], found: dict[str, _Found]
) -> _Change:  # fmt: skip
    said = [name for name in ("update", "delete", "insert", "unsettle") if getattr(change, name) is not None]
    if len(said) != 1:
        raise writing.error(place, "a change is one of update, delete, insert and unsettle.")
    target = change.update or change.delete
    if target is not None and (target not in found or found[target].where is not None):
        hint = nearest(target, [name for name, held in found.items() if held.where is None])
        raise writing.error(place, f"{target!r} is no single row that was looked up.", hint=hint)
    table = change.insert or change.unsettle
    if table is not None and table not in file.tables:
        raise writing.error(f"{place}.{said[0]}", f"there is no table {table!r}.", hint=nearest(table, file.tables))
    keyed = set(change.set) & set(file.tables[found[target].table].key) if target else set()
    if keyed:
        raise writing.error(
            f"{place}.set", f"{', '.join(sorted(keyed))} is the key of the row; delete it and insert another."
        )
    written = change.row if change.insert is not None else change.set
    fill = writing.template(f"{place}.{'row' if change.insert is not None else 'set'}", written, names)
    when = None if change.when is None else writing.condition(f"{place}.when", change.when, names)
    return _Change(
        update=change.update, delete=change.delete, insert=change.insert, unsettle=change.unsettle, fill=fill, when=when
    )  # fmt: skip


def _failing(writing: Writing, place: str, fails: Fails, known: frozenset[str]) -> Callable[[Names], WorldAnswer]:
    """The answer of a call that fails."""
    if (fails.cls is None) == (fails.answer is UNSET):
        raise writing.error(place, "a call that fails raises a `class` or returns an `answer`: exactly one of them.")
    message = writing.template(f"{place}.message", fails.message, known)
    answer = writing.template(f"{place}.answer", None if fails.answer is UNSET else fails.answer, known)
    raised = fails.cls is not None
    cls = fails.cls if fails.cls and "." in fails.cls else f"builtins.{fails.cls}" if fails.cls else "returned"
    kind = fails.type or cls.rpartition(".")[2]

    def failing(names: Names) -> WorldAnswer:
        error = ErrorRecord(cls=cls, type=kind, message=str(message(names)), definite=fails.definite)
        return WorldAnswer(value=answer(names), error=error, raised=raised)

    return failing
