"""The tables that normalize writes: traces, spans, scores and crossings, redacted all of them."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import (
    BoolOrNull,
    BucketLabels,
    Count,
    CountOrNull,
    DigestOrNull,
    GradeOf,
    Json,
    JsonOrNull,
    Labels,
    NanosOrNull,
    Ordinal,
    SpanIdOrNull,
    Table,
    Text,
    TextOrNull,
    Told,
    ToldOrNull,
    TraceId,
    implies,
    like,
    one_of,
    rows,
)
from tasks.redact.schema import RedactedSpans
from tasks.sources.schema import TIME_PRECISIONS, ScoreRecords
from twiceshy.envelope import SUB_KINDS, Effect, Kind

TREES = ("intact", "synthetic_root", "unordered")
"""One root and all parents present; a root was added and the order stands; no order can be established."""

FLAG_SOURCES = ("error_status", "user_feedback", "online_grader", "human", "reward", "tag", "detector")

_SUB_KINDS = sorted(str(kind) for kind in SUB_KINDS)


class Traces(Table):
    """One trace: what flagged it, its outcome, session, layer versions and the grades R1..R11.

    `input`, `pins`, `disposition` are the envelope's blocks of those names (semantics.md §2), as canonical JSON with names in their order.
    """

    trace_id: TraceId
    source_trace_id: Text
    source: Text
    workflow: TextOrNull
    """Null where no workflow claims it: it cannot be judged, so it is held."""
    conversation_id: TextOrNull
    turn: Count
    service_name: TextOrNull
    environment: TextOrNull
    agent_name: TextOrNull
    user_ref: TextOrNull
    start_ns: NanosOrNull
    end_ns: NanosOrNull
    zone: Text
    time_precision: Annotated[str, one_of(TIME_PRECISIONS)]
    flagged: bool
    flags: Annotated[pl.List, pl.Struct({"flag": pl.String, "source": pl.String})]
    """Why it counts as flagged, each with where that came from (FLAG_SOURCES); sorted."""
    marks: Labels
    """The flags of formats.md §8 on the trace or any of its spans; sorted."""
    outcome: TextOrNull
    """The label the source gave the run, such as `failure`; null where it gave none."""
    input: Told
    pins: Told
    disposition: Told
    tree_integrity: Annotated[str, one_of(TREES)]
    orphans: Count
    spans: Count
    crossings: Count
    errors: Count
    """Boundary crossings that ended in an error."""
    r1: GradeOf
    r2: GradeOf
    r3: GradeOf
    r4: GradeOf
    r5: GradeOf
    r6: GradeOf
    r7: GradeOf
    r8: GradeOf
    r9: GradeOf
    r10: GradeOf
    r11: GradeOf
    grades_how: Json
    """{requirement: rule}, one entry for each derived grade."""
    policy_digest: DigestOrNull
    key_id: TextOrNull
    redaction_counts: JsonOrNull
    pseudonyms: JsonOrNull
    """{pseudonym: keyed digest} of all that stand in the trace; its envelope carries them."""
    holds: Labels
    """Redaction's hold reasons; sorted."""
    norm_version: Text

    class Config(Table.Config):
        unique = ["trace_id"]

    @pa.dataframe_check
    @classmethod
    def flagged_names_flags(cls, data: PolarsData) -> pl.LazyFrame:
        """A flagged trace names what flagged it, and only a flagged one does."""
        return rows(data, pl.col("flagged") == (pl.col("flags").list.len() > 0))

    @pa.dataframe_check
    @classmethod
    def flag_sources_known(cls, data: PolarsData) -> pl.LazyFrame:
        """Every flag comes from a known source."""
        known = pl.element().struct.field("source").is_in(FLAG_SOURCES)
        return rows(data, pl.col("flags").list.eval(known).list.all())

    @pa.dataframe_check
    @classmethod
    def stamp_is_whole(cls, data: PolarsData) -> pl.LazyFrame:
        """Policy digest and key id are known together or not at all."""
        return rows(data, pl.col("policy_digest").is_null() == pl.col("key_id").is_null())


class Spans(RedactedSpans):
    """One span, redacted and normalized: `row_id`, with its bucket labels and, in `crossing_seq` and `crossing_sub`, the crossing it became."""


class Scores(ScoreRecords):
    """One score or feedback on a trace or span: `score_id`, its texts redacted."""


class Crossings(Table):
    """One boundary crossing: (`trace_id`, `seq`, `sub`), both middleware sides, key and state; the fields of `twiceshy.envelope.Crossing`.

    Steps (model, tool, retrieval, memory, user, human, handoff) are numbered 1..n with `sub` 0; hooks, guards, routers, clock, random and flags
    are subs 1..m of the step they belong to, of seq 0 before the first step. `effect`, `key` and `state` follow the tool policy.
    """

    trace_id: TraceId
    seq: Count
    sub: Count
    kind: Annotated[str, one_of(Kind)]
    name: Text
    at: Annotated[str, like("(?:before|after):.+|/.+", nullable=True)]
    parent: Annotated[str, like(r"#\d+(?:\.\d+)?", nullable=True)]
    """The place of the crossing in whose code it happened."""
    tightened: BoolOrNull
    """Whether a server's hint made a write of it, whatever the tool policy says."""
    scope: str
    """Spawn path of agents; empty for the root agent."""
    group: CountOrNull
    """The step number of the model crossing that asked for this one."""
    attempt: Ordinal
    effect: Annotated[str, one_of(Effect, nullable=True)]
    proposed: ToldOrNull
    seen: ToldOrNull
    raw: ToldOrNull
    shown: ToldOrNull
    error_class: TextOrNull
    """As raised, qualified; null where the crossing ended without an error."""
    error_code: TextOrNull
    """Our code for it, `type` of the envelope's error."""
    error_message: TextOrNull
    error_definite: BoolOrNull
    blocked_by: TextOrNull
    """The guard that refused it."""
    chunks: ToldOrNull
    """The recorded chunks of a streamed output, as a list."""
    key: Annotated[str, like("c1:[0-9a-f]{64}", nullable=True)]
    """Null where neither `seen` nor `proposed` is known."""
    state: TextOrNull
    """The digest of the effective writes before it that touch what it reads (semantics.md §4)."""
    start_ns: NanosOrNull
    end_ns: NanosOrNull
    zone: Text
    span_row_id: DigestOrNull
    """The span it came from; null for a crossing read out of a message list."""
    span_id: SpanIdOrNull
    bucket_labels: BucketLabels

    class Config(Table.Config):
        unique = ["trace_id", "seq", "sub"]

    @pa.dataframe_check
    @classmethod
    def numbered_by_kind(cls, data: PolarsData) -> pl.LazyFrame:
        """Step kinds have sub 0 and a number from 1; the others are subs."""
        is_sub = pl.col("kind").is_in(_SUB_KINDS)
        return rows(
            data, pl.when(is_sub).then(pl.col("sub") >= 1).otherwise((pl.col("sub") == 0) & (pl.col("seq") >= 1))
        )

    @pa.dataframe_check
    @classmethod
    def key_needs_arguments(cls, data: PolarsData) -> pl.LazyFrame:
        """Only a crossing with known arguments has a key."""
        asked = pl.col("seen").is_not_null() | pl.col("proposed").is_not_null()
        return rows(data, implies(pl.col("key").is_not_null(), asked))

    @pa.dataframe_check
    @classmethod
    def error_is_whole(cls, data: PolarsData) -> pl.LazyFrame:
        """An error has a class, a code and says whether it is definite."""
        code, definite = pl.col("error_code").is_not_null(), pl.col("error_definite").is_not_null()
        failed = pl.col("error_class").is_not_null()
        return rows(data, (failed == code) & (failed == definite))

    @pa.dataframe_check
    @classmethod
    def tool_has_effect(cls, data: PolarsData) -> pl.LazyFrame:
        """Every tool crossing is a read, a write or pure; an unlisted one is a write."""
        return rows(data, implies(pl.col("kind") == Kind.TOOL.value, pl.col("effect").is_not_null()))
