"""Codex: the rollout that it keeps of a session, and the event stream of `codex exec --json` (codex_exec.py).

A rollout holds the items of the Responses API. Items that follow each other without an answer between them are one answer of the model. Its `event_msg` lines repeat
for a screen what the items say, so they are context. An exit code stands in the head of a command's output.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tasks.sources import clock, faults, shapes, transcripts
from tasks.sources.codex_exec import Stream
from tasks.sources.entries import Entry, entries, inner
from tasks.sources.otlp_fields import UNREADABLE, reason_of
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.transcripts import Transcript

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasks.sources.faults import Fault
    from tasks.sources.payloads import Payload
    from tasks.sources.records import Span

NAME = "codex"
AGENT = "codex"
_WRAPPERS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_ANSWERS = ("function_call_output", "custom_tool_call_output")
_ITEMS = ("message", "reasoning", "web_search_call", *_CALLS, *_ANSWERS)
_HARNESS = re.compile(
    r"\s*<(?:user_instructions|environment_context|user_shell_command|turn_aborted|INSTRUCTIONS)\b|\s*# AGENTS\.md"
)
_DATE = re.compile(r"<current_date>([^<]+)</current_date>")
_ZONE = re.compile(r"<timezone>([^<]+)</timezone>")
_EXIT = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:$", re.MULTILINE)
_REFUSED = re.compile(r"\brejected by user\b", re.IGNORECASE)
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cached_input_tokens",
    "reasoning": "reasoning_output_tokens",
}


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per turn, call and other item: a file is a trace."""
    intake = Intake(raw, NAME, harness_state)
    held = []
    for entry in entries(intake, "items", "events"):
        if _is_item(entry.held):
            held.append(entry)
        else:
            entry.reject(intake, "unknown_container")
    meta = _meta(held)
    own = next((found for name in ("id", "session_id", "thread_id") if (found := meta.get(name))), None)
    common = {"conversation_id": own, "agent_name": AGENT, "agent_version": meta.get("cli_version")}
    talk = Transcript.of(NAME, own, raw.name, common=common)
    rollout, stream = _Rollout(talk, provider=meta.get("model_provider")), Stream(talk)
    for entry in held:
        try:
            (stream if Stream.speaks(entry.held) else rollout).hear(entry)
        except UNREADABLE as bad:
            entry.reject(intake, reason_of(bad))
    talk.enter(intake)
    return intake.mapped()


def _is_item(held: dict[str, Any]) -> bool:
    kind = held.get("type")
    if kind in _WRAPPERS:
        return isinstance(held.get("payload"), dict)
    return kind in _ITEMS or Stream.speaks(held) or "record_type" in held or _is_old_meta(held)


def _is_old_meta(held: dict[str, Any]) -> bool:
    """The first line of a rollout before its lines were wrapped."""
    return "type" not in held and isinstance(held.get("id"), str) and "instructions" in held


def _meta(held: Iterable[Entry]) -> dict[str, Any]:
    for entry in held:
        line = entry.held
        if line.get("type") == "session_meta":
            return dict(line["payload"])
        if _is_old_meta(line) or line.get("type") == "thread.started":
            return line
    return {}


@dataclass(slots=True)
class _Rollout:
    talk: Transcript
    provider: str | None = None
    _model: str | None = None
    _answer: Span | None = None
    _last: Span | None = None

    def hear(self, entry: Entry) -> None:
        """One line. Raises BadSpan."""
        line = entry.held
        item = line["payload"] if line.get("type") in _WRAPPERS else line
        more = {"at": line.get("timestamp"), "flags": set(entry.flags)}
        kind = item.get("type") if line.get("type") in ("response_item", *_ITEMS) else line.get("type")
        if kind in _ANSWERS:
            self._answered(item, entry.place, more)
        elif kind in ("reasoning", "web_search_call", *_CALLS) or (
            kind == "message" and item.get("role") == "assistant"
        ):
            self._said(item, entry.place, more)
        elif kind == "message":
            self._told(item, entry.place, more)
        else:
            self._beside(line, item, entry.place, more)

    def _said(self, item: dict[str, Any], place: str, more: dict[str, Any]) -> None:
        parts = shapes.parts_of(item.get("content")) if item["type"] == "message" else [_part(item)]
        if self._answer is None:
            self._answer = self._last = self.talk.model(
                parts, place, item, model_requested=self._model, provider=self.provider, **more
            )  # fmt: skip
        else:
            self.talk.more(self._answer, parts, item)
        if item["type"] in _CALLS:
            name, held = _asked(item)
            call_id = item.get("call_id", item.get("id"))
            self.talk.call(name, held, place, item, call_id=call_id, asker=self._answer, **more)

    def _answered(self, item: dict[str, Any], place: str, more: dict[str, Any]) -> None:
        self._answer = None
        output = item.get("output", "")
        inner = output if isinstance(output, dict) and "content" in output else {"content": output}
        held = transcripts.told(inner["content"])
        call = self.talk.asked(item.get("call_id"))
        fault = _fault(call.name if call else "-", held, failed=inner.get("success") is False)
        self.talk.answer(item.get("call_id"), held, place, item, at=more["at"], fault=fault)

    def _told(self, item: dict[str, Any], place: str, more: dict[str, Any]) -> None:
        self._answer = None
        content = item.get("content", "")
        text = transcripts.plain(content)
        if item.get("role") in ("system", "developer") and text is not None:
            self.talk.system(text, place, item, **more)
            return
        aside = text is not None and _HARNESS.match(text) is not None
        made = self.talk.user(content, place, item, kind="step" if aside else "user", **more)
        if aside and made.clock_text is None:
            _clock(made, str(text))

    def _beside(self, line: dict[str, Any], item: dict[str, Any], place: str, more: dict[str, Any]) -> None:
        name = (
            "/".join(str(found) for found in (line.get("type", "session_meta"), item.get("type")) if found)
            if item is not line
            else "state"
        )
        if line.get("type") == "turn_context":
            self._answer = None
            self._model = item["model"] if isinstance(item.get("model"), str) else self._model
        if item.get("type") == "token_count" and self._last is not None:
            self._last.usage = _usage(item) or self._last.usage
        text = _instructions(item) if line.get("type") == "session_meta" or _is_old_meta(line) else None
        if text:
            self.talk.system(text, place, line, **more)
        else:
            self.talk.add("step", name, place, line, **more)


def _part(item: dict[str, Any]) -> Any:
    if item["type"] in ("custom_tool_call", "local_shell_call"):
        name, held = _asked(item)
        return {"type": "tool_call", "id": item.get("call_id", item.get("id")), "name": name, "arguments": held.value}
    return shapes.part(item)


def _asked(item: dict[str, Any]) -> tuple[Any, Payload]:
    """The tool and the arguments of a call: JSON text, the free text of a custom tool, or the action of a shell call."""
    if item["type"] == "local_shell_call":
        return "local_shell", transcripts.arguments(item.get("action"))
    if item["type"] == "custom_tool_call":
        return item.get("name"), transcripts.arguments({"input": item.get("input")})
    return item.get("name"), transcripts.arguments(item.get("arguments"))


def _fault(tool: str, held: Payload, *, failed: bool) -> Fault | None:
    """An exit code in the head of the text or beside it, a refusal, or what the harness calls no success."""
    value = held.value
    if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        return faults.returned(tool, {"exit_code": value["metadata"].get("exit_code")})
    text = value if isinstance(value, str) else ""
    head = _OUTPUT.split(text, maxsplit=1)[0]
    code = _EXIT.search(head)
    if code:
        return faults.returned(tool, {"exit_code": int(code[1])})
    if _REFUSED.search(head) and (failed or not _OUTPUT.search(text)):
        return faults.typed("approval", text, definite=True)
    return faults.returned(tool, {"is_error": True, "content": text or "error"}) if failed else None


def _clock(span: Span, text: str) -> None:
    date, zone = _DATE.search(text), _ZONE.search(text)
    if date and clock.instant_ns(date[1]) is not None:
        span.clock_text, span.clock_tz = date[1], zone[1] if zone else None
        span.provenance = {"clock_text": {"key": "environment_context", "grade": "derived"}}


def _usage(item: dict[str, Any]) -> dict[str, int]:
    listed = inner(inner(item, "info"), "last_token_usage")
    return {name: listed[key] for name, key in _USAGE.items() if isinstance(listed.get(key), int)}


def _instructions(meta: dict[str, Any]) -> str | None:
    held = meta.get("base_instructions") or meta.get("instructions")
    text = held.get("text") if isinstance(held, dict) else held
    return text if isinstance(text, str) and text else None


source = FileSource(NAME, spans)
