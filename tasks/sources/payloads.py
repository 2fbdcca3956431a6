"""Payloads as the sources spell them, to values: JSON text (also encoded twice), Python repr, plain text; what is damaged stays text and is flagged, never repaired."""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from typing import Any, NamedTuple

import msgspec

MAX_NESTING = 4
MAX_DEPTH = 200
"""Of a value that is walked here; deeper, it has no canonical form either."""

_REPR_LIMIT = 1_000_000
_CAPS = frozenset({1000, 1024, 1028, 2048, 4096, 8192, 16384, 32768, 65535, 65536, 100_000})
"""Lengths at which exporters are known to cut values (formats.md §10)."""

_CUT_MARK = re.compile(r"(?:\.\.\.|…)\s*\[?truncated\]?\s*$", re.IGNORECASE)
_OPAQUE = re.compile(r"^(?:[A-Z]\w*\(.*\)|<[\w.]+ object at 0x[0-9a-f]+>)$", re.DOTALL)
_HASHED = re.compile(r"^(?:sha256:)?[0-9a-f]{64}$")
_NON_FINITE = re.compile(r"-?\b(?:NaN|Infinity)\b")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Payload(NamedTuple):
    """A value, how it was spelled, and the flags of formats.md §8 that reading it raised."""

    value: Any
    encoding: str
    flags: frozenset[str] = frozenset()


def loads(text: str | bytes) -> Payload:
    """The value of a JSON text. NaN and infinities are read, lone surrogates and invalid UTF-8 become U+FFFD (`lossy_text`). Raises ValueError."""
    held = decoded(text)
    if held.encoding == "json":
        return held
    flags = set(held.flags)
    return Payload(whole_text(held.value, flags), "json", frozenset(flags))


def decoded(text: str | bytes) -> Payload:
    """The value of a JSON text as it stands; encoding `lenient` where strings of it may hold lone surrogates that `whole_text` has to replace. Raises ValueError."""
    try:
        return Payload(msgspec.json.decode(text), "json")
    except (msgspec.MsgspecError, UnicodeDecodeError, UnicodeEncodeError, RecursionError):
        pass
    lossy: list[float] = []
    readable = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    try:
        value = json.loads(readable, parse_float=lambda digits: _float(digits, lossy))
    except RecursionError as deep:
        raise ValueError("nested too deep") from deep
    if _deeper(value, MAX_DEPTH):
        raise ValueError("nested too deep")
    return Payload(value, "lenient", frozenset({"precision_lost"} if lossy else ()))


def parsed(text: str) -> Payload:
    """The value a payload text stands for: an object or a list is decoded, however often it was encoded; a scalar stays the text it is.

    `nested_json:<depth>` when it was encoded more than once. What cannot be read stays text, with `truncated`, `opaque_repr` or `hashed_content`.
    """
    value: Any = text
    flags: set[str] = set()
    for depth in range(1, MAX_NESTING + 1):
        try:
            held = loads(value)
        except ValueError:
            return _unreadable(text) if depth == 1 else Payload(text, "text")
        value, flags = held.value, flags | held.flags
        if isinstance(value, dict | list):
            nested = {f"nested_json:{depth}"} if depth > 1 else set()
            return Payload(value, "json", frozenset(flags | nested))
        if not isinstance(value, str):
            break
    return Payload(text, "text")


def whole_text(value: Any, flags: set[str]) -> Any:
    """The value with every lone surrogate replaced by U+FFFD; adds `lossy_text` to `flags` where there was one."""
    if isinstance(value, str):
        if value.isascii() or not _SURROGATE.search(value):
            return value
        flags.add("lossy_text")
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [whole_text(item, flags) for item in value]
    if isinstance(value, dict):
        return {whole_text(name, flags): whole_text(item, flags) for name, item in value.items()}
    return value


def _unreadable(text: str) -> Payload:
    if text.lstrip()[:1] in ("{", "[", "("):
        found = _from_repr(text)
        if found is not None:
            return Payload(found, "pyrepr", frozenset({"pyrepr"}))
        if _CUT_MARK.search(text) or len(text) in _CAPS or _is_json_prefix(text):
            return Payload(text, "text", frozenset({"truncated"}))
    if _CUT_MARK.search(text):
        return Payload(text, "text", frozenset({"truncated"}))
    if _OPAQUE.match(text):
        return Payload(text, "text", frozenset({"opaque_repr"}))
    return Payload(text, "text", frozenset({"hashed_content"} if _HASHED.match(text) else ()))


def _from_repr(text: str) -> Any:
    """A container from its Python repr, or None. Only literals: replacing quotes breaks text, and evaluating runs it."""
    if len(text) > _REPR_LIMIT:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            found = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, dict | list | tuple | set) else None


def _is_json_prefix(text: str) -> bool:
    try:
        msgspec.json.decode(_NON_FINITE.sub("0", text).encode("utf-8", "replace"))
    except msgspec.DecodeError as broken:
        return str(broken) == "Input data was truncated"
    except RecursionError:
        return False
    return False


def _deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [
            item
            for held in level
            if isinstance(held, dict | list)
            for item in (held.values() if isinstance(held, dict) else held)
        ]
        if not level:
            return False
    return True


def _float(digits: str, lossy: list[float]) -> float:
    value = float(digits)
    if math.isinf(value):
        lossy.append(value)
    return value
