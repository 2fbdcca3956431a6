"""What runs came to, as rows: a run with its verdict, a case with its change against the champion, and where their modes differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tasks.contracts import Table
from tasks.publish.schema import ChampionDiff, Conversations, Results, Runs
from twiceshy import champion, gate
from twiceshy.champion import Champion
from twiceshy.identity import canonical, digest
from twiceshy.outcome import Outcome
from twiceshy.trials import WORST
from twiceshy.verdict import Conversation, ModeResult, Policy, Result

Row = dict[str, Any]

_RANK = {outcome.value: at for at, outcome in enumerate(WORST)}


@dataclass(frozen=True, kw_only=True)
class Judging:
    """One run as it is published: one candidate on one night. harness: of its rules, under which pinned results count. mode: as asked for, `auto` or one mode.

    not_run: cases that were not even tried.
    """

    run_id: str
    night: str
    workflow: str
    candidate: str
    candidate_digest: str
    harness: str
    results: Sequence[Result]
    conversations: Sequence[Conversation] = ()
    champion: Champion | None = None
    policy: Policy = field(default_factory=Policy)
    mode: str = "auto"
    trials: int = 2
    not_run: int = 0

    @property
    def champion_digest(self) -> str | None:
        """The digest of the champion's layers; None where there is no champion."""
        return self.champion.reference.digest if self.champion else None

    def compared(self) -> list[Result]:
        """The results with what the champion came to; the night's own date decides about waivers."""
        return [
            champion.compared(result, self.champion, harness=self.harness, today=self.night) for result in self.results
        ]

    @property
    def versions(self) -> str:
        """What a jump may be due to: {candidate, catalog, harness}."""
        catalog = digest(sorted(result.case.digest for result in self.results))
        return canonical({"candidate": self.candidate_digest, "catalog": catalog, "harness": self.harness}).decode()


def run_row(judging: Judging, results: Sequence[Result]) -> Row:
    """The row of `Runs`; the verdict is the gate's."""
    summary = gate.summary(results, judging.policy, not_run=judging.not_run, conversations=judging.conversations)
    counts = summary.counts
    return {
        **_of(judging), "candidate": judging.candidate, "candidate_digest": judging.candidate_digest,
        "champion_digest": judging.champion_digest, "mode": judging.mode, "trials": judging.trials, "verdict": summary.verdict,
        "exit_code": summary.exit_code, "passed": counts.passed, "failed": counts.failed, "diverged": counts.diverged,
        "error": counts.error, "not_run": counts.not_run, "newly_covered": counts.newly_covered, "newly_lost": counts.newly_lost,
        "reasons": summary.reasons,
        "versions": judging.versions,
    }  # fmt: skip


def result_row(judging: Judging, result: Result, tool: str | None, trials: pl.DataFrame) -> Row:
    """The row of `Results`. trials: rows of `Replays` of this run and case."""
    return {
        **_of(judging), "case_id": result.case.id, "case_digest": result.case.digest, "case_kind": result.case.kind,
        **_signed(trials), "trace_id": result.trace_id, "tool": tool, "modes": [mode.mode for mode in result.modes],
        "outcome": result.outcome.value, "decided": result.decided, "change": _change(result),
        "champion_outcome": result.previous_outcome.value if result.previous_outcome else None,
        "waiver": result.waiver.id if result.waiver else None, "replay_id": _deciding(result.mode, trials),
    }  # fmt: skip


def conversation_row(judging: Judging, whole: Conversation) -> Row:
    """The row of `Conversations`."""
    told = [f"{found.assertion_id}: {found.detail or found.message}" for found in whole.violations]
    told += [whole.error] if whole.error is not None else []
    return {
        **_of(judging), "conversation_id": whole.id, "outcome": whole.outcome.value, "cases": [turn.case or "-" for turn in whole.turns],
        "outcomes": [turn.outcome.value for turn in whole.turns], "violated": sorted({found.assertion_id for found in whole.violations}),
        "reason": "; ".join(told) or None,
    }  # fmt: skip


def diff_rows(judging: Judging, result: Result, trials: pl.DataFrame) -> Iterator[Row]:
    """A row of `ChampionDiff` for each judging mode that came out otherwise than the champion's; of modes that differ in their prefix alone, the worst."""
    chosen: dict[tuple[str, str], ModeResult] = {}
    for mode in result.modes:
        place = _place(mode.mode)
        if place not in chosen or WORST.index(mode.outcome) < WORST.index(chosen[place].outcome):
            chosen[place] = mode
    for (name, live), mode in sorted(chosen.items()):
        pin = judging.champion.pin(result.case.digest, judging.harness, mode.mode) if judging.champion else None
        ours, theirs = sorted(mode.violated), sorted(pin.violated) if pin else []
        if pin is None or (pin.outcome, theirs) != (mode.outcome, ours):
            yield {
                **_of(judging), "case_id": result.case.id, "mode": name, "live": live, **_signed(trials),
                "candidate_digest": judging.candidate_digest, "champion_digest": judging.champion_digest,
                "champion_outcome": pin.outcome.value if pin else None, "candidate_outcome": mode.outcome.value,
                "champion_violated": theirs, "candidate_violated": ours, "change": _changed(mode.outcome, result, pin.outcome if pin else None),
                "waiver": result.waiver.id if result.waiver else None,
            }  # fmt: skip


def _of(judging: Judging) -> Row:
    return {
        "harness_state": judging.harness, "run_id": judging.run_id, "night": judging.night, "workflow": judging.workflow
    }  # fmt: skip


def _signed(trials: pl.DataFrame) -> Row:
    """The signature of a case, as its trials bear it."""
    first = trials.select("signature", "slug").head(1).to_dicts()
    return first[0] if first else {"signature": None, "slug": None}


def _change(result: Result) -> str | None:
    """Null where the result is the champion's, and no failure; without a champion's result only a failure is new."""
    if result.outcome is Outcome.FAILED:
        return result.change or "new"
    if result.previous_outcome is None or result.previous_outcome is result.outcome:
        return None
    return _changed(result.outcome, result, result.previous_outcome)


def _changed(outcome: Outcome, result: Result, before: Outcome | None) -> str:
    if outcome is Outcome.FAILED:
        return result.change or "new"
    if before is None:
        return "new"
    if outcome is Outcome.PASSED:
        return "fixed" if before is Outcome.FAILED else "recovered"
    return "diverged" if outcome is Outcome.DIVERGED else "unjudged"


def _deciding(label: str, trials: pl.DataFrame) -> str | None:
    """The first trial with the worst outcome in the judging mode that decides."""
    found = [
        (_RANK[row["outcome"]], row["trial"], row["replay_id"])
        for row in trials.filter(pl.col("broken_by").is_null(), pl.col("transcript_digest").is_not_null()).iter_rows(
            named=True
        )
        if _label(row) == label.partition(" --freeze")[0]
    ]
    return min(found)[2] if found else None


def _label(replay: Mapping[str, Any]) -> str:
    """The judging mode of a trial as verdicts name it; a frozen set is no part of the row."""
    named = [f"--live {name}" for name in replay["live"].split(",") if name]
    after = [f"--after {replay['after']}"] if replay["after"] else []
    return " ".join([replay["mode"], *named, *after])


def _place(label: str) -> tuple[str, str]:
    """(mode, live set) of a judging mode's label."""
    mode, *parts = label.split(" --")
    return mode, ",".join(sorted(part.removeprefix("live ") for part in parts if part.startswith("live ")))


def judged_rows(
    judgings: Iterable[Judging], replays: pl.DataFrame, tools: Mapping[str, str | None]
) -> dict[type[Table], list[Row]]:
    """The rows of `Runs`, `Results`, `Conversations` and `ChampionDiff`. replays: rows of `Replays` of these runs; tools: case id -> the tool it is about."""
    found: dict[type[Table], list[Row]] = {Runs: [], Results: [], Conversations: [], ChampionDiff: []}
    for judging in judgings:
        results = judging.compared()
        found[Runs].append(run_row(judging, results))
        found[Conversations] += [conversation_row(judging, whole) for whole in judging.conversations]
        of_run = replays.filter(run_id=judging.run_id)
        for result in results:
            trials = of_run.filter(case_id=result.case.id)
            found[Results].append(result_row(judging, result, tools.get(result.case.id), trials))
            found[ChampionDiff] += diff_rows(judging, result, trials)
    return found
