"""Long values of a stored record, each in a file of its own that is named by its content, so that an envelope stays readable in review."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from twiceshy.errors import DigestMismatch, FormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTES = 8192
"""A stored value longer than this stands in a blob."""

_MARK = b'"$blob"'

_LONG = (
    *((side,) for side in ("proposed", "seen", "raw", "shown", "chunks")),
    ("error", "message"),
    ("input", "system"),
    ("input", "user"),
    ("input", "goal"),
    ("disposition", "output"),
    ("disposition", "error", "message"),
)
"""Where a line of an envelope holds values of the run: the sides of a crossing; of the header its input and its end."""


def outsourced(line: bytes, folder: Path) -> bytes:
    """The line with each value over 8 kB replaced by {"$blob": sha256} and written under that name in the folder."""
    if len(line) <= BYTES:
        return line
    stored = msgspec.json.decode(line)
    for held, name in _places(stored):
        content = msgspec.json.encode(held[name])
        if len(content) > BYTES:
            sha256 = hashlib.sha256(content).hexdigest()
            folder.mkdir(exist_ok=True)
            (folder / sha256).write_bytes(content)
            held[name] = {"$blob": sha256}
    return msgspec.json.encode(stored)


def resolved(line: bytes, folder: Path) -> bytes:
    """The line with its values back in it. Raises FormatError for what is no blob name, InputError for a missing blob, DigestMismatch for a changed one."""
    if _MARK not in line:
        return line
    stored = msgspec.json.decode(line)
    for held, name in _places(stored):
        value = held[name]
        if isinstance(value, dict) and list(value) == ["$blob"]:
            held[name] = msgspec.json.decode(_content(folder, str(value["$blob"])))
    return msgspec.json.encode(stored)


def _places(stored: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Each place of a long value that is there: the object it stands in, and its name."""
    for *path, name in _LONG:
        held = stored
        for part in path:
            held = held.get(part) if isinstance(held, dict) else None
        if isinstance(held, dict) and name in held:
            yield held, name


def _content(folder: Path, name: str) -> bytes:
    if not name.isalnum():
        raise FormatError.at(folder, f"{name[:80]!r} is no blob name.")
    try:
        content = (folder / name).read_bytes()
    except FileNotFoundError:
        raise InputError.missing(folder / name, what="blob") from None
    actual = hashlib.sha256(content).hexdigest()
    if actual != name:
        raise DigestMismatch.of(folder / name, stated=name, actual=actual)
    return content
