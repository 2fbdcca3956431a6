"""Paths of redaction rules: `tool.*.result.**.{email,phone}`, `payment_methods.<key>`, `flights[].date`.

A place in a trace is written the same way, its indices as `[]` and a key itself as `<key>`; a key with dots in it counts as several levels,
so that `meta.metadata.apiKey` names the nested and the flattened spelling alike.
"""

from __future__ import annotations

import re

KEY = "<key>"
ITEM = "[]"
ANY = "*"
DEEP = "**"

_SEGMENT = re.compile(r"\*\*|\*|<key>|\{[^{}.,]+(?:,[^{}.,]+)*\}|[^.\[\]{}<>*]+")
_SHAPE = re.compile(rf"(?:{_SEGMENT.pattern})(?:\[\])*(?:\.(?:{_SEGMENT.pattern})(?:\[\])*)*")
_RESERVED = {KEY, ITEM, ANY, DEEP, ""}


def child(path: str, key: object) -> str:
    """The place of a member. A key that reads like syntax is quoted, so data cannot pose as a path."""
    name = str(key)
    return f"{path}.{name}" if name not in _RESERVED else f"{path}.'{name}'"


def item(path: str) -> str:
    """The place of any item of a list."""
    return f"{path}.{ITEM}"


def key_of(path: str) -> str:
    """The place of the keys of an object."""
    return f"{path}.{KEY}"


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, to be matched in full against "." + place. Raises ValueError for what is no path."""
    if not _SHAPE.fullmatch(pattern):
        raise ValueError(
            f"{pattern!r} is no path; write names, *, **, {{a,b}}, <key> joined by dots, and [] for any index"
        )
    segments = pattern.replace(ITEM, f".{ITEM}").split(".")
    return re.compile("".join(_piece(segment) for segment in segments))


def _piece(segment: str) -> str:
    if segment == DEEP:
        return rf"(?:\.(?!{KEY}(?:\.|$))[^.]+)*"
    if segment == ANY:
        return rf"\.(?!{KEY}(?:\.|$))[^.]+"
    if segment.startswith("{"):
        return rf"\.(?:{'|'.join(re.escape(name) for name in segment[1:-1].split(','))})"
    return rf"\.{re.escape(segment)}"
