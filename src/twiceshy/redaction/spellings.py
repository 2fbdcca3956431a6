"""Other spellings of text inside text: percent-encoding, four-digit escapes, base64 and base64url of printable UTF-8, each with the way back."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PERCENT = re.compile(r"[^\s\"'<>{}\[\]|\\^`,;]*%[0-9A-Fa-f]{2}[^\s\"'<>{}\[\]|\\^`,;]*")
# Twelve characters are nine bytes; shorter runs are words, and the values that matter are longer.
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{12,}={0,2}(?![A-Za-z0-9+/_=-])")
_ESCAPED = re.compile(r"[^\s\"]*\\u[0-9a-fA-F]{4}[^\s\"]*")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_CODES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_UNRESERVED = "-._~"


class Spelled(NamedTuple):
    """A stretch of a text that spells another text; `back` spells a new one the same way."""

    start: int
    end: int
    plain: str
    back: Callable[[str], str]


def find(text: str) -> Iterator[Spelled]:
    """Every stretch that decodes to printable text."""
    for sign, pattern, read in _KINDS:
        for match in pattern.finditer(text) if sign in text else ():
            if (found := read(match)) is not None:
                yield found


def _percent(match: re.Match[str]) -> Spelled | None:
    raw = match[0]
    form = "+" in raw and "=" in raw
    try:
        plain = unquote_plus(raw, errors="strict") if form else unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    coded = set("".join(unquote(run) for run in _CODES.findall(raw)))
    bare = set(_CODES.sub("", raw)) | set(_UNRESERVED)
    hexadecimal = "{:02X}" if not re.search(r"%[0-9A-F]?[a-f]", raw) else "{:02x}"

    def spelled(char: str) -> str:
        if form and char == " ":
            return "+"
        if char not in coded and (char in bare or (char.isascii() and char.isalnum())) and not (form and char == "+"):
            return char
        return "".join(f"%{hexadecimal.format(byte)}" for byte in char.encode())

    return Spelled(*match.span(), plain, lambda new: "".join(map(spelled, new)))


def _escaped(match: re.Match[str]) -> Spelled | None:
    raw = match[0]
    coded = {chr(int(code, 16)) for code in _ESCAPE.findall(raw)}
    throughout = not _ESCAPE.sub("", raw)
    try:
        plain = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), raw).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return None

    def back(new: str) -> str:
        return "".join(unit for char in new for unit in _units(char, escaped=throughout or char in coded))

    return Spelled(*match.span(), plain, back)


def _units(char: str, *, escaped: bool) -> Iterator[str]:
    if escaped or not char.isascii():
        pairs = char.encode("utf-16-be", "surrogatepass")
        yield from (f"\\u{pairs[at : at + 2].hex()}" for at in range(0, len(pairs), 2))
    else:
        yield char


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


_KINDS = (("%", _PERCENT, _percent), ("\\u", _ESCAPED, _escaped), ("", _BASE64, _base64))
