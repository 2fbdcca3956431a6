"""Parameterised text: an error message with its values masked, so that equal causes have equal text (signatures.md §1, stage 0)."""

import hashlib
import re
from collections.abc import Collection

NORM_VERSION = "t1"
"""Rises with every change below: a template is part of a key."""

_CODE_HEX = 8
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:\d{1,2}(?:st|nd|rd|th)?)"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp][Mm])?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))"

# First match wins, so the order is part of the definition. A redaction stand-in keeps the class of what it stands for, place by place.
_PARAMETERS = (
    ("email", r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"),
    ("url", r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)\]},]+"),
    (
        "hostname",
        r"\b(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+(?:com|net|org|io|dev|app|ai|cloud|uk|de|fr|eu|us|local|internal|lan|test|example|invalid)\b(?::\d+)?",
    ),
    ("ip", r"\b\d{1,3}(?:\.\d{1,3}){3}(?:[:/]\d+)?\b|(?<![\w:])(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])"),
    ("traceparent", r"\b00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\b"),
    ("uuid", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"),
    ("sha", r"\b(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32})\b"),
    (
        "date",
        (
            rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK}{_ZONE}?)?|\b\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}\b"
            rf"|\b{_MONTH}\.? {_DAY}(?:,? \d{{4}})?\b|\b{_DAY} {_MONTH}(?:,? \d{{4}})?\b|\b{_CLOCK}{_ZONE}?\b"
        ),
    ),
    (
        "duration",
        r"\b\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?)\b",
    ),
    ("hex", r"\b0[xX][0-9a-fA-F]+\b"),
    # A short sha and a business id look alike, and a stand-in of one may look like the other: both are `<id>`.
    ("git_sha", r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,12}\b"),
    ("float", r"(?<![\w.])[+-]?(?:\d+\.\d+|\.\d+)(?:[eE][+-]?\d+)?\b|(?<![\w.])[+-]?\d+[eE][+-]\d+\b"),
    ("int", r"(?<![\w.])[+-]?\d+(?:,\d{3})*\b"),
    # A quoted text is a value only after `=` or `:`; elsewhere, and after the name of an exception, it is often the name of a field:
    # masking that lumps every KeyError together.
    ("text", r"(?:(?<==)|(?<=:)(?<!Error:)(?<!Exception:)(?<!Warning:))\s?(?:'[^']*'|\"[^\"]*\")"),
    ("id", r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{4,}\b"),
)
_ANY = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PARAMETERS))


def parameterise(text: str, *, keep: Collection[str] = frozenset()) -> str:
    """The text with every value replaced by its class, as in `order <id> not found`.

    keep: identifiers of the tool's schema (tool, argument, enum literal), which stay as they are.
    """
    return _ANY.sub(lambda found: _class(found, keep), " ".join(text.split()))


def code(tool: str, text: str) -> str:
    """The error code of a text that has none of its own: `<tool>:<8 hex of the template's sha256>`."""
    return f"{tool}:{hashlib.sha256(parameterise(text).encode()).hexdigest()[:_CODE_HEX]}"


def _class(found: re.Match[str], keep: Collection[str]) -> str:
    text = found[0]
    if text in keep:
        return text
    if found.lastgroup == "text":
        return f"{text[: len(text) - len(text.lstrip())]}<text>"
    return "<id>" if found.lastgroup == "git_sha" else f"<{found.lastgroup}>"


def identifiers(schema: object) -> frozenset[str]:
    """The names of arguments and the enum literals anywhere in a JSON Schema: what `keep` is made of, with the tool's own name."""
    found: set[str] = set()
    pending = [schema]
    while pending:
        here = pending.pop()
        if isinstance(here, dict):
            found |= (
                {str(name) for name in here.get("properties", {})}
                if isinstance(here.get("properties"), dict)
                else set()
            )
            found |= {literal for literal in here.get("enum", ()) if isinstance(literal, str)}
            pending += here.values()
        elif isinstance(here, list):
            pending += here
    return frozenset(found)
