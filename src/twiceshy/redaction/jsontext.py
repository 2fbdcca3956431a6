"""JSON inside a string, edited in place: only the tokens that change are written anew, in the escapes of the text around them.

Re-encoding alone would change bytes, hashes and number spellings, so whatever is not edited is copied as it stands.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined] # not in typeshed; documented by its use in the module
from typing import Any, Protocol

from msgspec import UNSET

from twiceshy.redaction import fieldpaths

_SPACE = re.compile(r"[ \t\r\n]*")
_LITERAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|NaN|-?Infinity")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_BOTTOMLESS = 1 << 30
_OPEN, _CLOSE = "{[", "}]"


class Edits(Protocol):
    """What becomes of the parts of a JSON text. A value that comes back UNSET is taken out."""

    def dropped(self, place: str) -> bool:
        """Whether the member at a place is taken out, whatever it holds."""
        ...

    def scalar(self, place: str, value: Any, depth: int) -> Any:
        """The new value of a string, number, true, false or null."""
        ...

    def name(self, place: str, key: str) -> str:
        """The new spelling of a key."""
        ...

    def deeper(self, depth: int) -> int:
        """The next depth; raises where that is too deep."""
        ...


def looks_like_json(text: str) -> bool:
    """Whether a string may hold an object, a list or another string; cheap, and only `edited` knows."""
    stripped = text.strip()
    return len(stripped) > 1 and (stripped[0] + stripped[-1]) in {"{}", "[]", '""'}


def edited(text: str, place: str, edits: Edits, depth: int) -> str | None:
    """The text with the edits made, byte for byte the same where nothing changed; None where it is no JSON."""
    try:
        json.loads(text)
    except ValueError:
        return None
    except RecursionError:
        edits.deeper(_BOTTOMLESS)
        return None
    return _Cursor(text, edits).whole(place, depth)


class _Cursor:
    """One pass over a text that is known to be JSON."""

    def __init__(self, text: str, edits: Edits) -> None:
        self._text = text
        self._edits = edits
        self._at = 0

    def whole(self, place: str, depth: int) -> str:
        lead = self._space()
        made = self._value(place, depth)
        return lead + ("null" if made is None else made) + self._space()

    def _space(self) -> str:
        start = self._at
        self._at = _end(_SPACE, self._text, start)
        return self._text[start : self._at]

    def _value(self, place: str, depth: int) -> str | None:
        """The text of the value at the cursor; None where it is taken out."""
        start = self._at
        opening = self._text[start]
        gone = self._edits.dropped(place)
        if opening in _OPEN:
            made: str | None = self._container(place, self._edits.deeper(depth))
        elif opening == '"':
            value, self._at = scanstring(self._text, start + 1, False)
            made = self._rewritten(self._text[start : self._at], value, place, depth)
        else:
            self._at = _end(_LITERAL, self._text, start)
            raw = self._text[start : self._at]
            made = self._rewritten(raw, json.loads(raw), place, depth)
        return None if gone else made

    def _rewritten(self, raw: str, value: object, place: str, depth: int) -> str | None:
        new = self._edits.scalar(place, value, depth)
        if new is UNSET:
            return None
        return raw if new is value or (type(new) is type(value) and new == value) else encoded(new, like=raw)

    def _container(self, place: str, depth: int) -> str:
        member = self._pair if self._text[self._at] == "{" else self._item
        made = [self._text[self._at]]
        self._at += 1
        first = True
        while True:
            lead = self._space()
            if self._text[self._at] in _CLOSE:
                self._at += 1
                return "".join([*made, lead, self._text[self._at - 1]])
            if self._text[self._at] == ",":
                self._at += 1
                lead += "," + self._space()
            part = member(place, depth)
            if part is not None:
                made += [lead.replace(",", "", 1) if first else lead if "," in lead else "," + lead, part]
                first = False

    def _pair(self, place: str, depth: int) -> str | None:
        start = self._at
        key, self._at = scanstring(self._text, start + 1, False)
        raw = self._text[start : self._at]
        colon_at = self._at
        self._space()
        self._at += 1
        self._space()
        colon = self._text[colon_at : self._at]
        value = self._value(fieldpaths.child(place, key), depth)
        new = self._edits.name(fieldpaths.key_of(place), key)
        return None if value is None else (raw if new == key else encoded(new, like=raw)) + colon + value

    def _item(self, place: str, depth: int) -> str:
        made = self._value(fieldpaths.item(place), depth)
        return "null" if made is None else made  # the list keeps its length


def encoded(value: Any, *, like: str) -> str:
    """The JSON text of a scalar, escaped as the text it replaces was: non-ASCII, slashes, angle brackets."""
    if not isinstance(value, str):
        return json.dumps(value)
    made = json.dumps(value, ensure_ascii=like.isascii())
    for char in {chr(int(code, 16)) for code in _ESCAPED.findall(like)} & set("<>&'/"):
        made = made.replace(char, f"\\u{ord(char):04x}")
    if "\\/" in like:
        made = made.replace("/", "\\/")
    return made


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
