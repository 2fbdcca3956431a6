"""Metrics of a generation as people read them."""

from collections.abc import Mapping
from typing import Any

_SECOND, _MINUTE, _HOUR, _DAY = 10**9, 60 * 10**9, 3600 * 10**9, 24 * 3600 * 10**9
_UNITS = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))


def stated(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `quality` with its value and what is expected of it as text."""
    low, high = (None if row[bound] is None else _number(row[bound], row["unit"]) for bound in ("low", "high"))
    if low is not None and high is not None:
        expected = f"{low} to {high}"
    else:
        expected = f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""
    return {**row, "shown": _number(row["value"], row["unit"]), "expected": expected}


def _number(value: float, unit: str) -> str:
    if unit == "count":
        return f"{value:,.0f}".replace(",", "\u202f")
    if unit == "ratio":
        return f"{100 * value:.1f} %"
    size, word = next(((size, word) for size, word in _UNITS if value >= size), _UNITS[-1])
    return f"{value / size:.1f} {word}"
