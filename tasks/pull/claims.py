"""Which workflow a trace belongs to: recorded, else asked for, else named by its service or agent, else the only one that has the tools it called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NAMES = ("service_name", "agent_name")


def claimed(spans: pl.DataFrame, workflows: Mapping[str, Collection[str]], *, asked: str | None = None) -> pl.DataFrame:
    """The spans with one workflow for each whole trace; null where none claims it. workflows: the tools of each; asked: for traces that record none."""
    if spans.is_empty():
        return spans
    facts = spans.group_by("trace_id").agg(
        pl.col("workflow").drop_nulls().unique().sort(), *(pl.col(name).drop_nulls().unique().sort() for name in _NAMES),
        pl.col("tool_name").drop_nulls().unique().sort(),
    )  # fmt: skip
    found = {row["trace_id"]: _workflow(row, workflows, asked) for row in facts.iter_rows(named=True)}
    return spans.with_columns(workflow=pl.col("trace_id").replace_strict(found, return_dtype=pl.String))


def _workflow(row: Mapping[str, Any], workflows: Mapping[str, Collection[str]], asked: str | None) -> str | None:
    if row["workflow"]:
        return str(row["workflow"][0])
    if asked is not None:
        return asked
    words = {word for name in _NAMES for held in row[name] for word in re.split(r"[^A-Za-z0-9]+", held)}
    named = sorted(words & set(workflows))
    called = set(row["tool_name"])
    having = sorted(name for name, tools in workflows.items() if called and called <= set(tools))
    return next((held[0] for held in (named, having) if len(held) == 1), None)
