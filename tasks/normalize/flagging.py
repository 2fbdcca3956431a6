"""Which traces count as flagged, and by what: the default rule, or an expression such as `reward == 0.0 or status == 'error'`."""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from twiceshy.errors import ConfigurationError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    Score = dict[str, Any]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<number>[+-]?\d+(?:\.\d+)?)|(?P<op>[=!<>]=|<|>)|(?P<word>[A-Za-z_][\w.\-]*)|(?P<other>\S))"
)
_BAD = frozenset(
    {
        "bad",
        "down",
        "error",
        "fail",
        "failed",
        "failure",
        "incorrect",
        "negative",
        "no",
        "rejected",
        "thumbs_down",
        "unsafe",
        "wrong",
    }
)
_HALF = 0.5
_ALWAYS = ("status", "tag")
"""Every trace has a status; a tag that none has is no slip of the pen."""


class FlagError(ConfigurationError):
    """An expression that cannot be read."""

    @classmethod
    def near(cls, text: str, position: int, expected: str) -> Self:
        """Where it stops making sense, and what was expected there."""
        return cls(
            f"--flagged {text!r}: expected {expected} at character {position + 1}. Write name op value, joined by and/or, as in: reward == 0.0 or status == 'error'."
        )


class Flag(NamedTuple):
    """One reason, and which of FLAG_SOURCES it came from."""

    flag: str
    source: str


class _Term(NamedTuple):
    name: str
    op: str
    value: float | str

    def __str__(self) -> str:
        return f"{self.name} {self.op} {self.value!r}"


class Rule:
    """A flagging expression: terms `name op number|'text'`, joined by `and`, which binds tighter, and `or`.

    A name is a score's (its value, or its label), `status` (ok or error) or `tag`. A term on something that a trace does not have is false.
    Raises FlagError.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._ways = _parsed(text)

    def refuse_unknown(self, names: Collection[str]) -> None:
        """Raise FlagError where it speaks of a score that no trace has. names: of every score there is; a misspelt one would flag nothing, silently."""
        known = sorted({*names, *_ALWAYS})
        for name in dict.fromkeys(term.name for way in self._ways for term in way):
            if name not in known:
                raise FlagError(f"--flagged {self.text!r}: no trace here has a {name!r}. {nearest(name, known)}")

    def flags(self, scores: Sequence[Score], *, failed: bool) -> list[Flag]:
        """Why a trace counts as flagged: the terms of every alternative that holds, sorted; empty where none does."""
        held = {term for way in self._ways if all(_holds(term, scores, failed=failed) for term in way) for term in way}
        return sorted({Flag(str(term), _source_of(term.name, scores)) for term in held})


def flagged(scores: Sequence[Score], *, failed: bool) -> list[Flag]:
    """The default rule: the run's own error status, and every score that says it went wrong (a bad label, or a value below one half)."""
    bad = {Flag(score["name"], source_of(score)) for score in scores if _is_bad(score)}
    return sorted(bad | ({Flag("status", "error_status")} if failed else set()))


def source_of(score: Score) -> str:
    """Where a score came from, in the words of FLAG_SOURCES."""
    if score["name"] in ("reward", "tag"):
        return str(score["name"])
    return {"human": "human", "api": "user_feedback"}.get(score["origin"], "online_grader")


def _is_bad(score: Score) -> bool:
    label = str(score["label"] or "").strip().casefold()
    if score["name"] == "tag":
        return label == "flagged"
    return label in _BAD or (score["value"] is not None and score["value"] < _HALF)


def _holds(term: _Term, scores: Sequence[Score], *, failed: bool) -> bool:
    if term.name == "status":
        return _compared(term, "error" if failed else "ok")
    mine = [score for score in scores if score["name"] == term.name]
    return any(_compared(term, score[side]) for score in mine for side in ("value", "label") if score[side] is not None)


def _compared(term: _Term, found: Any) -> bool:
    alike = isinstance(found, str) == isinstance(term.value, str)
    return alike and _COMPARE[term.op](found, term.value)


def _source_of(name: str, scores: Sequence[Score]) -> str:
    if name == "status":
        return "error_status"
    return next((source_of(score) for score in scores if score["name"] == name), "online_grader")


def _parsed(text: str) -> list[list[_Term]]:
    """Alternatives, each a list of terms that must all hold."""
    tokens = [
        (str(hit.lastgroup), hit.group(str(hit.lastgroup)), hit.start(str(hit.lastgroup)))
        for hit in _TOKEN.finditer(text)
    ]
    ways: list[list[_Term]] = [[]]
    for at in range(0, len(tokens) + 1, 4):
        ways[-1].append(_term(text, tokens[at : at + 3]))
        if at + 3 >= len(tokens):
            return ways
        kind, word, position = tokens[at + 3]
        if kind != "word" or word not in ("and", "or"):
            raise FlagError.near(text, position, "and, or")
        if word == "or":
            ways.append([])
    return ways


def _term(text: str, tokens: Sequence[tuple[str, str, int]]) -> _Term:
    wanted = (("word", "a name"), ("op", "one of == != < <= > >="), ("value", "a number or a quoted text"))
    for (kind, what), token in zip(wanted, [*tokens, *[("end", "", len(text))] * 3], strict=False):
        if token[0] != kind and not (kind == "value" and token[0] in ("number", "text")):
            raise FlagError.near(text, token[2], what)
    (_, name, _), (_, op, _), (kind, literal, _) = tokens
    return _Term(name, op, float(literal) if kind == "number" else literal[1:-1])
