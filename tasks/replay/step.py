"""Replays cases against a candidate: the engine as a process of its own, its trials as tables. One of the two steps that are not pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from msgspec import structs

from tasks.contracts import Table, validated
from tasks.replay import rows
from tasks.replay.running import run
from tasks.replay.schema import Dimensions, Intents, Replays, Steps, Violations
from twiceshy import casefile
from twiceshy.identity import digest
from twiceshy.trials import WORST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tasks.replay.running import Ran
    from twiceshy.casefile import LoadedCase
    from twiceshy.shards import ReadyLine, ShardRequest, TrialLine
    from twiceshy.verdict import Conversation, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """What the rows of a replay say of when and for whom it was: the corpus id, the night (YYYY-MM-DD), and the candidate as it was named."""

    generation: str
    night: str
    candidate: str
    champion_digest: str | None = None

    def run_id(self, workflow: str, candidate_digest: str) -> str:
        """The run: a candidate that says the same of itself, on the same night over the same corpus, is the same run."""
        return f"{workflow}-{self.night}-{digest([self.generation, candidate_digest, self.night])[:16]}"


class Replayed(NamedTuple):
    """The tables of one shard, a result a case that was judged, by case id, the conversations as a whole, rows that broke a contract by table, and how long the cases took (outside every digest).

    harness: of the workflow's rules, under which pinned results count. not_run: cases without a result.
    """

    run_id: str
    workflow: str
    candidate_digest: str
    harness: str
    not_run: int
    replays: pl.DataFrame
    violations: pl.DataFrame
    intents: pl.DataFrame
    dimensions: pl.DataFrame
    steps: pl.DataFrame
    results: Sequence[Result]
    conversations: Sequence[Conversation]
    set_aside: Mapping[str, pl.DataFrame]
    timings: pl.DataFrame


def replay(
    request: ShardRequest, occasions: Sequence[Occasion], *, harness_state: str, timeout_s: float = 3600.0
) -> list[Replayed]:
    """Every case of the request, in every judging mode, by every trial, anew on each occasion; on the last one breaks too, where they are asked for.

    `steps` holds, of each case and mode, the first trial with the worst outcome. timeout_s: wall clock, after which the engine is killed.
    A case that the engine did not come to is an ERROR that says why, and the others stand; one of which a changed layer was frozen in every run is DIVERGED.
    Raises ConfigurationError for a candidate or a case that cannot be used, InfrastructureError for isolation that does not hold or an engine that is lost
    before its first line.
    """
    cases = {loaded.case.id: loaded for loaded in map(casefile.load, map(Path, request.cases))}
    nights = [occasion.night for occasion in occasions]
    times = run(structs.replace(request, times=len(nights), occasions=nights), timeout_s=timeout_s)
    return [
        _replayed(ran, _session(ran.ready, occasion, harness_state), cases)
        for ran, occasion in zip(times, occasions, strict=True)
    ]


def _replayed(ran: Ran, session: rows.Session, cases: Mapping[str, LoadedCase]) -> Replayed:
    trials = ran.trials
    exercised = {line.result.case.id for line in ran.results if rows.is_exercised(line)}
    judged = {line.result.case.id for line in ran.results}
    lost = [case for name, case in cases.items() if name not in judged]
    found: dict[type[Table], list[rows.Row]] = {
        Replays: [
            *(
                rows.replay_row(session, cases[line.case_id], line, exercised=line.case_id in exercised)
                for line in trials
            ),
            *(rows.lost_row(session, case, ran.lost or "not run") for case in lost),
        ],
        Violations: [row for line in trials for row in rows.violation_rows(session, line)],
        Intents: [row for line in trials for row in rows.intent_rows(session, line)],
        Dimensions: [row for line in trials for row in rows.dimension_rows(session, line)],
        Steps: [row for line in _deciding(trials) for row in rows.aligned_rows(session, cases[line.case_id], line)],
    }
    checked = {model: validated(_frame(model, held), model) for model, held in found.items()}
    aside = {model.named(): checked[model].set_aside for model in checked if checked[model].set_aside.height}
    return Replayed(
        run_id=session.run_id, workflow=ran.ready.workflow, candidate_digest=session.candidate_digest, harness=ran.ready.harness,
        not_run=len(lost), replays=checked[Replays].good, violations=checked[Violations].good, intents=checked[Intents].good,
        dimensions=checked[Dimensions].good, steps=checked[Steps].good, results=sorted((line.result for line in ran.results), key=lambda result: result.case.id),
        conversations=ran.conversations, set_aside=aside,
        timings=rows.timing_rows(session, ran.results),
    )  # fmt: skip


def _session(ready: ReadyLine, occasion: Occasion, harness_state: str) -> rows.Session:
    session = rows.Session(
        run_id="", night=occasion.night, candidate=occasion.candidate, ready=ready, harness_state=harness_state,
        champion_digest=occasion.champion_digest,
    )  # fmt: skip
    return replace(session, run_id=occasion.run_id(ready.workflow, session.candidate_digest))


def _deciding(trials: Iterable[TrialLine]) -> list[TrialLine]:
    """Of each case, judging mode and break, the first trial with the worst outcome."""
    chosen: dict[tuple[str, str, str | None], TrialLine] = {}
    for line in trials:
        place = (line.case_id, line.judge.cut.label, line.broken_by)
        held = chosen.get(place)
        if held is None or WORST.index(line.verdict.outcome) < WORST.index(held.verdict.outcome):
            chosen[place] = line
    return list(chosen.values())


def _frame(model: type[Table], held: list[rows.Row]) -> pl.DataFrame:
    return pl.DataFrame(held, schema=dict(model.dtypes())) if held else model.no_rows()
