from datetime import date
from types import SimpleNamespace
from typing import Any

import polars as pl

from flows.publishing import _judgings, set_aside
from flows.turns import Turn
from twiceshy.outcome import Outcome
from twiceshy.running import CandidateSpec
from twiceshy.verdict import Conversation, Policy


def holding(**tables: pl.DataFrame) -> Any:
    return SimpleNamespace(set_aside=tables)


def test_rows_that_are_missing_are_counted_and_named() -> None:
    bad = pl.DataFrame({"case_id": ["a", "b"], "set_aside_for": ["one_row: unique", "seed: not_nullable"]})
    assert set_aside([holding(), holding(replays=bad)], holding(coverage=bad.head(1))) == [
        "replays: 2 rows broke their contract (one_row: unique, seed: not_nullable)",
        "coverage: 1 rows broke their contract (one_row: unique)",
    ]
    assert set_aside([holding()], holding()) == []


def test_night_is_judged_with_its_conversations_and_policy() -> None:
    whole = Conversation(id="c1", outcome=Outcome.PASSED, turns=[])
    replayed: Any = SimpleNamespace(
        run_id="r", workflow="refund", candidate_digest="d", harness="h", results=[], conversations=[whole], not_run=2
    )
    turn = Turn(date(2026, 11, 16), "refund", "refund", CandidateSpec(factory="a:b"))
    (judging,) = _judgings([turn], [replayed], 3, {}, Policy(min_cases=7))
    assert (judging.conversations, judging.not_run, judging.trials, judging.policy.min_cases) == ([whole], 2, 3, 7)
