"""One trace put together: its tree, its crossings, its blocks and grades, and the rows of the four tables it becomes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from tasks.normalize import blocks, grades
from tasks.normalize.crossings import crossed
from tasks.normalize.duplicates import distinct, shadow
from tasks.normalize.flagging import flagged
from tasks.normalize.growing import latest
from tasks.normalize.tree import NUMBERED, grown
from tasks.sources.records import NORM_VERSION, SYNTHETIC
from twiceshy.envelope import Kind
from twiceshy.identity import canonical, digest, ordered
from twiceshy.streaming import split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.normalize.crossings import Passage
    from tasks.normalize.flagging import Flag, Rule
    from tasks.normalize.tree import Node, Tree
    from twiceshy.envelope import Crossing
    from twiceshy.policy import ToolsPolicy

    Row = dict[str, Any]

_SIDES = ("proposed", "seen", "raw", "shown")
_CAPS = {"langsmith": 25_000}
"""Spans of one trace after which a source takes no more in; whole traces are only here."""

_OWN_FLAGS = ("shadow_of:", "maybe_doubled", "orphan", "synthetic_root")


class Rows(NamedTuple):
    """What one trace becomes: its row, and those of its spans and crossings."""

    trace: Row
    spans: list[Row]
    crossings: list[Row]


def put_together(
    rows: Sequence[Row],
    scores: Sequence[Row],
    policy: ToolsPolicy,
    *,
    rule: Rule | None,
    harness_state: str,
    kept: Sequence[Flag] = (),
) -> Rows:
    """One trace. rows: all its redacted spans (`RedactedSpans`), duplicates and all; scores: those of this trace; kept: flags that it has already.

    Running it on its own spans changes nothing.
    """
    tree = _tree(rows)
    passages = crossed(tree.nodes, policy)
    failed = _failed(tree)
    found = rule.flags(scores, failed=failed) if rule else flagged(scores, failed=failed)
    whole = _Whole(tree, passages, list(scores), policy, sorted({*found, *kept}), failed)
    spans = _span_rows(tree, passages, harness_state)
    return Rows(
        _trace_row(whole, spans, harness_state), spans, [_crossing_row(passage, harness_state) for passage in passages]
    )


def ended_in_error(rows: Sequence[Row]) -> bool:
    """Whether a trace, of which these are all spans, says that it went wrong."""
    return _failed(_tree(rows))


def _tree(rows: Sequence[Row]) -> Tree:
    tree = grown(_as_redacted(row) for row in latest(distinct(rows)))
    shadow(tree.nodes)
    return tree


def _failed(tree: Tree) -> bool:
    top = blocks.root(tree.nodes)
    return top is not None and bool(top.row["is_error"])


class _Whole(NamedTuple):
    tree: Tree
    passages: list[Passage]
    scores: list[Row]
    policy: ToolsPolicy
    flags: list[Flag]
    failed: bool


def _as_redacted(row: Row) -> Row:
    """The row without what an earlier run of this step had added."""
    own = [flag for flag in row["flags"] if not flag.startswith(_OWN_FLAGS)]
    kept = row["crossing_seq"], row["crossing_sub"]
    # A place in the envelope is the source's own only where the source also numbers its crossings: the twiceshy dialect.
    place = kept if row["dialect"] == NUMBERED else (None, None)
    return row | {"flags": own, "crossing_seq": place[0], "crossing_sub": place[1]}


def _span_rows(tree: Tree, passages: Sequence[Passage], harness_state: str) -> list[Row]:
    places = {passage.node: (passage.crossing.seq, passage.crossing.sub) for passage in passages}
    made = []
    for node in tree.nodes:
        flags = {*node.row["flags"], *node.flags} | ({"orphan"} if node.orphan else set())
        seq, sub = places.get(node, (None, None))
        made.append(
            node.row
            | {"flags": sorted(flags), "crossing_seq": seq, "crossing_sub": sub, "harness_state": harness_state}
        )
    if tree.integrity == "synthetic_root":
        made.append(_synthetic_root(tree.nodes, harness_state))
    return made


def _synthetic_root(nodes: Sequence[Node], harness_state: str) -> Row:
    """A root for spans that have none. It is counted on its own, carries no content, and the spans keep the parents they name."""
    first = nodes[0].row
    kept = (
        "trace_id",
        "source_trace_id",
        "source",
        "norm_version",
        "policy_digest",
        "key_id",
        "zone",
        "time_precision",
        "workflow",
    )
    row: Row = dict.fromkeys(first) | {name: first[name] for name in kept}
    span_id = digest(["root", first["trace_id"]])[:16]
    return row | {
        "row_id": digest(["root", first["source"], first["trace_id"]]), "span_id": span_id, "source_span_id": span_id, "container": SYNTHETIC,
        "dialect": SYNTHETIC, "mapper": f"normalize@{NORM_VERSION}", "kind": "agent", "name": "(root)", "seq": 0, "is_error": False,
        "flags": ["synthetic_root"], "bucket_labels": [], "holds": [], "harness_state": harness_state,
    }  # fmt: skip


def _trace_row(whole: _Whole, spans: Sequence[Row], harness_state: str) -> Row:
    nodes, passages = whole.tree.nodes, whole.passages
    rows = [node.row for node in nodes]
    pinned = blocks.pinned(nodes, passages)
    pins = blocks.pins(nodes, passages, pinned.clock)
    found = grades.graded(
        grades.Facts(
            whole.tree, passages, pinned, pins.versions, whole.policy, labelled=bool(whole.scores) or whole.failed
        )
    )
    marks = {
        flag.split(":")[0] if flag.startswith(("shadow_of:", "phase:")) else flag
        for row in spans
        for flag in row["flags"]
    }
    if len(nodes) >= _CAPS.get(rows[0]["source"], len(nodes) + 1):
        marks.add("trace_capped")
    if pinned.clock is not None and not any(row["clock_tz"] for row in rows):
        marks.add("tz_missing")
    label = blocks.outcome(whole.scores)
    ended = blocks.disposition(nodes, passages, whole.policy, label=label, flags=[flag.flag for flag in whole.flags])
    return _identity(rows) | grades.columns(found) | {
        "harness_state": harness_state,
        "flagged": bool(whole.flags),
        "flags": [{"flag": flag.flag, "source": flag.source} for flag in whole.flags],
        "marks": sorted(marks),
        "outcome": label,
        "input": blocks.stored(blocks.run_input(nodes, passages)),
        "pins": blocks.stored(pins),
        "disposition": blocks.stored(ended),
        "tree_integrity": whole.tree.integrity,
        "orphans": whole.tree.orphans,
        "spans": len(nodes),
        "crossings": len(passages),
        "errors": sum(passage.crossing.error is not None for passage in passages),
        "grades_how": canonical({name: grade.how for name, grade in found.items() if grade.how}).decode(),
    } | _stamp(rows)  # fmt: skip


def _identity(rows: Sequence[Row]) -> Row:
    """What names the trace: each from the first span that has it, the outermost first."""
    names = ("workflow", "conversation_id", "service_name", "environment", "agent_name", "user_ref")
    outermost = sorted(rows, key=lambda row: (row["parent_span_id"] is not None, row["span_id"]))
    starts = [row["start_ns"] for row in rows if row["start_ns"] is not None]
    ends = [row["end_ns"] for row in rows if row["end_ns"] is not None]
    precisions = sorted({row["time_precision"] for row in rows}, key=("ns", "us", "ms", "rounded", "none").index)
    same = ("trace_id", "source_trace_id", "source", "zone", "norm_version")
    return {name: next((row[name] for row in outermost if row[name] is not None), None) for name in names} | {
        name: min(row[name] for row in rows) for name in same
    } | {
        "turn": _turn(rows), "start_ns": min(starts, default=None), "end_ns": max(ends, default=None), "time_precision": precisions[-1],
    }  # fmt: skip


def _turn(rows: Sequence[Row]) -> int:
    """Which turn of its conversation a trace is, from 0: the first request of its models has a message of the user's for each turn before it, and its own.

    An agent whose history lies elsewhere shows one message in every turn: the numbers are then equal, and nobody knows the order.
    """
    asked = [row for row in rows if row["kind"] == "model" and row["messages_in"] is not None]
    if not asked or all(row["conversation_id"] is None for row in rows):
        return 0
    first = min(asked, key=lambda row: (row["crossing_seq"] or 0, row["start_ns"] or 0, row["seq"], row["row_id"]))
    listed = msgspec.json.decode(first["messages_in"])
    spoken = (
        [one for one in listed if isinstance(one, dict) and one.get("role") == "user"]
        if isinstance(listed, list)
        else []
    )
    return max(len(spoken) - 1, 0)


def _stamp(rows: Sequence[Row]) -> Row:
    """The redaction stamp: known only where every span of the trace bears the same one."""
    stamps = {(row["policy_digest"], row["key_id"]) for row in rows}
    policy_digest, key_id = stamps.pop() if len(stamps) == 1 else (None, None)
    actions: Counter[str] = Counter()
    pseudonyms: dict[str, str] = {}
    for row in rows:
        pseudonyms |= msgspec.json.decode(row["pseudonyms"] or "{}")
        if row["redaction_map"]:
            actions.update(str(action) for action in msgspec.json.decode(row["redaction_map"]).values())
    return {
        "policy_digest": policy_digest, "key_id": key_id,
        "redaction_counts": canonical(dict(actions)).decode() if policy_digest else None,
        "pseudonyms": canonical(pseudonyms).decode() if pseudonyms else None,
        "holds": sorted({hold for row in rows for hold in row["holds"]}),
    }  # fmt: skip


def _crossing_row(passage: Passage, harness_state: str) -> Row:
    crossing, row = passage.crossing, passage.node.row
    error = crossing.error
    return {side: _json(getattr(crossing, side)) for side in _SIDES} | _plain(crossing) | {
        "harness_state": harness_state,
        "trace_id": row["trace_id"],
        "error_class": error.cls if error else None,
        "error_code": error.type if error else None,
        "error_message": error.message if error else None,
        "error_definite": error.definite if error else None,
        "chunks": _chunks(crossing),
        "zone": row["zone"],
        "span_row_id": row["row_id"],
        "span_id": row["span_id"],
        "bucket_labels": row["bucket_labels"],
    }  # fmt: skip


def _chunks(crossing: Crossing) -> str | None:
    """The chunks of a stream that was left: what was taken of it, a part each. Of a whole one they are not kept, since no redaction reads across them."""
    left = crossing.kind is Kind.MODEL and crossing.raw is UNSET and crossing.error is None
    return _json(split(crossing.shown)) if left and crossing.shown is not UNSET else None


def _plain(crossing: Crossing) -> Row:
    names = (
        "seq",
        "sub",
        "parent",
        "tightened",
        "name",
        "at",
        "scope",
        "group",
        "attempt",
        "blocked_by",
        "start_ns",
        "end_ns",
    )
    return {name: getattr(crossing, name) for name in names} | {
        "kind": str(crossing.kind), "effect": str(crossing.effect) if crossing.effect else None,
        "key": crossing.key or None, "state": crossing.state or None,
    }  # fmt: skip


def _json(held: Any) -> str | None:
    return None if held is UNSET else ordered(held).decode()
