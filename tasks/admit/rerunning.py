"""A recorded run, replayed against its own envelope: every call asked again as it was, answered by the matcher, written into a journal.

What it proves: the record can serve what it recorded, and the failure is still there when it does. It runs no agent code.
"""

from contextlib import suppress

import msgspec

from twiceshy.boundary import Blocked, Call, Closing
from twiceshy.envelope import CODE_KINDS, Crossing, Envelope, Kind
from twiceshy.journal import Journal, transcript_of
from twiceshy.matching import CALLS
from twiceshy.outcome import AnsweredBy, BoundaryState
from twiceshy.policy import ToolsPolicy
from twiceshy.raising import raised_again
from twiceshy.replaying import Replay, RunDiverged, Terms
from twiceshy.transcript import Played, Transcript

_ASKED = CODE_KINDS | CALLS | {Kind.MODEL, Kind.HANDOFF}
"""Kinds that the replay engine is asked about; the others are taken over as they were recorded."""


def rerun(envelope: Envelope, policy: ToolsPolicy) -> Transcript:
    """The transcript of the record against itself, in `full` mode; it ends at the first divergence like any other."""
    lines: list[bytes] = []
    journal = Journal(lines.append)
    replay = Replay(envelope, Terms(policy=policy), journal)
    with suppress(RunDiverged):
        for crossing in _as_it_ran(envelope):
            _cross(replay, journal, crossing)
        journal.ended(envelope.disposition)
    return transcript_of(lines)


def _as_it_ran(envelope: Envelope) -> list[Crossing]:
    """Step by step; what stands before a tool comes before it, all else after."""
    return sorted(
        envelope.crossings,
        key=lambda crossing: (crossing.seq, _within(crossing), crossing.sub),
    )


def _within(crossing: Crossing) -> int:
    if crossing.sub == 0:
        return 1
    return 0 if (crossing.at or "").startswith("before:") else 2


def _cross(replay: Replay, journal: Journal, crossing: Crossing) -> None:
    if crossing.kind not in _ASKED:
        journal.ahead(
            Played(
                crossing=crossing,
                boundary=BoundaryState.FROZEN,
                answered_by=AnsweredBy.RECORDED,
                matched=crossing.place,
            )
        )
        return
    answer = replay.cross(_call(crossing))
    if crossing.blocked_by is not None:
        answer.close(Closing(error=Blocked(crossing.blocked_by, "refused")))
    elif answer.error is not None:
        answer.close(Closing(error=answer.error))
    elif crossing.error is not None and answer.live:
        answer.close(Closing(error=raised_again(crossing.error)))
    else:
        value = crossing.raw if answer.live else answer.value
        answer.close(Closing(raw=value, shown=crossing.shown))


def _call(crossing: Crossing) -> Call:
    """The call as it was asked; where only one side of the arguments is known, it stands for both."""
    return Call(
        kind=crossing.kind, name=crossing.name, seq=crossing.seq, sub=crossing.sub, scope=crossing.scope, group=crossing.group,
        at=crossing.at, effect=crossing.effect, proposed=crossing.proposed, seen=_known(crossing), blocked_by=crossing.blocked_by,
    )  # fmt: skip


def _known(crossing: Crossing) -> object:
    asked = crossing.asked
    return None if asked is msgspec.UNSET else asked
