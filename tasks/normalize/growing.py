"""Spans that were recorded while their run went on, and again when more was known: a later row that says all that an earlier one says, and more, stands for it.

What only differs is no growth: two rows of one id that contradict each other stay two.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]

# How a row came to us, and what a source counts anew for each time it writes a span.
_ANEW = frozenset(
    {
        "row_id", "harness_state", "flags", "container", "mapper", "source_trace_id", "source_span_id", "attributes_json", "provenance", "workflow",
        "bucket_labels", "holds", "policy_digest", "key_id", "crossing_seq", "crossing_sub", "usage", "prompt_hash", "end_ns",
        "proposed_encoding", "seen_encoding", "raw_encoding", "shown_encoding",
    }
)  # fmt: skip
_OUTPUT = "messages_out"


def latest(rows: Sequence[Row]) -> list[Row]:
    """The rows without those of which a row of the same span says all, and more; in the order they came in."""
    same: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        same[row["source"], row["span_id"]].append(row)
    over = {
        id(old) for held in same.values() if len(held) > 1 for old in held for new in held if new is not old and _grown(old, new)
    }  # fmt: skip
    return [row for row in rows if id(row) not in over]


def _grown(old: Row, new: Row) -> bool:
    told = [name for name in old if name not in _ANEW and old[name] != new[name]]
    return bool(told) and all(_more(name, old[name], new[name]) for name in told)


def _more(name: str, old: Any, new: Any) -> bool:
    """Whether a column went from nothing to something; an output may also have got further parts."""
    if name == _OUTPUT and old is not None and new is not None:
        return _longer(msgspec.json.decode(old), msgspec.json.decode(new))
    return old in (None, False)


def _longer(old: Any, new: Any) -> bool:
    if not _messages(old) or not _messages(new) or len(old) != len(new) or old[:-1] != new[:-1]:
        return False
    before, after = old[-1].get("parts"), new[-1].get("parts")
    return isinstance(before, list) and isinstance(after, list) and after[: len(before)] == before


def _messages(held: Any) -> bool:
    return isinstance(held, list) and bool(held) and all(isinstance(message, dict) for message in held)
