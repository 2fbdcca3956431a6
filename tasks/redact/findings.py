"""What the first walk over a trace finds: the values to replace everywhere, the dates that are birthdays, and the reasons to hold it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from twiceshy.redaction import canonicalforms, dates, fieldpaths, phones, spellings, walking
from twiceshy.redaction.redactor import takes_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from tasks.redact.detectors import Detectors
    from tasks.redact.places import Default
    from twiceshy.redaction import FieldRule, Policy

_HIDDEN = re.compile(
    r"\s*(?:\[(?:REDACTED|FILTERED|MASKED|HIDDEN|Filtered|Scrubbed due to [^\]]*)\]|<(?:redacted|hidden|masked|filtered)>|\*{3,}|\u2022{3,})\s*",
)
_HIDDEN_IN = re.compile(r"__REDACTED__|\[REDACTED\]|\[Scrubbed due to |<fully masked due to failed mask function>")
_FIRST, _LAST = re.compile(r"first|given|fore", re.IGNORECASE), re.compile(r"last|family|sur", re.IGNORECASE)
_SPELLED_DEPTH = 6


class Occurrence(NamedTuple):
    """A value as it was spelled, its type, and how it acts outside its own field; rank: the lower wins a tie."""

    kind: str
    text: str
    rank: int


@dataclass(slots=True)
class Findings:
    """Of one trace. `holds`: (reason, place) -> how often; a place shows no key that is a value."""

    occurrences: dict[Occurrence, None] = field(default_factory=dict)
    withheld: dict[str, str] = field(default_factory=dict)
    """Text of a dropped or restricted value -> action."""
    birthdays: dict[str, str] = field(default_factory=dict)
    """ISO date -> action: synthesize, or generalize to a band of years."""
    amounts: dict[tuple[str, str, float], None] = field(default_factory=dict)
    """(field it is compared with, place, amount), in the order of the walk."""
    references: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """Field name -> (place it stands in, value): what amounts are compared with."""
    holds: Counter[tuple[str, str]] = field(default_factory=Counter)
    first_year: int | None = None
    subject: str | None = None
    has_text: bool = False
    has_structure: bool = False


class Collecting:
    """The visitor of the first walk."""

    def __init__(self, policy: Policy, detectors: Detectors, findings: Findings, shown: Callable[[str], str]) -> None:
        self._policy = policy
        self._detectors = detectors
        self._findings = findings
        self._shown = shown
        self._references = {rule.band.relative_to for rule in policy.fields if rule.band}
        self._subject = fieldpaths.compiled(policy.subject) if policy.subject else None
        self._names: dict[str, tuple[str | None, str | None]] = {}
        self.root = ""
        """The place of the payload that is walked, and what a field without a rule means in it."""
        self.default: Default = "hold"
        self.dated = True

    def dropped(self, place: str) -> bool:  # noqa: ARG002
        """Nothing is dropped here: what will go leaves its seeds first."""
        return False

    def whole(self, place: str) -> bool:
        """Whether a rule takes it as one value."""
        return takes_whole(effective_rule(self._policy, place))

    def leaf(self, place: str, value: Any, depth: int) -> Any:
        """The leaf as it is, once it has been looked at."""
        if value is None or (isinstance(value, str) and not value.strip()):
            return value
        self._noted(place, value)
        rule = effective_rule(self._policy, place)
        is_text = isinstance(value, str)
        if rule is None and self._unknown(place, is_text=is_text):
            self._findings.holds["unknown_field", self._shown(place)] += 1
        if is_text and (_HIDDEN.fullmatch(value) or _HIDDEN_IN.search(value)):
            self._findings.holds["hidden_upstream", self._shown(place)] += 1
        if rule is not None and rule.action != "keep":
            self.ruled(rule, place, value)
        elif isinstance(value, str):
            self.text(value, place, depth)
        elif isinstance(value, bytes):
            self.text(value.decode(errors="replace"), place, depth)
        return value

    def name(self, place: str, key: str) -> str:
        """The key as it is, once it has been looked at."""
        rule = self._policy.rule(place)
        if rule is not None and rule.action != "keep":
            self.ruled(rule, place, key)
        else:
            self.text(key, place, 0)
        return key

    def text(self, text: str, place: str, depth: int = 0) -> None:
        """Collect what the detectors see in a text, in every spelling."""
        if depth > _SPELLED_DEPTH + 64:
            raise walking.BoundExceeded("depth_exceeded")
        found = self._detectors.find(text)
        if found.ambiguous:
            self._findings.holds["ambiguous_phone", self._shown(place)] += 1
        for detection in found.detections:
            raw = text[detection.start : detection.end]
            if self._policy.detectors[detection.kind] == "synthesize":
                self.occurred(detection.kind, raw, 1_000)
            else:
                self._findings.withheld.setdefault(raw, self._policy.detectors[detection.kind])
        for spelled in spellings.find(text):
            self.text(spelled.plain, place, depth + 1)

    def _unknown(self, place: str, *, is_text: bool) -> bool:
        """A text that is all of a payload is free text; a field of a record is not."""
        return self.default == "hold" and not (is_text and place == self.root)

    def _noted(self, place: str, value: Any) -> None:
        found = self._findings
        if self.default == "hold" and ".result." in place:
            found.has_structure = True
        elif isinstance(value, str) and (self.default == "free" or place == self.root):
            found.has_text = True
        if self._subject and found.subject is None and self._subject.fullmatch(f".{place}"):
            found.subject = str(value)
        if found.first_year is None and isinstance(value, str):
            found.first_year = next((one.year for one in dates.find(value) if one.year is not None), None)
        parent, _, name = place.rpartition(".")
        if name in self._references and isinstance(value, int | float) and not isinstance(value, bool):
            found.references.setdefault(name, []).append((parent, float(value)))

    def ruled(self, rule: FieldRule, place: str, value: Any) -> None:
        """Note a value that a rule changes."""
        rank = self._policy.fields.index(rule)
        match rule.action:
            case "synthesize":
                self._synthesized(rule, place, value, rank)
            case "drop" | "restrict" if not isinstance(value, bool):
                self._findings.withheld.setdefault(str(value), rule.action)
            case "generalize":
                if rule.to == "year_band_5":
                    self._born(str(value), "generalize")
                elif rule.band and isinstance(value, int | float):
                    self._findings.amounts.setdefault((rule.band.relative_to, place, value))

    def _synthesized(self, rule: FieldRule, place: str, value: Any, rank: int) -> None:
        kind, text = rule.type or "", str(value)
        if isinstance(value, bool) or canonicalforms.is_placeholder(text):
            return
        if kind == "date_of_birth":
            self._born(text, "synthesize")
        if kind == "person_name":
            self._named(place, text, rank)
        self.occurred(kind, text, rank)

    def occurred(self, kind: str, text: str, rank: int) -> None:
        """Note a value of a type, as it was spelled."""
        if kind == "phone":
            try:
                phones.parsed(text, self._policy.default_region)
            except phones.AmbiguousPhone:
                self._findings.holds["ambiguous_phone", ""] += 1
                return
        self._findings.occurrences.setdefault(Occurrence(kind, text, rank))
        spelled = self._policy.name_in(kind, text)
        if spelled is not None:
            self._full_name(*spelled, rank)

    def _named(self, place: str, text: str, rank: int) -> None:
        """First and last name of one record make a full name, which is a seed of its own."""
        parent, _, name = place.rpartition(".")
        first, last = self._names.get(parent, (None, None))
        if _FIRST.search(name):
            first, last = text, None if first else last
        elif _LAST.search(name):
            first, last = None if last else first, text
        else:
            return
        self._names[parent] = (first, last)
        if first and last:
            self._full_name(first, last, rank)
            self._names[parent] = (None, None)

    def _full_name(self, first: str, last: str, rank: int) -> None:
        for full in (f"{first} {last}", f"{last}, {first}", f"{last} {first}", f"{first}_{last}", f"{first}.{last}"):
            self._findings.occurrences.setdefault(Occurrence("person_name", full, rank))

    def _born(self, text: str, action: str) -> None:
        found = dates.find(text, month_first=canonicalforms.month_first(self._policy.default_region))
        day = found[0].on(0) if len(found) == 1 and found[0].year is not None else None
        if day is not None:
            self._findings.birthdays.setdefault(day.isoformat(), action)


def reference_for(findings: Findings, name: str, place: str) -> float | None:
    """What an amount is compared with: the named field beside it, else the first of that name in the trace; None where there is none."""
    known = findings.references.get(name, [])
    parent = place.rpartition(".")[0]
    beside = [value for where, value in known if where == parent]
    return beside[-1] if beside else known[0][1] if known else None


def effective_rule(policy: Policy, place: str) -> FieldRule | None:
    """The rule of a place; a rule that drops or restricts a record speaks for all that is in it."""
    rule = policy.rule(place)
    while rule is None and "." in place:
        place = place.rpartition(".")[0]
        above = policy.rule(place)
        if above is not None and above.action in {"drop", "restrict"}:
            return above
    return rule
