"""What the page of one signature or positive case shows: its verdict, trials, steps side by side, and nights."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dashboards.catalog import Entry
from dashboards.charts import version_changes
from dashboards.comparing import Comparison, compare
from dashboards.published import Queries

_AT_ONCE = 50
"""Pages whose steps are read together: a scan each would be slow, all of them would not fit."""

Row = Mapping[str, Any]


def case_pages(queries: Queries, entries: Sequence[Entry]) -> Iterator[tuple[Entry, dict[str, Any]]]:
    """Every entry with what its page shows."""
    for at in range(0, len(entries), _AT_ONCE):
        batch = entries[at : at + _AT_ONCE]
        found = _Batch(queries, batch)
        for entry in batch:
            yield entry, found.shown(entry)


class _Batch:
    """Trials, violations, intents and steps of some cases, by the key their pages look for."""

    def __init__(self, queries: Queries, entries: Sequence[Entry]) -> None:
        results = [entry.result for entry in entries if entry.result]
        parameters = {"runs": sorted({row["run_id"] for row in results}), "cases": [row["case_id"] for row in results]}
        self._trials = _by(queries.rows("trials", **parameters), "case_id")
        self._steps = _by(queries.rows("steps", **parameters), "replay_id")
        self._intents = _by(queries.rows("intents", **parameters), "replay_id")
        self._violations = _by(queries.rows("violations", **parameters), "replay_id")

    def shown(self, entry: Entry) -> dict[str, Any]:
        result = entry.result or {}
        decided = str(result.get("replay_id"))
        trials = [_trial(row) for row in self._trials.get(str(result.get("case_id")), ())]
        comparisons = list(self._comparisons(trials, decided))
        first = comparisons[0][1] if comparisons and comparisons[0][0]["replay_id"] == decided else None
        return {
            "trials": trials,
            "comparisons": comparisons,
            "intents": self._intents.get(decided, []),
            "violations": [_placed(row, first) for row in self._violations.get(decided, ())],
            "diverged_anchor": first.diverged.anchor if first and first.diverged else None,
            "history": list(reversed(list(_history(entry.nights)))),
            "commands": _commands(entry, trials, decided),
        }

    def _comparisons(self, trials: Sequence[Row], decided: str) -> Iterator[tuple[Row, Comparison]]:
        """The plain trials whose steps were published, the one that decided first. What a break did is told by its state."""
        told = [trial for trial in trials if trial["replay_id"] in self._steps and trial["broken_by"] is None]
        for at, trial in enumerate(sorted(told, key=lambda trial: trial["replay_id"] != decided)):
            yield trial, compare(self._steps[trial["replay_id"]], prefix="" if at == 0 else f"trial{at}-")


def _by(rows: Sequence[Row], key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found


def _trial(row: Row) -> dict[str, Any]:
    return {**row, "label": " ".join([row["mode"], *_flags(row)])}


def _flags(row: Row) -> list[str]:
    live = [part for name in row["live"].split(",") if name for part in ("--live", name)]
    return [*live, *(["--after", str(row["after"])] if row["after"] else [])]


def _placed(row: Row, comparison: Comparison | None) -> dict[str, Any]:
    """The violation with its place as text and, where that step is on the page, its anchor."""
    if row["seq"] is None:
        return {**row, "place": None, "anchor": None}
    place = f"#{row['seq']}.{row['sub']}" if row["sub"] else f"#{row['seq']}"
    steps = comparison.steps if comparison else []
    anchors = (step.anchor for step in steps if step.row["replayed_place"] == place)
    return {**row, "place": place, "anchor": next(anchors, None)}


def _history(nights: Sequence[Row]) -> Iterator[dict[str, Any]]:
    before: Mapping[str, object] | None = None
    for night in nights:
        versions = msgspec.json.decode(night["versions"])
        yield {**night, "changed": [] if before is None else version_changes(before, versions)}
        before = versions


def _commands(entry: Entry, trials: Sequence[Row], decided: str) -> list[str]:
    """How the trial that decided is repeated, and the breaks that were applied."""
    case = entry.case_id
    trial = next((row for row in trials if row["replay_id"] == decided), None)
    if case is None or trial is None:
        return []
    whom = [shlex.quote(case), "-c", shlex.quote(trial["candidate"])]
    repeat = ["twiceshy", "replay", *whom, "--mode", trial["mode"], *map(shlex.quote, _flags(trial)), "-v"]
    broken = [["twiceshy", "break", *whom]] if any(row["broken_by"] for row in trials) else []
    return [" ".join(words) for words in (repeat, *broken)]
