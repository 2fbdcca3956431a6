"""The tables that publish writes. Published, they carry `generation` (the corpus id) besides; the store adds it."""

from typing import Annotated

import pandera.polars as pa
import polars as pl
from pandera.api.polars.types import PolarsData

from tasks.admit.schema import CASE_KINDS
from tasks.contracts import (
    BoolOrNull,
    Count,
    CountOrNull,
    Digest,
    DigestOrNull,
    Json,
    Labels,
    Night,
    Number,
    NumberOrNull,
    Ordinal,
    RatioOrNull,
    SignatureIdOrNull,
    Table,
    Text,
    TextOrNull,
    implies,
    one_of,
    rows,
)
from tasks.replay.schema import Live
from tasks.sign.schema import STATES
from twiceshy.outcome import Mode, Outcome

CELL_STATES = ("covered", "unproven", "gap", "not_seen")
CHANGES = ("regressed", "known", "new", "fixed", "diverged", "recovered", "unjudged")
"""Of the candidate against the champion: FAILED is regressed, known or new; else what became of the champion's result."""


class Coverage(Table):
    """One cell (`workflow`, `tool`, `error_code`, `bucket`): seen in production, in the corpus, covered, and its state.

    The universe of cells comes from tool schemas and declared codes; the happy path is error code `ok`.
    """

    workflow: Text
    tool: Text
    error_code: Text
    bucket: Text
    runs: Count
    """Production runs in the window that met the cell."""
    cases: Count
    positives: Count
    breaks_applied: Count
    breaks_killed: Count
    state: Annotated[str, one_of(CELL_STATES)]
    covered_in: Labels
    """The judging modes, each with its live set, in which every failure case of it is proven: `full`, `cut-point live model:*`."""

    class Config(Table.Config):
        unique = ["workflow", "tool", "error_code", "bucket"]

    @pa.dataframe_check
    @classmethod
    def state_from_counts(cls, data: PolarsData) -> pl.LazyFrame:
        """Without a case a cell is not seen or a gap, by its runs; with one it is covered or unproven."""
        empty = pl.when(pl.col("runs") == 0).then(pl.col("state") == "not_seen").otherwise(pl.col("state") == "gap")
        held = pl.col("state").is_in(["covered", "unproven"])
        return rows(data, pl.when(pl.col("cases") == 0).then(empty).otherwise(held))

    @pa.dataframe_check
    @classmethod
    def covered_is_proven(cls, data: PolarsData) -> pl.LazyFrame:
        """A covered cell has a passing positive, a break, and every break killed."""
        killed = (pl.col("breaks_applied") > 0) & (pl.col("breaks_killed") == pl.col("breaks_applied"))
        return rows(data, implies(pl.col("state") == "covered", killed & (pl.col("positives") > 0)))

    @pa.dataframe_check
    @classmethod
    def killed_were_applied(cls, data: PolarsData) -> pl.LazyFrame:
        """No more breaks are killed than were applied."""
        return rows(data, pl.col("breaks_killed") <= pl.col("breaks_applied"))


class Standings(Table):
    """One signature (`signature`): what replays make of it, and what the next publication has to know of it."""

    signature: Text
    state: Annotated[str, one_of(STATES)]
    covered_in: Labels
    """The judging modes, each with its live set, in which a case of it is proven; none unless it is covered."""
    covered_by: Labels
    """The cases that were proven when it was last covered."""
    covered_traces: CountOrNull
    """How many traces showed it then; null where it never was."""
    let_through: bool
    """Whether it was seen again since; until another case covers it, or a person retires it."""

    class Config(Table.Config):
        unique = ["signature"]

    @pa.dataframe_check
    @classmethod
    def covered_somewhere(cls, data: PolarsData) -> pl.LazyFrame:
        """What is covered is covered in a judging mode, and nothing else is."""
        return rows(data, (pl.col("state") == "covered") == (pl.col("covered_in").list.len() > 0))


class Divergence(Table):
    """One (`night`, `mode`, `workflow`): replays, how many diverged, the Wilson bounds of the rate, and the versions it was taken with."""

    night: Night
    mode: Annotated[str, one_of(Mode)]
    workflow: Text
    replays: Count
    diverged: Count
    wilson_low: RatioOrNull
    wilson_high: RatioOrNull
    versions: Json
    """{candidate, catalog, harness}: a jump of the rate is attributed to what changed here."""

    class Config(Table.Config):
        unique = ["night", "mode", "workflow"]

    @pa.dataframe_check
    @classmethod
    def rate_within_bounds(cls, data: PolarsData) -> pl.LazyFrame:
        """The rate lies within its bounds; without replays there are no bounds."""
        rate, slack = pl.col("diverged") / pl.col("replays"), 1e-9
        inside = (pl.col("wilson_low") <= rate + slack) & (rate <= pl.col("wilson_high") + slack)
        unbounded = pl.col("wilson_low").is_null() & pl.col("wilson_high").is_null() & (pl.col("diverged") == 0)
        return rows(data, pl.when(pl.col("replays") == 0).then(unbounded).otherwise(inside))


VERDICTS = {"passed": 0, "failed": 1, "diverged": 3, "error": 4, "nothing_judged": 5}
"""The verdicts of `twiceshy.verdict.Summary`, each with its exit code (faces.md §2.1)."""


class Runs(Table):
    """One run: `run_id`, one candidate judged on one night, with its verdict and the counts of its cases."""

    run_id: Text
    night: Night
    workflow: Text
    candidate: Text
    candidate_digest: Text
    champion_digest: TextOrNull
    mode: Text
    """As asked for: `auto`, or one mode for all cases."""
    trials: Ordinal
    verdict: Annotated[str, one_of(tuple(VERDICTS))]
    exit_code: Count
    passed: Count
    failed: Count
    diverged: Count
    error: Count
    not_run: Count
    newly_covered: Count
    newly_lost: Count
    reasons: Labels
    """Why it does not end with 0, the most severe first."""
    versions: Json
    """{candidate, catalog, harness}, as in Divergence."""

    class Config(Table.Config):
        unique = ["run_id"]

    @pa.dataframe_check
    @classmethod
    def verdict_is_exit_code(cls, data: PolarsData) -> pl.LazyFrame:
        """Verdict and exit code say one thing."""
        return rows(data, pl.col("verdict").replace_strict(VERDICTS, default=None) == pl.col("exit_code"))


class Results(Table):
    """One case of one run: (`run_id`, `case_id`), its outcome over all judging modes and trials, and what changed against the champion."""

    run_id: Text
    case_id: Text
    night: Night
    case_digest: Digest
    workflow: Text
    case_kind: Annotated[str, one_of(CASE_KINDS)]
    signature: SignatureIdOrNull
    slug: TextOrNull
    trace_id: Text
    tool: TextOrNull
    modes: Labels
    """How it was judged, in order: `full`, `cut-point --after 3`."""
    outcome: Annotated[str, one_of(Outcome)]
    decided: bool
    change: Annotated[str, one_of(CHANGES, nullable=True)]
    """Null where the result is the champion's and no failure."""
    champion_outcome: Annotated[str, one_of(Outcome, nullable=True)]
    waiver: TextOrNull
    replay_id: DigestOrNull
    """The trial that decided: its steps are in `steps`. Null where no trial came to anything."""

    class Config(Table.Config):
        unique = ["run_id", "case_id"]

    @pa.dataframe_check
    @classmethod
    def failure_says_change(cls, data: PolarsData) -> pl.LazyFrame:
        """FAILED, and nothing else, is regressed, known or new."""
        failing = pl.col("change").is_in(["regressed", "known", "new"]).fill_null(value=False)
        return rows(data, (pl.col("outcome") == Outcome.FAILED.value) == failing)

    @pa.dataframe_check
    @classmethod
    def waived_is_known(cls, data: PolarsData) -> pl.LazyFrame:
        """Only a failure that the champion has too can be waived."""
        return rows(data, implies(pl.col("waiver").is_not_null(), pl.col("change") == "known"))


class Conversations(Table):
    """One conversation of one run, whose turns are cases of their own: (`run_id`, `conversation_id`), and what the turns came to together."""

    run_id: Text
    conversation_id: Text
    night: Night
    workflow: Text
    outcome: Annotated[str, one_of(Outcome)]
    """The worst of its turns and of the whole: turns that each pass do not make a passed conversation."""
    cases: Labels
    """In the order of the turns."""
    outcomes: Labels
    """Of each of `cases`."""
    violated: Labels
    """By the turns together; sorted."""
    reason: TextOrNull
    """Where each violation shows, or why the turns could not be judged together; ids, names and paths only."""

    class Config(Table.Config):
        unique = ["run_id", "conversation_id"]

    @pa.dataframe_check
    @classmethod
    def violated_is_failed(cls, data: PolarsData) -> pl.LazyFrame:
        """What the turns violate together makes it FAILED, with a reason."""
        broken = pl.col("violated").list.len() > 0
        return rows(data, implies(broken, (pl.col("outcome") == Outcome.FAILED.value) & pl.col("reason").is_not_null()))

    @pa.dataframe_check
    @classmethod
    def every_turn_has_an_outcome(cls, data: PolarsData) -> pl.LazyFrame:
        """As many outcomes as cases."""
        return rows(data, pl.col("cases").list.len() == pl.col("outcomes").list.len())


class ChampionDiff(Table):
    """One case whose result differs from the champion's: (`run_id`, `case_id`, `mode`, `live`)."""

    run_id: Text
    case_id: Text
    mode: Annotated[str, one_of(Mode)]
    live: Live
    night: Night
    workflow: Text
    signature: SignatureIdOrNull
    slug: TextOrNull
    candidate_digest: Text
    champion_digest: TextOrNull
    champion_outcome: Annotated[str, one_of(Outcome, nullable=True)]
    """Null for a new case: no champion has judged it."""
    candidate_outcome: Annotated[str, one_of(Outcome)]
    champion_violated: Labels
    candidate_violated: Labels
    change: Annotated[str, one_of(CHANGES)]
    waiver: TextOrNull

    class Config(Table.Config):
        unique = ["run_id", "case_id", "mode", "live"]

    @pa.dataframe_check
    @classmethod
    def something_differs(cls, data: PolarsData) -> pl.LazyFrame:
        """Outcome or violated ids differ."""
        outcomes = pl.col("champion_outcome").ne_missing(pl.col("candidate_outcome"))
        return rows(data, outcomes | (pl.col("champion_violated") != pl.col("candidate_violated")))


class Quality(Table):
    """One (`scope`, `metric`) of a generation and the expectation it meets; a ratio 0-1, a count, or a duration in ns as `unit` says."""

    scope: Text
    """`all`, or `source:NAME`, `workflow:NAME`, `table:NAME`."""
    metric: Text
    unit: Annotated[str, one_of(("count", "ratio", "ns"))]
    value: Number
    low: NumberOrNull
    high: NumberOrNull
    met: BoolOrNull
    """Null where nothing is expected: the metric is stated only."""

    class Config(Table.Config):
        unique = ["scope", "metric"]

    @pa.dataframe_check
    @classmethod
    def met_within_bounds(cls, data: PolarsData) -> pl.LazyFrame:
        """Met is low <= value <= high over the bounds that are given; null without bounds."""
        low, high = pl.col("low"), pl.col("high")
        inside = (low.is_null() | (pl.col("value") >= low)) & (high.is_null() | (pl.col("value") <= high))
        expected = pl.when(low.is_null() & high.is_null()).then(pl.lit(None, pl.Boolean)).otherwise(inside)
        return rows(data, pl.col("met").eq_missing(expected))
