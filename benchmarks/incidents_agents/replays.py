"""Replays of the incident agents inside this process: the engine itself, without a process and a seal a trial. For hundreds of mutants."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from benchmarks.incidents_agents.agents import build
from benchmarks.incidents_agents.cases import RULES
from twiceshy import breaking
from twiceshy.breaking import BreakingBoundary
from twiceshy.casefile import Judge, LoadedCase
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.journal import Journal, transcript_of
from twiceshy.recording import run
from twiceshy.replaying import Replay, RunDiverged, RunFaulted, Terms


class Replayed(NamedTuple):
    """The verdict of one replay, and the breaks that changed something in it."""

    verdict: TrialVerdict
    applied: frozenset[str]


def replayed(loaded: LoadedCase, judge: Judge, *, breaks: Sequence[str] = (), **agent: Any) -> Replayed:
    """One trial of a case by one judging mode. agent: what `agents.build` is told."""
    lines: list[bytes] = []
    applied: set[str] = set()
    journal = Journal(lines.append)
    terms = Terms(policy=RULES.policy, cut=judge.cut, declared=loaded.case.expect.writes)
    boundary = BreakingBoundary(
        Replay(loaded.envelope, terms, journal), [breaking.parse(text) for text in breaks], record=loaded.envelope, terms=terms,
        on_applied=lambda found: applied.add(found.text),
    )  # fmt: skip
    made = build(boundary, **agent)
    boundary.complete()
    with suppress(RunDiverged, RunFaulted):
        journal.ended(run(made, loaded.envelope.input.user))
    verdict = case_grader(loaded, RULES.invariants, RULES.policy).trial(transcript_of(lines), judge.cut)
    return Replayed(verdict, frozenset(applied))
