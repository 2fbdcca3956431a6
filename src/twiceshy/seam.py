"""The one seam between agent code and what stands behind it: a call goes in, an answer comes out, and a closing tells what came of it.

Data and one protocol with one method. Live, recording and replaying are small classes behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy.envelope import Effect, Kind


class Blocked(Exception):
    """Raised in the agent when its guard refuses a call; the call never reached the boundary."""

    def __init__(self, guard: str, reason: str) -> None:
        super().__init__(f"{guard}: {reason}")
        self.guard = guard
        self.reason = reason


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One passage asked for. `seen` is what the boundary gets; `proposed` what the model or agent asked before the pre-hooks."""

    kind: Kind
    name: str
    seq: int
    sub: int = 0
    scope: str = ""
    group: int | None = None
    at: str | None = None
    effect: Effect | None = None
    proposed: Any | UnsetType = UNSET
    seen: Any | UnsetType = UNSET
    blocked_by: str | None = None
    reason: str | None = None
    declared: Declared | None = None
    hooked: frozenset[str] = frozenset()
    """Where live hooks sit on this tool: `before`, `after`."""


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a passage: what the boundary returned, what went back, or the error that was raised."""

    raw: Any | UnsetType = UNSET
    shown: Any | UnsetType = UNSET
    error: BaseException | None = None


def _unheard(_: Closing) -> None:
    """Nobody listens to how this passage ends."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend says to a call: run it yourself (`live`), or take this value or this error.

    `shown`, when set, goes back in place of what the post-hooks would make: a crossing inside a frozen prefix.
    """

    live: bool = False
    value: Any = None
    error: BaseException | None = None
    shown: Any | UnsetType = UNSET
    close: Callable[[Closing], None] = _unheard


class Backend(Protocol):
    """The one seam: `twiceshy.live()`, `twiceshy.record()` and the replay engine all implement it."""

    def cross(self, call: Call) -> Answer:
        """The answer to one passage. Called once a passage, in the order in which the run asks."""
        ...


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A tool or model as the candidate's code declares it."""

    name: str
    fn: Callable[..., Any] | None
    effect: Effect | None = None
    schema: Mapping[str, Any] | None = None
    result_schema: Mapping[str, Any] | None = None
    prompt: str | None = None
    defaults: Mapping[str, Any] = {}


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A named piece of candidate code: a hook, a guard or a router, and where it sits (`before:TOOL`, `after:TOOL`)."""

    kind: Kind
    name: str
    fn: Callable[..., Any]
    at: str | None = None
