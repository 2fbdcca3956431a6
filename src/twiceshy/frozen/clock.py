"""A clock that moves only when it is told to, and chance that is drawn from a key."""

from __future__ import annotations

import hashlib
import hmac
from itertools import count
from operator import index
from threading import Lock
from typing import Self, SupportsIndex
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from twiceshy.errors import InputError

_NS = 1_000_000_000


class UnknownZone(InputError):
    """A time zone that the clock cannot be set to."""

    @classmethod
    def named(cls, tz: str) -> Self:
        """The name as it was pinned."""
        return cls(f"time zone {tz!r} is unknown here. Pin an IANA name such as 'Europe/London', and install tzdata.")


class FrozenClock:
    """The instant of a run, in ns since the epoch, and the zone it is read in; `replaying.VirtualClock` with an origin.

    Raises UnknownZone for a name that the tz database does not hold.
    """

    def __init__(self, start_ns: int, tz: str = "UTC") -> None:
        try:
            self.zone = ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
            raise UnknownZone.named(tz) from None
        self.start_ns = start_ns
        self.tz = tz
        self._now_ns = start_ns
        self._moving = Lock()  # guards the read-add-write below: threads of a candidate sleep at the same time

    def now_ns(self) -> int:
        """The instant, ns since the epoch."""
        return self._now_ns

    def elapsed_ns(self) -> int:
        """What has passed since the start: the origin of every monotonic clock."""
        return self._now_ns - self.start_ns

    def advance(self, ns: int) -> None:
        """Move on by so many ns; it never goes back."""
        with self._moving:
            self._now_ns += max(0, ns)


class Draws:
    """Random bytes that depend on nothing but the case, the trial and how many draws came before (semantics.md §4).

    Draw n is HMAC-SHA256(key, trial, n), lengthened block by block. Threads that draw at the same time get distinct
    draws, in an order that only they decide.
    """

    def __init__(self, key: bytes, trial: int | str = 0) -> None:
        self._key = key
        self._trial = str(trial)
        self._numbers = count()

    def take(self, size: int) -> bytes:
        """The next draw, `size` bytes long."""
        number = next(self._numbers)
        blocks = -(-size // 32)
        return b"".join(self._block(number, block) for block in range(blocks))[:size]

    def integer(self, bits: int) -> int:
        """The next draw as an integer of at most so many bits."""
        return int.from_bytes(self.take(-(-bits // 8))) >> (-bits % 8)

    def _block(self, number: int, block: int) -> bytes:
        return hmac.digest(self._key, f"{self._trial}\0{number}\0{block}".encode(), hashlib.sha256)


def nanoseconds(seconds: float | SupportsIndex) -> int:
    """Seconds as whole ns, to the nearest; exact for integers. TypeError for what time.sleep() does not take either."""
    return round(seconds * _NS) if isinstance(seconds, float) else index(seconds) * _NS


def seconds(ns: int) -> float:
    """Ns as seconds, the nearest float."""
    return ns / _NS
