"""A run that was written down as messages: what all transcripts have in common, whoever wrote them.

One span a turn, one a call with what answered it, one for whatever else the file holds. Their order is that of the file. Times stand only where they are
of every crossing and say the same order: a clock that contradicts the file would move calls.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tasks.sources import clock, faults, ids, payloads, times
from tasks.sources.records import Side, Span
from tasks.sources.schema import CONTEXT_KINDS
from twiceshy.identity import digest

if TYPE_CHECKING:
    from tasks.sources.faults import Fault
    from tasks.sources.payloads import Payload
    from tasks.sources.source import Intake

CONTAINER = "chat_list"
"""As message lists are: what a model was asked is what stands before it."""


class _Held(NamedTuple):
    span: Span
    place: str
    found: list[Any]


@dataclass(slots=True, kw_only=True)
class Transcript:
    """One trace on its way to spans. key: its id as the source has it; common: columns of every span of it; container: how normalize reads it on."""

    source: str
    mapper: str
    key: str
    trace_id: str
    container: str = CONTAINER
    flags: set[str] = field(default_factory=set)
    common: dict[str, Any] = field(default_factory=dict)
    _held: list[_Held] = field(default_factory=list)
    _open: dict[str, _Held] = field(default_factory=dict)
    _asked: dict[str, _Held] = field(default_factory=dict)

    @classmethod
    def of(cls, source: str, held_id: Any, file: str, **fields: Any) -> Transcript:
        """A transcript known by its own id, else by the file that it lies in. Only the last part of a path is kept: folders bear the names of users."""
        flags: set[str] = set()
        if held_id not in (None, ""):
            trace_id, key = ids.trace_id(held_id, source, flags), str(held_id)
        else:
            trace_id, key = digest([source, file])[:32], file.rsplit("/", 1)[-1]
            flags.add("id_derived")
        return cls(source=source, mapper=f"{source}@1", key=key, trace_id=trace_id, flags=flags, **fields)

    def __len__(self) -> int:
        return len(self._held)

    def add(
        self, kind: str, name: str, place: str, found: Any, *, ident: Any = None, at: Any = None, **fields: Any
    ) -> Span:
        """One span. found: what it was read from, kept as its attributes; ident: its own id; at: its time, in any spelling. Raises BadSpan."""
        seq, marks = len(self._held), self.flags | fields.pop("flags", set())
        source_id = f"{self.key}#{seq}" if ident is None else str(ident)
        derived = hashlib.sha256(f"{self.source}/{self.trace_id}#{seq}".encode()).hexdigest()[:16]
        span_id = derived if ident is None else ids.span_id(ident, self.source, marks)
        began = times.time(at)
        made = Span(
            trace_id=self.trace_id, span_id=span_id, source_trace_id=self.key, source_span_id=source_id, container=self.container,
            dialect=self.source, mapper=self.mapper, kind=kind, name=name or "-", seq=seq, start_ns=began.ns, time_precision=began.precision,
            flags=marks, **self.common | fields,
        )  # fmt: skip
        self._held.append(_Held(made, place, [found]))
        return made

    def system(self, text: str, place: str, found: Any, **fields: Any) -> Span:
        """A system text, and the clock that it told."""
        return self.add(
            "step", "system", place, found, system_text=text, **clock.columns(text, "system message"), **fields
        )

    def user(self, content: Any, place: str, found: Any, *, kind: str = "user", **fields: Any) -> Span:
        """A turn of the user; kind `step`: what the harness said in the user's role."""
        text = plain(content)
        side = Side(content, "json") if text is None else Side(text, "text")
        return self.add(
            kind, "user", place, found, sides={"raw": side}, **clock.columns(text or "", "user message"), **fields
        )

    def model(self, parts: list[Any], place: str, found: Any, *, name: str = "assistant", **fields: Any) -> Span:
        """What a model said."""
        return self.add("model", name, place, found, messages_out=[{"role": "assistant", "parts": parts}], **fields)

    def more(self, span: Span, parts: list[Any], found: Any) -> None:
        """Further parts of what a model said, written apart from the first ones."""
        span.messages_out[0]["parts"] += parts
        self.found(span, found)

    def found(self, span: Span, found: Any) -> None:
        """Something else that a span was read from, kept with its attributes."""
        next(held for held in reversed(self._held) if held.span is span).found.append(found)

    def call(
        self, name: Any, arguments: Payload, place: str, found: Any, *, call_id: Any = None, asker: Span | None = None, **fields: Any
    ) -> Span:  # fmt: skip
        """A call that was asked for, open until it is answered. An id that was asked before is flagged on both."""
        tool = name if isinstance(name, str) and name else None
        flags = set(arguments.flags) | fields.pop("flags", set())
        made = self.add(
            "tool", tool or "-", place, found, tool_name=tool, call_id=None if call_id is None else str(call_id), flags=flags, mcp_server=_server(tool),
            sides={"proposed": Side(arguments.value, arguments.encoding)}, parent_span_id=asker.span_id if asker else None, **fields,
        )  # fmt: skip
        if call_id is not None:
            known = self._asked.get(str(call_id))
            for doubled in (made, known.span) if known else ():
                doubled.flags.add("repeated_call_id")
            self._open[str(call_id)] = self._asked[str(call_id)] = self._held[-1]
        return made

    def asked(self, call_id: Any) -> Span | None:
        """The call of that id, answered or not."""
        held = self._asked.get(str(call_id))
        return held.span if held else None

    def answer(
        self, call_id: Any, held: Payload, place: str, found: Any, *, side: str = "shown", at: Any = None, fault: Fault | None = None, name: str | None = None
    ) -> Span:  # fmt: skip
        """What answered a call; one that nobody asked for is a call without arguments. fault: as the source tells it, before what the answer itself tells."""
        open_call = self._open.pop(str(call_id), None)
        if open_call is None:
            tool = {"tool_name": name, "call_id": None if call_id is None else str(call_id)}
            span = self.add("tool", name or "-", place, found, at=at, **tool)
        else:
            span = open_call.span
            open_call.found.append(found)
            ended = times.time(at).ns
            span.end_ns = ended if ended is not None and span.start_ns is not None and ended >= span.start_ns else None
        span.sides[side] = Side(held.value, held.encoding)
        span.flags |= held.flags
        failed(span, fault or faults.returned(span.name, held.value))
        return span

    def enter(self, intake: Intake) -> None:
        """Hand every span to the intake, in order."""
        self._settle()
        for held in self._held:
            found = held.found[0] if len(held.found) == 1 else held.found
            held.span.attributes_json = msgspec.json.encode(found).decode()
            intake.take(held.span, held.place)

    def _settle(self) -> None:
        """Leave the times only where they say the order of the file."""
        spans = [held.span for held in self._held]
        timed = [span for span in spans if span.start_ns is not None]
        whole = all(span.start_ns is not None for span in spans if span.kind not in CONTEXT_KINDS)
        if whole and timed == sorted(timed, key=self._place()):
            return
        for span in spans:
            span.start_ns, span.end_ns, span.time_precision = None, None, "none"

    def _place(self) -> Any:
        """As normalize puts spans in order: by begin, never before that of the span around; by depth; by place."""
        begins: dict[str, tuple[int, int]] = {}
        for held in self._held:
            span = held.span
            above, depth = begins.get(span.parent_span_id or "", (0, -1))
            begins[span.span_id] = max(span.start_ns or 0, above), depth + 1
        return lambda span: (*begins[span.span_id], span.seq)


def failed(span: Span, fault: Fault | None) -> None:
    """Write an error to a span, if there is one and it has none yet."""
    if fault is None or span.is_error:
        return
    span.is_error, span.error_class, span.error_code, span.error_message = True, fault.cls, fault.code, fault.message
    span.error_source, span.error_definite = fault.source, fault.definite


def plain(content: Any) -> str | None:
    """The text of a content that is nothing but text; None for any other."""
    if isinstance(content, str):
        return content
    listed = content if isinstance(content, list) else [None]
    texts = [
        part.get("text") if isinstance(part, dict) and str(part.get("type")) in _TEXTS else None for part in listed
    ]
    return None if None in texts else "".join(str(text) for text in texts)


def told(content: Any) -> Payload:
    """What went back for a call: a text with what it stands for, or blocks as they are."""
    text = plain(content)
    return payloads.parsed(text) if text is not None else payloads.Payload(content, "json")


def arguments(held: Any) -> Payload:
    """Arguments of a call: the value of a JSON text, or the value itself."""
    return payloads.parsed(held) if isinstance(held, str) else payloads.Payload(held, "json")


def _server(tool: str | None) -> str | None:
    """The MCP server in a name like `mcp__github__search`."""
    parts = (tool or "").split("__")
    return parts[1] if len(parts) > 2 and parts[0] == "mcp" and parts[1] else None  # noqa: PLR2004 - mcp, server, tool


_TEXTS = frozenset({"text", "input_text", "output_text"})
