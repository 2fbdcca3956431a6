"""Envelopes as the rows that normalize would write for them; apart from `builders`, since it loads polars."""

from collections.abc import Iterable
from typing import Any

import msgspec
import polars as pl
from msgspec import UNSET

from tables import a_row
from tasks.admit.schema import REQUIREMENTS
from tasks.contracts import Table
from tasks.normalize.schema import Crossings, Traces
from twiceshy import encoding, identity
from twiceshy.envelope import Crossing, Envelope


def trace_row(envelope: Envelope, **columns: object) -> dict[str, Any]:
    """The row of `Traces` for an envelope, every requirement recorded; `columns` win."""
    text = {name: _record(getattr(envelope, name)) for name in ("input", "pins", "disposition")}
    grades = dict.fromkeys(REQUIREMENTS, "recorded")
    own = {
        "trace_id": envelope.trace_id, "source_trace_id": envelope.trace_id, "source": envelope.source, "workflow": envelope.workflow,
        "crossings": len(envelope.crossings), "grades_how": "{}", "tree_integrity": "intact", "policy_digest": "a" * 64, "key_id": "k-test",
        "redaction_counts": "{}",
    }  # fmt: skip
    return a_row(Traces, **{**own, **text, **grades, **columns})


def crossing_row(trace_id: str, crossing: Crossing, **columns: object) -> dict[str, Any]:
    """The row of `Crossings` for a crossing; `columns` win."""
    sides = {side: _side(getattr(crossing, side)) for side in ("proposed", "seen", "raw", "shown")}
    error = crossing.error
    own = {
        "trace_id": trace_id, "seq": crossing.seq, "sub": crossing.sub, "kind": crossing.kind.value, "name": crossing.name,
        "scope": crossing.scope, "group": crossing.group, "at": crossing.at, "attempt": crossing.attempt,
        "effect": crossing.effect.value if crossing.effect else None, "blocked_by": crossing.blocked_by,
        "key": crossing.key if crossing.key.startswith("c1:") else None, "state": crossing.state or None,
        "error_class": error.cls if error else None, "error_code": error.type if error else None,
        "error_message": error.message if error else None, "error_definite": error.definite if error else None,
        "start_ns": crossing.start_ns, "end_ns": crossing.end_ns, "bucket_labels": [],
    }  # fmt: skip
    return a_row(Crossings, **{**own, **sides, **columns})


def frames(envelopes: Iterable[Envelope], **columns: object) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(traces, crossings) for envelopes; `columns` win in every trace."""
    held = list(envelopes)
    crossings = [crossing_row(envelope.trace_id, crossing) for envelope in held for crossing in envelope.crossings]
    return frame_of(Traces, [trace_row(envelope, **columns) for envelope in held]), frame_of(Crossings, crossings)


def frame_of(model: type[Table], rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame of their table."""
    return model.arranged(pl.DataFrame(rows, schema=model.dtypes()))


def _record(record: Any) -> str:
    return identity.canonical(identity.untagged(msgspec.json.decode(encoding.record_line(record)))).decode()


def _side(value: Any) -> str | None:
    return None if value is UNSET else identity.canonical(value).decode()
