"""The canonical span and score while a mapper fills them, and the frames they become (schema.py has the contract of every column)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import polars as pl
from msgspec import UNSET

from tasks.sources.schema import ScoreRecords, SpanRecords
from twiceshy.identity import canonical, digest, ordered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.contracts import Table

NORM_VERSION = "n1"
SYNTHETIC = "synthetic"
"""The dialect of a root that normalize added: no source gave it."""

UNFINISHED = "unfinished"
"""The flag of a trace whose source says that it still goes on: what is missing of it may yet come."""

CONTRADICTED = "tree_contradicted"
"""Flag of a span whose source tells two orders that do not agree."""

SIDES = ("proposed", "seen", "raw", "shown")
_VALUES = ("messages_in", "messages_out", "system_text", "tool_defs", "model_params", "usage", "versions")
# What says how a span came to us and not what it says: the same span in another spelling is an exact duplicate.
_SPELLING = frozenset(
    ["row_id", "harness_state", "flags", "container", "mapper", "source_trace_id", "source_span_id", "attributes_json", "provenance", "workflow"]
) | {f"{side}_encoding" for side in SIDES}  # fmt: skip
_UNTOLD = (("within", None), ("tightened", None))
"""Fields that came later: where they say nothing, a row has the id that it had before."""
_encode = msgspec.json.Encoder(order="deterministic").encode


class Side(NamedTuple):
    """One recorded side of a crossing, and how the source had spelled it: json, kvlist, pyrepr or text."""

    value: Any
    encoding: str = "json"


class Span(msgspec.Struct, kw_only=True):
    """One span as a mapper gives it. Values are Python values; UNSET is "not recorded", None a recorded null."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    source_trace_id: str
    source_span_id: str
    container: str
    dialect: str
    mapper: str
    kind: str
    name: str
    seq: int = 0
    scope_name: str | None = None
    scope_version: str | None = None
    service_name: str | None = None
    environment: str | None = None
    conversation_id: str | None = None
    user_ref: str | None = None
    agent_name: str | None = None
    agent_version: str | None = None
    workflow: str | None = None
    goal: str | None = None
    crossing_seq: int | None = None
    crossing_sub: int | None = None
    scope: str | None = None
    group: int | None = None
    at: str | None = None
    within: str | None = None
    tightened: bool | None = None
    blocked_by: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    zone: str = "UTC"
    time_precision: str = "ns"
    tool_name: str | None = None
    call_id: str | None = None
    mcp_server: str | None = None
    sides: dict[str, Side] = {}
    is_error: bool = False
    error_class: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    error_source: str | None = None
    error_definite: bool | None = None
    messages_in: Any = UNSET
    messages_out: Any = UNSET
    system_text: Any = UNSET
    tool_defs: Any = UNSET
    model_requested: str | None = None
    model_answered: str | None = None
    provider: str | None = None
    model_params: Any = UNSET
    finish_reason: str | None = None
    usage: Any = UNSET
    versions: Any = UNSET
    prompt_name: str | None = None
    prompt_version: str | None = None
    clock_text: str | None = None
    clock_tz: str | None = None
    clock_ns: int | None = None
    flags: set[str] = set()
    provenance: dict[str, dict[str, str]] = {}
    attributes_json: str | None = None


class Score(msgspec.Struct, kw_only=True):
    """One score or feedback as a mapper gives it. `text` of an annotation (expected actions) is canonical JSON."""

    trace_id: str
    span_id: str | None = None
    name: str
    value: float | None = None
    label: str | None = None
    text: str | None = None
    origin: str
    comment: str | None = None
    author_ref: str | None = None
    created_ns: int | None = None


_TEXTS = tuple(
    name
    for name, kind in SpanRecords.dtypes().items()
    if kind == pl.String and name in Span.__struct_fields__ and name not in (*_VALUES, "provenance")
)
_APART = ("source_trace_id", "source_span_id", "attributes_json", "workflow")


def mistyped(span: Span) -> bool:
    """Whether something else stands where a column is a text: a source that takes members as they come finds it out here, for that span alone."""
    return not all(isinstance(getattr(span, name), str | None) for name in _TEXTS)


def graded(value: Any) -> dict[str, Any]:
    """The columns of a score by what it says: a number or a truth value is a value, a text a label, anything else its canonical text."""
    if isinstance(value, bool | int | float):
        return {"value": float(value)}
    if isinstance(value, str):
        return {"label": value}
    return {} if value is None else {"text": canonical(value).decode()}


def span_row(span: Span, *, source: str, harness_state: str) -> dict[str, Any]:
    """The row of `SpanRecords`. Raises Unrecordable for a value that has no canonical form, ValueError for a text that cannot be written down."""
    row = msgspec.structs.asdict(span)
    for name in _APART:  # the row's own id, below, encodes all others
        (row[name] or "").encode()
    sides = row.pop("sides")
    values = {side: held.value for side in SIDES if (held := sides.get(side)) is not None}
    values |= {name: row[name] for name in _VALUES if row[name] is not UNSET}
    for name in (*SIDES, *_VALUES):
        row[name] = canonical(values[name]).decode() if name in values else None
    for side in SIDES:
        row[f"{side}_encoding"] = sides[side].encoding if side in values else None
    row["prompt_hash"] = None if span.system_text is UNSET else digest(span.system_text)
    row["flags"] = sorted(span.flags)
    row["provenance"] = canonical(span.provenance).decode() if span.provenance else None
    row |= {"source": source, "norm_version": NORM_VERSION, "bucket_labels": [], "harness_state": harness_state}
    content = [[name, row[name]] for name in sorted(row) if name not in _SPELLING and (name, row[name]) not in _UNTOLD]
    row["row_id"] = hashlib.sha256(_encode(content)).hexdigest()
    # The id is of the values; what stands in the row keeps the order of names in which the agent saw them.
    return row | {name: ordered(value).decode() for name, value in values.items()}


def score_row(score: Score, *, source: str, harness_state: str) -> dict[str, Any]:
    """The row of `ScoreRecords`; its id is a digest of all it says."""
    row = msgspec.structs.asdict(score) | {"source": source, "zone": "UTC"}
    return row | {"score_id": digest(row), "harness_state": harness_state}


def frame(rows: Sequence[dict[str, Any]], model: type[Table]) -> pl.DataFrame:
    """The rows as a frame of the model's columns and types, column by column: row tuples cost half the throughput (formats.md §11)."""
    return pl.DataFrame(
        {name: pl.Series(name, [row[name] for row in rows], dtype=dtype, strict=True) for name, dtype in model.dtypes().items()}
    )  # fmt: skip


def span_frame(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """One row per span handed in, exact duplicates included; columns of `SpanRecords`."""
    return frame(rows, SpanRecords)


def score_frame(scores: Iterable[Score], *, source: str, harness_state: str) -> pl.DataFrame:
    """One row per distinct score; columns of `ScoreRecords`, sorted by id."""
    rows = {
        row["score_id"]: row
        for row in (score_row(score, source=source, harness_state=harness_state) for score in scores)
    }
    return ScoreRecords.arranged(frame(list(rows.values()), ScoreRecords))
