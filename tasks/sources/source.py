"""What a trace format gives the pipeline: `fetch` does the I/O, `spans` is pure; and the files that most of them are."""

from __future__ import annotations

import gzip
import hashlib
import io
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import zstandard

from tasks.sources import evidence
from tasks.sources.otlp_fields import UNREADABLE
from tasks.sources.records import Score, Span, mistyped, score_frame, span_frame, span_row
from tasks.sources.spool import Spool
from twiceshy.errors import FormatError, InfrastructureError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import polars as pl

JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
_PACKED = (".gz", ".zst")
MAX_SPAN_BYTES = 16_000_000
"""A span that is larger is set aside as `too_large`."""
MAX_UNPACKED_BYTES = 2_000_000_000
"""What a packed file may hold: a few kB of zeros packed twice would else fill the memory of the machine."""
_STEP_BYTES = 4096
"""Of a packed file unpacked at once: zstd packs at most 128 kB into 4 bytes, so a step gives some 130 MB at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """Where the API of a source is, its keys by the names of their variables, and where its pages are kept until they are taken in."""

    url: str
    keys: Mapping[str, str] = field(repr=False)
    spool: Spool = field(default_factory=Spool, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What to pull: files or folders of files, or an API; and the time in which a trace must have begun, ns since the epoch, end excluded."""

    paths: tuple[Path, ...] = ()
    api: Api | None = None
    start_ns: int | None = None
    end_ns: int | None = None


class Raw(NamedTuple):
    """One fetched container. `content` is unpacked; digest (sha256) and size (bytes) are of the file as it lies."""

    name: str
    content: bytes
    digest: str
    size: int


class _TooLarge(Exception):
    """A packed file that holds more than may be unpacked."""


class Rejected(NamedTuple):
    """One line or span set aside: its reason (QUARANTINE_REASONS), where it stands in the file, and the digest of its bytes."""

    reason: str
    unit: str
    locator: str
    content_digest: str
    byte_offset: int | None = None
    trace_id: str | None = None
    span_id: str | None = None


class AccountsDoNotBalance(InfrastructureError):
    """A mapper lost or invented a span."""

    @classmethod
    def of(cls, name: str, *, read: int, out: int, set_aside: int) -> Self:
        """The three counts."""
        return cls(
            f"{name}: {read} spans read, but {out} given and {set_aside} set aside. No span may be lost: this is a fault of the source's mapper."
        )


class Mapped(NamedTuple):
    """What a container holds. spans: one row per span read, exact duplicates included (`SpanRecords`). spans_in: spans read, counted by themselves."""

    spans: pl.DataFrame
    scores: pl.DataFrame
    rejected: list[Rejected]
    spans_in: int


class Mapper(Protocol):
    """What makes spans of one container; pure."""

    def __call__(self, raw: Raw, *, harness_state: str) -> Mapped:
        """The canonical spans of one container."""
        ...


class Source(Protocol):
    """A trace format. Third parties register one under the entry-point group `twiceshy.sources`."""

    @property
    def name(self) -> str:
        """As it is asked for, and as the rows say."""
        ...

    def fetch(self, window: Window) -> Iterator[Raw]:
        """The containers of a window, to the end, in the order of their names. Raises InputError for what is missing, empty or damaged."""
        ...

    def spans(self, raw: Raw, *, harness_state: str) -> Mapped:
        """The canonical spans of one container; pure. Raises FormatError where the container is not of this format: never 0 spans."""
        ...


@dataclass(slots=True)
class Intake:
    """Collects what one container holds and keeps the account of it."""

    raw: Raw
    source: str
    harness_state: str
    scores: list[Score] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    known: bool = False
    """Whether something of this format was in it that is no span: an export of scores alone is no error."""
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _read: int = 0

    def take(self, span: Span, locator: str) -> None:
        """One span read; set aside as `too_large`, or as `bad_type` where a value of it has no canonical form or is of another type."""
        ids, content = (span.trace_id, span.span_id), (span.attributes_json or "").encode("utf-8", "replace")
        reason = "too_large" if len(content) > MAX_SPAN_BYTES else "bad_type" if mistyped(span) else None
        if reason is not None:
            self.reject(reason, "span", locator, content, ids=_as_texts(ids))
            return
        try:
            self._rows.append(span_row(span, source=self.source, harness_state=self.harness_state))
        except UNREADABLE:
            self.reject("bad_type", "span", locator, content, ids=_as_texts(ids))
        else:
            self._read += 1

    def reject(
        self, reason: str, unit: str, locator: str, content: bytes, *, byte_offset: int | None = None,
        ids: tuple[str | None, str | None] = (None, None),
    ) -> None:  # fmt: skip
        """One line or span read and set aside; ids: of its trace and span, where they can be read."""
        self._read += 1
        self.rejected.append(Rejected(reason, unit, locator, hashlib.sha256(content).hexdigest(), byte_offset, *ids))

    def mapped(self) -> Mapped:
        """All of it. Raises FormatError where nothing was of this format, AccountsDoNotBalance where a span got lost."""
        if not self._rows and not self.known:
            known = {row.reason for row in self.rejected}
            other = evidence.source_of(self.raw.content)
            like = (
                f"It looks like --source {other}."
                if other not in (None, self.source)
                else "Check --source, and that the file holds whole records of that format."
            )
            raise FormatError.at(
                self.raw.name, f"no {self.source} span in it ({', '.join(sorted(known)) or 'unknown_container'}).", hint=like
            )  # fmt: skip
        if self._read != len(self._rows) + len(self.rejected):
            raise AccountsDoNotBalance.of(
                self.raw.name, read=self._read, out=len(self._rows), set_aside=len(self.rejected)
            )
        scores = score_frame(self.scores, source=self.source, harness_state=self.harness_state)
        return Mapped(span_frame(self._rows), scores, self.rejected, self._read)


@dataclass(frozen=True, slots=True)
class FileSource:
    """A source whose containers are files. suffixes: of the files that it takes from a folder; a file that is named itself may have any."""

    name: str
    mapper: Mapper
    suffixes: frozenset[str] = JSON_SUFFIXES

    def fetch(self, window: Window) -> Iterator[Raw]:
        """The files of the window. Raises InputError for one that names an API."""
        if window.api is not None:
            raise InputError(
                f"source {self.name!r} is read from files, and {window.api.url} is an address. Name a file or a folder."
            )
        return files(window, self.suffixes)

    def spans(self, raw: Raw, *, harness_state: str) -> Mapped:
        """The canonical spans of one file."""
        try:
            return self.mapper(raw, harness_state=harness_state)
        except UNREADABLE as odd:
            if isinstance(odd, FormatError):
                raise
            hint = "Check --source, and that the file holds whole records of that format."
            raise FormatError.at(
                raw.name, f"a value in it is none that {self.name} has ({type(odd).__name__}).", hint=hint
            ) from None


def files(window: Window, suffixes: frozenset[str]) -> Iterator[Raw]:
    """Each file of the window, unpacked where it is gzip or zstd; a folder gives those under it with one of the suffixes, by name. Raises InputError, FormatError."""
    for path in window.paths:
        if path.is_dir():
            found = sorted(item for item in path.rglob("*") if item.is_file() and _taken(item, suffixes))
            if not found:
                raise InputError.missing(path, what=f"{', '.join(sorted(suffixes))} file under this folder")
            yield from (_read(item, item.relative_to(path).as_posix()) for item in found)
        else:
            yield _read(path, path.name)


def lines(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(number from 1, byte offset, line) of every line that is not blank. Cut at newlines only: strings may hold U+2028."""
    offset = 0
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield number, offset, line
        offset += len(line) + 1


def too_large(where: object) -> FormatError:
    """The error of a packed file that holds more than may be unpacked."""
    hint = "Unpack it and cut it into smaller files."
    return FormatError.at(where, f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes.", hint=hint)


def _as_texts(ids: tuple[object, object]) -> tuple[str | None, str | None]:
    """The ids as far as they are texts that can be written down."""
    trace, span = (held if isinstance(held, str) and held.isprintable() else None for held in ids)
    return trace, span


def _taken(path: Path, suffixes: frozenset[str]) -> bool:
    return Path(_bare(path.name)).suffix in suffixes and not path.name.startswith(".")


def _bare(name: str) -> str:
    """The name without what says how the file is packed."""
    return next((name.removesuffix(packed) for packed in _PACKED if name.endswith(packed)), name)


def _read(path: Path, name: str) -> Raw:
    try:
        held = path.read_bytes()
    except FileNotFoundError:
        raise InputError.missing(path) from None
    except OSError as broken:
        raise InputError.at(path, f"cannot be read: {broken.strerror or type(broken).__name__}.") from None
    content = _unpacked(path, held)
    if not content.strip():
        raise FormatError.at(path, "the file is empty.")
    return Raw(_bare(name), content, hashlib.sha256(held).hexdigest(), len(held))


def _unpacked(path: Path, held: bytes) -> bytes:
    """The content, unpacked by what the bytes say, whatever the name: gzip (also several members) or zstd (also several frames)."""
    try:
        if held.startswith(b"\x1f\x8b"):
            return _members(held)
        if held.startswith(b"\x28\xb5\x2f\xfd"):
            return _frames(held)
    except _TooLarge:
        raise too_large(path) from None
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        raise FormatError.at(path, "damaged gzip or zstd.", hint="Copy the file again.") from None
    return held


def _members(held: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(held)) as packed:
        found = packed.read(MAX_UNPACKED_BYTES + 1)
    if len(found) > MAX_UNPACKED_BYTES:
        raise _TooLarge
    return found


def _frames(held: bytes) -> bytes:
    """Every zstd frame of a file. A reader over the stream gives what it has of a frame that is cut, without a word."""
    found, at = bytearray(), 0
    while at < len(held):
        frame = zstandard.ZstdDecompressor().decompressobj()
        at += _unpack(frame, memoryview(held)[at:], found)
    return bytes(found)


def _unpack(frame: Any, held: memoryview, found: bytearray) -> int:
    """Add what one frame holds; how long it is."""
    for at in range(0, len(held), _STEP_BYTES):
        found += frame.decompress(held[at : at + _STEP_BYTES])
        if len(found) > MAX_UNPACKED_BYTES:
            raise _TooLarge
        if frame.eof:
            return min(at + _STEP_BYTES, len(held)) - len(frame.unused_data)
    raise EOFError
