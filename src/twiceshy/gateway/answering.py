"""The one boundary behind all faces: a request of any wire becomes a passage, and its answer goes back; the first divergence closes it for good."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPException
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec
from msgspec import UNSET

from twiceshy.envelope import Crossing, Effect, Kind
from twiceshy.identity import digest
from twiceshy.outcome import BoundaryState, Divergence
from twiceshy.replaying import RunDiverged, RunFaulted
from twiceshy.transcript import Diverged, Played
from twiceshy.writes import unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from twiceshy.boundary import Boundary
    from twiceshy.gateway.catalog import Catalog
    from twiceshy.gateway.coming import Coming
    from twiceshy.journal import Journal


class Refusal(NamedTuple):
    """A call that the agent's own guard refused, as the agent reports it."""

    guard: str
    reason: str


# What the agent reported of the call that this thread answers.
_REPORTED: ContextVar[Refusal | None] = ContextVar("twiceshy_reported", default=None)


class Door(NamedTuple):
    """Where the parent answers for live models: its address in this network namespace, and its token. opens: whether a model of this name runs live at a step."""

    origin: str
    token: str
    opens: Callable[[str, int], bool]


class Gateway:
    """Answers passages over one boundary. `ended` is set at the first divergence or fault: from then on nothing is answered.

    door: where a model that runs live is asked. Its methods raise RunDiverged and RunFaulted where the run ends, Blocked for a refusal that was reported, and whatever error was recorded.
    """

    def __init__(self, boundary: Boundary, catalog: Catalog, journal: Journal, door: Door | None = None) -> None:
        self.catalog = catalog
        self.door = door
        self.ended: Diverged | str | None = None
        self._boundary = boundary
        self._journal = journal
        self._guard = Lock()  # one thread a connection: guards the tables of what was declared
        self._tools = {tool.name: boundary.tool(tool.name) for tool in catalog.tools}
        self._models: dict[tuple[str, bool], Callable[[Any], Any]] = {}
        self._coming: dict[int, Coming] = {}
        """How a request would go on to its live model, by its own id."""
        self._guards: set[tuple[str, str]] = set()

    def model(
        self, wire_name: object, request: Mapping[str, Any], *, stream: bool = False, coming: Coming | None = None
    ) -> Any:
        """The model's output; as a stream, the chunks that it was recorded in. coming: what a live model would answer."""
        name = self.catalog.model(wire_name)
        if coming is not None:
            self._coming[id(request)] = coming
        with self._guard:
            if (name, stream) not in self._models:
                self._models[name, stream] = self._boundary.model(name, self._live_stream if stream else self._live)
        return self._passed(self._models[name, stream], request)

    def embedding(self, wire_name: object, request: Mapping[str, Any], *, coming: Coming | None = None) -> Any:
        """The embeddings of just this input. Those of another text would find other documents, so unlike an output none is served in order."""
        name = self.catalog.model(wire_name)
        if digest(request) not in self.catalog.embedded and not self.opens(wire_name):
            self.refuse(Divergence.ARGS_MISMATCH, f"model:{name}", "this input was never embedded")
        return self.model(wire_name, request, coming=coming)

    def tool(self, name: str, arguments: Mapping[str, Any], reported: Refusal | None = None) -> Any:
        """What the tool shows. reported: the agent's own guard refused the call, which is then recorded as blocked."""
        with self._guard:
            if name not in self._tools:
                self._tools[name] = self._boundary.tool(name)
            if reported is not None and (reported.guard, name) not in self._guards:
                self._guards.add((reported.guard, name))
                self._boundary.guard(reported.guard, self._reported_by(reported.guard), before=name)
        token = _REPORTED.set(reported)
        try:
            return self._passed(self._tools[name], **arguments)
        finally:
            _REPORTED.reset(token)

    def now(self) -> datetime:
        """The pinned, advancing time."""
        return self._passed(self._boundary.now)  # type: ignore[no-any-return]

    def opens(self, wire_name: object) -> bool:
        """Whether a request for this model, made now, goes to the model itself."""
        return self.door is not None and self.door.opens(self.catalog.model(wire_name), self._boundary.numbers.last + 1)

    def refuse(
        self, kind: Divergence, boundary: str, detail: str, *, asked: Any = UNSET, place: str | None = None
    ) -> NoReturn:
        """End the run at a request that no record could answer. place: of the next step, unless it has one."""
        at = place or f"#{self._boundary.numbers.last + 1}"
        divergence = Diverged(kind=kind, place=at, boundary=boundary, detail=detail, asked=asked)
        self._journal.diverged(divergence)
        self.ended = divergence
        raise RunDiverged(divergence)

    def unreadable(self, tool: str, detail: str) -> NoReturn:
        """End the run at a call whose arguments cannot be read. That of a write is an intent all the same, which nothing explains."""
        offered = next((one for one in self.catalog.tools if one.name == tool), None)
        asked = Crossing(seq=self._boundary.numbers.step(), kind=Kind.TOOL, name=tool, effect=Effect.WRITE)
        if offered is None or offered.effect is Effect.WRITE:
            self._journal.ahead(Played(crossing=unanswered(asked), boundary=BoundaryState.INTERCEPTED, exercised=False))
        kind = Divergence.UNRECORDED_CALL if offered is None else Divergence.ARGS_MISMATCH
        self.refuse(kind, f"tool:{tool}", detail, place=asked.place)

    def note(self, asked: str) -> None:
        """Leave a trace of a request that is no passage. asked: its name, nothing that the agent wrote."""
        self._journal.noted(asked)

    def fault(self, problem: str) -> NoReturn:
        """End the run by our own failure. problem: names and types only."""
        self._journal.fault(problem)
        self.ended = problem
        raise RunFaulted

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Whatever ends the run in the `with` block ends this gateway."""
        try:
            yield
        except RunDiverged as over:
            self.ended = over.divergence
            raise
        except RunFaulted:
            self.ended = "the run could not go on"
            raise

    def _passed(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self.passing():
            return call(*args, **kwargs)

    def _live(self, request: object) -> Any:
        """The output of a model named live, which the parent asks."""
        with self._reaching():
            return self._through(request).whole()

    def _live_stream(self, request: object) -> Iterator[Any]:
        """The same, for one that is asked for a stream."""
        with self._reaching():
            yield from self._through(request).chunks(request)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """A parent that does not answer is our fault, and no error of the model's."""
        try:
            yield
        except (OSError, HTTPException, msgspec.MsgspecError) as lost:
            self.fault(f"the live model's answer could not be read: {type(lost).__name__}")

    def _through(self, request: object) -> Coming:
        coming = self._coming.pop(id(request), None)
        if coming is None:
            self.refuse(Divergence.LIVE_UNCONTROLLED, "model", "a command candidate has no live model of its own")
        return coming

    @staticmethod
    def _reported_by(guard: str) -> Callable[[object], str | None]:
        def reported(_: object) -> str | None:
            told = _REPORTED.get()
            return told.reason if told is not None and told.guard == guard else None

        return reported
