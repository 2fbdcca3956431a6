"""What was recorded twice: exact duplicates, and calls that two instrumentors recorded (formats.md §4). What cannot be proven equal stays two."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources.messages import shaped
from tasks.sources.records import SIDES
from twiceshy.identity import canonical, untagged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tasks.normalize.tree import Node

Row = dict[str, Any]

_NEAR_NS = 5_000_000
"""Two spans of one call begin and end within this of each other, where neither encloses the other."""

_PHASES = ("start", "success", "error", "finish")
_ERROR = ("is_error", "error_class", "error_code", "error_message", "error_source", "error_definite")
_FILLED = ("messages_in", "messages_out", "tool_defs", "model_requested", "model_answered", "model_params", "finish_reason", "usage", "system_text", "prompt_hash", "call_id")  # fmt: skip


def distinct(rows: Iterable[Row]) -> list[Row]:
    """One row of each `row_id`; of equal ones the smallest spelling, whatever the order they came in."""
    kept: dict[str, Row] = {}
    for row in sorted(
        rows, key=lambda row: (row["row_id"], row["container"], row["source_span_id"], row["source_trace_id"])
    ):
        kept.setdefault(row["row_id"], row)
    return list(kept.values())


def shadow(nodes: Sequence[Node]) -> None:
    """Flag the second record of a doubled call `shadow_of:<span_id>` and fill the first one's empty fields from it; unclear pairs `maybe_doubled`.

    Doubled: two model spans, of different scopes or one inside the other, whose intervals enclose or nearly equal each other and whose outputs are equal,
    call ids aside; or two tool spans of different scopes, one inside the other, with the same tool, arguments and result. A model call holds no other, so
    a model span without an output is the one model span that stands directly in it, or that it alone stands in. Phases of one call, to which their source
    gave one number, are one crossing: the first of them.
    """
    nodes = _cast_phases(nodes)
    alike: dict[tuple[str, object], list[Node]] = defaultdict(list)
    for node in nodes:
        content = _CONTENT[node.kind](node.row) if node.kind in _CONTENT else None
        if content is not None:
            alike[node.kind, content].append(node)
    for (kind, _), held in alike.items():
        pairs = [pair for pair in combinations(held, 2) if _twice(kind, *pair)]
        met = Counter(node for pair in pairs for node in pair)
        for one, other in pairs:
            if met[one] == met[other] == 1:
                _cast(one, other)
            else:
                one.flags.add("maybe_doubled")
                other.flags.add("maybe_doubled")
    _cast_silent([node for node in nodes if node.kind == "model"])


def shadowed(node: Node) -> bool:
    """Whether this is the second record of a call that stands elsewhere."""
    return any(flag.startswith("shadow_of:") for flag in node.flags)


def _cast_phases(nodes: Sequence[Node]) -> list[Node]:
    """The nodes less those that are a later phase of a call: their source gave all phases one number. What they tell is the first one's."""
    calls: dict[tuple[str, str, str], list[tuple[int, Node]]] = defaultdict(list)
    for node in nodes:
        for flag in node.row["flags"]:
            _, _, told = flag.partition("phase:")
            number, _, phase = told.partition(":")
            if phase in _PHASES:
                calls[node.kind, node.row["name"], number].append((_PHASES.index(phase), node))
    for held in calls.values():
        held.sort(key=lambda item: (item[0], item[1].row["span_id"]))
        if len({at for at, _ in held}) < len(held):
            for _, node in held:
                node.flags.add("maybe_doubled")
            continue
        (_, first), *later = held
        for _, node in later:
            node.flags.add(f"shadow_of:{first.row['span_id']}")
            _complete(first, node.row)
    return [node for node in nodes if not shadowed(node)]


def _complete(first: Node, told: Row) -> None:
    """What a later phase tells of a call, and the first did not."""
    sides = [side for side in SIDES if first.row[side] is None]
    first.row = first.row | {name: told[name] for side in sides for name in (side, f"{side}_encoding")}
    first.row = first.row | {name: told[name] for name in _FILLED if first.row[name] is None}
    if told["is_error"] and not first.row["is_error"]:
        first.row = first.row | {name: told[name] for name in _ERROR}


def _cast(one: Node, other: Node) -> None:
    """The better placed one stays: numbered, no orphan, deeper in the tree, outer interval first."""
    first, second = sorted((one, other), key=_standing)
    second.flags.add(f"shadow_of:{first.row['span_id']}")
    first.row = first.row | {name: second.row[name] for name in _FILLED if first.row[name] is None}


def _cast_silent(models: Sequence[Node]) -> None:
    inside: dict[Node | None, list[Node]] = defaultdict(list)
    around = {node: next((above for above in node.ancestors() if above.kind == "model"), None) for node in models}
    for node in models:
        inside[around[node]].append(node)
    for node in models:
        if shadowed(node) or node.row["messages_out"] is not None or node.row["raw"] is not None:
            continue
        above = around[node]
        if above is not None and inside[above] == [node]:
            _hide(node, above)
        elif len(inside[node]) == 1:
            _hide(node, inside[node][0])


def _hide(silent: Node, other: Node) -> None:
    """The silent record behind the other one, or behind what that one is itself hidden behind."""
    behind = next(
        (flag.partition(":")[2] for flag in other.flags if flag.startswith("shadow_of:")), other.row["span_id"]
    )
    silent.flags.add(f"shadow_of:{behind}")
    if not shadowed(other):
        other.row = other.row | {name: silent.row[name] for name in _FILLED if other.row[name] is None}


def _standing(node: Node) -> tuple[Any, ...]:
    return (node.row["crossing_seq"] is None, node.orphan, -node.depth, node.begins, node.row["span_id"])


def _twice(kind: str, one: Node, other: Node) -> bool:
    nested = one in other.ancestors() or other in one.ancestors()
    apart = one.row["scope_name"] != other.row["scope_name"]
    return (nested or apart if kind == "model" else nested and apart) and _together(one.row, other.row)


def _together(one: Row, other: Row) -> bool:
    times = (one["start_ns"], one["end_ns"], other["start_ns"], other["end_ns"])
    if None in times:
        return False
    start, end = one["start_ns"] - other["start_ns"], one["end_ns"] - other["end_ns"]
    encloses = bool(start <= 0 <= end or end <= 0 <= start)
    return encloses or bool(abs(start) <= _NEAR_NS and abs(end) <= _NEAR_NS)


def _output(row: Row) -> bytes | None:
    said = row["messages_out"]
    return None if said is None else canonical(_stripped(shaped(untagged(msgspec.json.decode(said)))))


def _call(row: Row) -> tuple[str, str, str] | None:
    facts = (row["tool_name"], row["seen"] or row["proposed"], row["raw"] or row["shown"])
    return None if None in facts else facts


_CONTENT: dict[str, Callable[[Row], object]] = {"model": _output, "tool": _call}


def _stripped(value: Any) -> Any:
    if isinstance(value, list):
        return [_stripped(item) for item in value]
    if isinstance(value, dict):
        return {name: _stripped(item) for name, item in value.items() if name not in ("id", "finish_reason")}
    return value
