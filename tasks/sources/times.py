"""Times as the sources write them, to ns since the epoch and how exact they are. Never through a float of seconds where the digits are at hand."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from tasks.sources.otlp_fields import BadSpan

_ISO = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:[.,](\d{1,9})\d*)?\s*(Z|[+-]\d{2}:?\d{2})?", re.IGNORECASE
)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_SECOND = 1_000_000_000
_MAX_NS = 2**63 - 1
# Digits before the point of an epoch number of this century, by its unit.
_UNITS = ((16, 1, "ns"), (14, 1_000, "us"), (11, 1_000_000, "ms"), (0, _SECOND, "us"))


class Time(NamedTuple):
    """An instant, ns since the epoch; None with `none` where there is none. precision: ns, us, ms, or none."""

    ns: int | None
    precision: str


NO_TIME = Time(None, "none")


def time(held: Any) -> Time:
    """A time: ISO text, a number since the epoch in s, ms, us or ns by its size, or `[seconds, nanoseconds]`. Raises BadSpan.

    An ISO time without an offset is UTC: every API that writes such says so.
    """
    if held is None or (not isinstance(held, list) and held in ("", 0)):
        return NO_TIME
    if isinstance(held, bool):
        raise BadSpan("bad_time")
    if isinstance(held, list):
        return _pair(held)
    if isinstance(held, str) and (hit := _ISO.fullmatch(held.strip())):
        return _iso(hit)
    return _number(held)


def span_times(start: Any, end: Any) -> dict[str, Any]:
    """The columns `start_ns`, `end_ns`, `time_precision` of a span. Raises BadSpan where it ends before it starts."""
    begun, ended = time(start), time(end)
    if begun.ns is not None and ended.ns is not None and ended.ns < begun.ns:
        raise BadSpan("bad_time")
    return {"start_ns": begun.ns, "end_ns": ended.ns, "time_precision": begun.precision}


def _iso(hit: re.Match[str]) -> Time:
    day, clock, fraction, offset = hit.groups()
    zone = "+00:00" if offset in (None, "Z", "z") else offset
    try:
        since = datetime.fromisoformat(f"{day}T{clock}{zone}") - _EPOCH
    except ValueError:
        raise BadSpan("bad_time") from None
    digits = len(fraction or "")
    whole = since // timedelta(seconds=1) * _SECOND + int((fraction or "").ljust(9, "0"))
    if not 0 <= whole <= _MAX_NS:
        raise BadSpan("bad_time")
    return Time(whole, "ns" if digits > 6 else "us" if digits > 3 else "ms")  # noqa: PLR2004 - digits of a fraction of a second


def _pair(held: list[Any]) -> Time:
    """`[seconds, nanoseconds]`, as JavaScript exporters write it."""
    if len(held) != 2 or not all(isinstance(part, int) and not isinstance(part, bool) and part >= 0 for part in held):  # noqa: PLR2004 - a pair
        raise BadSpan("bad_time")
    return Time(held[0] * _SECOND + held[1], "ns")


def _number(held: Any) -> Time:
    try:
        number = Decimal(str(held))
    except InvalidOperation:
        raise BadSpan("bad_time") from None
    if not number.is_finite() or number < 0:
        raise BadSpan("bad_time")
    digits = number.adjusted() + 1
    unit, precision = next((unit, precision) for least, unit, precision in _UNITS if digits > least)
    ns = int(number * unit)
    if ns > _MAX_NS:
        raise BadSpan("bad_time")
    return Time(ns, precision)
