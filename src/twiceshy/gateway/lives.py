"""A trial with live models from its parent's side: which replies are its own, and what its transcript says once it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from twiceshy.envelope import Kind
from twiceshy.gateway.door import LiveTrial
from twiceshy.identity import digest
from twiceshy.outcome import BoundaryState, Divergence
from twiceshy.replies import TrialId, TrialReplies
from twiceshy.transcript import Diverged

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy.casefile import Judge, LoadedCase
    from twiceshy.envelope import Versions
    from twiceshy.gateway.door import LiveModels
    from twiceshy.transcript import Transcript


def begun(
    live: LiveModels, loaded: LoadedCase, judge: Judge, number: int, versions: Versions, *, occasion: str, end: Callable[[], object], only: bool
) -> LiveTrial:  # fmt: skip
    """The trial of this number before its live models. only: it has been run, and gets nothing but what it got then."""
    trial = TrialId(
        candidate=digest(msgspec.to_builtins(versions)), case=loaded.case.id, envelope=loaded.envelope.digest, mode=judge.cut.label,
        number=number, upstreams={face: upstream.host + upstream.path for face, upstream in live.upstreams.items()},
        occasion=occasion,
    )  # fmt: skip
    return LiveTrial(upstreams=live.upstreams, replies=TrialReplies(live.replies, trial), end=end, only=only)


def ended(trial: LiveTrial, told: Transcript, *, commanded: bool) -> Transcript:
    """The transcript with how the trial ended before its live models. A request that passed no boundary is no part of any evidence, so the run diverged."""
    if isinstance(trial.ended, str):
        return msgspec.structs.replace(told, fault=trial.ended)
    divergence = trial.ended or _unseen(trial, told, commanded=commanded)
    if divergence is None or told.divergence is not None:
        return told
    return msgspec.structs.replace(
        told,
        divergence=divergence,
        disposition=None,
        crash=None,
        signal=None,
        fault=None if trial.ended else told.fault,
    )


def _unseen(trial: LiveTrial, told: Transcript, *, commanded: bool) -> Diverged | None:
    """A divergence where more was asked than passed. A command's gateway asks once a passage; what a Python candidate's client asks within one, it may ask again."""
    passed = sum(one.crossing.kind is Kind.MODEL and one.boundary is BoundaryState.LIVE for one in told.played)
    asked = len(trial.asked)
    if asked <= passed or (passed and not commanded):
        return None
    detail = f"live models were asked {asked} times, and {passed} passages of theirs were seen"
    return Diverged(kind=Divergence.LIVE_UNCONTROLLED, place="end", boundary="run", detail=detail)
