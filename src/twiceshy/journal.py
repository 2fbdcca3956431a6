"""The journal of a replayed run: a line before each answer, a line as each passage closes, one where the run diverges, one where it ends.

The candidate's process writes it into the parent's pipe; the parent reads it back as a transcript. What was written stays written whatever the candidate does next.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from twiceshy.encoding import crossing_line, crossing_of, record_line, record_of, stored_line
from twiceshy.envelope import Crossing, Disposition, Record
from twiceshy.errors import FormatError
from twiceshy.identity import tagged, untagged
from twiceshy.outcome import AnsweredBy, BoundaryState
from twiceshy.transcript import Diverged, Drift, Played, RowChange, Transcript

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twiceshy.boundary import Closing
    from twiceshy.envelope import ErrorRecord


class Line(Protocol):
    """Where a journal goes: one call a line, without its newline, kept before the call returns."""

    def __call__(self, line: bytes, /) -> object:
        """Keep one line."""
        ...


class _Ahead(Record, frozen=True, kw_only=True, omit_defaults=True):
    boundary: BoundaryState
    answered_by: AnsweredBy | None = None
    matched: str | None = None
    stale: bool = False
    drift: Drift | None = None
    idempotency_key: Any = None
    """In its tagged form."""
    exercised: bool = True
    changes: list[msgspec.Raw] = []
    unsettled: list[str] = []
    settled: bool = False
    """What was returned went back as it was: the passage is over."""


_encode = msgspec.json.Encoder(order="deterministic").encode


def _settled(by: AnsweredBy) -> tuple[bytes, bytes]:
    """What stands before and behind the matched place in the line of a passage that is over at once."""
    note = _Ahead(boundary=BoundaryState.FROZEN, answered_by=by, matched="@", exercised=False, settled=True)
    head, _, tail = _encode(note).partition(b"@")
    return b"A\t" + head, tail + b"\t"


_note = msgspec.json.Decoder(_Ahead).decode
_SETTLED = {by: _settled(by) for by in (AnsweredBy.RECORDED, AnsweredBy.REPEATED)}


class Journal:
    """Writes the lines: `A` ahead of an answer, `S` ahead of a chunk of it, `C` as it closes, `N` at what is no passage, `D` at a divergence, `F` at a fault of ours, `K` where a signal ended the run, `E` at its end."""

    def __init__(self, keep: Line) -> None:
        self._keep = keep

    def ahead(self, played: Played, known: Mapping[str, bytes] | None = None, *, settled: bool = False) -> None:
        """A crossing and what will be answered, before the answer returns. known: as for `crossing_line`. settled: it goes back as it is, and no line follows."""
        note = _Ahead(
            boundary=played.boundary, answered_by=played.answered_by, matched=played.matched, stale=played.stale,
            changes=[msgspec.Raw(record_line(change)) for change in played.changes], unsettled=played.unsettled,
            drift=played.drift, exercised=played.exercised, settled=settled,
            idempotency_key=None if played.idempotency_key is None else tagged(played.idempotency_key),
        )  # fmt: skip
        self._keep(b"A\t" + _encode(note) + b"\t" + crossing_line(played.crossing, known))

    def settled(self, crossing: Crossing, by: AnsweredBy, matched: str) -> None:
        """A frozen crossing, its sides in stored form, whose recorded answer goes back as it is. The line that `ahead` writes of it."""
        head, tail = _SETTLED[by]
        self._keep(head + matched.encode() + tail + stored_line(crossing))

    def closed(self, crossing: Crossing, closing: Closing, error: ErrorRecord | None) -> None:
        """How the passage ended: only what is new."""
        after = Crossing(
            seq=crossing.seq,
            sub=crossing.sub,
            kind=crossing.kind,
            name=crossing.name,
            raw=closing.raw,
            shown=closing.shown,
            error=error,
        )
        self._keep(b"C\t" + crossing_line(after))

    def part(self, crossing: Crossing, chunk: Any) -> None:
        """One chunk of a streamed output, before it is given on."""
        taken = Crossing(seq=crossing.seq, sub=crossing.sub, kind=crossing.kind, name=crossing.name, chunks=[chunk])
        self._keep(b"S\t" + crossing_line(taken))

    def noted(self, asked: str) -> None:
        """A request that is no passage, by its name."""
        self._keep(b"N\t" + msgspec.json.encode(asked))

    def diverged(self, divergence: Diverged) -> None:
        """The first divergence; nothing may follow it."""
        self._keep(b"D\t" + record_line(divergence))

    def fault(self, problem: str) -> None:
        """Our own failure, which ends the run; nothing may follow it."""
        self._keep(b"F\t" + msgspec.json.encode(problem))

    def signalled(self, name: str) -> None:
        """A signal that was sent ended the run before its end. name: as SIGKILL."""
        self._keep(b"K\t" + msgspec.json.encode(name))

    def ended(self, disposition: Disposition) -> None:
        """The run returned or raised."""
        self._keep(b"E\t" + record_line(disposition))


def transcript_of(lines: Iterable[bytes]) -> Transcript:
    """The transcript that a journal's lines tell. Stops at the first divergence or fault; a line cut short by a crash is left out, as is all after it."""
    steps: dict[tuple[int, int], Played] = {}
    ends: dict[bytes, bytes] = {}
    noted: list[str] = []
    with suppress(msgspec.MsgspecError, FormatError, KeyError):
        for line in lines:
            mark, _, content = line.partition(b"\t")
            if mark == b"A" and not _open(steps, content):
                ends[b"F"] = b'"two passages of this run have one number"'
                break
            if mark == b"A":
                continue
            if mark == b"C":
                _close(steps, crossing_of(content))
            elif mark == b"S":
                _append(steps, crossing_of(content))
            elif mark == b"N":
                noted.append(msgspec.json.decode(content, type=str))
            else:
                ends[mark] = content
            if mark in (b"D", b"F"):
                break
    return Transcript(
        played=[steps[place] for place in sorted(steps)],
        noted=noted,
        divergence=record_of(ends[b"D"], Diverged) if b"D" in ends else None,
        disposition=record_of(ends[b"E"], Disposition) if b"E" in ends else None,
        fault=msgspec.json.decode(ends[b"F"], type=str) if b"F" in ends else None,
        crash="signal" if b"K" in ends else None,
        signal=msgspec.json.decode(ends[b"K"], type=str) if b"K" in ends else None,
    )


def _open(steps: dict[tuple[int, int], Played], content: bytes) -> bool:
    """Add a crossing. False where its place is taken: one of the two would be lost."""
    written, _, line = content.partition(b"\t")
    note, crossing = _note(written), crossing_of(line)
    if note.settled:
        crossing = msgspec.structs.replace(crossing, shown=crossing.raw)
    if (crossing.seq, crossing.sub) in steps:
        return False
    steps[crossing.seq, crossing.sub] = Played(
        crossing=crossing, boundary=note.boundary, answered_by=note.answered_by, matched=note.matched, stale=note.stale,
        drift=note.drift, idempotency_key=untagged(note.idempotency_key), exercised=note.exercised,
        changes=[record_of(bytes(change), RowChange) for change in note.changes], unsettled=note.unsettled,
    )  # fmt: skip
    return True


def _append(steps: dict[tuple[int, int], Played], taken: Crossing) -> None:
    played = steps[taken.seq, taken.sub]
    if played.crossing.chunks is not None and taken.chunks is not None:
        played.crossing.chunks.extend(taken.chunks)
    else:
        crossing = msgspec.structs.replace(played.crossing, chunks=taken.chunks)
        steps[taken.seq, taken.sub] = msgspec.structs.replace(played, crossing=crossing)


def _close(steps: dict[tuple[int, int], Played], after: Crossing) -> None:
    played = steps[after.seq, after.sub]
    raw = played.crossing.raw if after.raw is UNSET else after.raw
    crossing = msgspec.structs.replace(
        played.crossing, raw=raw, shown=after.shown, error=after.error or played.crossing.error
    )
    steps[after.seq, after.sub] = msgspec.structs.replace(played, crossing=crossing)
