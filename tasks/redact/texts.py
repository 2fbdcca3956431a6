"""Free text: detectors, propagation, dates, and whatever is spelled in it by escapes, percent or base64, replaced in one pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tasks.redact.detectors import generalized_ip
from tasks.redact.propagation import Propagator, Span, merged
from twiceshy.redaction import RESTRICTED, dates, spellings, walking
from twiceshy.redaction.canonicalforms import month_first

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping

    from tasks.redact.detectors import Detection, Detectors
    from twiceshy.redaction import Redactor

DROPPED = "[dropped]"
"""What stands in a text for a stretch that was taken out."""

_SPELLED_DEPTH = 6
# An epoch number under the limit counts in that many parts of a second: s, ms, us, ns.
_EPOCHS = ((1e11, 1), (1e14, 10**3), (1e17, 10**6), (float("inf"), 10**9))
_DETECTED, _DATED, _SPELLED = 1_000, 2_000, 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """How the dates of one trace move: by whole days, in the wall time of its zone; and which of them are birthdays, which move by themselves.

    year: for dates that name none.
    """

    days: int
    year: int
    zone: str = "UTC"
    birthdays: Mapping[date, date] = field(default_factory=dict)


class Texts:
    """The texts of one trace. Each text is worked on once; counts: (rule, type, action, place) -> how often, over distinct texts."""

    def __init__(
        self,
        redactor: Redactor,
        detectors: Detectors,
        propagator: Propagator,
        calendar: Calendar,
        counts: Counter[tuple[str, str, str, str]],
    ) -> None:
        self._redactor = redactor
        self._detectors = detectors
        self._propagator = propagator
        self._calendar = calendar
        self._counts = counts
        self._known: dict[tuple[str, bool], str] = {}

    def redacted(self, text: str, *, dated: bool = True, depth: int = 0) -> str:
        """The text with everything personal in it replaced and its dates moved. Raises BoundExceeded."""
        if depth > _SPELLED_DEPTH:
            raise walking.BoundExceeded("depth_exceeded")
        found = self._known.get((text, dated))
        if found is None:
            found = self._known[text, dated] = merged(text, self._spans(text, dated=dated, depth=depth))
        return found

    def moved(self, value: Any) -> Any:
        """A date, an instant or a number of seconds, ms, us or ns since the epoch, moved with the calendar; text by its dates."""
        if isinstance(value, str):
            return self.redacted(value)
        if isinstance(value, datetime) and value.tzinfo is not None:
            return dates.shifted_moment(value, self._calendar.days, self._calendar.zone)
        if isinstance(value, date):
            return value + timedelta(days=self._calendar.days)
        if isinstance(value, int | float) and not isinstance(value, bool):
            second = next(unit for limit, unit in _EPOCHS if abs(value) < limit)
            return value + self._calendar.days * 86_400 * second
        return value

    def _spans(self, text: str, *, dated: bool, depth: int) -> Iterator[Span]:
        for span in self._propagator.spans(text):
            self._counts["propagation", "", "synthesize", ""] += 1
            yield span
        for detection in self._detectors.find(text).detections:
            yield self._detected(text, detection)
        if dated:
            yield from self._dated(text)
        for spelled in spellings.find(text):
            new = self.redacted(spelled.plain, dated=dated, depth=depth + 1)
            if new != spelled.plain:
                yield Span(spelled.start, spelled.end, spelled.back(new), _SPELLED)

    def _detected(self, text: str, detection: Detection) -> Span:
        start, end, kind = detection
        action = self._redactor.policy.detectors[kind]
        self._counts["detector", kind, action, ""] += 1
        raw = text[start:end]
        if action == "synthesize":
            new = self._redactor.pseudonym_in(kind, raw)
        elif action == "generalize":
            new = generalized_ip(raw) or RESTRICTED
        else:
            new = DROPPED if action == "drop" else RESTRICTED
        return Span(start, end, new, _DETECTED)

    def _dated(self, text: str) -> Iterator[Span]:
        first = month_first(self._redactor.policy.default_region)
        for found in dates.find(text, month_first=first):
            day = found.on(0) if found.year is not None else None
            if day is not None and day in self._calendar.birthdays:
                new: str | None = dates.written(found, self._calendar.birthdays[day])
            else:
                new = dates.shifted(found, self._calendar.days, self._calendar.year)
            if new is not None:
                self._counts["date_shift", "", "generalize", ""] += 1
                yield Span(found.start, found.end, new, _DATED)
