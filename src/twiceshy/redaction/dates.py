"""Absolute dates in text: found by a strict grammar, judged by `datetime.date`, written back in the spelling they had.

A date that does not exist (`July 32`, `2024-02-30`) is found and never moved: it may be the failure itself.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NAMES = str.split("January February March April May June July August September October November December")
_MONTHS = {name[:size].casefold(): at for at, name in enumerate(_NAMES, 1) for size in (3, len(name))} | {"sept": 9}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?P<y>(?:19|20)\d\d)(?!\d)"
_ORDINAL = r"(?P<o>st|nd|rd|th)?(?![A-Za-z\d])"

# No word, dot or dash may touch a date on its left, so that versions, file names and machine ids are left alone.
_ISO = re.compile(
    r"(?<![\w./-])(?P<y>[12]\d{3})(?P<s>[-/])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})(?!\d|[-/.]\w|(?!T\d)[A-Za-z_])"
)
_SLASHED = re.compile(
    r"(?<![\w./-])(?P<a>\d{1,2})(?:/(?P<b>\d{1,2})/(?P<y>\d{4}|\d\d)|(?P<s>[.-])(?P<b2>\d{1,2})(?P=s)(?P<y2>\d{4}))(?![\w/]|[-.]\w)"
)
_MONTH_DAY = re.compile(
    rf"(?<![A-Za-z])(?P<m>{_MONTH})\.?\s+(?:the\s+)?(?P<d>\d{{1,2}}){_ORDINAL}(?!:\d)"
    rf"(?:\s*(?:-|\u2013|to|through|until)\s*(?P<d2>\d{{1,2}})(?P<o2>st|nd|rd|th)?(?![\w:/.-]|\s*[ap]\.?m))?(?:,?\s+{_YEAR})?",
    re.IGNORECASE,
)
_DAY_MONTH = re.compile(
    rf"(?<![\w.,$-])(?P<d>\d{{1,2}}){_ORDINAL}(?:\s+of)?[\s-]+(?P<m>(?!may\b|march\b|mar\b)(?:{_MONTH}))(?![A-Za-z])(?:,?[\s-]+{_YEAR})?"
)
_TITLED = re.compile(_DAY_MONTH.pattern.replace(r"(?!may\b|march\b|mar\b)", ""), re.IGNORECASE)
_QUICK = re.compile(rf"\d[-/.]\d|\b(?:{_MONTH})\b", re.IGNORECASE)

DAY_NS = 86_400 * 10**9
WEEK = 7


class Found(NamedTuple):
    """One date in a text. `year` is None where none was written; `last` is the second day of a range (`May 20-22`)."""

    start: int
    end: int
    year: int | None
    month: int
    day: int
    ambiguous: bool
    match: re.Match[str]
    last: int | None = None
    month_first: bool = True

    def on(self, year: int) -> date | None:
        """The date it names, `year` standing in where it has none; None where there is no such day."""
        try:
            return date(self.year or year, self.month, self.day)
        except ValueError:
            return None

    def possible(self) -> bool:
        """Whether such a day exists in some year."""
        return self.on(2000) is not None


def find(text: str, *, month_first: bool = True) -> list[Found]:
    """Every date in the text, left to right, none overlapping. month_first: how 05/06/2024 is read where both readings exist."""
    if not _QUICK.search(text):
        return []
    found: list[Found] = []
    for one in sorted(_candidates(text, month_first=month_first), key=lambda one: (one.start, -one.end)):
        if not found or one.start >= found[-1].end:
            found.append(one)
    return found


def _candidates(text: str, *, month_first: bool) -> Iterator[Found]:
    for match in _ISO.finditer(text):
        yield Found(*match.span(), int(match["y"]), int(match["m"]), int(match["d"]), ambiguous=False, match=match)
    for match in _SLASHED.finditer(text):
        yield _slashed(match, month_first=month_first and match["s"] != ".")
    for pattern in (_MONTH_DAY, _TITLED):
        for match in pattern.finditer(text):
            if pattern is _TITLED and match["m"].islower() and not _DAY_MONTH.match(text, match.start()):
                continue  # "20 may", "3 march": verbs, unless they are written as names
            month = _MONTHS[match["m"].casefold()]
            last = int(match["d2"]) if "d2" in match.re.groupindex and match["d2"] else None
            year = int(match["y"]) if match["y"] else None
            yield Found(*match.span(), year, month, int(match["d"]), ambiguous=False, match=match, last=last)


def _slashed(match: re.Match[str], *, month_first: bool) -> Found:
    first, second = int(match["a"]), int(match["b"] or match["b2"])
    year = _full_year(match["y"] or match["y2"])
    readings = [(month, day) for month, day in ((first, second), (second, first)) if month <= 12]  # noqa: PLR2004
    month, day = (first, second) if month_first else (second, first)
    if (month, day) not in readings and readings:
        month, day = readings[0]
    written_so = month_first if first == second else month == first
    return Found(*match.span(), year, month, day, len(set(readings)) > 1, match, month_first=written_so)


def _full_year(text: str) -> int:
    return int(text) + (0 if len(text) > 2 else 2000 if int(text) < 70 else 1900)  # noqa: PLR2004 - as POSIX strptime %y


def written(found: Found, to: date, last: date | None = None) -> str:
    """Another date in the spelling of one that was found; `last` for the second day of a range."""
    match = found.match
    parts = {"y": to.year, "y2": to.year, "m": to.month, "d": to.day}
    if "a" in match.re.groupindex:
        first, second = (to.month, to.day) if found.month_first else (to.day, to.month)
        parts |= {"a": first, "b": second, "b2": second}
    if last is not None:
        parts["d2"] = last.day
    width = _width(match)
    edits = [(match.span(name), _part(match[name], value, width)) for name, value in parts.items() if _has(match, name)]
    edits += [(match.span(name), _ordinal(parts[day])) for name, day in (("o", "d"), ("o2", "d2")) if _has(match, name)]
    if last is not None and last.month != to.month:
        span = match.span("d2")
        edits = [(place, text) for place, text in edits if place != span]
        edits.append((span, f"{_month_like(match['m'], last.month)} {last.day}"))
    return _edited(match, sorted(edits))


def _has(match: re.Match[str], name: str) -> bool:
    return name in match.re.groupindex and match[name] is not None


def _edited(match: re.Match[str], edits: list[tuple[tuple[int, int], str]]) -> str:
    text, at, made = match.string, match.start(), []
    for (start, end), new in edits:
        made += [text[at:start], new]
        at = end
    return "".join([*made, text[at : match.end()]])


def _part(raw: str, value: int, width: int) -> str:
    if raw.isalpha():
        return _month_like(raw, value)
    return f"{value % 10 ** len(raw):0{len(raw)}d}" if value > 31 else f"{value:0{width}d}"  # noqa: PLR2004 - a year


def _width(match: re.Match[str]) -> int:
    """Whether days and months are padded to two digits: in figures unless one stands alone, beside a month's name only with a zero."""
    written = [match[name] for name in ("a", "b", "b2", "m", "d") if _has(match, name)]
    if any(part.isalpha() for part in written):
        return 2 if any(part.startswith("0") for part in written) else 1
    return 1 if any(len(part) == 1 for part in written) else 2


def _month_like(raw: str, month: int) -> str:
    short = len(raw) <= 4 and _NAMES[_MONTHS[raw.casefold()] - 1].casefold() != raw.casefold()  # noqa: PLR2004
    name = _NAMES[month - 1][:3] if short else _NAMES[month - 1]
    return name.upper() if raw.isupper() else name.lower() if raw.islower() else name


def _ordinal(day: int) -> str:
    if 11 <= day <= 13:  # noqa: PLR2004
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def shifted(found: Found, days: int, year: int) -> str | None:
    """The date moved by whole days in its own spelling; None where it does not exist, and so stays. year: for dates without one."""
    day = found.on(year) or (found.on(2000) if found.year is None else None)
    if day is None:
        return None
    last = _on(day.year, day.month, found.last) if found.last else None
    if found.last and last is None:
        return None
    move = timedelta(days=days)
    try:
        return written(found, day + move, last + move if last else None)
    except OverflowError:
        return None


def _on(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def shifted_instant(instant_ns: int, days: int, zone: str) -> int:
    """An instant moved by whole days in the wall time of its zone, in ns since the epoch; an unknown zone counts as UTC."""
    try:
        where = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return instant_ns + days * DAY_NS
    seconds, rest = divmod(instant_ns, 10**9)
    local = datetime.fromtimestamp(seconds, UTC).astimezone(where)
    moved = (local.replace(tzinfo=None) + timedelta(days=days)).replace(tzinfo=where, fold=local.fold)
    return int(moved.timestamp()) * 10**9 + rest


def shifted_moment(moment: datetime, days: int, zone: str) -> datetime:
    """A moment moved like an instant, with the offset it was written with."""
    second = moment.replace(microsecond=0)
    moved = shifted_instant(int(second.timestamp()) * 10**9, days, zone)
    return datetime.fromtimestamp(moved // 10**9, moment.tzinfo).replace(microsecond=moment.microsecond)


def days_of(below: Callable[[int], int]) -> int:
    """A shift: 1 to 52 whole weeks, back or forth, so that weekday, order and intervals stay. below(n): a draw from 0..n-1."""
    weeks = below(104) - 52
    return WEEK * (weeks if weeks < 0 else weeks + 1)
