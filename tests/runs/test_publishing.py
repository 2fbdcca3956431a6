from types import SimpleNamespace
from typing import Any

import polars as pl

from flows.publishing import set_aside


def holding(**tables: pl.DataFrame) -> Any:
    return SimpleNamespace(set_aside=tables)


def test_rows_that_are_missing_are_counted_and_named() -> None:
    bad = pl.DataFrame({"case_id": ["a", "b"], "set_aside_for": ["one_row: unique", "seed: not_nullable"]})
    assert set_aside([holding(), holding(replays=bad)], holding(coverage=bad.head(1))) == [
        "replays: 2 rows broke their contract (one_row: unique, seed: not_nullable)",
        "coverage: 1 rows broke their contract (one_row: unique)",
    ]
    assert set_aside([holding()], holding()) == []
