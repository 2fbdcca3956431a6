"""Kept runs: one run as a folder, so that a case can be drafted of it (`twiceshy case from-run`). Written only where it was asked for.

<run>/run.json       what it was: how it was made, of which case and candidate, what it came to, and each answer in it that nobody recorded
envelope.jsonl, blobs/   its crossings as an envelope, those answers marked `simulated`
"""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from twiceshy import casefile, encoding
from twiceshy.acceptance import answer_digest
from twiceshy.casefile import Unrecorded
from twiceshy.envelope import Disposition, Envelope, Kind, Record
from twiceshy.errors import DigestMismatch, FormatError, InputError
from twiceshy.identity import digest, equal
from twiceshy.matching import CALLS
from twiceshy.outcome import AnsweredBy, Outcome
from twiceshy.results import broken

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twiceshy.casefile import LoadedCase
    from twiceshy.envelope import Crossing, Versions
    from twiceshy.exploring import Told
    from twiceshy.grading import TrialVerdict
    from twiceshy.transcript import Played, Transcript

FORMAT = "twiceshy/run/1"
RUN = "run.json"
ANOTHER = "the output of another request"
"""Who answered where a frozen output was served although the model was asked something else than the record says."""

_TRACE_ID = 32
_ANSWERED = CALLS | {Kind.MODEL, Kind.USER, Kind.HUMAN, Kind.HANDOFF}
_SERVED = frozenset({AnsweredBy.RECORDED, AnsweredBy.REPEATED})
_OBSERVED = _SERVED | {AnsweredBy.LIVE, AnsweredBy.GUARD}
"""Answers of the record and of the candidate's own code. A world, a template or a declared answer is a person's word, and was recorded by nobody."""


class KeptRun(Record, frozen=True, kw_only=True, omit_defaults=True):
    """run.json. case, case_digest, mode, isolation, outcome, failed_by, transcript: of a replay or an exploration; None of a recording."""

    format: str
    source: Literal["explore", "replay", "record"]
    workflow: str
    candidate: str
    case: str | None = None
    case_digest: str | None = None
    mode: str | None = None
    isolation: str | None = None
    outcome: Outcome | None = None
    failed_by: list[str] = []
    """The ids that made it FAILED."""
    transcript: str | None = None
    harness_version: str = ""
    simulated: list[Unrecorded] = []
    envelope_digest: str
    digest: str = ""


class Kept(NamedTuple):
    """A run that can be written, or that was read: what it was, and its crossings."""

    run: KeptRun
    envelope: Envelope


class Replayed(NamedTuple):
    """How a run of a case was made: by `explore` or `replay`, of which candidate, in which mode, under which isolation, with which versions."""

    source: Literal["explore", "replay"]
    candidate: str
    mode: str
    isolation: str
    versions: Versions


def of_replay(
    loaded: LoadedCase, transcript: Transcript, verdict: TrialVerdict, how: Replayed, told: Iterable[Told] = ()
) -> Kept:
    """The run of one trial of a case. told: what was simulated in it, and by whom."""
    names = {one.place: one.by for one in told}
    record = {crossing.place: crossing for crossing in loaded.envelope.crossings}
    crossings, simulated = [], []
    for played in transcript.played:
        by = _unrecorded(played, record, names)
        crossing = msgspec.structs.replace(played.crossing, simulated=by is not None)
        crossings.append(crossing)
        if by is not None:
            boundary = f"{crossing.kind}:{crossing.name}"
            simulated.append(Unrecorded(place=crossing.place, boundary=boundary, by=by, digest=answer_digest(crossing)))
    envelope = _envelope(loaded, transcript, crossings, how)
    run = KeptRun(
        format=FORMAT, source=how.source, workflow=envelope.workflow, candidate=how.candidate, case=loaded.case.id,
        case_digest=loaded.digest, mode=how.mode, isolation=how.isolation, outcome=verdict.outcome, failed_by=broken(verdict),
        transcript=transcript.digest, harness_version=version("twiceshy"), simulated=simulated, envelope_digest=envelope.digest,
    )  # fmt: skip
    return Kept(_sealed(run), envelope)


def folder_of(label: str) -> str:
    """The folder of a judging mode's run, by the label of the mode: `cut-point-after-3`."""
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")


def of_recording(envelope: Envelope, candidate: str) -> Kept:
    """The run that `twiceshy record` made: all of it is a record."""
    run = KeptRun(
        format=FORMAT, source="record", workflow=envelope.workflow, candidate=candidate,
        harness_version=version("twiceshy"), envelope_digest=envelope.digest,
    )  # fmt: skip
    return Kept(_sealed(run), envelope)


def refuse_existing(path: Path | None) -> None:
    """Raise InputError where a run cannot be kept because something stands there already."""
    if path is not None and path.exists():
        raise InputError(f"--run {path}: it exists already; a kept run is never overwritten.")


def save(path: Path, kept: Kept) -> None:
    """Write a run whole: under another name first, then renamed. Raises InputError where the path exists."""
    refuse_existing(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        casefile.save_envelope(temporary / "envelope.jsonl", kept.envelope)
        text = msgspec.json.format(msgspec.json.encode(kept.run), indent=2)
        (temporary / RUN).write_bytes(text + b"\n")
        temporary.chmod(0o755)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load(path: Path) -> Kept:
    """The run in a folder, or the one run in a folder of runs. Raises InputError, FormatError or DigestMismatch: with what is wrong where."""
    where = _found(path)
    run = _read(where / RUN)
    envelope = casefile.load_envelope(where / "envelope.jsonl")
    if run.digest != _sealed(run).digest:
        raise DigestMismatch.of(where / RUN, stated=run.digest, actual=_sealed(run).digest)
    if run.envelope_digest != envelope.digest:
        raise DigestMismatch.of(where / RUN, stated=run.envelope_digest, actual=envelope.digest)
    marked = {crossing.place: answer_digest(crossing) for crossing in envelope.crossings if crossing.simulated}
    if marked != {one.place: one.digest for one in run.simulated}:
        raise FormatError.at(where / RUN, "`simulated` does not name the answers that its envelope marks.")
    return Kept(run, envelope)


def _unrecorded(played: Played, record: Mapping[str, Crossing], names: Mapping[str, str]) -> str | None:
    """Who gave an answer that nobody recorded; None where it was recorded, of this very request, or the candidate's own code gave it."""
    crossing, by = played.crossing, played.answered_by
    if crossing.kind not in _ANSWERED or by is None:
        return None
    if by is AnsweredBy.SIMULATED:
        return names.get(crossing.place, by.value)
    if by not in _OBSERVED:
        return by.value
    recorded = record.get(played.matched or "")
    if by not in _SERVED:
        return None
    if recorded is None or recorded.simulated:
        return AnsweredBy.SIMULATED.value
    return ANOTHER if _asked_otherwise(played, recorded) else None


def _asked_otherwise(played: Played, recorded: Crossing) -> bool:
    """Whether a frozen output answers another request than the recorded one. Calls are matched by what they ask, so theirs never do."""
    if played.crossing.kind in CALLS:
        return False
    ours, theirs = played.crossing.asked, recorded.asked
    if ours is UNSET or theirs is UNSET:
        return ours is not theirs
    return played.stale or played.drift is not None or not equal(ours, theirs)


def _envelope(loaded: LoadedCase, transcript: Transcript, crossings: list[Crossing], how: Replayed) -> Envelope:
    """The run under its own trace id. It is no turn of the conversation that its case is one of."""
    source = loaded.envelope
    return encoding.sealed(
        Envelope(
            trace_id=digest([loaded.digest, how.mode, transcript.digest])[:_TRACE_ID], source=f"twiceshy {how.source}",
            workflow=source.workflow, input=source.input, pins=msgspec.structs.replace(source.pins, versions=how.versions),
            disposition=transcript.disposition or Disposition(ended=False), redaction=source.redaction, crossings=tuple(crossings),
        )
    )  # fmt: skip


def _sealed(run: KeptRun) -> KeptRun:
    content = msgspec.to_builtins(msgspec.structs.replace(run, digest=""))
    return msgspec.structs.replace(run, digest=digest(content))


def _found(path: Path) -> Path:
    """The folder that holds run.json: this one, or the only one below it, as `explore --run` writes one a judging mode."""
    if not path.is_dir():
        raise InputError.missing(path, what="kept run")
    below = sorted(found.parent for found in path.glob(f"*/{RUN}"))
    if (path / RUN).is_file() or not below:
        return path
    if len(below) > 1:
        raise InputError(f"{path} holds {len(below)} runs: name one of {', '.join(one.name for one in below)}.")
    return below[0]


def _read(path: Path) -> KeptRun:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError.missing(path) from None
    try:
        stated = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as broken_:
        raise FormatError.at(path, f"not JSON: {broken_}.") from None
    found = stated.get("format") if isinstance(stated, dict) else None
    if found != FORMAT:
        raise FormatError.unknown(path, found, known=FORMAT, upgrade="Install the twiceshy release that wrote it.")
    try:
        return msgspec.convert(stated, KeptRun)
    except msgspec.ValidationError as wrong:
        raise FormatError.at(path, f"{wrong}.") from None
