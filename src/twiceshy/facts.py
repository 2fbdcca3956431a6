"""Facts in values: ids, amounts and dates, each in one spelling, so that a fact in a text is known again in a result (semantics.md §7).

A fact is no value under identity rules: a text that says "£750.00" speaks of the same amount as the number 750.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.envelope import Kind
from twiceshy.ordering import parted, parts
from twiceshy.paths import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.evidence import Run, Step
    from twiceshy.ordering import Part, Way

_FACT = re.compile(
    r"(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<date>\d{4}-\d{2}-\d{2})"
    r"|(?P<id>(?=[\w-]*\d)(?=[\w-]*[^\W\d_])\w+(?:-\w+)*)"
    r"|(?P<amount>(?<![\w.])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|(?<![\w.])\d+(?:\.\d+)?(?!\w))"
)
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)")
_COUNT = Decimal(10)
"""Bare numbers below it, in a text, count things ("2 items") and are no amounts."""

_SPEAKERS = frozenset({Kind.MODEL, Kind.HOOK, Kind.GUARD})
"""What they say is the run's own: it grounds nothing."""


def facts(leaf: Any) -> frozenset[str]:
    """The facts that a leaf holds, each in one spelling: `n:750`, `d:2026-06-02`, `i:a184`. A number is an amount; true, false and null are no facts."""
    if isinstance(leaf, bool):
        return frozenset()
    if isinstance(leaf, int | float | Decimal):
        amount = _amount(str(leaf))
        return frozenset() if amount is None else frozenset({f"n:{amount}"})
    return frozenset(_told(leaf)) if isinstance(leaf, str) else frozenset()


def facts_of(value: Any) -> frozenset[str]:
    """The facts of every leaf of a value."""
    if value is UNSET:
        return frozenset()
    return frozenset().union(*(facts(leaf) for _, leaf in leaves(value)))


def grounds(step: Step) -> frozenset[str]:
    """The facts that a crossing gave the run: what was shown of what came back. What a model, a hook or a guard says grounds nothing."""
    crossing = step.crossing
    if crossing.kind in _SPEAKERS:
        return frozenset()
    came_back = crossing.raw if crossing.shown is UNSET else crossing.shown
    told = facts(crossing.error.message) if crossing.error else frozenset()
    return _dated(facts_of(came_back) | told)


def grounded_before(run: Run, given: Any) -> Iterator[tuple[Step, frozenset[str]]]:
    """Every step with the facts known when it was asked for: those of the input and of the crossings before it. What an agent beside it learned is not known."""
    known = _Known(_dated(facts_of(given)))
    for step in run.steps:
        yield step, known.at(step.way)
        known.learn(step.way, grounds(step))


def grounded(run: Run, given: Any) -> frozenset[str]:
    """The facts known at the end of a run."""
    return _dated(facts_of(given)).union(*map(grounds, run.steps))


class _Known:
    """What is known at each step of a run, step by step in judging order."""

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self._settled: dict[int, frozenset[str]] = defaultdict(frozenset)
        self._pending: dict[int, dict[Part, frozenset[str]]] = defaultdict(dict)
        """By the step that others lie in: what was learned before the last of them was asked for, and what each one since has learned."""

    def at(self, way: Way) -> frozenset[str]:
        """The facts known when a step was asked for."""
        known = self._given
        for above, part in parts(way):
            pending = self._pending[above]
            over = [other for other in pending if parted(other, part)]
            if over:
                self._settled[above] = self._settled[above].union(*map(pending.pop, over))
            known = known | self._settled[above] if self._settled[above] else known
        return known

    def learn(self, way: Way, facts: frozenset[str]) -> None:
        """Keep the facts that a step gave the run."""
        for above, part in parts(way) if facts else ():
            pending = self._pending[above]
            pending[part] = pending.get(part, frozenset()) | facts


def _told(text: str) -> Iterator[str]:
    for found in _FACT.finditer(unicodedata.normalize("NFC", text).casefold()):
        word = found[0]
        match found.lastgroup:
            case "date":
                yield f"d:{word}"
            case "amount":
                amount = _amount(word.replace(",", ""))
                if amount is not None and ("." in word or Decimal(amount) >= _COUNT):
                    yield f"n:{amount}"
            case _:
                if not _ORDINAL.fullmatch(word):
                    yield f"i:{word}"


def _amount(text: str) -> str | None:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    if not amount.is_finite():
        return None
    return f"{amount.normalize():f}" if amount else "0"


def _dated(known: frozenset[str]) -> frozenset[str]:
    """With the year of each date: who knows a day may name its year."""
    return known | {f"n:{fact[2:6].lstrip('0')}" for fact in known if fact.startswith("d:")}
