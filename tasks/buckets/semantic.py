"""Layer 2: what a value says by itself and against the run around it: security, dates, ids, numbers, structure, text."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from twiceshy.redaction import dates
from twiceshy.redaction.canonicalforms import is_placeholder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LABELS = (
    "injection_like",
    "control_or_bidi",
    "date_impossible",
    "date_ambiguous",
    "date_relative",
    "tz_missing",
    "tz_dst_gap",
    "tz_offset_odd",
    "past_of_clock",
    "future_of_clock",
    "ungrounded_id",
    "placeholder",
    "number_as_string",
    "nan_inf",
    "float_for_int",
    "negative",
    "zero",
    "one",
    "unit_mismatch",
    "json_in_string",
    "list0",
    "list1",
    "listN",
    "null",
    "empty",
    "whitespace_only",
    "non_ascii",
    "mixed_script",
    "emoji",
    "very_long",
)

VERY_LONG = 2_000
_SHORT = 200
_EXPRESSION = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The run around a call. clock: the frozen one, with its zone. grounded: whether an id stood at an earlier boundary; None where nobody knows."""

    clock: datetime | None = None
    grounded: Callable[[str], bool] | None = None
    month_first: bool = True


NOWHERE = Surroundings()

_INJECTION = re.compile(
    r"\b(?:ignore|disregard|forget)\b.{0,20}\b(?:previous|prior|above|all|your|earlier)\b.{0,20}\b(?:instructions?|rules?|prompts?)"
    r"|\bsystem prompt\b|\byou are now\b"
    r"|'\s*(?:or|and)\s+['\d].{0,8}=|\bunion\s+(?:all\s+)?select\b|;\s*(?:drop|delete|insert|update|alter)\s|--\s*$"
    r"|\.\.[/\\]|\{\{.{0,200}?\}\}|\$\{.{0,200}?\}|<%.{0,200}?%>"
    r"|<\s*(?:script|iframe|img|svg|object)\b|javascript:|\bon(?:error|load|click)\s*=",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_RELATIVE = re.compile(
    r"(?:(?:on|by|from|until|before|after|this|next|last|coming|the|early|late)\s+)*"
    r"(?:today|tonight|tomorrow|yesterday|now|asap|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?"
    r"|(?:this|next|last|coming)\s+(?:week|month|year|weekend|morning|afternoon|evening)|weekend"
    r"|in\s+(?:an?|\d+|two|three)\s+(?:hour|day|week|month|year)s?|(?:an?|\d+|two|three)\s+(?:hour|day|week|month|year)s?\s+(?:ago|from now))"
    r"(?:\s+(?:morning|afternoon|evening|night|at\s+\S+))?",
    re.IGNORECASE,
)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)\s?(Z|[+-]\d\d:?\d\d)?")
_TIME = re.compile(r"[T\s\d:.,Z+-]*(?:[ap]\.?m\.?)?", re.IGNORECASE)
_ID = re.compile(r"(?=\S*\d)[A-Za-z0-9][\w:#/-]{3,63}")
_AMOUNT = re.compile(r"[-+]?\d{1,4}(?:\.\d+)?")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_WITH_UNIT = re.compile(r"(?P<before>[£$€])?\s?[-+]?\d[\d.,]*\s?(?P<after>[A-Za-z£$€%]{1,8})?")
_SAME_UNIT = ("gbp £", "usd $", "eur €", "cents", "% pct percent", "kg kgs", "lb lbs", "km", "miles mi", "ms",
    "seconds sec secs s", "minutes min mins", "hours h hrs", "days day",
)  # fmt: skip
_UNITS = {unit: at for at, group in enumerate(_SAME_UNIT) for unit in group.split()}
_QUARTER = timedelta(minutes=15)
_FURTHEST = timedelta(hours=14)


def labels(path: str, value: Any, around: Surroundings = NOWHERE) -> set[str]:
    """The labels of one leaf, or of one list. path: where it stands, for the unit that a name states."""
    if value is None:
        return {"null"}
    if isinstance(value, bool):
        return set()
    if isinstance(value, int | float):
        return set(_of_number(value))
    if isinstance(value, list):
        return {"list0" if not value else "list1" if len(value) == 1 else "listN"}
    return set(_of_text(path, value, around)) if isinstance(value, str) else set()


def _of_number(value: float) -> Iterator[str]:
    if not math.isfinite(value):
        yield "nan_inf"
    elif value < 0:
        yield "negative"
    elif value in {0, 1}:
        yield "one" if value else "zero"


def _of_text(path: str, text: str, around: Surroundings) -> Iterator[str]:
    if not text.strip():
        yield "whitespace_only" if text else "empty"
        return
    if _INJECTION.search(text):
        yield "injection_like"
    if _CONTROL.search(text):
        yield "control_or_bidi"
    if len(text) <= _SHORT:
        yield from _of_short(path, text.strip(), around)
    if _is_json(text):
        yield "json_in_string"
    if not text.isascii():
        yield from _of_script(text)
    if len(text) > VERY_LONG:
        yield "very_long"


def _of_short(path: str, text: str, around: Surroundings) -> Iterator[str]:
    found = dates.find(text, month_first=around.month_first)
    yield from _of_dates(text, found, around)
    if is_placeholder(text):
        yield "placeholder"
    elif _ungrounded(text, found, around):
        yield "ungrounded_id"
    if _NUMBER.fullmatch(text):
        yield "number_as_string"
    elif text.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
        yield "nan_inf"
    if _other_unit(path, text):
        yield "unit_mismatch"


def _of_dates(text: str, found: list[dates.Found], around: Surroundings) -> Iterator[str]:
    if any(not one.possible() or (one.year is not None and one.on(0) is None) for one in found):
        yield "date_impossible"
    if any(one.ambiguous for one in found):
        yield "date_ambiguous"
    if len(text) <= _EXPRESSION and _RELATIVE.fullmatch(text):
        yield "date_relative"
    if stamp := _STAMP.fullmatch(text):
        yield from _of_stamp(stamp, around)
    if around.clock and len(found) == 1 and found[0].start == 0 and _TIME.fullmatch(text, found[0].end):
        yield from _against(found[0], around.clock)


def _against(found: dates.Found, clock: datetime) -> Iterator[str]:
    day, today = found.on(clock.year), clock.date()
    if day is not None and day != today:
        yield "past_of_clock" if day < today else "future_of_clock"


def _of_stamp(stamp: re.Match[str], around: Surroundings) -> Iterator[str]:
    offset = stamp[2]
    if offset is None:
        yield "tz_missing"
        if around.clock and _in_gap(stamp[1], around.clock):
            yield "tz_dst_gap"
    elif offset != "Z":
        span = timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:]))
        if span % _QUARTER or span > _FURTHEST:
            yield "tz_offset_odd"


def _in_gap(text: str, clock: datetime) -> bool:
    """Whether the wall time never was: the clocks of the zone jumped over it."""
    zone = clock.tzinfo
    try:
        wall = datetime.fromisoformat(text).replace(tzinfo=zone)
    except ValueError:
        return False
    return wall.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall.replace(tzinfo=None)


def _ungrounded(text: str, found: list[dates.Found], around: Surroundings) -> bool:
    if around.grounded is None or found or not _ID.fullmatch(text) or _AMOUNT.fullmatch(text):
        return False
    return not around.grounded(text)


def _other_unit(path: str, text: str) -> bool:
    match = _WITH_UNIT.fullmatch(text)
    if match is None:
        return False
    said = _UNITS.get((match["before"] or match["after"] or "").lower())
    named = {_UNITS[word] for word in re.split(r"[^A-Za-z%]+", path.rsplit(".", 1)[-1].lower()) if word in _UNITS}
    return said is not None and bool(named) and said not in named


def _is_json(text: str) -> bool:
    stripped = text.strip()
    if len(stripped) < len("{}") or stripped[0] + stripped[-1] not in {"{}", "[]"}:
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _of_script(text: str) -> Iterator[str]:
    yield "non_ascii"
    if any(len(_scripts(word)) > 1 for word in re.findall(r"[^\W\d_]+", text)):
        yield "mixed_script"
    if any(unicodedata.category(char) == "So" and ord(char) > 0x2190 for char in text):  # noqa: PLR2004 - arrows and up
        yield "emoji"


def _scripts(word: str) -> set[str]:
    """The scripts of a word by the first word of each letter's name, which is enough to tell Latin from what imitates it."""
    names = (unicodedata.name(char, "").split(" ", 1)[0] for char in word)
    return {name for name in names if name in {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}}


def clock_of(
    instant_ns: int | None, zone: str | None, text: str | None = None, *, month_first: bool = True
) -> datetime | None:
    """The frozen clock as an instant in its zone: the recorded one, else the first date in what the agent was told; None where neither is known."""
    try:
        where: Any = ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        where = UTC
    if instant_ns is not None:
        return datetime.fromtimestamp(instant_ns // 10**9, UTC).astimezone(where)
    found = next((one for one in dates.find(text or "", month_first=month_first) if one.year is not None), None)
    day: date | None = found.on(0) if found else None
    return datetime(day.year, day.month, day.day, tzinfo=where) if day else None
