"""The clock an agent was told: found in a system or user text, and read as an instant. Span times are no substitute for it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

# Hours from UTC. Abbreviations are taken as the fixed offsets they name: what was told is the offset, not a place.
_ABBREVIATIONS = {
    "UTC": 0, "GMT": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "WET": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "BST": 1, "JST": 9,
}  # fmt: skip
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<month_name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = (
    r"(?:(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
    rf"|{_MONTH} (?P<day_after>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year_after>\d{{4}}))"
)
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_OFFSET = r"(?P<offset>[+-]\d{2}:?\d{2})"
_ZONE = rf"(?:\s?(?P<zone>(?:{'|'.join(_ABBREVIATIONS)})(?![A-Za-z])|{_OFFSET})|\s\(?(?P<place>[A-Z][A-Za-z]+/[A-Za-z_]+)\)?)"
_MOMENT = rf"(?:(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day),? )?{_DATE}(?:[T ,]+(?:at )?{_TIME}{_ZONE}?)?"
_CUE = (
    r"\b(?:current (?:date|time|datetime)[a-z ]*|today(?:'s date)?|now|date and time|local time)\b[ \w]{0,12}[:=]?\s*"
)
_TOLD = re.compile(rf"{_CUE}(?P<told>{_MOMENT})", re.IGNORECASE)
_SUPPOSED = re.compile(
    r"\b(?:if|when|whenever|suppose|supposing|assume|assuming|imagine|say|example|e\.g\.|i\.e\.|instance)\b[^.!?\n]*$",
    re.IGNORECASE,
)
"""What stands before a date in the same sentence that makes it an example."""

_NEAR = 60
_DAY = re.compile(rf"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day, )?{_DATE}", re.IGNORECASE)
_READ = re.compile(_MOMENT, re.IGNORECASE)
_HOUR_NS = 3_600_000_000_000


class Told(NamedTuple):
    """What the agent was told, as it stood in the text, and the zone in it; None where there was none."""

    text: str
    tz: str | None


def told(text: str) -> Told | None:
    """The clock in a text: a date after a cue such as "the current time is"; None for a text that only mentions dates.

    What a text supposes ("if today is 2025-08-23, then ...") tells nothing, and of two different days nobody knows which was meant.
    """
    hits = [hit for hit in _TOLD.finditer(text) if not _SUPPOSED.search(text, max(hit.start() - _NEAR, 0), hit.start())]
    days = {_day(hit["told"]) for hit in hits}
    if len(days) != 1:
        return None
    hit = next((hit for hit in hits if hit["hour"]), hits[0])
    return Told(hit["told"].rstrip(), hit["zone"] or hit["place"])


def columns(text: str, where: str) -> dict[str, Any]:
    """The columns of a span whose text told a clock, derived from it; none where it told none. where: which text, for the provenance."""
    found = told(text)
    if found is None:
        return {}
    provenance = {"clock_text": {"key": where, "grade": "derived"}}
    return {"clock_text": found.text, "clock_tz": found.tz, "provenance": provenance}


def instant_ns(text: str, tz: str | None = None) -> int | None:
    """The instant a told clock names, ns since the epoch; midnight where it has no time, UTC where neither text nor `tz` names a zone.

    None where it names no possible date (July 32): that may be the failure itself, and is not repaired.
    """
    hit = _READ.search(text)
    if hit is None:
        return None
    month = int(hit["month"]) if hit["month"] else _MONTHS.index(hit["month_name"][:3].lower()) + 1
    year, day = int(hit["year"] or hit["year_after"]), int(hit["day"] or hit["day_after"])
    try:
        moment = datetime(
            year, month, day, int(hit["hour"] or 0), int(hit["minute"] or 0), int(hit["second"] or 0), tzinfo=UTC
        )
        moment = moment.replace(tzinfo=_zone(hit["zone"] or hit["place"] or tz))
    except ValueError:
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    fraction = int((hit["fraction"] or "").ljust(9, "0"))
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + fraction


def zone_name(tz: str | None) -> str:
    """A zone that `ZoneInfo` knows: the place itself, the fixed offset of an abbreviation (EST is Etc/GMT+5), else UTC."""
    if tz is None:
        return "UTC"
    found = _zone(tz)
    if isinstance(found, ZoneInfo):
        return found.key
    hours, rest = divmod(int(found.utcoffset(None).total_seconds()), 3600)
    return "UTC" if rest or not hours else f"Etc/GMT{-hours:+d}"


def _day(told: str) -> int | str:
    """What tells one day from another, whatever its time and spelling; an impossible one by its text."""
    found = _DAY.match(told)
    return told if found is None else instant_ns(found[0]) or found[0]


def _zone(tz: str | None) -> timezone | ZoneInfo:
    if tz is None:
        return UTC
    if tz.upper() in _ABBREVIATIONS:
        return timezone(timedelta(hours=_ABBREVIATIONS[tz.upper()]))
    offset = re.fullmatch(r"([+-])(\d{2}):?(\d{2})", tz)
    if offset:
        sign = -1 if offset[1] == "-" else 1
        return timezone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3])))
    try:
        return ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC
