"""Streams of managed agents, a line each `[call, payload]`: one session is one trace, its model requests, tool uses, approvals and user messages its spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from tasks.sources import clock, faults, ids, shapes
from tasks.sources.langsmith.runs import NAME
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.records import Side, Span
from tasks.sources.times import span_times

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINER = "managed_stream"
MAPPER = "langsmith_managed@1"
_CREATE, _STREAM = "client.beta.sessions.create", "client.beta.sessions.events.stream"
_SEND = "client.beta.sessions.events.send"
_CALLS = "client.beta.sessions."
_USES = frozenset({"agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"})
_RESULTS = {
    "agent.tool_result": "tool_use_id",
    "agent.mcp_tool_result": "mcp_tool_use_id",
    "user.custom_tool_result": "custom_tool_use_id",
}
_COUNTS = {
    "input": "input_tokens", "output": "output_tokens", "cache_read": "cache_read_input_tokens", "cache_write": "cache_creation_input_tokens",
}  # fmt: skip
_FAILED = {"is_error": True, "error_code": "unknown", "error_class": "unknown", "error_source": "structured"}
_SAID = {"agent.message": "text", "agent.thinking": "reasoning"}


@dataclass(slots=True)
class Session:
    """The events of one stream on their way to spans. What was sent comes back in the stream, where it has an id and a time."""

    created: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def hear(self, line: Any) -> None:
        """One line. Raises BadSpan for one that is none of such a stream, or holds no object."""
        if not _is_line(line):
            raise BadSpan("unknown_container")
        call, payload = line
        if call == _CREATE and isinstance(payload, dict):
            self.created = payload
        elif call == _SEND and isinstance(payload, list) and payload and "id" not in self.created:
            self.created = {"id": payload[0]}
        elif call == _STREAM:
            if not isinstance(payload, dict) or not isinstance(payload.get("type"), str):
                raise BadSpan("bad_type")
            self.events.append(payload)

    def spans(self) -> Iterator[tuple[Span, str]]:
        """Every span with its locator. Raises BadSpan where the stream names no session."""
        answers = {str(held.get(_RESULTS[held["type"]])): held for held in self.events if held["type"] in _RESULTS}
        verdicts = {
            str(held.get("tool_use_id")): held for held in self.events if held["type"] == "user.tool_confirmation"
        }
        yield self._root(), "session"
        heard = False
        for number, held in enumerate(self.events):
            place, kind = f"event {number}", held["type"]
            if kind == "span.model_request_start":
                yield self._model(number, held), place
            elif kind in _USES:
                key = str(held.get("id"))
                yield self._tool(number, held, answers.get(key), verdicts.get(key)), place
            elif kind == "user.tool_confirmation":
                yield self._approval(number, held), place
            elif kind == "user.message":
                if heard:
                    yield (
                        self._base(held, number, "user", "user", sides={"raw": Side(_text(held.get("content")))}),
                        place,
                    )
                heard = True

    @property
    def _agent(self) -> dict[str, Any]:
        held = self.created.get("agent")
        return held if isinstance(held, dict) else {}

    def _base(self, held: dict[str, Any], seq: int, kind: str, name: str, *, end: Any = None, **fields: Any) -> Span:
        flags: set[str] = set()
        session, own = self.created.get("id"), held.get("id")
        trace_id, root = ids.trace_id(session, NAME, flags), ids.span_id(session, NAME, flags)
        at = held.get("processed_at") or held.get("created_at")
        span_id = ids.span_id(own, NAME, flags)
        return Span(
            trace_id=trace_id, span_id=span_id, parent_span_id=None if span_id == root else root, source_trace_id=str(session),
            source_span_id=str(own), container=CONTAINER, dialect="langsmith", mapper=MAPPER, kind=kind, name=name, seq=seq, flags=flags,
            attributes_json=msgspec.json.encode(held).decode(), conversation_id=str(session), agent_name=self._agent.get("name"), **span_times(at, end or at), **fields,
        )  # fmt: skip

    def _root(self) -> Span:
        first = next((held for held in self.events if held["type"] == "user.message"), None)
        said = [_text(held.get("content")) for held in self.events if held["type"] == "agent.message"]
        sides = {"seen": Side(_text(first.get("content")))} if first else {}
        sides |= {"raw": Side(said[-1])} if said else {}
        last = self.events[-1].get("processed_at") if self.events else None
        version = self._agent.get("version")
        return self._base(
            self.created, 0, "agent", str(self._agent.get("name") or "session"), end=last, sides=sides, system_text=self._system,
            agent_version=None if version is None else str(version), **self._clock,
        )  # fmt: skip

    @property
    def _system(self) -> Any:
        return self._agent.get("system") or UNSET

    @property
    def _clock(self) -> dict[str, Any]:
        told = clock.told(self._system) if isinstance(self._system, str) else None
        derived = {"clock_text": {"key": "agent.system", "grade": "derived"}}
        return {"clock_text": told.text, "clock_tz": told.tz, "provenance": derived} if told else {}

    def _model(self, number: int, start: dict[str, Any]) -> Span:
        """A request: all that the agent said and asked for until the event that ends it."""
        parts: list[Any] = []
        end: dict[str, Any] = {}
        for held in self.events[number + 1 :]:
            if held["type"] == "span.model_request_end" and held.get("model_request_start_id") in (
                None,
                start.get("id"),
            ):
                end = held
                break
            parts += _said(held)
        model = self._agent.get("model")
        return self._base(
            start, number, "model", "model", end=end.get("processed_at"), messages_out=[{"role": "assistant", "parts": parts}] if end and parts else UNSET,
            model_requested=model.get("id") if isinstance(model, dict) else None, usage=_usage(end), system_text=self._system, provider="anthropic",
            tool_defs=_offered(self._agent) or UNSET, **(_FAILED if end.get("is_error") is True else {}),
        )  # fmt: skip

    def _tool(
        self, number: int, use: dict[str, Any], answer: dict[str, Any] | None, verdict: dict[str, Any] | None
    ) -> Span:
        """A call; one that a person denied never ran: only what was proposed and what went back are known."""
        asked, name = Side(use.get("input")), str(use.get("name") or "-")
        denied = verdict is not None and verdict.get("result") == "deny"
        sides = {"proposed": asked} if denied else {"proposed": asked, "seen": asked}
        if answer is not None:
            content = shapes.part({"type": "tool_result", "content": answer.get("content")})["response"]
            sides |= {"shown": Side(content)} if denied else {"raw": Side(content), "shown": Side(content)}
        # A call that waited for a person passes its boundary with their word, not when it was asked for.
        at, place = (
            (use, number)
            if verdict is None
            else (use | {"processed_at": verdict.get("processed_at")}, self.events.index(verdict) + 1)
        )
        return self._base(
            at, place, "tool", name, end=(answer or {}).get("processed_at"), tool_name=name, call_id=str(use.get("id")),
            mcp_server=use.get("mcp_server_name"), sides=sides, **_fault(name, answer, verdict if denied else None),
        )  # fmt: skip

    def _approval(self, number: int, held: dict[str, Any]) -> Span:
        use = next(
            (event for event in self.events if event["type"] in _USES and event.get("id") == held.get("tool_use_id")),
            {},
        )
        said = {name: held[name] for name in ("result", "deny_message") if held.get(name) is not None}
        asked = {"tool": use.get("name"), "input": use.get("input")}
        return self._base(held, number, "human", "tool_confirmation", sides={"seen": Side(asked), "raw": Side(said)})


def _fault(tool: str, answer: dict[str, Any] | None, denied: dict[str, Any] | None) -> dict[str, Any]:
    if denied is not None:
        found = faults.typed("approval", str(denied.get("deny_message") or "denied"), cls="ToolDenied", definite=True)
    elif answer is not None and answer.get("is_error") is True:
        told = faults.returned(tool, {"is_error": True, "message": _text(answer.get("content"))})
        if told is None:
            return {}
        found = told
    else:
        return {}
    return {
        "is_error": True, "error_class": found.cls, "error_code": found.code, "error_message": found.message, "error_source": found.source,
        "error_definite": found.definite,
    }  # fmt: skip


def _said(held: dict[str, Any]) -> list[Any]:
    """What one event adds to the answer of a model."""
    if held["type"] in _USES:
        return [{"type": "tool_call", "id": held.get("id"), "name": held.get("name"), "arguments": held.get("input")}]
    text = _text(held.get("content")) if held["type"] in _SAID else ""
    return [{"type": _SAID[held["type"]], "text": text}] if text else []


def _usage(end: dict[str, Any]) -> Any:
    held = end.get("model_usage")
    found = {name: held.get(key) for name, key in _COUNTS.items()} if isinstance(held, dict) else {}
    return {name: count for name, count in found.items() if isinstance(count, int)} or UNSET


def _offered(agent: dict[str, Any]) -> list[Any]:
    """The tools whose schema the session names; a toolset is only a name."""
    tools = [tool for tool in agent.get("tools") or () if isinstance(tool, dict) and "input_schema" in tool]
    return [
        {
            "type": "function",
            "name": tool.get("name"),
            "description": tool.get("description"),
            "parameters": tool["input_schema"],
        }
        for tool in tools
    ]


def _text(content: Any) -> str:
    """The text of a content, its blocks joined."""
    blocks = content if isinstance(content, list) else [content]
    return "".join(str(block.get("text") or "") if isinstance(block, dict) else str(block or "") for block in blocks)


def _is_line(held: Any) -> bool:
    return isinstance(held, list) and len(held) == 2 and isinstance(held[0], str) and held[0].startswith(_CALLS)  # noqa: PLR2004 - a pair
