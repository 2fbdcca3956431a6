"""When two values are the same value, and when two calls are the same call (semantics.md §3).

`canonical` is the one canonicaliser: recorder, replayer, pipeline and graders key through it and through nothing else. Its version is the prefix of every key.
`tagged` and `untagged` are the lossless storage form of the same values: JSON, with tags for what JSON has no word for.
"""

from __future__ import annotations

import base64
import hashlib
import math
import unicodedata
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import msgspec

from twiceshy.errors import FormatError, Unrecordable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

VERSION = "c1"

# One encoder: the encoders in view differ on escapes, float text and integers beyond 64 bits, and a key mixes badly.
_encode = msgspec.json.Encoder(order="deterministic").encode
_written = msgspec.json.Encoder().encode

# Beyond this depth Python's own recursion limit would decide, and differently in each process.
_MAX_DEPTH = 200


def canonical(value: object) -> bytes:
    """The canonical UTF-8 JSON of a value: equal bytes if and only if the values are equal as JSON values.

    750 == 750.0, key order and NFC spelling do not matter; "1" != 1 != true; list order matters; NaN, infinities, bytes and non-string keys are tagged.
    Raises Unrecordable for a value of another type or nested deeper than 200.
    """
    text = _plain(value, _decode_uneven)
    return _encode(_normal(value, 0)) if text is None else text


def ordered(value: object) -> bytes:
    """The canonical JSON of a value but for its names, which keep their order: for what is told again, and never compared. Raises Unrecordable."""
    return _written(value if _plain(value, _decode_uneven) is not None else _normal(value, 0))


def digest(value: object) -> str:
    """The sha256, in hex, of the canonical bytes of a value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def key(name: str, seen: object) -> str:
    """The key of a call: "c1:" and the sha256 of (name, seen). `seen` has been through its tool's policy already."""
    return f"{VERSION}:{digest([name, seen])}"


encoded = _encode
"""The JSON of a value as keys are made of it; what JSON has no word for is folded, so this alone compares nothing."""


def keyed(name: str, seen: object) -> tuple[str, bytes | None]:
    """The key of a call, and the JSON of its arguments where that is their canonical and their stored form alike."""
    text = _plain(seen, _decode_uneven)
    if text is None or not name.isascii():
        return key(name, seen), None
    return f"{VERSION}:{hashlib.sha256(b'[' + _encode(name) + b',' + text + b']').hexdigest()}", text


def equal(left: object, right: object) -> bool:
    """Whether two values are one value under identity rules."""
    stored = _plain(left, _decode)
    if stored is not None and stored == _plain(right, _decode):
        return True
    return canonical(left) == canonical(right)


def plain(value: object) -> bytes | None:
    """The JSON of a value that is its own stored form, as `tagged` gives it; None for any other."""
    return _plain(value, _decode)


def tagged(value: object) -> Any:
    """The lossless JSON form of a value; `untagged` gives the value back, types included. Raises Unrecordable.

    A value that is plain JSON already is its own form and comes back as it is, not copied.
    """
    return value if plain(value) is not None else _stored(value, 0)


def untagged(value: object) -> Any:
    """The value that `tagged` stored. Raises FormatError on a tag this release does not know."""
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag.startswith("$"):
            return _restored(tag, content)
    return {name: untagged(item) for name, item in value.items()}


def _plain(value: object, decode: Callable[[bytes], Any]) -> bytes | None:
    """The JSON of a value that comes back from it as it was: exact JSON types, ASCII text, no name that could read as a tag. Most are, and need no walk.

    Two passes in C take a third of the time of one in Python; what the encoder would fold (a date, bytes, a set, a tuple, NaN) does not come back equal.
    """
    try:
        text = _encode(value)
        deep = text.count(b"[") + text.count(b"{") > _MAX_DEPTH
        return text if text.isascii() and not deep and b'"$' not in text and decode(text) == value else None
    except Exception:  # noqa: BLE001 - whatever the encoder, or `==` of a class of the candidate, cannot do
        return None


_BARE = frozenset({str, int, float, bool, type(None)})
_BARING: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)


class _Whole(Exception):
    """A float without a fraction, which is the integer it equals."""


def _uneven(text: str) -> float:
    number = float(text)
    if number.is_integer():
        raise _Whole
    return number


_decode = msgspec.json.Decoder().decode
_decode_uneven = msgspec.json.Decoder(float_hook=_uneven).decode


def _normal(value: object, depth: int) -> object:
    """The canonical tree. The common cases come first and inline: this is the hot path of every crossing."""
    if isinstance(value, str):
        return _bare(value) if value.isascii() else _tag_surrogates(unicodedata.normalize("NFC", value))
    if value is None or isinstance(value, bool | int):
        return _bare(value)
    if isinstance(value, float):
        return _normal_float(value)
    if isinstance(value, dict):
        return _mapping(value, depth, _normal, ordered=False)
    if isinstance(value, list | tuple | set | frozenset):
        items = [_normal(item, depth + 1) for item in value] if depth < _MAX_DEPTH else _refuse(value)
        return items if isinstance(value, list | tuple) else {"$set": sorted(items, key=_encode)}
    return _scalar(value)


def _stored(value: object, depth: int) -> object:
    if isinstance(value, str):
        return _tag_surrogates(value)
    if value is None or isinstance(value, bool | int):
        return _bare(value)
    if isinstance(value, float):
        return _bare(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, dict):
        return _mapping(value, depth, _stored, ordered=True)
    if isinstance(value, list | tuple | set | frozenset):
        return _stored_items(value, depth)
    return _scalar(value)


def _stored_items(value: Collection[object], depth: int) -> object:
    items = [_stored(item, depth + 1) for item in value] if depth < _MAX_DEPTH else _refuse(value)
    if isinstance(value, list):
        return items
    return {"$tuple": items} if isinstance(value, tuple) else {"$set": sorted(items, key=_encode)}


def _normal_float(value: float) -> object:
    if not math.isfinite(value):
        return {"$float": repr(float(value))}
    return int(value) if value.is_integer() else _bare(value)


def _bare(value: object) -> object:
    """A value of a JSON type as nothing but that: libraries give texts and numbers of classes of their own."""
    kind = type(value)
    if kind in _BARE:
        return value
    return next(bare(value) for of, bare in _BARING if isinstance(value, of))


def _tag_surrogates(value: str) -> object:
    """Lone surrogates cannot be UTF-8, so the text is stored as hex of UTF-16: reversible, and equal only to itself."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return {"$str": value.encode("utf-16-le", "surrogatepass").hex()}
    return _bare(value)


def _mapping(
    value: Mapping[object, object], depth: int, each: Callable[[object, int], object], *, ordered: bool
) -> object:
    """A JSON object; pairs under "$map" where a name is no string, could be read as a tag, or two names are one in NFC."""
    if depth >= _MAX_DEPTH:
        _refuse(value)
    pairs = [(each(name, depth + 1), each(item, depth + 1)) for name, item in value.items()]
    plain = {name: item for name, item in pairs if isinstance(name, str) and not name.startswith("$")}
    if len(plain) == len(pairs):
        return plain
    return {"$map": pairs if ordered else sorted(pairs, key=lambda pair: _encode(pair[0]))}


def _scalar(value: object) -> object:
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(value).decode()}
    for tag, kind, to_text, _ in _SCALARS:
        if type(value) is kind:
            return {tag: to_text(value)}
    return _refuse(value)


def _refuse(value: object) -> NoReturn:
    raise Unrecordable.of(value)


def _restored(tag: str, content: Any) -> object:
    restore = _RESTORE.get(tag)
    if restore is None:
        raise FormatError(f"unknown value tag {tag!r}. Known: {', '.join(sorted(_RESTORE))}.")
    try:
        return restore(content)
    except (TypeError, ValueError, ArithmeticError) as broken:
        raise FormatError(f"a {tag!r} tag holds what it cannot hold ({type(broken).__name__}).") from None


def _iso(value: Any) -> str:
    return str(value.isoformat())


# tag, type, to text, from text. datetime before date: one is a subclass of the other, and `type(value) is` tells them apart.
_SCALARS: tuple[tuple[str, type, Callable[[Any], object], Callable[[Any], object]], ...] = (
    ("$datetime", datetime, _iso, datetime.fromisoformat),
    ("$date", date, _iso, date.fromisoformat),
    ("$time", time, _iso, time.fromisoformat),
    (
        "$seconds",
        timedelta,
        lambda value: [value.days, value.seconds, value.microseconds],
        lambda held: timedelta(*held),
    ),
    ("$decimal", Decimal, str, Decimal),
    ("$uuid", UUID, str, UUID),
)

_RESTORE: dict[str, Callable[[Any], object]] = {
    "$float": float,
    "$str": lambda held: bytes.fromhex(held).decode("utf-16-le", "surrogatepass"),
    "$bytes": partial(base64.b64decode, validate=True),
    "$tuple": lambda held: tuple(untagged(item) for item in held),
    "$set": lambda held: {untagged(item) for item in held},
    "$map": lambda held: {untagged(name): untagged(item) for name, item in held},
    **{tag: from_text for tag, _, _, from_text in _SCALARS},
}
