"""How a passage is walked: its steps as one generator, driven plainly or with `await`, and the numbers of its crossings."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any

from twiceshy.seam import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from twiceshy.seam import Answer, Call

    Steps = Generator[Callable[[], Any], Any, Any]

# The passage whose code runs here, so that a draw of clock or chance inside a hook is numbered within its step.
_RUNNING: ContextVar[Call | None] = ContextVar("twiceshy_running", default=None)


running = _RUNNING.get
"""The passage whose live code runs in this context; None in the agent's own loop."""


@contextmanager
def within(call: Call) -> Iterator[None]:
    """Run the code of a passage: what it draws and calls happens inside it."""
    token = _RUNNING.set(call)
    try:
        yield
    finally:
        _RUNNING.reset(token)


class Numbering:
    """The step numbers of one run (1, 2, ...) and the sub numbers within each (4.1, 4.2, ...)."""

    def __init__(self) -> None:
        self._guard = Lock()  # agents may call tools from several threads
        self._steps = count(1)
        self._subs: dict[int, int] = {}
        self.last = 0

    def step(self) -> int:
        """The next step number."""
        self.last = number = next(self._steps)  # one C call, so no two threads get one number
        return number

    def sub(self, seq: int) -> int:
        """The next number within a step."""
        with self._guard:
            self._subs[seq] = self._subs.get(seq, 0) + 1
            return self._subs[seq]


def drive(steps: Steps) -> Any:
    """Run the steps with plain calls; an exception of a call is thrown back into them. A coroutine is no answer: a guard that nobody awaits has not refused."""
    try:
        ask = next(steps)
        while True:
            try:
                got = _plain(ask())
            except BaseException as raised:  # noqa: BLE001 - handed on, never swallowed
                ask = steps.throw(raised)
            else:
                ask = steps.send(got)
    except StopIteration as ended:
        return ended.value


async def drive_async(steps: Steps) -> Any:
    """`drive`, awaiting whatever a call returns that can be awaited; plain hooks and guards may stand among async ones."""
    from inspect import isawaitable  # 13 ms, and plain agents never come here

    try:
        ask = next(steps)
        while True:
            try:
                got = ask()
                if isawaitable(got):
                    got = await got
            except BaseException as raised:  # noqa: BLE001 - handed on, never swallowed
                ask = steps.throw(raised)
            else:
                ask = steps.send(got)
    except StopIteration as ended:
        return ended.value


def _plain(got: Any) -> Any:
    if hasattr(got, "__await__"):
        if hasattr(got, "close"):
            got.close()
        raise TypeError(
            "an async function stands behind a boundary that is called plainly; make the tool's own function async too"
        )
    return got


def settled(
    answer: Answer, run: Callable[[], Any], call: Call, close: Callable[[Closing], None] | None = None
) -> Steps:
    """The value of a passage: run it when live, else what the backend answered. Errors are closed and raised alike. close: in place of the answer's own."""
    close = close or answer.close
    if not answer.live:
        if answer.error is not None:
            close(Closing(error=answer.error))
            raise answer.error
        return answer.value
    token = _RUNNING.set(call)
    try:
        return (yield run)
    except BaseException as raised:  # a cancelled write may have happened: it is told too
        close(Closing(error=raised))
        raise
    finally:
        _RUNNING.reset(token)


def wrapped(
    fn: Callable[..., Any] | None, steps: Callable[..., Steps], at_once: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """What the agent calls in place of `fn`, plain or async as it is. at_once: what a plain call does in place of being driven through its steps."""
    if _is_async(fn):

        async def crossing_async(*args: Any, **kwargs: Any) -> Any:
            return await drive_async(steps(*args, **kwargs))

        return crossing_async

    def crossing(*args: Any, **kwargs: Any) -> Any:
        return drive(steps(*args, **kwargs))

    return crossing if at_once is None else at_once


def driven(fn: Callable[..., Any] | None, steps: Steps) -> Any:
    """The value of the steps, or what the agent awaits for it where `fn` is async."""
    return drive_async(steps) if _is_async(fn) else drive(steps)


def _is_async(fn: Callable[..., Any] | None) -> bool:
    from inspect import iscoroutinefunction

    return iscoroutinefunction(fn) or iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004 - an object that is called like a function
