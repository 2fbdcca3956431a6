"""The nights that a publication shows: those judged now, and those of the last publication that were not judged again."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from tasks.contracts import Table
from tasks.publish.schema import ChampionDiff, Conversations, Results, Runs
from tasks.replay.schema import Dimensions, Intents, Replays, Steps, Violations
from tasks.store import Publication

if TYPE_CHECKING:
    from tasks.publish.step import Measured
    from tasks.replay.step import Replayed

NIGHTS = 90
"""So many are kept: a quarter, which is what a chart of nights can show."""

OF_TRIALS: tuple[type[Table], ...] = (Replays, Violations, Intents, Dimensions, Steps)
OF_RUNS: tuple[type[Table], ...] = (Runs, Results, Conversations, ChampionDiff)
ONLY_CURRENT: tuple[type[Table], ...] = (Steps, Intents)
"""What a page shows of the newest run only; kept for every night it would be most of a publication."""


class Run(NamedTuple):
    """One run: a workflow on a night."""

    run_id: str
    workflow: str
    night: str


@dataclass(frozen=True, kw_only=True)
class Shown:
    """All rows that are shown. current: the run ids of the newest night of each workflow; judged: of those that were replayed now."""

    current: Sequence[str]
    judged: Sequence[str]
    earlier: Mapping[type[Table], pl.DataFrame]
    trials: Mapping[type[Table], pl.DataFrame]

    @property
    def replays(self) -> pl.DataFrame:
        """Every trial of every night."""
        return self.trials[Replays]

    def tables(self, measured: "Measured") -> dict[str, pl.DataFrame]:
        """The tables of runs and trials by name, arranged: earlier rows and those that were measured now."""
        now = {
            Runs: measured.runs,
            Results: measured.results,
            Conversations: measured.conversations,
            ChampionDiff: measured.champion_diff,
        }
        runs = {table: pl.concat([self.earlier[table], rows]) for table, rows in now.items()}
        whole: dict[type[Table], pl.DataFrame] = {**runs, **self.trials}
        return {table.named(): table.arranged(rows) for table, rows in whole.items()}


def shown(last: Publication | None, replayed: Sequence["Replayed"], runs: Sequence[Run]) -> Shown:
    """What is shown once these were replayed. runs: theirs, in the same order; a night that is judged again takes the place of its earlier run."""
    before = _before(last)
    kept = _kept(before[Runs], runs)
    earlier = {table: rows.filter(pl.col("run_id").is_in(pl.Series(kept).implode())) for table, rows in before.items()}
    current = _newest([*_runs(earlier[Runs]), *runs])
    trials = {
        table: pl.concat([earlier[table], *(getattr(one, table.named()) for one in replayed)]) for table in OF_TRIALS
    }
    now = pl.col("run_id").is_in(pl.Series(current).implode())
    return Shown(
        current=current,
        judged=_newest(runs),
        earlier=earlier,
        trials={table: rows.filter(now) if table in ONLY_CURRENT else rows for table, rows in trials.items()},
    )


def _before(last: Publication | None) -> dict[type[Table], pl.DataFrame]:
    """The last publication's rows, in the columns of today."""
    held = last.files() if last else {}
    return {
        table: _today(table, last.frame(table.named()) if last and table.named() in held else table.no_rows())
        for table in (*OF_RUNS, *OF_TRIALS)
    }


def _today(table: type[Table], found: pl.DataFrame) -> pl.DataFrame:
    """Columns that an older release lacks are null, those it had more are left out."""
    return pl.concat([table.no_rows(), found], how="diagonal").select(table.dtypes().names())


def _kept(before: pl.DataFrame, runs: Collection[Run]) -> list[str]:
    again = {(run.workflow, run.night) for run in runs}
    others = [run for run in _runs(before) if (run.workflow, run.night) not in again]
    nights = sorted({run.night for run in [*others, *runs]})[-NIGHTS:]
    return [run.run_id for run in others if run.night in nights]


def _runs(frame: pl.DataFrame) -> list[Run]:
    return [Run(*row) for row in frame.select("run_id", "workflow", "night").iter_rows()]


def _newest(runs: Collection[Run]) -> list[str]:
    nights: dict[str, str] = {}
    for run in runs:
        nights[run.workflow] = max(nights.get(run.workflow, ""), run.night)
    return sorted(run.run_id for run in runs if run.night == nights[run.workflow])
