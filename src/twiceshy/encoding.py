"""Envelopes and crossings as lines of JSON: a header line, then a line a crossing; values in their tagged form.

The digest of an envelope is the sha256 over `lines`, in which names stand in their order (header without its digest), so spelling on disk does not matter. What is
written keeps the recorded order of names: an agent that prints what it got into a prompt is to print what it printed then.
"""

from __future__ import annotations

import hashlib
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

import msgspec
from msgspec import UNSET

from twiceshy.envelope import FORMAT, Crossing, Envelope
from twiceshy.errors import DigestMismatch, FormatError
from twiceshy.identity import plain, tagged, untagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import UnionType

T = TypeVar("T", bound=msgspec.Struct)

_encode = msgspec.json.Encoder(order="deterministic", enc_hook=tagged).encode
_write = msgspec.json.Encoder(enc_hook=tagged).encode
_decode = msgspec.json.Decoder(Crossing).decode
_SIDES = ("proposed", "seen", "raw", "shown", "chunks")
_TAG = b'"$'


def stored_line(crossing: Crossing) -> bytes:
    """A crossing whose sides are in tagged form, as a line without its newline, names in the order they have."""
    return _write(crossing)


def stored_of(line: bytes) -> Crossing:
    """The crossing a line holds, its sides still tagged, every value new. Raises msgspec.MsgspecError."""
    return _decode(line)


def crossing_line(crossing: Crossing, known: Mapping[str, bytes] | None = None) -> bytes:
    """One crossing as a line without its newline. known: the JSON of sides whose stored form it is. Raises Unrecordable for a value that has no stored form."""
    sides: dict[str, Any] = {}
    for side in _SIDES:
        value = getattr(crossing, side)
        if value is not UNSET and value is not None:
            text = (known.get(side) if known else None) or plain(value)
            sides[side] = tagged(value) if text is None else msgspec.Raw(text)
    return _encode(msgspec.structs.replace(crossing, **sides))


def written_line(crossing: Crossing) -> bytes:
    """One crossing as a line without its newline, names in the order they have. Raises Unrecordable for a value that has no stored form."""
    sides = {
        side: tagged(value) for side in _SIDES if (value := getattr(crossing, side)) is not UNSET and value is not None
    }
    return stored_line(msgspec.structs.replace(crossing, **sides))


def crossing_of(line: bytes) -> Crossing:
    """The crossing a line holds, every value new and free to change. Raises msgspec.MsgspecError or FormatError."""
    crossing = _decode(line)
    if _TAG not in line:
        return crossing
    restored = {side: untagged(value) for side in _SIDES if (value := getattr(crossing, side)) is not UNSET}
    return msgspec.structs.replace(crossing, **restored)


def record_line(record: msgspec.Struct) -> bytes:
    """Any other record as one line of JSON, the values in it tagged."""
    return _encode(_plain(record))


def written_record(record: msgspec.Struct) -> bytes:
    """The same, names in the order they have."""
    return _write(_plain(record))


@overload
def record_of(line: bytes, shape: type[T]) -> T: ...
@overload
def record_of(line: bytes, shape: UnionType) -> Any: ...
def record_of(line: bytes, shape: Any) -> Any:
    """The record a line holds; of a union of tagged records, the one it names. Raises msgspec.MsgspecError or FormatError."""
    return msgspec.convert(untagged(msgspec.json.decode(line)), shape, builtin_types=_KEPT)


def sealed(envelope: Envelope) -> Envelope:
    """The envelope with its digest set."""
    return msgspec.structs.replace(envelope, digest=digest_of(envelope))


def digest_of(envelope: Envelope) -> str:
    """The sha256, in hex, over the lines of the envelope less its digest."""
    return _digest(lines(msgspec.structs.replace(envelope, digest="")))


def lines(envelope: Envelope) -> list[bytes]:
    """The header line and a line a crossing, names sorted: what a digest is taken over."""
    return [_encode(_header_of(envelope)), *(crossing_line(crossing) for crossing in envelope.crossings)]


def written(envelope: Envelope) -> list[bytes]:
    """The same lines as they stand in a file, names in the order they have."""
    return [_write(_header_of(envelope)), *(written_line(crossing) for crossing in envelope.crossings)]


def _header_of(envelope: Envelope) -> dict[str, Any]:
    header: dict[str, Any] = _plain(msgspec.structs.replace(envelope, crossings=()))
    del header["crossings"]
    return header


def envelope_of(read: Sequence[bytes], where: object) -> Envelope:
    """The envelope that the lines hold, its format and digest checked.

    Raises FormatError for an unknown format or a line that cannot be read (with its number), DigestMismatch where the content is not what was sealed.
    """
    if not read:
        raise FormatError.at(where, "the envelope is empty.")
    header = _header(read[0], where)
    total = hashlib.sha256(_respelled_header(read[0]) + b"\n")
    crossings = []
    for number, line in enumerate(read[1:], start=2):
        respelled, crossing = _crossing_at(line, number, where)
        total.update(respelled + b"\n")
        crossings.append(crossing)
    if header.digest != total.hexdigest():
        raise DigestMismatch.of(where, stated=header.digest, actual=total.hexdigest())
    return msgspec.structs.replace(header, crossings=tuple(crossings))


def _respelled_header(line: bytes) -> bytes:
    """The header as this module spells it, less its digest: what the digest is taken over."""
    return _encode({**msgspec.json.decode(line), "digest": ""})


def _header(line: bytes, where: object) -> Envelope:
    try:
        found = msgspec.json.decode(line)
    except msgspec.DecodeError as broken:
        raise FormatError.at(where, f"not JSON: {broken}.", line=1) from None
    version = found.get("format") if isinstance(found, dict) else None
    if version != FORMAT:
        raise FormatError.unknown(
            where,
            version,
            known=FORMAT,
            upgrade="Install the twiceshy release that wrote it, or record the case again.",
        )
    try:
        return record_of(line, Envelope)
    except msgspec.MsgspecError as broken:
        raise FormatError.at(where, f"{broken}.", line=1) from None


def _crossing_at(line: bytes, number: int, where: object) -> tuple[bytes, Crossing]:
    """A crossing with its line as this module spells it."""
    try:
        return _encode(_decode(line)), crossing_of(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as broken:
        raise FormatError.at(where, f"{broken}.", line=number) from None


def _digest(content: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for line in content:
        total.update(line)
        total.update(b"\n")
    return total.hexdigest()


def _plain(value: Any) -> Any:
    """Records as objects, the values in them tagged; what is unknown is left out."""
    if isinstance(value, msgspec.Struct):
        held = ((encoded, getattr(value, name)) for name, encoded in _names(type(value)))
        return _tag(type(value)) | {name: _plain(item) for name, item in held if item is not UNSET}
    if isinstance(value, dict) and any(isinstance(item, msgspec.Struct) for item in value.values()):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple) and all(isinstance(item, msgspec.Struct) for item in value):
        return [_plain(item) for item in value]
    return tagged(value)


@cache
def _tag(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """What tells a tagged record from others of its union."""
    config = shape.__struct_config__
    return {config.tag_field: config.tag} if config.tag_field else {}


@cache
def _names(shape: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The fields of a record, as (attribute, name in JSON). Cached: msgspec evaluates annotations anew each time, 4 ms."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(shape))


# Types that `convert` would otherwise insist on reading from text.
_KEPT = (bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal, UUID)
