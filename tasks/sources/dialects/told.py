"""What a dialect tells of a span, and what a dialect is: evidence that a span speaks it, and a reading of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from tasks.sources.schema import CONTEXT_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tasks.sources.carried import Carried
    from tasks.sources.faults import Fault
    from tasks.sources.otlp_values import Values
    from tasks.sources.records import Side


class Told(NamedTuple):
    """Fields of `Span` that a dialect tells: its kind, its columns by name, the sides that it recorded, and an error of its own kind (rung 1)."""

    kind: str
    columns: dict[str, Any]
    sides: dict[str, Side]
    fault: Fault | None = None

    def filled(self, other: Told) -> tuple[Told, frozenset[str]]:
        """With what it left empty taken from another dialect's reading of the same span, and the names of what was taken.

        Nothing is taken from a reading of another kind: what an agent got is no argument of a tool.
        """
        if other.kind != self.kind:
            return self, frozenset()
        columns = {
            name: value for name, value in other.columns.items() if not empty(value) and empty(self.columns.get(name, UNSET))
        }  # fmt: skip
        sides = {side: held for side, held in other.sides.items() if side not in self.sides}
        made = self._replace(
            columns=self.columns | columns, sides=self.sides | sides, fault=self.fault or other.fault
        )  # fmt: skip
        return made, frozenset(columns) | frozenset(sides)


class Dialect(NamedTuple):
    """A convention of attributes. evident: whether a span speaks it, from its scope and keys; mapper: as the rows name the reading, `genai@1`."""

    name: str
    mapper: str
    evident: Callable[[Carried], bool]
    read: Callable[[Carried, Values], Told]


def empty(value: Any) -> bool:
    """Whether a column says nothing: not recorded, or no text."""
    return value is UNSET or value is None


def is_context(kind: str) -> bool:
    """Whether a kind is no boundary: kept for its place in the tree, its errors never the trace's."""
    return kind in CONTEXT_KINDS
