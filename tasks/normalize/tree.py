"""The spans of one trace as a tree in order: parents, orphans, depth, and whether an order can be established at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources.records import SYNTHETIC
from twiceshy.envelope import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Row = dict[str, Any]

NUMBERED = "twiceshy"
"""The dialect of our own recorder: it numbers its crossings, and says whether a run returned."""

BOUNDARIES = frozenset(str(kind) for kind in Kind)


@dataclass(slots=True, eq=False)
class Node:
    """One span in its tree. `begins`: its start, never before that of a span around it (clocks of two hosts may disagree)."""

    row: Row
    parent: Node | None = None
    depth: int = 0
    begins: int = 0
    orphan: bool = False
    flags: set[str] = field(default_factory=set)

    @property
    def kind(self) -> str:
        """The kind of the span."""
        return str(self.row["kind"])

    def ancestors(self) -> Iterator[Node]:
        """The spans around it, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


class Tree(NamedTuple):
    """nodes: in the order of the run. integrity: intact, synthetic_root or unordered (formats.md §6, R9)."""

    nodes: tuple[Node, ...]
    integrity: str
    orphans: int


def grown(rows: Iterable[Row]) -> Tree:
    """The tree of one trace. A root that an earlier run added is left out and thought of anew."""
    nodes = [Node(row) for row in sorted(rows, key=lambda row: row["row_id"]) if row["dialect"] != SYNTHETIC]
    by_id = {node.row["span_id"]: node for node in reversed(nodes)}
    for node in nodes:
        parent = node.row["parent_span_id"]
        node.parent = by_id.get(parent)
        node.orphan = parent is not None and node.parent in (None, node)
    _cut_rings(nodes)
    for node in nodes:
        around = list(node.ancestors())
        node.depth = len(around)
        node.begins = max((step.row["start_ns"] or 0) for step in (node, *around))
    nodes.sort(key=_place(nodes))
    roots, orphans = sum(node.parent is None for node in nodes), sum(node.orphan for node in nodes)
    whole = "intact" if roots == 1 and not orphans else "synthetic_root"
    return Tree(tuple(nodes), whole if _ordered(nodes) else "unordered", orphans)


def numbered(nodes: Sequence[Node]) -> bool:
    """Whether the source numbered every crossing, each with a place of its own."""
    places = [(node.row["crossing_seq"], node.row["crossing_sub"]) for node in nodes if node.kind in BOUNDARIES]
    return bool(places) and None not in {part for place in places for part in place} and len(set(places)) == len(places)


def holed(nodes: Sequence[Node]) -> bool:
    """Whether a place is missing between the places that the source numbered: a crossing of the run is not here."""
    places = {
        (node.row["crossing_seq"], node.row["crossing_sub"]) for node in nodes if node.row["crossing_seq"] is not None
    }
    before = {(seq, sub - 1) if sub > 1 else (seq if sub else seq - 1, 0) for seq, sub in places}
    return not {place for place in before if place > (0, 0)} <= places


def _cut_rings(nodes: Sequence[Node]) -> None:
    """A span that is its own ancestor hangs on nothing; the one with the smallest id of a ring becomes its orphan."""
    for node in sorted(nodes, key=lambda node: node.row["span_id"]):
        seen, step = {node}, node.parent
        while step is not None and step not in seen:
            seen.add(step)
            step = step.parent
        if step is node:
            node.parent, node.orphan = None, True


def _place(nodes: Sequence[Node]) -> Any:
    def untimed(node: Node) -> tuple[Any, ...]:
        return (node.row["seq"], node.row["span_id"], node.row["row_id"])

    def timed(node: Node) -> tuple[Any, ...]:
        return (node.begins, node.depth, *untimed(node))

    return untimed if all(node.row["start_ns"] is None for node in nodes) else timed


def _ordered(nodes: Sequence[Node]) -> bool:
    crossings = [node for node in nodes if node.kind in BOUNDARIES]
    if numbered(nodes) or all(node.row["start_ns"] is not None for node in crossings):
        return True
    untimed = all(node.row["start_ns"] is None for node in crossings)
    return untimed and len({node.row["seq"] for node in crossings}) == len(crossings)
