"""A recorded run and its replay, step beside step: what both did alike, what changed, and what only one of them did."""

from __future__ import annotations

from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from msgspec import UNSET, UnsetType

from twiceshy.envelope import Crossing, Kind, Record
from twiceshy.identity import equal
from twiceshy.matching import differences
from twiceshy.ordering import within
from twiceshy.transcript import Diverged, Played, Transcript

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Side = Literal["proposed", "seen", "raw", "shown", "error", "blocked_by"]
"""The four sides of the middleware, then how the passage failed."""


class Alignment(StrEnum):
    """How a step of the record stands to a step of the replay."""

    SAME = "same"
    CHANGED = "changed"
    ONLY_RECORDED = "only_recorded"
    ONLY_REPLAYED = "only_replayed"


class SideDiff(Record, frozen=True, kw_only=True):
    """One leaf of one side in which the two runs differ; UNSET is "not there"."""

    side: Side
    path: str
    recorded: Any | UnsetType = UNSET
    replayed: Any | UnsetType = UNSET


class AlignedStep(Record, frozen=True, kw_only=True):
    """One step of both runs, or of the one that took it. Grain: `position`, from 0."""

    position: int
    kind: Kind
    name: str
    status: Alignment
    recorded: Crossing | None = None
    replayed: Crossing | None = None
    played: Played | None = None
    """What the replay did there. None for a step that only the record has, and for the call at which the replay ended without an answer."""
    diverged: bool = False
    """The first divergence is here. Then it is never `same`: the call got no answer."""
    diffs: list[SideDiff] = []


def align(recorded: Sequence[Crossing], transcript: Transcript) -> list[AlignedStep]:
    """Every step of both runs in one order; hooks and guards stand before or after the call they belong to, as they ran.

    Steps are paired on (kind, name) after the common beginning, and the common end of a run that came to its end, are set apart. A paired step is `same`
    where all sides that both runs know are equal under identity rules; a side that one of them does not know is not compared. The call at which the replay
    diverged is a step too, although it was never answered; the steps of the record that come after it were not reached.
    """
    left = [_Taken(crossing) for crossing in sorted(recorded, key=_order)]
    right = sorted(_replayed(transcript), key=lambda taken: _order(taken.crossing))
    ended = transcript.divergence is None and transcript.disposition is not None
    pairs = _pairs([_label(step) for step in left], [_label(step) for step in right], ended=ended)
    return [
        _aligned(position, None if a is None else left[a].crossing, None if b is None else right[b])
        for position, (a, b) in enumerate(pairs)
    ]


class _Taken(NamedTuple):
    crossing: Crossing
    played: Played | None = None
    diverged: bool = False


def _replayed(transcript: Transcript) -> list[_Taken]:
    """The steps of the replay; the diverged call is added where it never got as far as an answer."""
    divergence = transcript.divergence
    place = None if divergence is None else divergence.place
    taken = [_Taken(played.crossing, played, played.crossing.place == place) for played in transcript.played]
    if divergence is not None and not any(step.diverged for step in taken):
        taken.append(_Taken(_unanswered(divergence), diverged=True))
    return taken


def _unanswered(divergence: Diverged) -> Crossing:
    seq, _, sub = divergence.place.removeprefix("#").partition(".")
    kind, _, name = divergence.boundary.partition(":")
    return Crossing(seq=int(seq), sub=int(sub or 0), kind=Kind(kind), name=name, seen=divergence.asked)


def _order(crossing: Crossing) -> tuple[int, int, int]:
    return crossing.seq, within(crossing), crossing.sub


def _label(taken: _Taken) -> tuple[Kind, str]:
    return taken.crossing.kind, taken.crossing.name


def _pairs(left: list[Any], right: list[Any], *, ended: bool) -> Iterator[tuple[int | None, int | None]]:
    """Positions in both, in order; None where one of them has no such step. The end of a run that was cut short is no common end."""
    head = _common(left, right)
    tail = _common(left[head:][::-1], right[head:][::-1]) if ended else 0
    yield from ((at, at) for at in range(head))
    middle = SequenceMatcher(None, left[head : len(left) - tail], right[head : len(right) - tail], autojunk=False)
    for tag, a1, a2, b1, b2 in middle.get_opcodes():
        if tag == "equal":
            yield from zip(range(head + a1, head + a2), range(head + b1, head + b2), strict=True)
            continue
        lost, new = ([(head + at, None) for at in range(a1, a2)], [(None, head + at) for at in range(b1, b2)])
        # What was not reached stands after the place where the run was cut short.
        yield from [*lost, *new] if ended else [*new, *lost]
    yield from ((len(left) - back, len(right) - back) for back in range(tail, 0, -1))


def _common(left: Sequence[Any], right: Sequence[Any]) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _aligned(position: int, recorded: Crossing | None, taken: _Taken | None) -> AlignedStep:
    replayed = None if taken is None else taken.crossing
    crossing = recorded or replayed
    assert crossing is not None  # noqa: S101 - a pair has at least one of them
    diffs = [] if recorded is None or replayed is None else list(_diffs(recorded, replayed))
    diverged = taken is not None and taken.diverged
    return AlignedStep(
        position=position, kind=crossing.kind, name=crossing.name, recorded=recorded, replayed=replayed,
        status=_status(recorded, replayed, changed=bool(diffs) or diverged), diverged=diverged, diffs=diffs,
        played=None if taken is None else taken.played,
    )  # fmt: skip


def _status(recorded: Crossing | None, replayed: Crossing | None, *, changed: bool) -> Alignment:
    if replayed is None:
        return Alignment.ONLY_RECORDED
    if recorded is None:
        return Alignment.ONLY_REPLAYED
    return Alignment.CHANGED if changed else Alignment.SAME


def _diffs(recorded: Crossing, replayed: Crossing) -> Iterator[SideDiff]:
    for side in get_args(Side):
        left, right = _side(recorded, side), _side(replayed, side)
        if left is UNSET or right is UNSET or equal(left, right):
            continue
        for diff in differences(left, right):
            yield SideDiff(side=side, path=diff.path, recorded=diff.recorded, replayed=diff.got)


def _side(crossing: Crossing, side: Side) -> Any:
    """The value of a side. No error is a value too, so that an error on one side only differs leaf by leaf."""
    if side != "error":
        return getattr(crossing, side)
    error = crossing.error
    return {"class": None, "message": None} if error is None else {"class": error.cls, "message": error.message}
