"""From what a trace was found to hold to what is replaced everywhere in it."""

from __future__ import annotations

import re
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from tasks.redact.findings import reference_for
from tasks.redact.propagation import Seed, acts
from tasks.redact.replacing import banded
from tasks.redact.texts import DROPPED
from twiceshy.redaction import RESTRICTED, canonicalforms, phones

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.redact.findings import Findings, Occurrence
    from twiceshy.redaction import Redactor

MIN_WITHHELD = 5
"""A shorter withheld value is a word or a figure like any other, and goes in its own field only."""

_WORD = re.compile(r"[^\W\d_]+")
_LEAST_AMOUNT = 3
"""Digits that an amount needs to be told from a count of things."""


def seeds(findings: Findings, redactor: Redactor) -> Iterator[Seed]:
    """What acts outside its own field in a trace."""
    for occurrence in findings.occurrences:
        yield from _seeds_of(occurrence, redactor)
    for text, action in findings.withheld.items():
        if len(text) >= MIN_WITHHELD and acts(text):
            stand = DROPPED if action == "drop" else RESTRICTED
            yield Seed(text, partial(_fixed, stand), rank=500)
    for name, place, amount in findings.amounts:
        reference = reference_for(findings, name, place)
        if reference is not None and len(f"{amount:g}") >= _LEAST_AMOUNT:
            yield from _amounts(amount, banded(amount, reference))


def _seeds_of(occurrence: Occurrence, redactor: Redactor) -> Iterator[Seed]:
    kind, text, rank = occurrence
    match kind:
        case "date_of_birth":
            return  # dates are found as dates, in every spelling
        case "person_name":
            words = [word for word in _WORD.findall(text) if acts(word)]
            yield from (Seed(word, partial(redactor.pseudonym_in, kind), rank, name_word=True) for word in words)
            if len(text.split()) > 1 or not words:
                yield from (
                    Seed(spelling, partial(redactor.pseudonym_in, kind), rank)
                    for spelling in _spaced(text)
                    if acts(text)
                )
        case "last_four":
            yield Seed(text, partial(_spelled, redactor, kind, text), rank, near_card=True)
        case "phone":
            number = phones.parsed(text, redactor.policy.default_region)
            for spelling in {text, *((number.e164, number.national) if number else ())}:
                yield Seed(spelling, partial(_spelled, redactor, kind, text), rank)
        case _:
            found, _, _ = canonicalforms.identifier(text, redactor.policy.patterns.get(kind, ()))
            if acts(found):
                yield Seed(found, partial(_spelled, redactor, kind, found), rank)


def _spaced(text: str) -> set[str]:
    """A full name with one space, as it was typed, and with the space that does not break."""
    single = " ".join(text.split())
    return {text.strip(), single, single.replace(" ", "\u00a0")}


def _spelled(redactor: Redactor, kind: str, raw: str, spelling: str) -> str:
    """The pseudonym of `raw`, laid out like another spelling of it."""
    region = redactor.policy.default_region
    patterns = redactor.policy.patterns.get(kind, ())
    same = canonicalforms.canonical_form(kind, raw, region=region, patterns=patterns)
    try:
        is_same = canonicalforms.canonical_form(kind, spelling, region=region, patterns=patterns) == same
    except phones.AmbiguousPhone:
        is_same = False
    if is_same:
        return redactor.pseudonym_in(kind, spelling)
    made = redactor.pseudonym_in(kind, raw)
    return made.lower() if spelling.islower() else made.upper() if spelling.isupper() else made


def _amounts(amount: float, new: float) -> Iterator[Seed]:
    """The figures in which people and models write an amount."""
    for form in ("{:g}", "{:.2f}", "{:,.0f}", "{:,.2f}"):
        if form != "{:,.0f}" or float(amount).is_integer():
            yield Seed(form.format(amount), partial(_fixed, form.format(new)), rank=600, number=True)


def birthdays(findings: Findings, redactor: Redactor) -> dict[date, date]:
    """Every birthday of a trace and the day that stands for it: a pseudonym, or the first day of its five years."""
    found = {}
    for text, action in findings.birthdays.items():
        day = date.fromisoformat(text)
        if action == "synthesize":
            found[day] = date.fromisoformat(redactor.pseudonym_in("date_of_birth", text))
        else:
            found[day] = date(max(day.year - day.year % 5, 1), 1, 1)
    return found


def _fixed(text: str, _: str) -> str:
    return text
