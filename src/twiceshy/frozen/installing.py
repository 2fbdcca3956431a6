"""Put a frozen clock and keyed chance under the Python of this process.

This is how a replay sees one time, not how it is kept from the world: the seal does that.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import random
import selectors
import subprocess
import sys
import threading
import time
import uuid
import warnings
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from twiceshy.frozen.clock import Draws, FrozenClock, UnknownZone, nanoseconds, seconds
from twiceshy.frozen.eventloop import FrozenPolicy, Patience, VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COARSE_REALTIME = 5  # Python has no name for it
_WALL_CLOCKS = frozenset({time.CLOCK_REALTIME, _COARSE_REALTIME, getattr(time, "CLOCK_TAI", -1)})
_ELAPSED = ("monotonic", "perf_counter", "process_time", "thread_time")
_MULTICAST = 1 << 40  # RFC 4122 §4.5: a node that is not the address of a network card
# These bind monotonic() when they are imported, and wait by it for real: they have to come before the clock is frozen.
BOUND_EARLY = (queue, selectors, threading)
# Inside these a wait is for something real, so their `time` stays real: with a clock that stands they would never end.
_WAITING_MODULES: tuple[Any, ...] = (subprocess, concurrent.futures._base)  # noqa: SLF001 - its `time` is what counts


class _Frozen:
    """What is installed now; every function put in below looks here, so a trial only changes these."""

    clock: FrozenClock
    draws: Draws
    patience: Patience
    patched = False


_frozen = _Frozen()


class _FrozenLoop(VirtualLoop):
    """A loop on whatever clock is installed; it takes a selector for the signature's sake, as its own is what counts."""

    def __init__(self, selector: object = None) -> None:  # noqa: ARG002
        super().__init__(lambda: _frozen.clock, _frozen.patience)


def install(clock: FrozenClock, draws: Draws, *, patience: Patience | None = None) -> None:
    """Let this process see `clock` and `draws`, and no other time or chance, from now on.

    Call it once before the candidate is imported (names bound by `from time import sleep` are caught then) and again in
    each trial with the case's own clock; the first call costs about 40 ms (time-machine's import), a later one 0.05 ms.
    There is no way back: the process ends with its trial. Raises UnknownZone where the C library lacks the zone.
    """
    _frozen.clock, _frozen.draws, _frozen.patience = clock, draws, patience or Patience()
    if not _frozen.patched:
        _travel()
        _patch_time()
        _patch_chance()
        _patch_loops()
        _frozen.patched = True
    _set_zone(clock)
    _reseed()


def _now_ns() -> int:
    return _frozen.clock.now_ns()


def _elapsed_ns() -> int:
    return _frozen.clock.elapsed_ns()


def _travel() -> None:
    """Wall clock: time-machine swaps the C functions, so names that were bound earlier are frozen as well."""
    with _without("pytest", "dateutil"):  # optional there, and 100 ms and more to import
        import time_machine
    traveller = time_machine.travel(0, tick=False).start()
    traveller.time_ns = _now_ns  # type: ignore[method-assign]  # its own clock counts in whole microseconds


@contextmanager
def _without(*names: str) -> Iterator[None]:
    hidden: dict[str, Any] = {name: None for name in names if name not in sys.modules}
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _patch_time() -> None:
    real: dict[str, Any] = dict(vars(time))
    for module in _WAITING_MODULES:
        module.time = SimpleNamespace(**real)
    put: dict[str, Callable[..., Any]] = {
        "sleep": _sleep(real["sleep"]),
        "clock_gettime": lambda clock: seconds(_of_clock(clock)),
        "clock_gettime_ns": _of_clock,
        "ctime": lambda secs=None: real["ctime"](seconds(_now_ns()) if secs is None else secs),
        "asctime": lambda t=None: real["asctime"](time.localtime() if t is None else t),
    }
    for name in _ELAPSED:
        put |= {name: lambda: seconds(_elapsed_ns()), f"{name}_ns": _elapsed_ns}
    for name, function in put.items():
        setattr(time, name, function)


def _patch_loops() -> None:
    asynchronous: Any = asyncio
    asynchronous.SelectorEventLoop = asynchronous.EventLoop = _FrozenLoop  # the second name is Python 3.13's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # policies go in Python 3.16
        asyncio.set_event_loop_policy(FrozenPolicy(_FrozenLoop))


def _of_clock(clock: int) -> int:
    return _now_ns() if clock in _WALL_CLOCKS else _elapsed_ns()


def _sleep(really: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(secs: float, /) -> None:
        if secs < 0:
            raise ValueError("sleep length must be non-negative")
        _frozen.clock.advance(nanoseconds(secs))
        really(0)  # other threads get their turn

    return sleep


def _patch_chance() -> None:
    system: Any = os
    chance: Any = random
    system.urandom = chance._urandom = _take  # noqa: SLF001 - bound at import, for secrets and SystemRandom
    system.getrandom = lambda size, flags=0: _take(size)  # noqa: ARG005 - the flags are for the real one
    plain = random.Random.seed

    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        plain(self, _frozen.draws.integer(256) if a is None else a, version)

    chance.Random.seed = seed
    chance.seed = chance._inst.seed  # noqa: SLF001 - random.seed() is the method of this hidden generator


def _take(size: int, /) -> bytes:
    if size < 0:
        raise ValueError("negative argument not allowed")
    return _frozen.draws.take(size)


def _set_zone(clock: FrozenClock) -> None:
    os.environ["TZ"] = clock.tz  # noqa: TID251 - the C library reads its zone here and nowhere else
    time.tzset()
    moment = datetime.fromtimestamp(clock.now_ns() // 1_000_000_000, UTC)
    if moment.astimezone().utcoffset() != moment.astimezone(clock.zone).utcoffset():
        raise UnknownZone.named(clock.tz)


def _reseed() -> None:
    """Start what carries state of its own anew: the global generators, and the node and last instant of uuid1."""
    random.seed(_frozen.draws.integer(256))
    ids: Any = uuid
    ids._node = _frozen.draws.integer(48) | _MULTICAST  # noqa: SLF001 - else the card's address, read by programs
    ids._last_timestamp = None  # noqa: SLF001 - else a trial would see the one of its predecessor
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(_frozen.draws.integer(32))
