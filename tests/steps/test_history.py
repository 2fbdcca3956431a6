from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tables import some_rows
from tasks.publish.history import NIGHTS, OF_TRIALS, Run, Shown, shown
from tasks.publish.schema import ChampionDiff, Conversations, Results, Runs
from tasks.publish.summary import nights, outcomes, signatures, verdict
from tasks.replay.schema import Replays, Steps
from tasks.sign.schema import Signatures
from tasks.store import Publication, Published

if TYPE_CHECKING:
    from tasks.contracts import Table

SIG = "sig_0a1b2c3d4e5f"


class Replayed(NamedTuple):
    replays: pl.DataFrame
    violations: pl.DataFrame
    intents: pl.DataFrame
    dimensions: pl.DataFrame
    steps: pl.DataFrame


class Measured(NamedTuple):
    runs: pl.DataFrame
    results: pl.DataFrame
    conversations: pl.DataFrame
    champion_diff: pl.DataFrame


def a_replayed(run: Run) -> Any:
    """What a run brings: a trial and a step of it."""
    row = {"run_id": run.run_id, "replay_id": f"{int(run.run_id, 36):064x}"}
    made: dict[type[Table], pl.DataFrame] = {table: table.no_rows() for table in OF_TRIALS}
    made[Replays] = some_rows(Replays, {**row, "workflow": run.workflow, "night": run.night})
    made[Steps] = some_rows(Steps, {**row, "position": 0})
    return Replayed(*made.values())


def measured(*runs: Run, **result: Any) -> Any:
    rows = [{"run_id": run.run_id, "workflow": run.workflow, "night": run.night} for run in runs]
    told = [{**row, "conversation_id": "c1"} for row in rows]
    return Measured(
        some_rows(Runs, *rows), some_rows(Results, *({**row, **result} for row in rows)),
        some_rows(Conversations, *told), ChampionDiff.no_rows(),
    )  # fmt: skip


def published(root: Path, last: Publication | None, *runs: Run) -> tuple[Publication, Shown]:
    held = shown(last, [a_replayed(run) for run in runs], runs)
    tables = held.tables(measured(*runs))
    return Published(root).publish(f"p{runs[0].run_id}", generation="g", tables=tables), held


def ids(frame: pl.DataFrame) -> list[str]:
    return sorted(frame["run_id"])


def test_earlier_nights_are_shown_still(tmp_path: Path) -> None:
    first, _ = published(tmp_path, None, Run("a", "refund", "2026-11-01"), Run("b", "research", "2026-11-01"))
    second, held = published(tmp_path, first, Run("c", "refund", "2026-11-02"))
    for table in ("runs", "replays", "conversations"):
        assert ids(second.frame(table)) == ["a", "b", "c"]
    assert held.current == ["b", "c"]
    assert ids(second.frame("steps")) == ["b", "c"]


def test_night_judged_again_replaces_itself(tmp_path: Path) -> None:
    first, _ = published(tmp_path, None, Run("a", "refund", "2026-11-01"), Run("b", "refund", "2026-11-02"))
    second, held = published(tmp_path, first, Run("c", "refund", "2026-11-01"))
    assert ids(second.frame("runs")) == ids(second.frame("replays")) == ["b", "c"]
    assert held.current == ["b"]


def test_oldest_nights_go(tmp_path: Path) -> None:
    days = [f"{2000 + number}-01-01" for number in range(NIGHTS)]
    first, _ = published(tmp_path, None, *(Run(f"a{number}", "refund", day) for number, day in enumerate(days)))
    second, _ = published(tmp_path, first, Run("b", "refund", "2999-01-01"))
    assert len(ids(second.frame("runs"))) == NIGHTS
    assert "a0" not in ids(second.frame("runs"))


def test_column_of_another_release_is_null(tmp_path: Path) -> None:
    first, held = published(tmp_path, None, Run("a", "refund", "2026-11-01"))
    older = {name: frame.drop("isolation") if name == "replays" else frame for name, frame in held.tables(measured(Run("a", "refund", "2026-11-01"))).items()}  # fmt: skip
    last = Published(tmp_path).publish("older", generation="g", tables=older)
    again = shown(last, [], [])
    assert again.replays["isolation"].to_list() == [None]
    assert again.replays.schema == Replays.dtypes()
    assert first.run_id != last.run_id


def test_nightly_says_the_worst_of_now() -> None:
    runs = some_rows(
        Runs,
        {"run_id": "a", "verdict": "diverged", "exit_code": 3},
        {"run_id": "b", "verdict": "error", "exit_code": 4},
        {"run_id": "c", "verdict": "failed", "exit_code": 1},
    )
    assert [verdict(runs, current) for current in (["a"], ["a", "b"], ["a", "b", "c"], [])] == [
        "diverged",
        "error",
        "regressed",
        "nothing_judged",
    ]


def test_summaries_put_first_what_did_not_pass() -> None:
    results = some_rows(
        Results,
        {"run_id": "n", "case_id": "a", "outcome": "passed", "signature": None, "night": "2026-11-02"},
        {"run_id": "n", "case_id": "b", "outcome": "failed", "change": "new", "signature": SIG, "night": "2026-11-02"},
        {"run_id": "o", "case_id": "b", "outcome": "diverged", "signature": SIG, "night": "2026-11-01"},
    )
    assert [row["case_id"] for row in outcomes(results, ["n"])] == ["b", "a"]
    (row,) = signatures(some_rows(Signatures, {"signature": SIG}), results, ["n"])
    assert (row["nights"], row["outcome"]) == ("DF", "failed")
    assert [
        row["night"]
        for row in nights(
            some_rows(Runs, {"run_id": "a", "night": "2026-11-01"}, {"run_id": "b", "night": "2026-11-02"})
        )
    ] == ["2026-11-02", "2026-11-01"]
