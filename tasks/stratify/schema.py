"""The table that stratify writes."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import Count, Ordinal, Table, Text, TextOrNull, TraceId, like, rows

NO_TOOL = "-"
OK = "ok"


class Strata(Table):
    """One (`trace_id`, `tool`, `bucket`, `error_code`) with its weight and whether it was sampled.

    A trace without a tool call stands in the stratum of tool `-`; a call without an error has code `ok`; bucket is the primary one.
    """

    trace_id: TraceId
    workflow: TextOrNull
    tool: Text
    bucket: Text
    error_code: Text
    calls: Count
    """Calls of this trace in this stratum; 0 only for tool `-`."""
    stratum_size: Ordinal
    """Traces in the stratum."""
    draw: Annotated[str, like("[0-9a-f]{32}")]
    """md5 of seed and trace: the order of sampling, unmoved when traces are added."""
    rank: Ordinal
    quota: Count
    sampled: bool
    weight: Annotated[float, pa.Field(gt=0, nullable=True)]
    """Traces that a sampled row stands for: stratum_size / sampled rows; null where not sampled."""

    class Config(Table.Config):
        unique = ["trace_id", "tool", "bucket", "error_code"]

    @pa.dataframe_check
    @classmethod
    def sampled_within_quota(cls, data: PolarsData) -> pl.LazyFrame:
        """A row is sampled exactly when its rank is within the quota."""
        return rows(data, pl.col("sampled") == (pl.col("rank") <= pl.col("quota")))

    @pa.dataframe_check
    @classmethod
    def weighted_when_sampled(cls, data: PolarsData) -> pl.LazyFrame:
        """A sampled row has a weight, and no other row."""
        return rows(data, pl.col("sampled") == pl.col("weight").is_not_null())

    @pa.dataframe_check
    @classmethod
    def rank_within_stratum(cls, data: PolarsData) -> pl.LazyFrame:
        """A rank does not exceed the size of its stratum."""
        return rows(data, pl.col("rank") <= pl.col("stratum_size"))
