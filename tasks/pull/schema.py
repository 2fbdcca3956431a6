"""The table that pull writes."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import Count, Digest, NanosOrNull, Table, Text, TextOrNull, one_of, rows

QUARANTINE_REASONS = (
    "bad_json",
    "bad_utf8",
    "bad_id",
    "bad_enum",
    "bad_type",
    "bad_time",
    "no_trace_id",
    "too_large",
    "unknown_container",
)
"""The closed set of formats.md §1; later steps name the column and check that failed."""


class Pulls(Table):
    """One source window pulled: `pull_id`, a digest of (source, window, input), so a second pull of it is the same row."""

    pull_id: Digest
    source: Text
    window: Text
    """As asked for: `2026-11-01/2026-11-02`, or the name of a file."""
    window_start_ns: NanosOrNull
    window_end_ns: NanosOrNull
    zone: Text
    input_digest: Digest
    cursor: TextOrNull
    """Where the next pull goes on; null where the source has none."""
    spans_in: Count
    spans_out: Count
    quarantined: Count
    distinct: Count
    duplicates: Count
    traces: Count
    scores: Count
    state: Annotated[str, one_of(("complete", "capped"))]
    """`capped`: the source's own limit was reached, so traces may lack spans (flag trace_capped)."""
    newest_ns: NanosOrNull
    """The end of the newest span as it came; what redaction leaves of a trace's dates is moved and tells nothing of its age."""
    raw_ref: TextOrNull
    expires_at_ns: NanosOrNull

    class Config(Table.Config):
        unique = ["pull_id"]

    @pa.dataframe_check
    @classmethod
    def spans_accounted_for(cls, data: PolarsData) -> pl.LazyFrame:
        """Spans in = spans out + quarantined."""
        return rows(data, pl.col("spans_in") == pl.col("spans_out") + pl.col("quarantined"))

    @pa.dataframe_check
    @classmethod
    def duplicates_counted_apart(cls, data: PolarsData) -> pl.LazyFrame:
        """Spans out = distinct + exact duplicates."""
        return rows(data, pl.col("spans_out") == pl.col("distinct") + pl.col("duplicates"))
