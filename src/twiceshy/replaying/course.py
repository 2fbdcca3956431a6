"""The course of one replayed run: what it goes by, the journal it is written into, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import UNSET

from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing
from twiceshy.errors import TwiceshyError, Unrecordable
from twiceshy.identity import equal
from twiceshy.pinned import Pinned
from twiceshy.recording import error_record
from twiceshy.transcript import Diverged, Near

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from twiceshy.boundary import Call, Closing
    from twiceshy.envelope import Envelope, ErrorRecord
    from twiceshy.journal import Journal
    from twiceshy.outcome import Divergence
    from twiceshy.pinned import VirtualClock
    from twiceshy.policy import ToolsPolicy
    from twiceshy.simulators.served import SimulatedAnswer
    from twiceshy.worlds.authority import Authority
    from twiceshy.writes import DeclaredGrant, DeclaredWrite


class RunDiverged(BaseException):
    """Ends a run inside one process at its first divergence. Not an Exception: an agent's `except Exception` does not see it."""

    def __init__(self, divergence: Diverged) -> None:
        super().__init__(divergence.kind.value)
        self.divergence = divergence


class RunFaulted(BaseException):
    """Ends a run inside one process that our own side cannot go on with. Not an Exception, for the same reason."""


def raising(divergence: Diverged | None) -> NoReturn:
    """End a run inside one process: raise RunDiverged, or RunFaulted at a fault of ours."""
    raise RunFaulted if divergence is None else RunDiverged(divergence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a replay goes by besides the record: the cut-point, the tools' policy, what the case declares, and the seed of draws past the record.

    pseudonymise: gives a call's live arguments the identity pseudonyms of the recording before they are keyed. flags: the overlay of flags that were not
    recorded. agrees: whether a recorded user turn may answer this message of the agent (recorded, said); by default the same message.
    """

    policy: ToolsPolicy
    cut: CutPoint = field(default_factory=CutPoint)
    declared: Sequence[DeclaredWrite] = ()
    seed: bytes = b""
    pseudonymise: Callable[[str, Any], Any] | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    grants: Sequence[DeclaredGrant] = ()
    agrees: Callable[[Any, Any], bool] | None = None
    world: Callable[[], Authority] | None = None
    """Starts the case's world for one run, where it has one."""
    simulated: Sequence[SimulatedAnswer] = ()


class Course:
    """What all passages of one replay share. `stale`: something that was shown has differed from the record."""

    def __init__(
        self, envelope: Envelope, terms: Terms, journal: Journal, clock: VirtualClock | None, on_end: Callable[[Diverged | None], NoReturn]
    ) -> None:  # fmt: skip
        self.terms = terms
        self.policy = terms.policy
        self.cut = terms.cut
        self.journal = journal
        self.pinned = Pinned(envelope, clock, terms.seed)
        self.stale = False
        self.turn = RLock()  # agents call tools from several threads; a signal may come in the middle of a passage
        self._on_end = on_end

    def closing(self, call: Call, close: Callable[[Closing], None]) -> Callable[[Closing], None]:
        """How a passage ends, under the rule of `Replay.cross`: what goes wrong in here ends the run."""
        return self.telling(call, close)

    def telling(self, call: Call, tell: Callable[[Any], None]) -> Callable[[Any], None]:
        """The same, for anything that is told of a passage."""

        def telling(told: Any) -> None:
            with self.turn:
                try:
                    tell(told)
                except (RunDiverged, RunFaulted):
                    raise
                except BaseException as broken:  # noqa: BLE001 - as in cross
                    self.give_up(call, broken)

        return telling

    def error(self, raised: BaseException | None, name: str) -> ErrorRecord | None:
        """What was raised, as it is recorded."""
        return None if raised is None else error_record(raised, self.policy.of(name).definite_errors)

    def pseudonymised(self, call: Call) -> Any:
        """What is asked as the recording would hold it. Without the key the raw value is neither matched nor stored: the run ends."""
        return call.seen if self.terms.pseudonymise is None else self.terms.pseudonymise(call.name, call.seen)

    def shown(self, recorded: Crossing | None, closing: Closing, error: ErrorRecord | None) -> None:
        """Note what went back to the agent: where it is not what went back in the record, frozen outputs are stale from here on."""
        self.stale = self.stale or not _as_recorded(recorded, closing, error)

    def diverge(self, crossing: Crossing, kind: Divergence, detail: str = "", near: Sequence[Near] = ()) -> NoReturn:
        """Write the first divergence down and end the run."""
        self.end(
            Diverged(
                kind=kind, place=crossing.place, boundary=f"{crossing.kind}:{crossing.name}", detail=detail,
                asked=crossing.seen, nearest=list(near),
            )
        )  # fmt: skip

    def end(self, divergence: Diverged) -> NoReturn:
        """Write a divergence down and end the run."""
        self.journal.diverged(divergence)
        self._on_end(divergence)

    def give_up(self, call: Call, broken: BaseException, unkeyed: Divergence | None = None) -> NoReturn:
        """End the run at a passage that cannot be told. unkeyed: what it means that the arguments of this call have no canonical form, and so equal none that were recorded.

        A candidate that is out of stack, memory or channel has crashed. The rest is our fault.
        """
        boundary = f"{call.kind}:{call.name}"
        divergence = None
        try:
            if isinstance(broken, Unrecordable) and unkeyed is not None:
                divergence = Diverged(kind=unkeyed, place=call.place, boundary=boundary, detail=str(broken))
                self.journal.diverged(divergence)
            elif not isinstance(broken, RecursionError | MemoryError | OSError):
                told = str(broken) if isinstance(broken, TwiceshyError) else type(broken).__name__
                self.journal.fault(f"{boundary} at {call.place}: {told}")
        finally:
            self._on_end(divergence)


def crossing_of(call: Call, **more: Any) -> Crossing:
    """The crossing that a call makes, with what is known of it so far."""
    return Crossing(
        seq=call.seq, sub=call.sub, parent=call.parent, kind=call.kind, name=call.name, scope=call.scope, group=call.group,
        **{"seen": call.seen, "at": call.at, **more},
    )  # fmt: skip


def _as_recorded(recorded: Crossing | None, closing: Closing, error: ErrorRecord | None) -> bool:
    """Whether what went back to the agent is what went back in the record; a side that was not recorded is not equal."""
    if recorded is None or (error is None) != (recorded.error is None):
        return False
    if error is not None and recorded.error is not None:
        same = (error.cls, error.message) == (recorded.error.cls, recorded.error.message)
        if not same or recorded.shown is closing.shown is UNSET:
            return same
    return recorded.shown is not UNSET and closing.shown is not UNSET and equal(recorded.shown, closing.shown)
