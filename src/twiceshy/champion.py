"""The champion's pinned results (`data/champion/<workflow>.json`, made by `champion pin`), the waivers beside them, and what a candidate's result is to them.

Waivers are people's: they stand in `data/champion/<workflow>.waivers.yaml`, reviewed like code, and no command writes them.
"""

from __future__ import annotations

import os
import tempfile
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from twiceshy.documents import Document
from twiceshy.envelope import Record, Versions
from twiceshy.errors import ConfigurationError, FormatError, InputError, nearest
from twiceshy.identity import digest
from twiceshy.outcome import Outcome
from twiceshy.trials import WORST
from twiceshy.verdict import CallRef, ChampionRef, Waiver

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from twiceshy.invariants import Invariants
    from twiceshy.policy import ToolsPolicy
    from twiceshy.verdict import Change, ModeResult, Result, Verdict

FORMAT = "twiceshy/champion/1"


class Pin(Record, frozen=True, kw_only=True):
    """What the champion came to. Grain: (case digest, harness state, mode)."""

    case: str
    case_digest: str
    harness: str
    mode: str
    outcome: Outcome
    violated: list[str] = []
    trials: int = 0
    passed: int = 0
    calls: list[CallRef] = []
    """Of a mode that PASSED, the calls that were made: what a candidate's tools and arguments are measured by."""


class Champion(Record, frozen=True, kw_only=True):
    """The pinned results of one version, the versions of its layers, and the waivers of people."""

    format: str = FORMAT
    workflow: str
    ref: str
    versions: Versions = Versions()
    pins: list[Pin] = []
    waivers: list[Waiver] = []

    @property
    def reference(self) -> ChampionRef:
        """How a verdict names it."""
        return ChampionRef(ref=self.ref, digest=digest(msgspec.to_builtins(self.versions)))

    def pin(self, case_digest: str, harness: str, mode: str) -> Pin | None:
        """What it came to on exactly this, or None."""
        wanted = (case_digest, harness, mode)
        return next((pin for pin in self.pins if (pin.case_digest, pin.harness, pin.mode) == wanted), None)

    def calls(self, case_digest: str, harness: str) -> dict[str, list[CallRef]]:
        """The calls it made on exactly this case, by judging mode, where it PASSED undiverged."""
        held = [pin for pin in self.pins if (pin.case_digest, pin.harness) == (case_digest, harness)]
        return {pin.mode: pin.calls for pin in held if pin.outcome is Outcome.PASSED and pin.calls}


class WaiversFile(Record, frozen=True, kw_only=True):
    """The waivers of one workflow, as people write them."""

    workflow: str
    waivers: list[Waiver] = []


class Difference(Record, frozen=True, kw_only=True):
    """Where two versions came to something else. Grain: (case, mode). None: that version was not judged on it."""

    case: str
    mode: str
    before: Outcome | None
    after: Outcome | None
    violated_before: list[str] = []
    violated_after: list[str] = []


def load(path: Path) -> Champion:
    """The champion in a file, with the waivers beside it. Raises InputError for a missing file, FormatError for an unknown format or a wrong shape, ConfigurationError for a waiver that says too little."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no champion is pinned here. Pin one: twiceshy champion pin -c {path.stem}") from None
    try:
        stated = msgspec.json.decode(content)
        found = stated.get("format") if isinstance(stated, dict) else None
        if found != FORMAT:
            raise FormatError.unknown(
                path, found, known=FORMAT, upgrade="Pin the champion again: `twiceshy champion pin`."
            )
        champion = msgspec.json.decode(content, type=Champion)
    except msgspec.DecodeError as broken:
        raise FormatError.at(path, f"{broken}.") from None
    if champion.waivers:
        raise ConfigurationError.at(
            path,
            "waivers stand in a file of their own, reviewed by people.",
            hint=f"Move them to {waivers_path(path).name}.",
        )
    return msgspec.structs.replace(champion, waivers=load_waivers(waivers_path(path), champion.workflow))


def waivers_path(path: Path) -> Path:
    """Where the waivers stand that belong to a champion's file."""
    return path.with_suffix(".waivers.yaml")


def load_waivers(path: Path, workflow: str) -> list[Waiver]:
    """The waivers in a file; none where there is no file. Raises ConfigurationError with file and line for one that says too little."""
    if not path.exists():
        return []
    document = Document(path)
    file = document.into(WaiversFile, error=ConfigurationError)
    if file.workflow != workflow:
        raise ConfigurationError.at(path, f"waivers of {file.workflow!r} beside the champion of {workflow!r}.", line=1)
    for at, waiver in enumerate(file.waivers):
        _refuse_bare(waiver, path, document.line(f"$.waivers[{at}]"))
        if any(other.id == waiver.id for other in file.waivers[:at]):
            raise ConfigurationError.at(
                path, f"the waiver id {waiver.id!r} stands twice.", line=document.line(f"$.waivers[{at}]")
            )
    return file.waivers


def save(path: Path, champion: Champion) -> None:
    """Write the pins whole, sorted, so that a review shows what changed. Waivers are not written: theirs is a file of people."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = msgspec.structs.replace(
        champion, pins=sorted(champion.pins, key=lambda pin: (pin.case, pin.mode, pin.harness)), waivers=[]
    )
    text = msgspec.json.format(msgspec.json.encode(ordered, order="deterministic"), indent=1)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text + b"\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


def differences(before: Champion, after: Champion) -> list[Difference]:
    """Every case and mode in which two versions came to something else, or one of them was not judged on it (another case digest, another harness state)."""
    ours = {(pin.case, pin.mode, pin.case_digest, pin.harness): pin for pin in before.pins}
    theirs = {(pin.case, pin.mode, pin.case_digest, pin.harness): pin for pin in after.pins}
    found = []
    for key in sorted({*ours, *theirs}):
        old, new = ours.get(key), theirs.get(key)
        if old is None or new is None or (old.outcome, sorted(old.violated)) != (new.outcome, sorted(new.violated)):
            found.append(_difference(key[0], key[1], old, new))
    return found


def _difference(case: str, mode: str, old: Pin | None, new: Pin | None) -> Difference:
    return Difference(
        case=case, mode=mode, before=old.outcome if old else None, after=new.outcome if new else None,
        violated_before=old.violated if old else [], violated_after=new.violated if new else [],
    )  # fmt: skip


def pinned(verdict: Verdict, versions: Versions, *, waivers: Iterable[Waiver] = ()) -> Champion:
    """The champion that a gate run makes: every mode of every result, except what was our own fault."""
    pins = [
        Pin(
            case=result.case.id, case_digest=result.case.digest, harness=verdict.run.harness_state, mode=mode.mode,
            outcome=mode.outcome, violated=mode.violated, trials=mode.trials, passed=mode.passed, calls=mode.calls,
        )
        for result in verdict.results
        for mode in result.modes
        if mode.outcome is not Outcome.ERROR
    ]  # fmt: skip
    return Champion(
        workflow=verdict.run.workflow,
        ref=verdict.run.candidate.ref,
        versions=versions,
        pins=pins,
        waivers=list(waivers),
    )


def harness_state(invariants: Invariants, policy: ToolsPolicy) -> str:
    """What a pinned result holds under, besides the case: the invariants and the tool policy."""
    return digest([invariants.digest, msgspec.to_builtins(policy)])


def compared(result: Result, champion: Champion | None, *, harness: str, today: str) -> Result:
    """The result with what the champion came to, what that makes of a failure, and the waiver that covers it.

    The champion came to the worst of what is pinned of these modes. today: ISO 8601 date; a waiver dated later, or past its `until`, covers nothing; where a
    mode could not be judged none does, since what that mode would have shown is not known.
    """
    if champion is None:
        return msgspec.structs.replace(result, change="new" if result.outcome is Outcome.FAILED else None)
    modes = [_against(mode, champion.pin(result.case.digest, harness, mode.mode)) for mode in result.modes]
    before = [mode.previous for mode in modes if mode.previous is not None]
    changed = msgspec.structs.replace(result, modes=modes, previous_outcome=min(before, key=WORST.index, default=None))
    if result.outcome is not Outcome.FAILED:
        return changed
    change = _change(changed, champion, harness)
    ids = {name for mode in modes if mode.outcome is Outcome.FAILED for name in mode.violated}
    judged = all(mode.outcome in (Outcome.PASSED, Outcome.FAILED) for mode in modes)
    waiver = _waiver(champion.waivers, result.case.id, ids, today) if judged and change == "known" else None
    return msgspec.structs.replace(changed, change=change, waiver=waiver)


def _against(mode: ModeResult, pin: Pin | None) -> ModeResult:
    if pin is None:
        return mode
    return msgspec.structs.replace(mode, previous=pin.outcome, previous_trials=pin.trials, previous_passed=pin.passed)


def _change(result: Result, champion: Champion, harness: str) -> Change:
    """Known: in every mode that FAILED the champion FAILED every id that is violated there. Without any pin the case is new, judged on its own."""
    failed = [mode for mode in result.modes if mode.outcome is Outcome.FAILED]
    pins = [(mode, champion.pin(result.case.digest, harness, mode.mode)) for mode in failed]
    if all(
        pin is not None and pin.outcome is Outcome.FAILED and set(mode.violated) <= set(pin.violated)
        for mode, pin in pins
    ):
        return "known"
    return "regressed" if any(pin is not None for _, pin in pins) else "new"


def _waiver(waivers: Iterable[Waiver], case: str, ids: Collection[str], today: str) -> Waiver | None:
    """The first waiver of this case that is in force and covers every id."""
    for waiver in waivers:
        if waiver.case == case and out_of_force(waiver, today) is None and set(ids) <= set(waiver.assertions):
            return waiver
    return None


def idle_waivers(waivers: Iterable[Waiver], cases: Collection[str], today: str) -> list[str]:
    """A line for each waiver that excuses nothing today: of a case that the catalog does not hold, over, or not begun. cases: the ids of the whole workflow."""
    said = []
    for waiver in waivers:
        why = out_of_force(waiver, today)
        if waiver.case not in cases:
            why = f"the catalog holds no case {waiver.case!r}. {nearest(waiver.case, cases)}"
        if why is not None:
            said.append(f"waiver {waiver.id!r} excuses nothing: {why}")
    return said


def out_of_force(waiver: Waiver, today: str) -> str | None:
    """Why a waiver does not count on a day; None where it does."""
    if waiver.date > today:
        return f"it is dated {waiver.date}, and today is {today}"
    if waiver.until is not None and waiver.until < today:
        return f"it was valid until {waiver.until}, and today is {today}"
    return None


def _refuse_bare(waiver: Waiver, where: object, line: int | None) -> None:
    """A waiver is dated, signed and reasoned, and names what it waives."""
    lacking = [name for name in ("id", "case", "assertions", "by", "date", "why") if not getattr(waiver, name)]
    if lacking:
        raise ConfigurationError.at(where, f"waiver {waiver.id!r} has no {', '.join(lacking)}.", line=line)
    for text in (waiver.date, waiver.until):
        if not _is_date(text):
            raise ConfigurationError.at(
                where, f"waiver {waiver.id!r}: {text!r} is no date.", line=line, hint="Write 2026-12-31."
            )


def _is_date(text: str | None) -> bool:
    try:
        return text is None or date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
