"""The source `inspect`: every sample of a log is a trace. One with events has a span an event; without them its messages are read as a transcript."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import payloads
from tasks.sources import source as source_files
from tasks.sources.entries import entries, inner
from tasks.sources.inspect_logs.sample import NAME, Sample
from tasks.sources.otlp_fields import UNREADABLE, reason_of, spelled
from tasks.sources.source import JSON_SUFFIXES, FileSource, Intake, Mapped, Raw
from twiceshy.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ZIP = b"PK\x03\x04"
_HEADERS = ("header.json", "_journal/start.json")
"""The second alone stands in a log whose run never came to its end."""


class Held(NamedTuple):
    """One sample as it stands, where, and the head of its log."""

    sample: Any
    place: str
    head: dict[str, Any]
    flags: frozenset[str]


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per event or message of every sample, and one for the sample itself; its scores."""
    intake = Intake(raw, NAME, harness_state)
    for held in _zipped(raw, intake) if raw.content.startswith(_ZIP) else _logged(raw, intake):
        try:
            Sample(held.sample, held.head, held.place, held.flags).enter(intake)
        except UNREADABLE as bad:
            intake.reject(reason_of(bad), "row", held.place, spelled(held.sample))
    return intake.mapped()


def _logged(raw: Raw, intake: Intake) -> Iterator[Held]:
    for entry in entries(intake):
        listed = entry.held.get("samples")
        if not inner(entry.held, "eval"):
            entry.reject(intake, "unknown_container")
            continue
        if not isinstance(listed, list) or not listed:
            raise FormatError.at(raw.name, "a log without samples.", hint="Log the samples, and copy the whole log.")
        for number, sample in enumerate(listed):
            yield Held(sample, f"{entry.place}, sample {number}", entry.held, entry.flags)


def _zipped(raw: Raw, intake: Intake) -> Iterator[Held]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw.content)) as packed:
            if sum(member.file_size for member in packed.infolist()) > source_files.MAX_UNPACKED_BYTES:
                raise source_files.too_large(raw.name)
            names = sorted(name for name in packed.namelist() if name.startswith("samples/") and name.endswith(".json"))
            head = next((_read(packed, name).value for name in _HEADERS if name in packed.namelist()), None)
            if not isinstance(head, dict) or not inner(head, "eval") or not names:
                raise FormatError.at(
                    raw.name, "no log of Inspect with samples.", hint="Expected header.json and samples/*.json."
                )
            for name in names:
                try:
                    held = _read(packed, name)
                except ValueError:
                    intake.reject("bad_json", "row", name, packed.read(name))
                else:
                    yield Held(held.value, name, head, held.flags)
    except RuntimeError:  # of a member with a password; NotImplementedError is one too
        hint = "Convert it: inspect log convert --to json."
        raise FormatError.at(
            raw.name, "its members are compressed in a way that cannot be read here.", hint=hint
        ) from None
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise FormatError.at(raw.name, "damaged zip.", hint="Copy the file again.") from None


def _read(packed: zipfile.ZipFile, name: str) -> payloads.Payload:
    """A member of the zip. Raises ValueError."""
    return payloads.loads(packed.read(name))


source = FileSource(NAME, spans, JSON_SUFFIXES | {".eval"})
