"""What became of everything that came in, in a few rows that a person reads: the account of each source, why traces were not taken, and errors of tools."""

from typing import Any, NamedTuple

import polars as pl

_COUNTED = {"promote": "promoted", "member": "members", "hold": "held", "discard": "discarded"}


class Account(NamedTuple):
    """One source: traces in = promoted + members + held + discarded + unflagged + quarantined. A line that nobody can read counts as one trace set aside."""

    source: str
    traces: int
    promoted: int
    members: int
    held: int
    discarded: int
    unflagged: int
    quarantined: int


def accounts(admissions: pl.DataFrame, traces: pl.DataFrame, quarantine: pl.DataFrame) -> list[Account]:
    """One account per source, by name; from the whole tables `admissions`, `traces` and `quarantine`."""
    lost = _lost(traces, quarantine)
    names = sorted({*traces["source"], *lost})
    return [
        _account(name, admissions.filter(source=name), traces.filter(source=name), lost.get(name, 0)) for name in names
    ]


def quarantined(traces: pl.DataFrame, quarantine: pl.DataFrame) -> int:
    """How many traces never came as far as `traces`."""
    return sum(_lost(traces, quarantine).values())


def refusals(admissions: pl.DataFrame) -> list[dict[str, Any]]:
    """One row per (source, decision, reason) of traces not taken, the most frequent first; a trace with two reasons is in two rows."""
    return (
        admissions.explode("reasons", empty_as_null=True)
        .drop_nulls("reasons")
        .group_by("source", "decision", reason="reasons")
        .agg(traces=pl.len())
        .sort("traces", "source", "decision", "reason", descending=[True, False, False, False])
        .to_dicts()
    )


def by_workflow(traces: pl.DataFrame) -> dict[str | None, int]:
    """How many traces each workflow has, by its name; None for those of no workflow, which come last."""
    return dict(traces.group_by("workflow").len().sort("workflow", nulls_last=True).iter_rows())


def tool_errors(traces: pl.DataFrame, crossings: pl.DataFrame) -> list[dict[str, Any]]:
    """One row per (source, tool, code) of the errors that tools answered with, the most frequent first."""
    return (
        crossings.filter((pl.col("kind") == "tool") & pl.col("error_code").is_not_null())
        .join(traces.select("trace_id", "source"), on="trace_id")
        .group_by("source", tool="name", code="error_code")
        .agg(errors=pl.len())
        .sort("errors", "source", "tool", "code", descending=[True, False, False, False])
        .to_dicts()
    )


def _account(name: str, admissions: pl.DataFrame, traces: pl.DataFrame, lost: int) -> Account:
    decided: dict[str, int] = dict(admissions.group_by("decision").len().iter_rows())
    counts = {word: decided.get(decision, 0) for decision, word in _COUNTED.items()}
    unflagged = traces.height - sum(counts.values())
    return Account(source=name, traces=traces.height + lost, **counts, unflagged=unflagged, quarantined=lost)


def _lost(traces: pl.DataFrame, quarantine: pl.DataFrame) -> dict[str, int]:
    """Source -> traces of which nothing is left, and lines and files of unknown traces. A bad span of a trace that is here is no lost trace."""
    named = quarantine.filter(pl.col("trace_id").is_not_null()).join(traces, on="trace_id", how="anti")
    unknown = quarantine.filter(pl.col("trace_id").is_null() & pl.col("unit").is_in(["row", "file", "trace"]))
    counted = pl.concat(
        [named.select("source", of="trace_id").unique(), unknown.select("source", of="quarantine_id")]
    ).with_columns(pl.col("source").fill_null("-"))
    return dict(counted.group_by("source").len().iter_rows())
