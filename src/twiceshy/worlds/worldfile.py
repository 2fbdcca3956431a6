"""world.yaml: the tables of a world, and how each tool reads or changes them (semantics.md §6.5). Data only; `bindings.py` gives it life.

    format: twiceshy/world/1
    tables:
      appointments:
        key: [appointment_id]
        rows: [{appointment_id: K2207, date: "2026-11-18"}]
        invented: [{appointment_id: K2391, date: "2026-11-16"}]     # what a person added
      slots: {key: [slot_id], closed: true, rows: [{slot_id: S517, date: "2026-11-20", open: true}]}
    tools:
      get_appointment:
        rows: {found: {table: appointments, key: {appointment_id: "${args.appointment_id}"}}}
        result: "${found}"
      reschedule:
        rows:
          found: {table: appointments, key: {appointment_id: "${args.appointment_id}"}}
          slot: {table: slots, key: {slot_id: "${args.slot_id}"}, absent: {class: LookupError, message: "slot ${args.slot_id} is not open"}}
        errors: [{when: "!slot.open", class: LookupError, message: "slot ${args.slot_id} is not open"}]
        changes: [{update: found, set: {date: "${slot.date}"}}, {update: slot, set: {open: false}}]
        result: {appointment_id: "${args.appointment_id}", status: moved}

A tool with `changes` is a write, one without is a read. With `python: package.module:Class` the tools are the methods of a class instead.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy.worlds.tables import TableSeed

FORMAT = "twiceshy/world/1"


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what stands in a world.yaml."""


class Fails(_Part, frozen=True, kw_only=True, rename={"cls": "class"}):
    """How a call fails: an error that is raised (`class`, `message`), or a value that the tool returns in place of a result (`answer`, with the error's `type`).

    definite: it proves that nothing happened. A world changes nothing where it fails, so an error that is not definite says only that the agent cannot know.
    """

    cls: str | None = None
    message: str = ""
    answer: Any | UnsetType = UNSET
    type: str | None = None
    """The error's type; without one the name of its class."""
    definite: bool = True
    when: str | None = None
    """The CEL condition, over args and the rows that were looked up."""


class Lookup(_Part, frozen=True, kw_only=True):
    """A row by its key, or all rows of a closed table for which a CEL condition over `row` is true."""

    table: str
    key: dict[str, Any] = {}
    where: str | None = None
    absent: Fails | None = None
    """What the call answers where the row does not exist."""
    optional: bool = False
    """Whether the call goes on with null where the row does not exist."""


class Changing(_Part, frozen=True, kw_only=True):
    """One change: `update` or `delete` a row that was looked up, `insert` one into a table, or `unsettle` a table: nobody knows what became of it."""

    update: str | None = None
    delete: str | None = None
    insert: str | None = None
    unsettle: str | None = None
    set: dict[str, Any] = {}
    row: dict[str, Any] = {}
    when: str | None = None


class Binding(_Part, frozen=True, kw_only=True):
    """One tool: what it looks up, in which case it fails, what it changes, what it returns, in this order."""

    rows: dict[str, Lookup] = {}
    errors: list[Fails] = []
    changes: list[Changing] | None = None
    result: Any = None


class WorldFile(_Part, frozen=True, kw_only=True):
    """world.yaml. transient: places of recorded reads whose answer was none of the world's (a timeout), which it does not repeat."""

    format: str = FORMAT
    tables: dict[str, TableSeed] = {}
    tools: dict[str, Binding] = {}
    python: str | None = None
    transient: list[str] = []

    @property
    def invented(self) -> list[str]:
        """The rows that a person added, as `appointments[1]`."""
        return [
            f"{name}[{at}]"
            for name, table in self.tables.items()
            for at in range(len(table.rows), len(table.rows) + len(table.invented))
        ]
