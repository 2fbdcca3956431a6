"""How the dates of one trace move: by whole weeks, in wall time, one shift for each person and key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from twiceshy.redaction import canonicalforms, dates, phones

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tasks.redact.findings import Findings
    from twiceshy.redaction import Policy, Redactor

_LEAP_YEAR = 2000
"""The year of a trace that names none: it had a 29th of February."""


class Movement(NamedTuple):
    """days: the shift. year: of dates that name none. crossed: what the shift crossed, `{"date_shift": "month,year"}`; never the shift itself."""

    days: int
    year: int
    crossed: Mapping[str, str]

    def instant(self, instant_ns: int, zone: str) -> int:
        """An instant moved in the wall time of its zone, in ns since the epoch."""
        return dates.shifted_instant(instant_ns, self.days, zone)


def movement(rows: Sequence[Mapping[str, Any]], findings: Findings, redactor: Redactor) -> Movement:
    """The movement of a trace: of its policy's subject, else of the trace itself. Raises KeyMissing."""
    policy = redactor.policy
    subject = _subject(findings.subject, policy) if findings.subject else rows[0]["trace_id"] if rows else ""
    days = dates.days_of(redactor.pseudonyms.draw("date_shift", subject))
    start = _start(rows, policy)
    year = start.year if start else findings.first_year or _LEAP_YEAR
    return Movement(days, year, _crossed(start, days))


def _subject(text: str, policy: Policy) -> str:
    rule = policy.rule((policy.subject or "").replace("[]", ".[]"))
    kind = rule.type if rule and rule.type else ""
    try:
        return canonicalforms.canonical_form(
            kind, text, region=policy.default_region, patterns=policy.patterns.get(kind, ())
        )
    except phones.AmbiguousPhone:
        return text.strip()


def _start(rows: Sequence[Mapping[str, Any]], policy: Policy) -> datetime | None:
    """What the agent was told the time is, else when its first span began."""
    for row in rows:
        if row["clock_ns"] is not None:
            return _instant(row["clock_ns"], row["clock_tz"] or row["zone"])
        if row["clock_text"]:
            found = dates.find(row["clock_text"], month_first=canonicalforms.month_first(policy.default_region))
            day = next((one.on(0) for one in found if one.year is not None), None)
            if day is not None:
                return datetime(day.year, day.month, day.day, tzinfo=_zone(row["clock_tz"] or row["zone"]))
    starts = [(row["start_ns"], row["zone"]) for row in rows if row["start_ns"] is not None]
    return _instant(*min(starts)) if starts else None


def _instant(instant_ns: int, zone: str) -> datetime:
    return datetime.fromtimestamp(instant_ns // 10**9, UTC).astimezone(_zone(zone))


def _zone(name: str) -> Any:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _crossed(start: datetime | None, days: int) -> dict[str, str]:
    if start is None:
        return {}
    moved = start + timedelta(days=days)
    changed = {"month": moved.month != start.month, "year": moved.year != start.year, "dst": moved.dst() != start.dst()}
    names = [name for name, crossed in changed.items() if crossed]
    return {"date_shift": ",".join(names) or "within the month"}
