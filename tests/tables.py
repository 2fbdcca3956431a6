"""Builds rows that keep a table's contract, from the model itself; apart from `builders`, since it loads polars and pandera."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from tasks.contracts import Table

DIGEST = "a" * 64
TRACE = "b" * 32
SPAN = "c" * 16

# An example of each pattern that a column may be held to; a new pattern without one is a KeyError here.
_EXAMPLES = {
    "[0-9a-f]{64}": DIGEST,
    "[0-9a-f]{32}": TRACE,
    "[0-9a-f]{16}": SPAN,
    "[0-9a-f]{12}": "d" * 12,
    "sig_[0-9a-f]{12}": "sig_0a1b2c3d4e5f",
    "k1:[0-9a-f]{16}": "k1:0123456789abcdef",
    "c1:[0-9a-f]{64}": f"c1:{DIGEST}",
    r"\d{4}-\d{2}-\d{2}": "2026-11-02",
    r"#\d+(?:\.\d+)?": "#4.1",
    "(?:before|after):.+": "after:get_order",
    "|[a-z]+:[^,]+(?:,[a-z]+:[^,]+)*": "model:planner,tool:get_order",
}

# What the row rules of a table need beyond each column's own domain.
_RULED: dict[str, dict[str, Any]] = {
    "admissions": {"decision": "hold", "reasons": ["r4_missing"]},
    "attributions": {"verdict": "suggested"},
    "coverage": {"state": "not_seen"},
    "conversations": {"outcome": "passed"},
    "champion_diff": {"candidate_outcome": "failed", "change": "new"},
    "crossings": {"seq": 1, "key": None, "effect": "read"},
    "dimensions": {},
    "findings": {"source": "invariant"},
    "memberships": {"primary": True, "reason": "new"},
    "replays": {"outcome": "passed", "transcript_digest": DIGEST, "isolation": "hermetic"},
    "results": {"outcome": "passed"},
    "runs": {"verdict": "passed", "exit_code": 0},
    "scores": {"value": 1.0},
    "score_records": {"value": 1.0},
    "steps": {"status": "same", "recorded_place": "#2", "replayed_place": "#2"},
    "signatures": {"slug": "refund-over-limit@post-tool-hook-strip"},
    "strata": {"rank": 1, "quota": 1, "sampled": True, "weight": 1.0},
}


def a_row(model: type[Table], **columns: object) -> dict[str, Any]:
    """A valid row: null where a column may be, else the first value of its domain; `columns` win."""
    row = {name: _value(column) for name, column in model.to_schema().columns.items()}
    return {**row, **_RULED.get(model.named(), {}), **columns}


def some_rows(model: type[Table], *rows: Mapping[str, object]) -> pl.DataFrame:
    """A frame of `a_row` for each mapping of columns; one row when none is given."""
    return pl.DataFrame([a_row(model, **row) for row in rows or ({},)], schema=model.dtypes())


def _value(column: Any) -> object:
    if column.nullable:
        return None
    for check in column.checks:
        if check.name in _FROM_CHECK:
            return _FROM_CHECK[check.name](check.statistics)
    return {pl.String: "x", pl.Int64: 0, pl.Float64: 0.0, pl.Boolean: False}.get(column.dtype.type, [])


_FROM_CHECK: dict[str, Any] = {
    "isin": lambda held: held["allowed_values"][0],
    "str_matches": lambda held: _EXAMPLES.get(str(held["pattern"])[4:-2], "x"),
    "canonical_json": lambda _: "{}",
    "told_json": lambda _: "{}",
    "greater_than_or_equal_to": lambda held: held["min_value"],
}
