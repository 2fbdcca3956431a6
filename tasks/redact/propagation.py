"""Every value that was found once is replaced wherever it stands in its trace: one automaton a trace, over all texts and keys.

Matches are bounded by what is not alphanumeric, the longest wins, and overlapping matches become one, so that no tail stays uncovered and nothing is replaced twice.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import ahocorasick

from tasks.redact.commonwords import CARD_WORDS, COMMON_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MIN_SEED = 3
"""A shorter seed acts in its own field only."""

_NEAR = 24
SHORT_NAME = 4
"""Up to here a word of a name may be a code when it stands in capitals."""
_IDEOGRAPHS = "\u2e80"


class Seed(NamedTuple):
    """A value of the trace, as it was spelled. new: what takes the place of a spelling of it. rank: the lower wins a tie.

    near_card: acts beside a card word only. name_word: one word of a name; short ones do not act in capitals, where they are codes (`MIA`, the airport).
    number: an amount, bounded by what continues no number.
    """

    text: str
    new: Callable[[str], str]
    rank: int = 0
    near_card: bool = False
    name_word: bool = False
    number: bool = False


class Span(NamedTuple):
    """A stretch of a text and what takes its place."""

    start: int
    end: int
    new: str
    rank: int = 0


def acts(text: str) -> bool:
    """Whether a value may act outside its own field: long enough, and no common word."""
    folded = text.strip().casefold()
    return len(folded) >= MIN_SEED and folded not in COMMON_WORDS and any(map(str.isalnum, folded))


class Propagator:
    """The automaton of one trace."""

    def __init__(self, seeds: Iterable[Seed]) -> None:
        self._automaton = ahocorasick.Automaton()
        held: dict[str, Seed] = {}
        for seed in seeds:
            for spelling in _spellings(seed.text):
                if spelling not in held or seed.rank < held[spelling].rank:
                    held[spelling] = seed
        for spelling, seed in held.items():
            self._automaton.add_word(spelling, (len(spelling), seed))
        self._empty = not held
        if held:
            self._automaton.make_automaton()

    def spans(self, text: str) -> Iterator[Span]:
        """Every match in the text, overlaps included."""
        if self._empty:
            return
        for last, (length, seed) in self._automaton.iter(folded(text)):
            start, end = last + 1 - length, last + 1
            if _bounded(text, start, end) and _admissible(seed, text, start, end):
                yield Span(start, end, seed.new(text[start:end]), seed.rank)


def merged(text: str, spans: Iterable[Span]) -> str:
    """The text with the spans replaced: the longest first, and one replacement for all that overlap."""
    clusters = _clusters(sorted(spans, key=lambda span: span.start))
    made, at = [], 0
    for start, end, winner in clusters:
        made += [text[at:start], winner.new]
        at = end
    return "".join([*made, text[at:]]) if made else text


def _clusters(spans: list[Span]) -> list[tuple[int, int, Span]]:
    found: list[tuple[int, int, Span]] = []
    for span in spans:
        if found and span.start < found[-1][1]:
            start, end, winner = found[-1]
            better = min(winner, span, key=lambda one: (one.start - one.end, one.rank))
            found[-1] = (start, max(end, span.end), better)
        else:
            found.append((span.start, span.end, span))
    return found


def folded(text: str) -> str:
    """The text casefolded place by place, so that a match stands where the text has it."""
    if text.isascii():
        return text.lower()
    return "".join(one if len(one := char.casefold()) == 1 else char for char in text)


def _spellings(text: str) -> set[str]:
    trimmed = text.strip()
    return {folded(unicodedata.normalize(form, trimmed)) for form in ("NFC", "NFD", "NFKC")} if trimmed else set()


def _bounded(text: str, start: int, end: int) -> bool:
    """Whether nothing alphanumeric touches the match. Scripts without spaces have no such bound."""
    before, first = text[start - 1 : start], text[start]
    after, last = text[end : end + 1], text[end - 1]
    left = not (before.isalnum() and first.isalnum()) or first >= _IDEOGRAPHS or _after_escape(text, start)
    return left and (not (after.isalnum() and last.isalnum()) or last >= _IDEOGRAPHS)


def _after_escape(text: str, start: int) -> bool:
    """Whether what stands before is the end of an escape that was never decoded, such as a backslash and an n."""
    return (
        text.rfind("\\", max(start - 6, 0), start) >= 0
        and _ESCAPE_BEFORE.search(text, max(start - 6, 0), start) is not None
    )


def _admissible(seed: Seed, text: str, start: int, end: int) -> bool:
    if seed.near_card:
        near = text[max(start - _NEAR, 0) : end + _NEAR].casefold()
        return any(word in near for word in CARD_WORDS)
    if seed.name_word and end - start <= SHORT_NAME:
        return not text[start:end].isupper() or seed.text.isupper()
    if seed.number:
        return _NUMBER_BEFORE.search(text, max(start - 2, 0), start) is None and _NUMBER_AFTER.match(text, end) is None
    return True


_ESCAPE_BEFORE = re.compile(r"\\(?:[nrtbf]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})$")
_NUMBER_BEFORE = re.compile(r"\d[.,]$")
_NUMBER_AFTER = re.compile(r"[.,]\d")
