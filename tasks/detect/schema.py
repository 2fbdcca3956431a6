"""The table that detect writes."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import (
    EFFECTS,
    SEVERITIES,
    TIERS,
    Count,
    CountOrNull,
    Digest,
    Json,
    Labels,
    Ordinal,
    Table,
    Text,
    TextOrNull,
    TraceId,
    one_of,
    rows,
)

DETECTORS = (
    "repeat",
    "no_progress",
    "cycle",
    "pingpong",
    "error_run",
    "self_repair",
    "endless_edit",
    "overrun",
    "forced_stop",
    "drift",
    "swallowed_error",
    "state_effect",
)
"""signatures.md §7 in lower case; `state_effect` is the difference from annotated expected actions (§4)."""


LEVELS = ("signal", "failure", "unjudged")


class Findings(Table):
    """One violated invariant or detector hit in a recorded run: `finding_id`, a digest of (trace, invariant or detector, onset), with onset and end.

    Facts only: the key's block and facets are worked out by sign.
    """

    finding_id: Digest
    trace_id: TraceId
    workflow: TextOrNull
    source: Annotated[str, one_of(("invariant", "detector"))]
    invariant_id: Text
    """The id of the invariant, or the name of the detector."""
    invariant_version: Text
    tier: Annotated[str, one_of(TIERS)]
    """A detector's hits count as `trajectory`."""
    kind: Text
    """must_not, must_happen, order, count, schema, output; for a detector `loop`, `drift`, `effect` or `error`."""
    level: Annotated[str, one_of(LEVELS)]
    """A signal is evidence and a facet; only a failure makes a trace fail; `unjudged` says that an invariant had no value on this run."""
    effect: Annotated[str, one_of(EFFECTS)]
    """What the violation did: as the invariant says, else as its kind says."""
    severity: Annotated[str, one_of(SEVERITIES)]
    tool: TextOrNull
    boundary: TextOrNull
    """`kind:name` of the onset; null where it shows only at the end of the run, with the last step as its onset."""
    onset_seq: Count
    onset_sub: Count
    end_seq: CountOrNull
    """The last crossing it still holds at; null where it lasts to the end of the run."""
    occurrences: Ordinal
    reads: Labels
    """The argument and result paths that the invariant reads; the stage rule looks at these."""
    violated_pairs: Labels
    """`keyword path` of each JSON Schema violation, indices removed; sorted."""
    evidence: Json
    """What shows it, by place and path; values only as far as they are redacted."""
    message: Text

    class Config(Table.Config):
        unique = ["finding_id"]

    @pa.dataframe_check
    @classmethod
    def detector_known(cls, data: PolarsData) -> pl.LazyFrame:
        """A detector's hit names one of DETECTORS."""
        return rows(data, (pl.col("source") == "invariant") | pl.col("invariant_id").is_in(DETECTORS))

    @pa.dataframe_check
    @classmethod
    def ends_after_onset(cls, data: PolarsData) -> pl.LazyFrame:
        """It ends at or after its onset."""
        return rows(data, pl.col("end_seq").is_null() | (pl.col("end_seq") >= pl.col("onset_seq")))
