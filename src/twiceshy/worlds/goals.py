"""What a case expects of the rows of its world: the goal, and what else may change. Data only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from twiceshy import paths
from twiceshy.envelope import Record
from twiceshy.identity import equal
from twiceshy.matching import differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.transcript import RowChange

HowChanged = Literal["inserted", "updated", "deleted"]


class Goal(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One row that must have changed, and how. Without a key: one row that was inserted with these fields.

    fields: paths into the row and the values they must lead to at the end. may: further fields that may change with them.
    """

    table: str
    key: dict[str, Any] | None = None
    change: HowChanged = "updated"
    fields: dict[str, Any] = {}
    may: list[str] = []

    def names(self, change: RowChange) -> bool:
        """Whether a change is one of the row that is meant, and of the sort that is meant."""
        return change.table == self.table and how(change) == self.change and _has_key(change, self.key)

    def amiss(self, change: RowChange) -> list[str]:
        """The fields that are not as they must be after a change."""
        return [path for path, wanted in self.fields.items() if not paths.leads_to(change.after, {path: wanted})]

    def covers(self, change: RowChange) -> bool:
        """Whether a change touches nothing but what is meant. An insertion or a deletion is meant as a whole."""
        if not self.names(change):
            return False
        if self.change == "inserted":
            return not self.amiss(change)
        return self.change == "deleted" or within(change, [*self.fields, *self.may])


class MayChange(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Rows whose change is no damage: of a table, with this key where one is given, in these fields where some are given."""

    table: str
    key: dict[str, Any] | None = None
    fields: list[str] | None = None

    def covers(self, change: RowChange) -> bool:
        """Whether it allows a change."""
        if change.table != self.table or not _has_key(change, self.key):
            return False
        return self.fields is None or (how(change) == "updated" and within(change, self.fields))


class RowTerms(Record, frozen=True, kw_only=True):
    """What a case expects of its world's rows. nothing_else: whether any other change is a violation."""

    goal: list[Goal] = []
    may_change: list[MayChange] = []
    nothing_else: bool = False


def how(change: RowChange) -> HowChanged:
    """What became of a row."""
    if change.before is UNSET:
        return "inserted"
    return "deleted" if change.after is UNSET else "updated"


def touched(change: RowChange) -> list[str]:
    """The paths of a row that a change gave other values; none for an insertion or a deletion."""
    if how(change) != "updated":
        return []
    return [diff.path for diff in differences(change.before, change.after)]


def within(change: RowChange, allowed: Sequence[str]) -> bool:
    """Whether a change touches nothing but these paths and what lies below them."""
    return all(
        any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in allowed) for path in touched(change)
    )


def _has_key(change: RowChange, key: dict[str, Any] | None) -> bool:
    return key is None or equal(change.key, key)
