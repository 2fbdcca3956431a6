"""The tables of admission: what admit decides, and what people decided."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import (
    SEVERITIES,
    BoolOrNull,
    Digest,
    DigestOrNull,
    GradeOf,
    Json,
    Labels,
    Nanos,
    SignatureIdOrNull,
    Table,
    Text,
    TextOrNull,
    TraceId,
    implies,
    one_of,
    rows,
)

REQUIREMENTS = tuple(f"r{number}" for number in range(1, 12))
BLOCKING = ("r1", "r2", "r3", "r4", "r9")
COMPLETENESS = ("complete", "derived", "incomplete")
CASE_KINDS = ("failure", "positive")
DECISIONS = ("promote", "member", "hold", "discard")

_BLOCKING_GRADES = pl.concat_list(BLOCKING)
_COMPLETENESS = (
    pl.when(_BLOCKING_GRADES.list.contains("missing"))
    .then(pl.lit("incomplete"))
    .when(_BLOCKING_GRADES.list.contains("derived"))
    .then(pl.lit("derived"))
    .otherwise(pl.lit("complete"))
)


class Admissions(Table):
    """One trace considered: `trace_id`, with completeness, decision, reasons and all eleven grades.

    Traces that nothing flagged are not considered; admit returns their number beside this table and publish states it in `quality`.
    """

    trace_id: TraceId
    source: Text
    workflow: TextOrNull
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
    completeness: Annotated[str, one_of(COMPLETENESS)]
    case_kind: Annotated[str, one_of(CASE_KINDS)]
    """A flagged trace is considered as a failure; a happy path, kept by stratify, as a positive."""
    redacted: bool
    attributed: bool
    versioned: bool
    self_consistent: BoolOrNull
    """The recorded run, replayed against its own envelope, is graded red (a positive: green); null where it was not tried."""
    reproduced: BoolOrNull
    """A real agent turned the case red; null before one ran."""
    decision: Annotated[str, one_of(DECISIONS)]
    reasons: Labels
    """Why not, such as `r4_missing`, `flag:truncated`, `hold:unknown_field`; sorted. Empty for promote and member."""
    warnings: Labels
    """What is missing or derived without blocking, such as `tz_missing`, `r7_missing`; sorted."""
    signature: SignatureIdOrNull
    case_id: TextOrNull
    """The case it becomes (promote), or the case of its signature (member)."""
    envelope_digest: DigestOrNull
    severity: Annotated[str, one_of(SEVERITIES, nullable=True)]

    class Config(Table.Config):
        unique = ["trace_id"]

    @pa.dataframe_check
    @classmethod
    def completeness_from_grades(cls, data: PolarsData) -> pl.LazyFrame:
        """Completeness follows from the blocking requirements R1-R4 and R9, and from nothing else."""
        return rows(data, pl.col("completeness") == _COMPLETENESS)

    @pa.dataframe_check
    @classmethod
    def refusal_says_why(cls, data: PolarsData) -> pl.LazyFrame:
        """Held and discarded traces have reasons, and only those."""
        refused = pl.col("decision").is_in(["hold", "discard"])
        return rows(data, refused == (pl.col("reasons").list.len() > 0))

    @pa.dataframe_check
    @classmethod
    def promoted_is_proven(cls, data: PolarsData) -> pl.LazyFrame:
        """A promoted trace is complete or derived, labelled, redacted, attributed, versioned, self-consistent, and has its case."""
        proven = pl.all_horizontal(
            "redacted", "attributed", "versioned", pl.col("self_consistent").fill_null(value=False)
        )
        whole = (pl.col("completeness") != "incomplete") & (pl.col("r8") != "missing")
        has_case = pl.col("case_id").is_not_null() & pl.col("envelope_digest").is_not_null()
        return rows(data, implies(pl.col("decision") == "promote", proven & whole & has_case))

    @pa.dataframe_check
    @classmethod
    def failure_has_signature(cls, data: PolarsData) -> pl.LazyFrame:
        """A promoted failure has a signature and a severity; a positive has neither."""
        named = pl.col("signature").is_not_null() & pl.col("severity").is_not_null()
        failure = pl.col("case_kind") == "failure"
        return rows(data, implies(pl.col("decision") == "promote", named == failure))

    @pa.dataframe_check
    @classmethod
    def member_has_signature(cls, data: PolarsData) -> pl.LazyFrame:
        """A member is a further failure of a signature that has its case, and is redacted."""
        failure = pl.col("case_kind") == "failure"
        belongs = failure & pl.col("signature").is_not_null() & pl.col("case_id").is_not_null() & pl.col("redacted")
        return rows(data, implies(pl.col("decision") == "member", belongs))


class Reviews(Table):
    """One decision of a person, append-only: `review_id`, with who, when and why.

    `decided_ns` is part of the decision, handed in with it, and never read from a clock here.
    """

    review_id: Digest
    subject_kind: Annotated[str, one_of(("trace", "signature", "case"))]
    subject: Text
    decision: Annotated[str, one_of((*DECISIONS, "merge", "split", "rename", "waive", "retire"))]
    who: Text
    decided_ns: Nanos
    zone: Text
    why: Text
    details: Json
    """What the decision needs beyond its subject, such as {into: sig_...} or {until: 2026-12-01}."""

    class Config(Table.Config):
        unique = ["review_id"]
