"""How a passage is walked: its steps as one generator, driven plainly or with `await`, and the numbers of its crossings."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Steps = Generator[Callable[[], Any], Any, Any]


class Numbering:
    """The step numbers of one run (1, 2, ...) and the sub numbers within each (4.1, 4.2, ...)."""

    def __init__(self) -> None:
        self._guard = Lock()  # agents may call tools from several threads
        self._subs: dict[int, int] = {}
        self.last = 0

    def step(self) -> int:
        """The next step number."""
        with self._guard:
            self.last += 1
            return self.last

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
