"""The one seam between agent code and what stands behind it: a call goes in, an answer comes out, and a closing tells what came of it.

Data and one protocol with one method. Live, recording and replaying are small classes behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy.envelope import Effect, Kind
from twiceshy.errors import TwiceshyError


class Blocked(Exception):
    """Raised in the agent when its guard refuses a call; the call never reached the boundary."""

    def __init__(self, guard: str, reason: str) -> None:
        super().__init__(f"{guard}: {reason}")
        self.guard = guard
        self.reason = reason


class Numbers(Protocol):
    """The numbering of one run."""

    def step(self) -> int:
        """The next step number."""
        ...

    def sub(self, seq: int) -> int:
        """The next number within a step."""
        ...


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One passage asked for. `seen` is what the boundary gets; `proposed` what the model or agent asked before the pre-hooks."""

    kind: Kind
    name: str
    seq: int
    sub: int = 0
    parent: str | None = None
    """The place of the passage in whose code it happens: a tool's body (`#4`), a hook (`#4.1`), an agent that was handed to."""
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
    settles: bool = False
    """Nothing of the candidate stands between an answer from the record and the agent: what is answered goes back, and nobody closes the passage."""
    unused: bool = False
    """A hook whose outcome is known already: nothing rests on what it makes."""
    stream: bool = False
    """A model that is asked for its output in chunks."""
    numbers: Numbers | None = None
    """Gives the next numbers of the run, for what happened inside a passage that is answered from the record."""
    refused: TwiceshyError | None = None
    """What an adapter found while the agent runs: this would have led past the boundary. No backend lets it run, and no replay goes on."""

    @property
    def place(self) -> str:
        """Where it stands, as people read it."""
        return f"#{self.seq}.{self.sub}" if self.sub else f"#{self.seq}"


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a passage: what the boundary returned, what went back, or the error that was raised."""

    raw: Any | UnsetType = UNSET
    shown: Any | UnsetType = UNSET
    error: BaseException | None = None
    chunks: list[Any] | None = None
    """A streamed output: the chunks that were taken."""


def _unheard(_: Closing) -> None:
    """Nobody listens to how this passage ends."""


def _untold(_: object) -> None:
    """Nobody listens to the chunks of this stream."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend says to a call: run it yourself (`live`), or take this value or this error.

    `shown`, when set, goes back in place of what the post-hooks would make: a crossing inside a frozen prefix.
    A stream's value is an iterable of chunks, and `part` hears of each one before it is given on. scope: of the agent that is handed to.
    """

    live: bool = False
    value: Any = None
    error: BaseException | None = None
    shown: Any | UnsetType = UNSET
    close: Callable[[Closing], None] = _unheard
    settled: bool = False
    """The passage is over: the value goes back as it is."""
    part: Callable[[Any], None] = _untold
    left: Callable[[], object] | None = None
    """Of a stream that was left early in the record: called where more is asked for, and does not return."""
    scope: str | None = None


class Step(NamedTuple):
    """A step of the run: its number, the step number of the model crossing that asked for it, and the passage it happens in."""

    seq: int
    group: int | None
    parent: str | None


class Backend(Protocol):
    """The one seam: `twiceshy.live()`, `twiceshy.record()` and the replay engine all implement it."""

    def cross(self, call: Call) -> Answer:
        """The answer to one passage. Called once a passage, in the order in which the run asks."""
        ...


class Via(Protocol):
    """A call on its way through a framework's middleware, from which its boundary takes what it would have done itself."""

    proposed: dict[str, Any]
    """What was asked before the middleware."""
    middleware: bool
    """Whether there is any, so that a replay needs both sides of the record."""
    waits: tuple[type[BaseException], ...]
    """What is raised where the call waits for somebody: no error of its tool."""

    @property
    def seq(self) -> int | None:
        """The number of the step that is open for this call; None where it takes a further one."""
        ...

    def postponed(self) -> None:
        """The call is made after others, in a step of that time; `over` ends it."""
        ...

    def over(self) -> None:
        """Close what a call has left open, with what its boundary showed."""
        ...

    def stepping(self) -> Step:
        """The step that this call is."""
        ...

    def run(self, seen: dict[str, Any], /) -> Any:
        """What the boundary is when it runs live."""
        ...

    def held(self, answer: Answer, closing: Closing, /) -> None:
        """Keep what came back or was raised, and close the passage when the middleware is through."""
        ...


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, a model or a person as the candidate's code declares it."""

    kind: Kind = Kind.TOOL
    name: str
    fn: Callable[..., Any] | None
    effect: Effect | None = None
    schema: Mapping[str, Any] | None = None
    result_schema: Mapping[str, Any] | None = None
    prompt: str | None = None
    version: str | None = None
    """What stands for the source of a model in the digest of its layer."""
    tightened: bool = False
    """A server hints that this tool writes: it counts as a write, whatever tools.yaml says."""
    defaults: Mapping[str, Any] = {}
    via: Via | None = None
    """The framework that this one call comes through."""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A named piece of candidate code: a hook or a guard and where it sits (`before:TOOL`, `after:TOOL`), a router, a handoff."""

    kind: Kind
    name: str
    fn: Callable[..., Any]
    at: str | None = None
