"""An asyncio event loop on the frozen clock: timers fire in their order and nobody waits for them.

When nothing is ready, the loop moves the clock to its next timer at once. Real input and output still works; the clock
moves past a wait for it only after real patience, so that a reply on its way is not overtaken by a timeout.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twiceshy.frozen.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from twiceshy.frozen.clock import FrozenClock

_SELF_PIPE = 1  # the loop's own descriptor, always registered


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the loop really waits, in seconds, before a timer may overtake what is outside of it.

    These are the only real durations in a trial. They matter when a descriptor or a thread is slower than this while a
    timer is pending; with a live model behind a socket, `io` should be as long as a reply may take.
    """

    io: float = 1.0
    """With a descriptor registered, as an idle connection is too: each virtual wait beside one costs this much."""
    threads: float = 5.0
    """With work in an executor."""


class VirtualSelector(selectors.DefaultSelector):
    """A selector whose waiting moves the clock instead of taking time."""

    def __init__(self, clock: Callable[[], FrozenClock], patience: Patience) -> None:
        super().__init__()
        self._clock = clock
        self._patience = patience
        self.jobs = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready. A wait with an end moves the clock to that end when nothing came."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0) or super().select(self._wait())
        if not ready:
            self._clock().advance(math.ceil(timeout * 1e9))
        return ready

    def _wait(self) -> float:
        if self.jobs:
            return self._patience.threads
        return self._patience.io if len(self.get_map()) > _SELF_PIPE else 0


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop that `asyncio.run` makes once the clock is frozen."""

    def __init__(self, clock: Callable[[], FrozenClock], patience: Patience) -> None:
        self._frozen = clock
        self._waiting = VirtualSelector(clock, patience)
        super().__init__(self._waiting)

    def time(self) -> float:
        """Seconds since the start of the run, as time.monotonic() says."""
        return seconds(self._frozen().elapsed_ns())

    def run_in_executor(  # type: ignore[override]  # typeshed spells the callable with a TypeVarTuple
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """As ever; while the work runs, timers wait for it."""
        future = super().run_in_executor(executor, func, *args)
        self._waiting.jobs += 1
        future.add_done_callback(self._job_done)
        return future

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._waiting.jobs -= 1


class FrozenPolicy(asyncio.DefaultEventLoopPolicy):
    """Makes loops of one kind wherever asyncio makes one."""

    def __init__(self, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        super().__init__()
        self._loop = loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """A loop on the clock that is installed when it runs."""
        return self._loop()
