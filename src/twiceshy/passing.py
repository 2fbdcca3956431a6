"""A tool call on its way through a framework's middleware: proposed -> [middleware] -> seen -> [the boundary] -> raw -> [middleware] -> shown.

An adapter opens the passage where the model's arguments come in, reaches the boundary where the tool would run, and returns what the middleware made of it.
"""

from __future__ import annotations

import copy
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from twiceshy.stepping import drive, drive_async

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from twiceshy.boundary import Boundary
    from twiceshy.seam import Answer, Blocked, Closing, Step

# One a task or thread of the framework: calls of one turn may run side by side.
_OPEN: ContextVar[Passage | None] = ContextVar("twiceshy_passage", default=None)


class Passage:
    """One tool call between its two ends. The tool must have been declared on the boundary.

    middleware: whether code of the framework runs between the ends, so that a replay needs both sides of the record.
    waits: what is raised at the inner end where the call waits for somebody, a person say.
    """

    def __init__(
        self, boundary: Boundary, name: str, proposed: dict[str, Any], *, middleware: bool = True, waits: tuple[type[BaseException], ...] = ()
    ) -> None:  # fmt: skip
        self.name = name
        self.proposed = copy.deepcopy(proposed)
        self.middleware = middleware
        self.waits = waits
        self.run: Callable[[dict[str, Any]], Any] = _nothing
        self._boundary = boundary
        self._declared = msgspec.structs.replace(boundary.tools[name], via=self)
        self.step = boundary.step()
        self._opened: Step | None = self.step
        self._pending: tuple[Answer, Closing] | None = None
        self._reached = False

    def reach(self, seen: dict[str, Any], run: Callable[[dict[str, Any]], Any]) -> Any:
        """What the boundary answers to these arguments; `run` is called when it is live. Raises Blocked where a guard refuses, and what the tool raised."""
        return drive(self._steps(seen, run))

    async def areach(self, seen: dict[str, Any], run: Callable[[dict[str, Any]], Any]) -> Any:
        """`reach`, awaiting what `run` returns."""
        return await drive_async(self._steps(seen, run))

    def returned(self, shown: Any) -> Any:
        """What goes back to the model: `shown`, or the record's own value inside a frozen prefix. Ends the passage."""
        if not self._reached:
            self._boundary.withheld(self._declared, self.stepping(), self.proposed, shown)
        if self._pending is not None and self._pending[0].shown is not UNSET:
            shown = self._pending[0].shown
        self._close(shown)
        return shown

    def blocked(self, by: Blocked, shown: Any = UNSET) -> None:
        """A guard of the framework's own refuses the call before its boundary; `shown` goes back in its place. Ends the passage."""
        self._reached = True
        self._boundary.withheld(self._declared, self.stepping(), self.proposed, shown, by=by)

    def failed(self) -> None:
        """An exception goes back, of the boundary or of the middleware. Ends the passage; what the boundary had answered before stays what it was."""
        if not self._reached:
            self._reached = True
            self._boundary.withheld(self._declared, self.stepping(), self.proposed)
        self._close(UNSET)

    @property
    def seq(self) -> int | None:
        """The step that was opened at the outer end, until it is taken."""
        return None if self._opened is None else self._opened.seq

    def postponed(self) -> None:
        """The step that was opened stays nobody's: when the call is made, others have been made."""
        self._opened = None

    def over(self) -> None:
        """Close a call that the outer end will not close: it has returned, or another call comes to it first."""
        self._leave()

    def stepping(self) -> Step:
        """The step that was opened at the outer end; a further one for each time that middleware tries again."""
        opened, self._opened = self._opened, None
        return opened or self._boundary.step()

    def held(self, answer: Answer, closing: Closing) -> None:
        """Keep what came back, or what was raised, until the outer end: only there it is known what goes back to the model."""
        self._leave()
        self._pending = answer, closing

    def _leave(self) -> None:
        """Close what an earlier try brought: the middleware alone has seen it."""
        if self._pending is not None:
            self._close(self._pending[1].shown)

    def _close(self, shown: Any) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            answer, closing = pending
            answer.close(msgspec.structs.replace(closing, shown=shown))

    def _steps(
        self, seen: dict[str, Any], run: Callable[[dict[str, Any]], Any]
    ) -> Generator[Callable[[], Any], Any, Any]:
        self._leave()
        self._reached, self.run = True, run
        return (yield from self._boundary.calling(self._declared, seen))


def _nothing(_: dict[str, Any]) -> Any:
    raise TypeError("a passage was walked before it was reached")


def passing(passage: Passage, run: Callable[[], Any]) -> Any:
    """Run a framework's middleware inside a passage: `current()` finds it at the inner end."""
    token = _OPEN.set(passage)
    try:
        return run()
    except BaseException:
        passage.failed()
        raise
    finally:
        _OPEN.reset(token)


async def apassing(passage: Passage, run: Callable[[], Any]) -> Any:
    """`passing`, awaiting what `run` returns."""
    token = _OPEN.set(passage)
    try:
        return await run()
    except BaseException:
        passage.failed()
        raise
    finally:
        _OPEN.reset(token)


def current() -> Passage | None:
    """The passage that is open in this context; None where a tool is called past the outer end."""
    return _OPEN.get()
