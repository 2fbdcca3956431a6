"""Backends that run the agent for real: `live()` only runs it, `Recorder` also writes down every crossing and makes the envelope."""

from __future__ import annotations

import asyncio
import inspect
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET

from twiceshy.boundary import Answer, Blocked, Call, Closing
from twiceshy.encoding import crossing_of, sealed, stored_line, stored_of, written_line
from twiceshy.envelope import (
    Crossing,
    Disposition,
    Effect,
    Envelope,
    ErrorRecord,
    Grade,
    Kind,
    Pins,
    RunInput,
)
from twiceshy.history import Attempts, History, Scopes, effective
from twiceshy.identity import digest, tagged
from twiceshy.matching import BEGINNING, CALLS
from twiceshy.policy import ToolsPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from twiceshy.boundary import Backend


_LEFT_S = 60.0
"""Seconds of the run's own clock for tasks that outlive their agent; in a replay they pass at once."""


class Sink(Protocol):
    """Where a recorder writes: one line of bytes a crossing, without the newline, as it closes."""

    def write(self, line: bytes) -> object:
        """Keep one line."""
        ...


class _Live:
    def cross(self, call: Call) -> Answer:  # noqa: ARG002 - every call runs
        return Answer(live=True)


def live() -> Backend:
    """A backend under which the agent runs as it would without twiceshy."""
    return _Live()


class Recorder:
    """Runs every call and records both sides of its middleware; `envelope` is the sealed record of the run.

    policy: effects, keys and resources of the tools; without one every undeclared tool is a write. now_ns: the clock of start and end times, ns since the epoch.
    """

    def __init__(
        self, *, policy: ToolsPolicy | None = None, sink: Sink | None = None, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._policy = policy or ToolsPolicy(workflow="")
        self._history = History(self._policy)
        self._lines: list[tuple[int, int, bytes]] = []
        self._attempts = Attempts()
        self._scopes = Scopes()
        self._sink = sink
        self._now_ns = now_ns
        self._guard = Lock()  # tools may run on several threads

    def cross(self, call: Call) -> Answer:
        """Let the caller run it; what it came to is recorded when it closes."""
        if call.refused is not None:
            raise call.refused
        # A line is a snapshot: the agent may change its arguments after the call.
        opened = self._opened(call)
        line = written_line(opened)
        return Answer(live=True, close=lambda closing: self._close(line, closing), scope=opened.at)

    def envelope(
        self, *, trace_id: str, source: str, workflow: str, run_input: RunInput, disposition: Disposition, pins: Pins | None = None,
        grades: Mapping[str, Grade] | None = None, conversation_id: str | None = None,
    ) -> Envelope:  # fmt: skip
        """The sealed envelope of everything recorded so far, crossings in order of (seq, sub)."""
        crossings = tuple(crossing_of(line) for _, _, line in sorted(self._lines))
        return sealed(
            Envelope(
                trace_id=trace_id, source=source, workflow=workflow, conversation_id=conversation_id, input=run_input,
                pins=pins or Pins(), grades=dict(grades or {}), disposition=disposition, crossings=crossings,
            )
        )  # fmt: skip

    def _opened(self, call: Call) -> Crossing:
        with self._guard:
            key, state, attempt, at = "", "", 1, call.at
            effect, tightened = call.effect, False
            if call.kind in BEGINNING:
                self._history.begin(call.scope, call.group)
                key = self._policy.key(call.name, call.seen, call.declared.schema if call.declared else None)
            if call.kind in CALLS:
                tightened = call.declared is not None and call.declared.tightened
                effect = Effect.WRITE if tightened else self._policy.effect(call.name, call.effect)
                state = self._history.state(call.name, call.scope)
                attempt = self._attempts.next(call.scope, call.name, key)
            elif call.kind is Kind.HANDOFF:
                at = self._scopes.spawned(call.scope, call.name, key)
            elif call.kind is Kind.MODEL:
                key = digest(call.seen)
        return Crossing(
            seq=call.seq, sub=call.sub, parent=call.parent, kind=call.kind, name=call.name, scope=call.scope, group=call.group, at=at,
            attempt=attempt, effect=effect, tightened=tightened, proposed=call.proposed, seen=call.seen, blocked_by=call.blocked_by, key=key, state=state, start_ns=self._now_ns(),
        )  # fmt: skip

    def _close(self, snapshot: bytes, closing: Closing) -> None:
        opened = stored_of(snapshot)
        error = error_record(closing.error, self._policy.of(opened.name).definite_errors) if closing.error else None
        raw, shown = (side if side is UNSET else tagged(side) for side in (closing.raw, closing.shown))
        chunks = None if closing.chunks is None else tagged(closing.chunks)
        closed = msgspec.structs.replace(
            opened, raw=raw, shown=shown, error=error, chunks=chunks, end_ns=self._now_ns()
        )
        line = stored_line(closed)
        with self._guard:
            if opened.kind in CALLS:
                self._enter(closed)
            self._lines.append((closed.seq, closed.sub, line))
            if self._sink is not None:
                self._sink.write(line)

    def _enter(self, closed: Crossing) -> None:
        self._attempts.answered(closed, failed=closed.error is not None)
        if closed.effect is Effect.WRITE and effective(closed, self._policy):
            self._history.enter(closed.scope, closed.name, closed.key)


def record(sink: Sink | None = None, *, policy: ToolsPolicy | None = None) -> Recorder:
    """A recording backend: `Boundary(record(file))`."""
    return Recorder(sink=sink, policy=policy)


def run(agent: Callable[[Any], Any], user: object) -> Disposition:
    """Run an agent, plain or async, to its end; what it raised is part of how it ended."""
    try:
        output = agent(user)
        if inspect.iscoroutine(output):
            output = asyncio.run(_whole(output))
        return Disposition(output=output)
    except Exception as raised:  # noqa: BLE001 - whatever the agent's own code raises
        return Disposition(ended=False, output=UNSET, error=error_record(raised, ()))


async def _whole(agent: Coroutine[Any, Any, Any]) -> Any:
    """What the agent returns, once the tasks that it left running are through or have had their time: they would have gone on in production."""
    try:
        return await agent
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            await asyncio.wait(left, timeout=_LEFT_S)


def error_record(raised: BaseException, definite: tuple[str, ...]) -> ErrorRecord:
    """The record of an exception. Its type is its own `code` or `type` attribute if it has one, else the class name; definite when the policy lists it."""
    if isinstance(raised, Blocked):
        return ErrorRecord(cls="twiceshy.Blocked", type="blocked", message=str(raised), definite=True)
    kind = type(raised)
    code = _named(raised, "code") or _named(raised, "type") or _TYPES.get(kind.__name__, kind.__name__)
    return ErrorRecord(
        cls=f"{kind.__module__}.{kind.__qualname__}",
        type=code,
        message=_text(raised),
        definite=getattr(raised, "definite", False) is True or code in definite,
    )


def _named(raised: BaseException, attribute: str) -> str | None:
    """What an exception says of itself; an attribute that is a method (as of gRPC's errors) says nothing."""
    found = getattr(raised, attribute, None)
    return _utf8(str(found)) if isinstance(found, str | int) and found else None


def _text(raised: BaseException) -> str:
    """The text of an exception, whatever its class makes of `str`."""
    try:
        return _utf8(str(raised))
    except Exception:  # noqa: BLE001 - the candidate's own code
        return ""


def _utf8(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# The closed base vocabulary of formats.md §7, for Python's own exceptions.
_TYPES = {"TimeoutError": "timeout", "PermissionError": "permission", "FileNotFoundError": "file_not_found", "IsADirectoryError": "is_a_directory", "UnicodeDecodeError": "unicode_decode"}  # fmt: skip
