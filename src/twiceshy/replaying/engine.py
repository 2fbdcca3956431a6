"""One backend of one trial: each passage goes to the room that answers its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from twiceshy.envelope import CODE_KINDS, Kind
from twiceshy.frozenmodel import FrozenModels
from twiceshy.history import History
from twiceshy.matching import CALLS, Matcher
from twiceshy.outcome import Divergence
from twiceshy.replaying.ambient import Ambient
from twiceshy.replaying.calls import Calls
from twiceshy.replaying.code import CandidateCode
from twiceshy.replaying.course import Course, RunDiverged, RunFaulted, Terms, crossing_of, raising
from twiceshy.replaying.handoffs import Handoffs
from twiceshy.replaying.models import Models
from twiceshy.replaying.nested import Nested
from twiceshy.replaying.people import People
from twiceshy.transcript import Diverged
from twiceshy.worlds.siding import WorldSide

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy.boundary import Answer, Call
    from twiceshy.envelope import Envelope
    from twiceshy.journal import Journal
    from twiceshy.pinned import VirtualClock


class Replay:
    """The backend of one trial. `on_end` never returns: the runner's ends the process at once, the default raises RunDiverged (RunFaulted at a fault of ours)."""

    def __init__(
        self, envelope: Envelope, terms: Terms, journal: Journal, *, clock: VirtualClock | None = None,
        on_end: Callable[[Diverged | None], NoReturn] = raising,
    ) -> None:  # fmt: skip
        self._course = course = Course(envelope, terms, journal, clock, on_end)
        matcher, models, history = (
            Matcher(envelope.crossings, terms.policy),
            FrozenModels(envelope.crossings, whole=_offers_are_known(envelope)),
            History(terms.policy),
        )
        world = WorldSide(terms.world() if terms.world else None, terms.cut, terms.policy)
        nested = Nested(course, envelope.crossings, matcher, history, world)
        self._calls = calls = Calls(course, matcher, history, nested, world)
        people = People(course, envelope, matcher, history, nested)
        self._answering: dict[Kind, Callable[[Call], Answer]] = {
            **dict.fromkeys(CALLS, calls.answer),
            **dict.fromkeys(CODE_KINDS, CandidateCode(course, envelope, nested).answer),
            **dict.fromkeys((Kind.CLOCK, Kind.RANDOM, Kind.FLAG), Ambient(course, envelope, nested).answer),
            Kind.MODEL: Models(course, models, nested).answer,
            Kind.USER: people.user,
            Kind.HUMAN: people.human,
            Kind.HANDOFF: Handoffs(course, envelope, history, nested, world).answer,
        }

    def cross(self, call: Call) -> Answer:
        """The answer to one passage, written ahead into the journal. A miss does not return, nor does anything that goes wrong in here.

        An exception of ours in the candidate's hands is one that it may swallow, and the passage would never have been seen.
        """
        with self._course.turn:
            if call.refused is not None:
                self._course.give_up(call, call.refused)
            try:
                return self._answering[call.kind](call)
            except (RunDiverged, RunFaulted):
                raise
            except BaseException as broken:  # noqa: BLE001 - whatever it is, no passage goes unseen
                unkeyed = self._calls.unkeyed(call) if call.kind in CALLS else None
                self._course.give_up(call, broken, unkeyed)

    def dialled(self, call: Call | None) -> NoReturn:
        """End the run: live code reaches for a system outside. Cut off from it, it would be judged by how it takes a failure that production never had.

        call: the passage in whose code it happens; None in the agent's own loop, which reaches for a live model past its boundary.
        """
        with self._course.turn:
            if call is not None:
                self._course.diverge(crossing_of(call), Divergence.LIVE_UNCONTROLLED)
            detail = "a live model was asked past its boundary"
            self._course.end(Diverged(kind=Divergence.LIVE_UNCONTROLLED, place="end", boundary="run", detail=detail))


def _offers_are_known(envelope: Envelope) -> bool:
    """Whether the record holds the definitions of the tools that were offered (R7); our own recorder grades nothing and holds whole requests."""
    graded = envelope.grades.get("R7")
    return graded is None or graded.grade == "recorded"
