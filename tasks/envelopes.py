"""Rows to envelopes: the one place where frames become objects (detect, attribute and admit read runs through it)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from twiceshy.encoding import record_of, sealed
from twiceshy.envelope import (
    Crossing,
    Disposition,
    Effect,
    Envelope,
    ErrorRecord,
    Grade,
    Kind,
    Pins,
    RedactionStamp,
    RunInput,
)
from twiceshy.identity import untagged

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    Row = dict[str, Any]

_SIDES = ("proposed", "seen", "raw", "shown")
_REQUIREMENTS = tuple(f"R{number}" for number in range(1, 12))
NO_WORKFLOW = "-"
"""The workflow of a trace that none claims; it is held, but can be looked at."""


def envelopes(traces: pl.DataFrame, crossings: pl.DataFrame) -> Iterator[Envelope]:
    """The sealed envelope of each trace, in the order of `traces`. crossings: `Crossings`, of these traces or more."""
    held: dict[str, list[Row]] = defaultdict(list)
    wanted = set(traces["trace_id"])
    for row in crossings.iter_rows(named=True):
        if row["trace_id"] in wanted:
            held[row["trace_id"]].append(row)
    for trace in traces.iter_rows(named=True):
        yield envelope(trace, held[trace["trace_id"]])


def envelope(trace: Row, crossings: list[Row]) -> Envelope:
    """The sealed envelope of one row of `Traces` and its rows of `Crossings`, in any order."""
    ordered = sorted(crossings, key=lambda row: (row["seq"], row["sub"]))
    return sealed(
        Envelope(
            trace_id=trace["trace_id"], source=trace["source"], workflow=trace["workflow"] or NO_WORKFLOW,
            conversation_id=trace["conversation_id"], turn=trace["turn"], input=record_of(trace["input"].encode(), RunInput),
            pins=record_of(trace["pins"].encode(), Pins), grades=_grades(trace),
            disposition=record_of(trace["disposition"].encode(), Disposition), redaction=_stamp(trace),
            crossings=tuple(_crossing(row) for row in ordered),
        )
    )  # fmt: skip


def _crossing(row: Row) -> Crossing:
    same = ("seq", "sub", "parent", "name", "scope", "group", "at", "attempt", "blocked_by", "start_ns", "end_ns")
    return Crossing(
        **{name: row[name] for name in same}, **{side: _value(row[side]) for side in _SIDES}, kind=Kind(row["kind"]),
        effect=Effect(row["effect"]) if row["effect"] else None, error=_error(row), key=row["key"] or "", state=row["state"] or "",
        tightened=bool(row["tightened"]), chunks=None if row["chunks"] is None else _value(row["chunks"]),
    )  # fmt: skip


def _error(row: Row) -> ErrorRecord | None:
    if row["error_class"] is None:
        return None
    return ErrorRecord(
        cls=row["error_class"],
        type=row["error_code"],
        message=row["error_message"] or "",
        definite=row["error_definite"],
    )


def _grades(trace: Row) -> dict[str, Grade]:
    how = msgspec.json.decode(trace["grades_how"])
    return {name: Grade(grade=trace[name.lower()], how=how.get(name)) for name in _REQUIREMENTS}


def _stamp(trace: Row) -> RedactionStamp | None:
    if trace["policy_digest"] is None:
        return None
    counts = msgspec.json.decode(trace["redaction_counts"] or "{}")
    pseudonyms = msgspec.json.decode(trace["pseudonyms"] or "{}")
    return RedactionStamp(
        policy_digest=trace["policy_digest"], key_id=trace["key_id"], counts=counts, pseudonyms=pseudonyms
    )


def _value(text: str | None) -> Any:
    return UNSET if text is None else untagged(msgspec.json.decode(text))
