"""Colour for a transcript on a terminal: by the mark at the beginning of each line, so that the text says the same without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_STYLES: Mapping[str, str] = {"!": "\x1b[1;31m", "~": "\x1b[33m", "+": "\x1b[32m", "-": "\x1b[2m"}
_HERE = "\x1b[7m"
_PLAIN = "\x1b[0m"


def wanted(env: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether colour is shown: only on a terminal that knows it, and never where NO_COLOR is set."""
    return terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def painted(text: str) -> str:
    """The transcript's lines in colour; the deciding step stands out."""
    return "".join(f"{_line(line)}\n" for line in text.splitlines())


def _line(line: str) -> str:
    style = _STYLES.get(line[:1], "") + (_HERE if line[1:].lstrip().startswith(">#") else "")
    return f"{style}{line}{_PLAIN}" if style else line
