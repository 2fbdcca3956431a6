"""What a person must have accepted before a gate takes a case that was drafted from a run: the case, and every answer in it that nobody recorded (semantics.md §6)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from msgspec import UNSET

from twiceshy.encoding import crossing_line
from twiceshy.envelope import Crossing, Kind
from twiceshy.errors import CaseError
from twiceshy.outcome import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from twiceshy.casefile import Judge, LoadedCase


def answer_digest(crossing: Crossing) -> str:
    """The sha256, in hex, of a call and what came of it, wherever it stands: what a person accepts."""
    told = Crossing(
        seq=0, kind=crossing.kind, name=crossing.name, seen=crossing.asked, raw=crossing.raw, shown=crossing.shown,
        error=crossing.error, chunks=crossing.chunks,
    )  # fmt: skip
    return hashlib.sha256(crossing_line(told)).hexdigest()


def unaccepted(loaded: LoadedCase, judges: Iterable[Judge] | None = None) -> list[Crossing]:
    """The crossings whose answers nobody recorded and no person accepted, less those that the case's world answers in their place.

    judges: how the case is judged, where that is not by its own judging modes.
    """
    worldly = _answered_by_world(loaded, loaded.case.judges() if judges is None else judges)
    accepted = set(loaded.case.review.accepted_simulated)
    return [
        crossing
        for crossing in loaded.envelope.crossings
        if crossing.simulated
        and not (crossing.kind is Kind.TOOL and crossing.name in worldly)
        and answer_digest(crossing) not in accepted
    ]


def standing(loaded: LoadedCase, judges: Iterable[Judge] | None = None) -> str:
    """What a case that was drafted from a run still waits for, in a clause; empty where a gate may take it."""
    case = loaded.case
    if case.review.status == "draft":
        return "a draft that was made of a run, and no person has accepted it yet"
    if case.from_run is not UNSET and (case.review.status != "promoted" or not case.review.by):
        return "it was drafted from a run, and its review does not say who promoted it"
    if waiting := unaccepted(loaded, judges):
        first = f"{waiting[0].place} {waiting[0].kind}:{waiting[0].name}"
        return f"{len(waiting)} of its answers were recorded by nobody and accepted by nobody, the first at {first}"
    return ""


def refuse_unaccepted(loaded: LoadedCase, judges: Iterable[Judge]) -> None:
    """Raise CaseError for a draft, and for a case with an answer that nobody recorded and no person accepted."""
    if waits := standing(loaded, judges):
        hint = "Look with `twiceshy case show`, then say under `review` what you accept."
        raise CaseError.at(loaded.path / "case.yaml", f"{waits}.", hint=hint)


def _answered_by_world(loaded: LoadedCase, judges: Iterable[Judge]) -> Collection[str]:
    """The tools whose recorded answers no replay can serve: those of its world, where it is judged in that alone. Of a world in Python nobody knows them here."""
    alone = all(judge.mode is Mode.WORLD for judge in judges)
    return loaded.world.bindings.keys() if loaded.world is not None and alone else ()
