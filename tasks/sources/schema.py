"""The canonical records that every mapper emits (formats.md §2); engine, tables and site know no vendor attribute."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import (
    SIDES,
    BoolOrNull,
    BucketLabels,
    Count,
    CountOrNull,
    Digest,
    DigestOrNull,
    JsonOrNull,
    Labels,
    NanosOrNull,
    NumberOrNull,
    SpanId,
    SpanIdOrNull,
    Table,
    Text,
    TextOrNull,
    ToldOrNull,
    TraceId,
    implies,
    like,
    one_of,
    rows,
)
from twiceshy.envelope import Kind

CONTEXT_KINDS = ("agent", "eval", "step", "infra")
"""Spans that are no boundary: kept as context, without an error code."""

SPAN_KINDS = (*(str(kind) for kind in Kind), *CONTEXT_KINDS)
TIME_PRECISIONS = ("ns", "us", "ms", "rounded", "none")
ENCODINGS = ("json", "kvlist", "pyrepr", "text")
ERROR_SOURCES = ("typed", "exception", "structured", "text", "status")
"""The rungs of formats.md §7, in order: error.type or native, exception event, structured result, text pattern, bare status."""

ORIGINS = ("human", "llm", "code", "api")

_HAS_ENCODING = pl.all_horizontal(pl.col(side).is_null() == pl.col(f"{side}_encoding").is_null() for side in SIDES)


class SpanRecords(Table):
    """One recorded span as a mapper gives it: `row_id`, equal rows being duplicates, also across pulls.

    Not redacted, so it never enters a generation. A side that is null was not recorded; the text `null` is a recorded JSON null.
    `bucket_labels` stays empty until redact fills it.
    """

    row_id: Digest
    trace_id: TraceId
    span_id: SpanId
    parent_span_id: SpanIdOrNull
    source_trace_id: Text
    source_span_id: Text
    source: Text
    container: Text
    dialect: Text
    mapper: Text
    norm_version: Text
    scope_name: TextOrNull
    scope_version: TextOrNull
    service_name: TextOrNull
    environment: TextOrNull
    conversation_id: TextOrNull
    user_ref: TextOrNull
    agent_name: TextOrNull
    agent_version: TextOrNull
    workflow: TextOrNull
    """As recorded, or as claimed for the whole trace when it was pulled; redact and normalize go by its policies."""
    goal: TextOrNull
    crossing_seq: CountOrNull
    """The place in the envelope, #seq.sub, where the source numbers its crossings; normalize fills it for every crossing."""
    crossing_sub: CountOrNull
    scope: TextOrNull
    """Spawn path of agents, where recorded."""
    group: CountOrNull
    """The recorded seq of the model crossing that asked for this one."""
    at: Annotated[str, like("(?:before|after):.+|/.+", nullable=True)]
    """Hooks and guards: where they sit. Handoffs: the scope of the agent that was handed to."""
    within: Annotated[str, like(r"#\d+(?:\.\d+)?", nullable=True)]
    """The recorded place of the crossing in whose code it happened: a tool's body (`#4`), a hook (`#4.1`)."""
    tightened: BoolOrNull
    """True where a server's hint made a write of what tools.yaml calls a read; null where nothing says so."""
    blocked_by: TextOrNull
    kind: Annotated[str, one_of(SPAN_KINDS)]
    name: str
    seq: Count
    start_ns: NanosOrNull
    end_ns: NanosOrNull
    zone: Text
    time_precision: Annotated[str, one_of(TIME_PRECISIONS)]
    tool_name: TextOrNull
    call_id: TextOrNull
    mcp_server: TextOrNull
    proposed: ToldOrNull
    seen: ToldOrNull
    raw: ToldOrNull
    shown: ToldOrNull
    proposed_encoding: Annotated[str, one_of(ENCODINGS, nullable=True)]
    seen_encoding: Annotated[str, one_of(ENCODINGS, nullable=True)]
    raw_encoding: Annotated[str, one_of(ENCODINGS, nullable=True)]
    shown_encoding: Annotated[str, one_of(ENCODINGS, nullable=True)]
    bucket_labels: BucketLabels
    is_error: bool
    error_class: TextOrNull
    """As raised, qualified, where recorded."""
    error_code: TextOrNull
    error_message: TextOrNull
    error_source: Annotated[str, one_of(ERROR_SOURCES, nullable=True)]
    error_definite: BoolOrNull
    messages_in: ToldOrNull
    messages_out: ToldOrNull
    system_text: ToldOrNull
    tool_defs: ToldOrNull
    model_requested: TextOrNull
    model_answered: TextOrNull
    provider: TextOrNull
    model_params: ToldOrNull
    finish_reason: TextOrNull
    usage: ToldOrNull
    versions: ToldOrNull
    """The recorded layer versions of the run, as in `pins.versions` (semantics.md §2)."""
    prompt_name: TextOrNull
    prompt_version: TextOrNull
    prompt_hash: DigestOrNull
    clock_text: TextOrNull
    clock_tz: TextOrNull
    clock_ns: NanosOrNull
    """The pinned instant itself, where recorded; moved by redaction together with the text."""
    flags: Labels
    """Of formats.md §8, such as `truncated`, `nested_json:2`, `shadow_of:<span_id>`; sorted."""
    provenance: JsonOrNull
    """{field: {key, grade}}: the attribute a value came from, `recorded` or `derived`."""
    attributes_json: TextOrNull
    """The raw attributes, events and links, unchanged; redact replaces or drops it."""

    class Config(Table.Config):
        unique = ["row_id"]

    @pa.dataframe_check
    @classmethod
    def side_has_encoding(cls, data: PolarsData) -> pl.LazyFrame:
        """A recorded side says how it was encoded; an unknown side has no encoding."""
        return rows(data, _HAS_ENCODING)

    @pa.dataframe_check
    @classmethod
    def ends_after_start(cls, data: PolarsData) -> pl.LazyFrame:
        """A span ends at or after its start, where both are known."""
        return rows(data, implies(pl.col("end_ns") < pl.col("start_ns"), pl.lit(value=False)))

    @pa.dataframe_check
    @classmethod
    def context_has_no_error_code(cls, data: PolarsData) -> pl.LazyFrame:
        """The errors of context spans never become a trace's error code."""
        return rows(data, implies(pl.col("kind").is_in(CONTEXT_KINDS), pl.col("error_code").is_null()))

    @pa.dataframe_check
    @classmethod
    def boundary_error_is_coded(cls, data: PolarsData) -> pl.LazyFrame:
        """An error of a boundary has a code, `unknown` at worst, and the rung it came from."""
        failed = pl.col("is_error") & ~pl.col("kind").is_in(CONTEXT_KINDS)
        return rows(data, implies(failed, pl.col("error_code").is_not_null() & pl.col("error_source").is_not_null()))


class ScoreRecords(Table):
    """One score or feedback on a trace or a span, as a mapper gives it: `score_id`."""

    score_id: Digest
    trace_id: TraceId
    span_id: SpanIdOrNull
    source: Text
    name: Text
    value: NumberOrNull
    label: TextOrNull
    text: TextOrNull
    origin: Annotated[str, one_of(ORIGINS)]
    comment: TextOrNull
    author_ref: TextOrNull
    created_ns: NanosOrNull
    zone: Text

    class Config(Table.Config):
        unique = ["score_id"]

    @pa.dataframe_check
    @classmethod
    def says_something(cls, data: PolarsData) -> pl.LazyFrame:
        """A score has a value, a label, a text or a comment."""
        return rows(data, pl.any_horizontal(pl.col("value", "label", "text", "comment").is_not_null()))
