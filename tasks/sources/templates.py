"""Error texts with their parameters taken out (signatures.md §1, stage 0): equal templates are one error, whatever ids, amounts or dates they name."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_HEX4 = r"[0-9a-f]{1,4}"
_TIME = r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
_DATES = "|".join(
    [
        rf"\b\d{{4}}-\d{{2}}-\d{{2}}{_TIME}",
        r"\b\d{1,2}/\d{1,2}/\d{2,4}\b",
        rf"\b{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b",
        rf"\b\d{{1,2}} {_MONTH}\.?(?: \d{{4}})?\b",
    ]
)
# In order; the first that matches at a place wins.
_PARAMETERS = (
    ("email", r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"),
    ("url", r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>]+"),
    ("hostname", r"\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:com|org|net|io|dev|ai|internal|local|invalid|test|example)\b(?::\d+)?"),
    ("ip", rf"\b\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?::\d+)?\b|(?<![\w:])(?:{_HEX4}:){{3,7}}{_HEX4}(?![\w:])"),
    ("traceparent", r"\b[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\b"),
    ("uuid", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"),
    ("sha", r"\b[0-9a-f]{64}\b"),
    ("date", _DATES),
    ("duration", r"\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|sec|secs|seconds?|min|mins|minutes?|h|hours?|days?)\b"),
    ("hex", r"\b0x[0-9a-f]+\b"),
    ("git_sha", r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"),
    ("float", r"(?<![\w.])[+-]?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])"),
    ("int", r"(?<![\w.])[+-]?\d+(?![\w.]|\.\d)|(?<![\w.])[+-]?\d+(?=\.(?:\s|$))"),
    ("id", r"\b(?=\w*\d)(?=\w*[a-z])\w{4,}\b"),
)  # fmt: skip
# Only the value of a name (a='b', "a": "b"): masking every quote lumps all of `KeyError: '...'` together.
_QUOTED = r"(?:(?<=[=:])|(?<=['\"]: ))(?:'[^'\n]*'|\"[^\"\n]*\")"
_WORD = re.compile(
    "|".join([*(f"(?P<{name}>{pattern})" for name, pattern in _PARAMETERS), f"(?P<quoted>{_QUOTED})"]), re.IGNORECASE
)
_DIGITS = 8


def parameterised(text: str, keep: Collection[str] = ()) -> str:
    """The template of a text: `payment method <id> not found`. keep: identifiers of the tool's schema, which are no parameters."""

    def masked(hit: re.Match[str]) -> str:
        return hit.group() if hit.group() in keep else f"<{hit.lastgroup}>"

    return _WORD.sub(masked, text)


def code(tool: str, text: str, keep: Collection[str] = ()) -> str:
    """The error code of a text that has no code of its own: `<tool>:<8 hex of the template's sha256>`."""
    return f"{tool}:{hashlib.sha256(parameterised(text, keep).encode()).hexdigest()[:_DIGITS]}"
