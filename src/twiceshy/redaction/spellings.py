"""Other spellings of text inside text: percent-encoding, base64 and base64url of printable UTF-8, each with the way back."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PERCENT = re.compile(r"[^\s\"'<>{}\[\]|\\^`,;]*%[0-9A-Fa-f]{2}[^\s\"'<>{}\[\]|\\^`,;]*")
# Twelve characters are nine bytes; shorter runs are words, and the values that matter are longer.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{12,}={0,2}(?![A-Za-z0-9+/_=-])")
_UNRESERVED = "-._~"


class Spelled(NamedTuple):
    """A stretch of a text that spells another text; `back` spells a new one the same way."""

    start: int
    end: int
    plain: str
    back: Callable[[str], str]


def find(text: str) -> Iterator[Spelled]:
    """Every stretch that decodes to printable text."""
    if "%" in text:
        for match in _PERCENT.finditer(text):
            if (found := _percent(match)) is not None:
                yield found
    for match in _BASE64.finditer(text):
        if (found := _base64(match)) is not None:
            yield found


def _percent(match: re.Match[str]) -> Spelled | None:
    raw = match[0]
    form = "+" in raw and "=" in raw
    try:
        plain = unquote_plus(raw, errors="strict") if form else unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    bare = _UNRESERVED + "".join({char for char in re.sub(r"%[0-9A-Fa-f]{2}", "", raw) if not char.isalnum()})
    upper = not re.search(r"%[0-9A-F]?[a-f]", raw)

    def back(new: str) -> str:
        made = quote(new, safe=bare.replace("+", "") if form else bare)
        made = made.replace("%20", "+") if form else made
        return made if upper else re.sub(r"%[0-9A-F]{2}", lambda code: code[0].lower(), made)

    return Spelled(*match.span(), plain, back)


def _base64(match: re.Match[str]) -> Spelled | None:
    raw = match[0]
    url = "-" in raw or "_" in raw
    bare = raw.rstrip("=")
    if len(bare) % 4 == 1 or (url and ("+" in raw or "/" in raw)):
        return None
    padded = bare + "=" * (-len(bare) % 4)
    try:
        plain = base64.b64decode(padded, altchars=b"-_" if url else None, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    if not all(char.isprintable() or char in "\t\r\n" for char in plain):
        return None
    keeps_padding = raw.endswith("=") or len(bare) % 4 == 0

    def back(new: str) -> str:
        made = base64.b64encode(new.encode(), altchars=b"-_" if url else None).decode()
        return made if keeps_padding else made.rstrip("=")

    return Spelled(*match.span(), plain, back)
