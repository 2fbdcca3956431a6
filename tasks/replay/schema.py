"""The tables that replay writes: trials, and what each found."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.contracts import (
    SIDES,
    TIERS,
    BoolOrNull,
    Count,
    CountOrNull,
    Digest,
    DigestOrNull,
    Json,
    JsonOrNull,
    Labels,
    Night,
    Ordinal,
    RatioOrNull,
    SignatureIdOrNull,
    Table,
    Text,
    TextOrNull,
    implies,
    like,
    one_of,
    rows,
)
from twiceshy.aligning import Alignment
from twiceshy.envelope import Effect, Kind
from twiceshy.outcome import AnsweredBy, BoundaryState, DimensionName, Divergence, Failure, Mode, Outcome, Truth

BREAK_STATES = ("killed", "survived", "inconclusive", "error")

Live = Annotated[str, like(r"|[a-z]+:[^,]+(?:,[a-z]+:[^,]+)*")]
"""The named live boundaries, sorted and joined by commas; empty where none was named. Text, so that it can be part of a key."""


class Replays(Table):
    """One trial of one case: `replay_id`, a digest of (run, case, mode, live set, after, trial), with outcome, mode, boundary states, digests and isolation."""

    replay_id: Digest
    run_id: Text
    case_id: Text
    case_digest: Digest
    workflow: Text
    case_kind: Annotated[str, one_of(("failure", "positive"))]
    signature: SignatureIdOrNull
    slug: TextOrNull
    trace_id: Text
    trial: Ordinal
    mode: Annotated[str, one_of(Mode)]
    live: Live
    after: Count
    """Steps 1..after came from the record; 0 where none did."""
    broken_by: TextOrNull
    """The break operator applied; null for a plain trial."""
    break_state: Annotated[str, one_of(BREAK_STATES, nullable=True)]
    """What the break showed: killed is FAILED on the case's own ids, inconclusive DIVERGED or FAILED on others, error that it applied nowhere."""
    night: Night
    candidate: Text
    candidate_digest: Text
    champion_digest: TextOrNull
    outcome: Annotated[str, one_of(Outcome)]
    decided: bool
    """PASSED although it diverged: the must-happen ids that decide it were satisfied first."""
    failure: Annotated[str, one_of(Failure, nullable=True)]
    divergence: Annotated[str, one_of(Divergence, nullable=True)]
    divergence_seq: CountOrNull
    divergence_boundary: TextOrNull
    reason: TextOrNull
    """What an ERROR was; ids, names and paths only."""
    exercised: Labels
    """Layers whose code or version really ran; sorted."""
    boundaries: Json
    """[{seq, sub, kind, name, effect, state}] in order; state is frozen, live or intercepted."""
    isolation: Text
    """The level that held, by its name in `twiceshy.sealing`."""
    simulated: bool
    seed: Text
    transcript_digest: DigestOrNull
    """sha256 of the whole transcript; null only for an ERROR."""
    crossings: Count
    versions: Json
    """Layer versions of the candidate, as in the envelope's pins."""

    class Config(Table.Config):
        unique = ["replay_id"]

    @pa.dataframe_check
    @classmethod
    def diverged_names_kind(cls, data: PolarsData) -> pl.LazyFrame:
        """DIVERGED names its kind; a decided pass names it too, and no undiverged pass does."""
        passed, kind = pl.col("outcome") == Outcome.PASSED.value, pl.col("divergence").is_not_null()
        return rows(
            data,
            implies(pl.col("outcome") == Outcome.DIVERGED.value, kind) & implies(passed, pl.col("decided") == kind),
        )

    @pa.dataframe_check
    @classmethod
    def failed_names_failure(cls, data: PolarsData) -> pl.LazyFrame:
        """FAILED, and nothing else, says how it failed."""
        return rows(data, (pl.col("outcome") == Outcome.FAILED.value) == pl.col("failure").is_not_null())

    @pa.dataframe_check
    @classmethod
    def decided_only_if_passed(cls, data: PolarsData) -> pl.LazyFrame:
        """Only a PASSED trial is marked decided."""
        return rows(data, implies(pl.col("decided"), pl.col("outcome") == Outcome.PASSED.value))

    @pa.dataframe_check
    @classmethod
    def break_has_state(cls, data: PolarsData) -> pl.LazyFrame:
        """A trial under a break says what it showed, and no other trial does."""
        return rows(data, pl.col("broken_by").is_null() == pl.col("break_state").is_null())

    @pa.dataframe_check
    @classmethod
    def error_says_what(cls, data: PolarsData) -> pl.LazyFrame:
        """An ERROR has a reason; every other outcome has a transcript."""
        wrong = pl.col("outcome") == Outcome.ERROR.value
        return rows(
            data,
            pl.when(wrong).then(pl.col("reason").is_not_null()).otherwise(pl.col("transcript_digest").is_not_null()),
        )


Place = Annotated[str, like(r"#\d+(?:\.\d+)?", nullable=True)]
"""`#4`, or `#4.1` for what belongs to step 4."""

SIDE_BYTES = 16_384
"""A side of a step longer than this is cut: the whole value is in the envelope, or in the run that can be repeated."""

SIDES_OF_BOTH = tuple(f"{run}_{side}" for run in ("recorded", "replayed") for side in (*SIDES, "error"))
"""Canonical JSON, cut where `cut` names the column; null where the side is not known or the run has no such step."""


class Steps(Table):
    """One step of the record and of the trial that decided a case, side by side: (`replay_id`, `position`), as `twiceshy.aligning` pairs them."""

    replay_id: Digest
    run_id: Text
    case_id: Text
    position: Count
    kind: Annotated[str, one_of(Kind)]
    name: Text
    at: TextOrNull
    scope: str
    effect: Annotated[str, one_of(Effect, nullable=True)]
    status: Annotated[str, one_of(Alignment)]
    recorded_place: Place
    replayed_place: Place
    boundary: Annotated[str, one_of(BoundaryState, nullable=True)]
    """Null for a step that was only recorded, and for the call at which the replay ended unanswered."""
    answered_by: Annotated[str, one_of(AnsweredBy, nullable=True)]
    matched: Place
    """The recorded step whose answer was served."""
    stale: bool
    drift: TextOrNull
    diverged: bool
    violated: Labels
    """Invariants whose violation begins at this step of the replay; sorted."""
    diffs: Json
    """[{side, path, recorded, replayed}], the leaves that differ, a long text from where it differs on; a key is absent where the leaf is."""
    diffs_left_out: Count
    recorded_proposed: TextOrNull
    recorded_seen: TextOrNull
    recorded_raw: TextOrNull
    recorded_shown: TextOrNull
    recorded_error: TextOrNull
    recorded_blocked_by: TextOrNull
    replayed_proposed: TextOrNull
    replayed_seen: TextOrNull
    replayed_raw: TextOrNull
    replayed_shown: TextOrNull
    replayed_error: TextOrNull
    replayed_blocked_by: TextOrNull
    cut: Labels
    """The columns whose text was cut; sorted."""

    class Config(Table.Config):
        unique = ["replay_id", "position"]

    @pa.dataframe_check
    @classmethod
    def places_by_status(cls, data: PolarsData) -> pl.LazyFrame:
        """A step has a place in the runs that its status names, and in no other."""
        recorded, replayed = pl.col("recorded_place").is_not_null(), pl.col("replayed_place").is_not_null()
        only_one = pl.col("status").is_in([Alignment.ONLY_RECORDED.value, Alignment.ONLY_REPLAYED.value])
        alone = (pl.col("status") == Alignment.ONLY_RECORDED.value) == recorded
        return rows(data, pl.when(only_one).then((recorded != replayed) & alone).otherwise(recorded & replayed))

    @pa.dataframe_check
    @classmethod
    def replay_left_marks(cls, data: PolarsData) -> pl.LazyFrame:
        """Boundary state, answer, divergence and violations belong to a step that the replay took."""
        known = [pl.col(name).is_not_null() for name in ("boundary", "answered_by", "matched")]
        marks = pl.any_horizontal(*known, "stale", "diverged", pl.col("violated").list.len() > 0)
        return rows(data, implies(marks, pl.col("replayed_place").is_not_null()))

    @pa.dataframe_check
    @classmethod
    def sides_are_capped(cls, data: PolarsData) -> pl.LazyFrame:
        """No side holds more bytes than a page can carry."""
        return rows(data, pl.all_horizontal(pl.col(SIDES_OF_BOTH).str.len_bytes().fill_null(0) <= SIDE_BYTES))

    @pa.dataframe_check
    @classmethod
    def divergence_is_no_match(cls, data: PolarsData) -> pl.LazyFrame:
        """The step at which the replay diverged is never the same as a recorded one."""
        return rows(data, implies(pl.col("diverged"), pl.col("status") != Alignment.SAME.value))


class Violations(Table):
    """One (trial, invariant): (`replay_id`, `invariant_id`), with its truth value at the end of the evidence."""

    replay_id: Digest
    run_id: Text
    case_id: Text
    invariant_id: Text
    invariant_version: Text
    tier: Annotated[str, one_of(TIERS)]
    kind: Text
    truth: Annotated[str, one_of(Truth)]
    message: Text
    """The invariant's own words, without values of the run."""
    seq: CountOrNull
    sub: CountOrNull
    boundary: TextOrNull
    boundary_state: Annotated[str, one_of(BoundaryState, nullable=True)]
    advisory: bool

    class Config(Table.Config):
        unique = ["replay_id", "invariant_id"]

    @pa.dataframe_check
    @classmethod
    def place_is_whole(cls, data: PolarsData) -> pl.LazyFrame:
        """A place has seq, sub, boundary and state together, or none of them."""
        known = [pl.col(name).is_not_null() for name in ("seq", "sub", "boundary", "boundary_state")]
        return rows(data, pl.all_horizontal(known) | ~pl.any_horizontal(known))


class Intents(Table):
    """One (trial, intercepted write): (`replay_id`, `seq`), recorded instead of executed."""

    replay_id: Digest
    run_id: Text
    case_id: Text
    seq: Ordinal
    tool: Text
    proposed: JsonOrNull
    seen: JsonOrNull
    key: Annotated[str, like("c1:[0-9a-f]{64}")]
    idempotency_key: TextOrNull
    state: TextOrNull
    blocked_by: TextOrNull
    answered_by: Annotated[str, one_of(AnsweredBy, nullable=True)]
    """Null where the write got no answer: it ended the run."""
    explained_by: Annotated[str, one_of(("recorded", "expected", "allowed"), nullable=True)]
    """Null where nothing explains the write: explained_writes is violated."""
    duplicate: bool

    class Config(Table.Config):
        unique = ["replay_id", "seq"]

    @pa.dataframe_check
    @classmethod
    def blocked_by_guard(cls, data: PolarsData) -> pl.LazyFrame:
        """A write answered by a guard names the guard, and the other way round."""
        answered = (pl.col("answered_by") == AnsweredBy.GUARD.value).fill_null(value=False)
        return rows(data, answered == pl.col("blocked_by").is_not_null())


class Dimensions(Table):
    """One (trial, dimension): (`replay_id`, `dimension`), a value 0..1 with its n and threshold; never averaged."""

    replay_id: Digest
    run_id: Text
    case_id: Text
    dimension: Annotated[str, one_of(DimensionName)]
    value: RatioOrNull
    """Null where it does not apply."""
    n: Count
    threshold: RatioOrNull
    passed: BoolOrNull
    """Null without a value or a threshold."""

    class Config(Table.Config):
        unique = ["replay_id", "dimension"]

    @pa.dataframe_check
    @classmethod
    def judged_by_threshold(cls, data: PolarsData) -> pl.LazyFrame:
        """Passed is value >= threshold where both are known, else null."""
        return rows(data, pl.col("passed").eq_missing(pl.col("value") >= pl.col("threshold")))

    @pa.dataframe_check
    @classmethod
    def value_counts_something(cls, data: PolarsData) -> pl.LazyFrame:
        """A value rests on at least one observation."""
        return rows(data, pl.col("value").is_not_null() == (pl.col("n") > 0))
