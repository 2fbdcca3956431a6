"""The table that attribute writes."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import Count, Json, JsonOrNull, Ordinal, Table, Text, TextOrNull, TraceId, implies, one_of, rows

LAYERS = ("grader", "environment", "harness.tool", "harness.memory", "harness.workflow", "harness.prompt", "model")
"""In the order of trial; `model` is the remainder."""

RAN_PAST_DONE = "ran_past_done"
"""The rule that fires where a run went on after its work was done: a case rests its opportunity on it."""

VERDICTS = ("proven", "suggested", "unresolved", "diverged")


class Attributions(Table):
    """One (failing trace, layer): (`trace_id`, `layer`), with verdict, evidence and replays used. Only layers with a signal or a replay have a row."""

    trace_id: TraceId
    layer: Annotated[str, one_of(LAYERS)]
    workflow: TextOrNull
    verdict: Annotated[str, one_of(VERDICTS)]
    rank: Ordinal
    """Order of trial within the trace: 1 is the first suspect."""
    signals: Json
    """The rules that fired: [{rule, evidence}], each with a pointer into the run."""
    repair_sets: JsonOrNull
    """Minimal sets of layers that restore the invariant by replay; null before any swap ran."""
    replays_used: Count
    reason: TextOrNull
    """Why it is unresolved or diverged, such as `not_reproducible` or a divergence kind."""
    review: TextOrNull
    """The decision of a person that signs a suggestion."""
    rules_version: Text

    class Config(Table.Config):
        unique = ["trace_id", "layer"]

    @pa.dataframe_check
    @classmethod
    def proven_by_replay(cls, data: PolarsData) -> pl.LazyFrame:
        """A proof names its repair sets and used replays."""
        swapped = pl.col("repair_sets").is_not_null() & (pl.col("replays_used") > 0)
        return rows(data, implies(pl.col("verdict") == "proven", swapped))

    @pa.dataframe_check
    @classmethod
    def undecided_says_why(cls, data: PolarsData) -> pl.LazyFrame:
        """An unresolved or diverged attribution has a reason."""
        return rows(data, implies(pl.col("verdict").is_in(["unresolved", "diverged"]), pl.col("reason").is_not_null()))

    @pa.dataframe_check
    @classmethod
    def ranks_differ(cls, data: PolarsData) -> pl.LazyFrame:
        """No two layers of a trace share a rank."""
        return rows(data, pl.len().over("trace_id", "rank") == 1)
