"""The tables that sign writes: memberships and signatures (signatures.md §1-2)."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import (
    EFFECTS,
    SEVERITIES,
    STAGES,
    Count,
    CountOrNull,
    Digest,
    Json,
    Labels,
    NanosOrNull,
    Ordinal,
    RatioOrNull,
    SignatureId,
    SignatureIdOrNull,
    Table,
    Text,
    TextOrNull,
    TraceId,
    TraceIdOrNull,
    implies,
    like,
    one_of,
    rows,
)

NONE = "-"
"""The tool, policy boundary or error class of a key that has none."""

REASONS = ("override", "known", "near", "new")
STATES = ("open", "covered", "escaped", "retired")

KeyId = Annotated[str, like("k1:[0-9a-f]{16}")]
BranchId = Annotated[str, like("[0-9a-f]{12}")]


class Keyed(Table):
    """The must-match block B and the facets F of a key; `-` where a part does not apply."""

    invariant_id: Text
    tool: Text
    stage: Annotated[str, one_of(STAGES)]
    policy_boundary: Text
    effect: Annotated[str, one_of(EFFECTS)]
    error_class: Text
    schema_pairs: Labels
    """`keyword path`, indices removed; sorted."""


class Memberships(Keyed):
    """One (failing trace, key): (`trace_id`, `key_id`), with its signature, why it was given that one, and whether it is the trace's primary."""

    trace_id: TraceId
    key_id: KeyId
    key_version: Text
    branch_id: BranchId
    finding_id: Digest
    workflow: TextOrNull
    agent_name: TextOrNull
    stage_inferred: bool
    evidence: Json
    """{boundary, change, path, place}: the change of a field that shows the stage, or the place where the violation shows."""
    primary: bool
    onset_seq: Count
    onset_sub: Count
    retries: Count
    """Further violations of the same key in this trace."""
    template: TextOrNull
    """The parameterised error text; null for a declared code or no error."""
    signature: SignatureId
    reason: Annotated[str, one_of(REASONS)]
    score: RatioOrNull
    """Likeness to the frozen representative; only for reason `near`."""
    maybe: SignatureIdOrNull
    """The signature it may be the same as, up for review; only for reason `new`."""

    class Config(Table.Config):
        unique = ["trace_id", "key_id"]

    @pa.dataframe_check
    @classmethod
    def one_primary(cls, data: PolarsData) -> pl.LazyFrame:
        """Every failing trace has one primary key."""
        return rows(data, pl.col("primary").sum().over("trace_id") == 1)

    @pa.dataframe_check
    @classmethod
    def near_has_score(cls, data: PolarsData) -> pl.LazyFrame:
        """A near match states its score; an exact one has none."""
        return rows(data, (pl.col("reason") == "near") == pl.col("score").is_not_null())

    @pa.dataframe_check
    @classmethod
    def maybe_is_new(cls, data: PolarsData) -> pl.LazyFrame:
        """Only a new signature may be up for a merge."""
        return rows(data, implies(pl.col("maybe").is_not_null(), pl.col("reason") == "new"))


class Signatures(Keyed):
    """One signature: `signature`, its slug, block, facets, severity, representative and state."""

    signature: SignatureId
    slug: Annotated[str, pa.Field(unique=True, str_matches=r"^[a-z0-9_]+(?:-[a-z0-9_]+)*@[a-z]+(?:-[a-z0-9_]+)*$")]
    aliases: Labels
    """Ids merged into this one and former slugs; sorted, so that links stay alive."""
    workflow: TextOrNull
    founding_key: KeyId
    representative_key: KeyId
    representative_template: TextOrNull
    """Frozen: near matches are compared with this text and no other."""
    severity: Annotated[str, one_of(SEVERITIES)]
    state: Annotated[str, one_of(STATES)]
    case_id: TextOrNull
    case_trace_id: TraceIdOrNull
    """The trace whose envelope is the case; sticky."""
    traces: Ordinal
    keys: Ordinal
    branches: Ordinal
    first_seen_ns: NanosOrNull
    last_seen_ns: NanosOrNull
    zone: Text
    crossings_min: CountOrNull
    """Crossings of its shortest failing run."""

    class Config(Table.Config):
        unique = ["signature"]

    @pa.dataframe_check
    @classmethod
    def covered_needs_case(cls, data: PolarsData) -> pl.LazyFrame:
        """Covered and escaped signatures have a case."""
        return rows(data, implies(pl.col("state").is_in(["covered", "escaped"]), pl.col("case_id").is_not_null()))
