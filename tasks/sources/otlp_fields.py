"""The fields of an OTLP span in every spelling seen in the wild: ids, times, enums and attribute values (formats.md §3.1). One bad field sets aside one span."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, NamedTuple

import msgspec

from twiceshy.errors import Unrecordable

_HEX = re.compile(r"[0-9a-fA-F]+")
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_CODES = ("UNSET", "OK", "ERROR")
_MAX_NS = 2**63 - 1
TRACE_BYTES, SPAN_BYTES = 16, 8


class BadSpan(Exception):
    """A span that cannot be read; `reason` is one of QUARANTINE_REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


UNREADABLE = (BadSpan, Unrecordable, msgspec.MsgspecError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # fmt: skip
"""What reading one span may raise: a trace is written by whoever can write a file, and no type of a value in it can be relied on."""


def reason_of(problem: Exception) -> str:
    """The quarantine reason of one of UNREADABLE."""
    return problem.reason if isinstance(problem, BadSpan) else "bad_type"


def spelled(held: Any) -> bytes:
    """The bytes of a value set aside, for their digest; of one that is no JSON, or that is nested too deep, what can be had."""
    try:
        return msgspec.json.encode(held)
    except UNREADABLE:
        return str(type(held)).encode()


class Attributes(NamedTuple):
    """Attribute values by key, and the keys whose value was a kvlist or an array of them."""

    values: dict[str, Any]
    structured: frozenset[str]


def member(held: dict[str, Any], name: str) -> Any:
    """A member by its lowerCamelCase name, or by the snake_case spelling of it."""
    if name in held:
        return held[name]
    return held.get(re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower())


def hex_id(held: Any, width: int) -> str | None:
    """An id of `width` bytes as lower-case hex: from hex, base64, or base64 of hex text; None where there is none. Raises BadSpan."""
    if held is None or held == "":
        return None
    if not isinstance(held, str):
        raise BadSpan("bad_id")
    found = _hex(held, width)
    if found is None:
        raise BadSpan("bad_id")
    return found


def required_id(held: Any, width: int) -> str:
    """`hex_id` of an id that every span has; all zeros is none. Raises BadSpan: `no_trace_id` where a trace id is missing."""
    found = hex_id(held, width)
    if found is None:
        raise BadSpan("no_trace_id" if width == TRACE_BYTES else "bad_id")
    if not found.strip("0"):
        raise BadSpan("bad_id")
    return found


def nanoseconds(held: Any, flags: set[str]) -> int | None:
    """A time in ns since the epoch; None where it is unset. A float marks the span `precision_lost`. Raises BadSpan."""
    if held is None:
        return None
    if isinstance(held, float) and held.is_integer():
        flags.add("precision_lost")
        held = int(held)
    if isinstance(held, str) and held.isdecimal():
        held = int(held)
    if isinstance(held, bool) or not isinstance(held, int) or not 0 <= held <= _MAX_NS:
        raise BadSpan("bad_time")
    return held or None


def span_kind(held: Any) -> int:
    """The span kind as its number. Raises BadSpan for a name or number that there is none of: it is never taken for 0."""
    return _enum(held, _KINDS, "SPAN_KIND_")


def status_code(held: Any) -> int:
    """The status code as its number: 2 is an error. Raises BadSpan."""
    return _enum(held, _CODES, "STATUS_CODE_")


def attributes(held: Any) -> Attributes:
    """The attributes of a span, scope, resource or event; the last of a repeated key. Raises BadSpan."""
    if held is None:
        return Attributes({}, frozenset())
    if not isinstance(held, list):
        raise BadSpan("bad_type")
    values: dict[str, Any] = {}
    structured: set[str] = set()
    for pair in held:
        if not isinstance(pair, dict) or not isinstance(pair.get("key"), str):
            raise BadSpan("bad_type")
        value = any_value(pair.get("value"))
        values[pair["key"]] = value
        if isinstance(value, dict | list):
            structured.add(pair["key"])
    return Attributes(values, frozenset(structured))


def any_value(held: Any) -> Any:
    """An AnyValue unwrapped: text, bool, int, float, bytes, list or dict; None where it holds nothing. Raises BadSpan."""
    if held is None:
        return None
    if not isinstance(held, dict):
        raise BadSpan("bad_type")
    for name, read in _VALUES.items():
        found = member(held, name)
        if found is not None:
            try:
                return read(found)
            except (ValueError, TypeError, binascii.Error):
                raise BadSpan("bad_type") from None
    return None


def _hex(held: str, width: int) -> str | None:
    if len(held) == 2 * width and _HEX.fullmatch(held):
        return held.lower()
    found = _unpacked(held)
    if found is not None and len(found) == width:
        return found.hex()
    if found is not None and len(found) == 2 * width and _HEX.fullmatch(found.decode("latin-1")):
        return found.decode("latin-1").lower()
    return None


def _unpacked(held: str) -> bytes | None:
    try:
        return base64.b64decode(held.replace("-", "+").replace("_", "/"), validate=True)
    except (ValueError, binascii.Error):
        return None


def _enum(held: Any, names: tuple[str, ...], prefix: str) -> int:
    if held is None:
        return 0
    if isinstance(held, str):
        short = held.removeprefix(prefix)
        held = names.index(short) if short in names else int(held) if held.isdecimal() else None
    if isinstance(held, bool) or not isinstance(held, int) or held not in range(len(names)):
        raise BadSpan("bad_enum")
    return held


def _text(held: Any) -> str:
    if not isinstance(held, str):
        raise TypeError
    return held


def _int(held: Any) -> int:
    if isinstance(held, bool | float):
        raise TypeError
    return int(held)


def _bool(held: Any) -> bool:
    if not isinstance(held, bool):
        raise TypeError
    return held


def _list(held: Any) -> list[Any]:
    return [any_value(item) for item in held.get("values") or ()]


def _mapping(held: Any) -> dict[str, Any]:
    return attributes(held.get("values")).values


_VALUES: dict[str, Any] = {
    "stringValue": _text, "intValue": _int, "boolValue": _bool, "doubleValue": float, "arrayValue": _list, "kvlistValue": _mapping,
    "bytesValue": lambda held: base64.b64decode(held, validate=True),
}  # fmt: skip
