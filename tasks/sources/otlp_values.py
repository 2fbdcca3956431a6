"""Attribute values as a mapper reads them: payloads decoded, with the flags that reading raised and where each value came from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from tasks.sources import payloads
from tasks.sources.records import Side
from twiceshy.errors import FormatError
from twiceshy.identity import untagged

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(slots=True)
class Values:
    """The attributes of one span. exact: its JSON text is our recorder's, tagged and lossless, scalars too."""

    held: dict[str, Any]
    exact: bool = False
    flags: set[str] = field(default_factory=set)
    provenance: dict[str, dict[str, str]] = field(default_factory=dict)

    def text(self, *keys: str) -> str | None:
        """The first of these attributes that is a text with something in it."""
        return next((value for key in keys if isinstance(value := self.held.get(key), str) and value), None)

    def number(self, *keys: str) -> int | None:
        """The first of these attributes that is an integer, or the text of one."""
        for key in keys:
            value = self.held.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
                return int(value)
        return None

    def payload(self, column: str, *keys: str) -> Any:
        """The decoded value of the first of these attributes that is there, noted as the source of a column; UNSET where none is."""
        side = self.side(column, *keys)
        return UNSET if side is None else side.value

    def side(self, column: str, *keys: str) -> Side | None:
        """The same with how it was spelled."""
        for key in keys:
            if key in self.held:
                self.provenance[column] = {"key": key, "grade": "recorded"}
                return self._read(self.held[key], exact=self.exact or key.startswith("twiceshy."))
        return None

    def decoded(self, held: Any) -> Any:
        """The value of a payload within another, a text of JSON decoded; what reading it raised is flagged."""
        if not isinstance(held, str):
            return held
        found = payloads.parsed(held)
        self.flags |= found.flags
        return found.value

    def look_for_digests(self, value: Any) -> None:
        """Flag `hashed_content` where a text in the value is a digest in place of what it digests."""
        if isinstance(value, str):
            if _DIGEST.fullmatch(value):
                self.flags.add("hashed_content")
        elif isinstance(value, dict):
            for item in value.values():
                self.look_for_digests(item)
        elif isinstance(value, list):
            for item in value:
                self.look_for_digests(item)

    def _read(self, held: Any, *, exact: bool) -> Side:
        if not isinstance(held, str):
            structured = isinstance(held, dict) or (
                isinstance(held, list) and any(isinstance(item, dict | list) for item in held)
            )
            self.flags |= {"kvlist"} if structured else set()
            return Side(held, "kvlist" if structured else "json")
        if exact:
            try:
                found = payloads.loads(held)
                self.flags |= found.flags
                return Side(untagged(found.value), "json")
            except (ValueError, FormatError):
                pass  # cut or damaged on its way: read on as any text, which flags it
        found = payloads.parsed(held)
        self.flags |= found.flags
        return Side(found.value, found.encoding)
