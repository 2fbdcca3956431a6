"""Claude Code's session files: a JSON line a turn, or a part of one.

Lines of one `message.id` are one answer of the model; a `tool_use` is joined with its `tool_result` by id. A sidechain is a sub-agent, in a scope of its own, and
what it was told is no user's turn. The system prompt is not recorded. `cwd`, file paths and folders of file names bear user names: none becomes a column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import faults, shapes, transcripts
from tasks.sources.entries import Entry, entries, inner
from tasks.sources.otlp_fields import UNREADABLE, reason_of
from tasks.sources.payloads import Payload
from tasks.sources.records import Side
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.transcripts import Transcript

if TYPE_CHECKING:
    from tasks.sources.faults import Fault
    from tasks.sources.records import Span

NAME = "claude_code"
AGENT = "claude-code"
_TURNS = ("user", "assistant")
_BESIDE = frozenset({"summary", "file-history-snapshot", "queue-operation", "custom-title", "tag"})
"""Lines that name no session and are of this format all the same."""

_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}
_NO_MODEL = "<synthetic>"
_EXIT = re.compile(r"\s*(?:Error: )?Exit code (\d+)\b")
_REFUSED = re.compile(
    r"(?:Error: )?(?:The user doesn't want to (?:proceed with|take) this|Permission to use \w+ has been denied|User rejected)"
)
_WRAPPED = re.compile(r"<tool_use_error>(.*)</tool_use_error>", re.DOTALL)


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per turn, call and other line; lines of several sessions are several traces."""
    intake = Intake(raw, NAME, harness_state)
    sessions: dict[Any, Session] = {}
    for entry in entries(intake, "messages"):
        if not _is_line(entry.held):
            entry.reject(intake, "unknown_container")
            continue
        named = entry.held.get("sessionId")
        found = named if isinstance(named, str) and named else next(iter(sessions), None)
        common = {"conversation_id": found, "agent_name": AGENT}
        session = sessions.setdefault(found, Session(Transcript.of(NAME, found, raw.name, common=common)))
        try:
            session.hear(entry)
        except UNREADABLE as bad:
            entry.reject(intake, reason_of(bad))
    for session in sessions.values():
        session.talk.enter(intake)
    return intake.mapped()


def _is_line(held: dict[str, Any]) -> bool:
    kind, message = held.get("type"), held.get("message")
    if kind in _TURNS:
        return isinstance(message, dict) and isinstance(message.get("content"), str | list)
    return isinstance(kind, str) and (kind in _BESIDE or "sessionId" in held or "parentUuid" in held)


@dataclass(slots=True)
class Session:
    """One session on its way to spans."""

    talk: Transcript
    _said: dict[str, Span] = field(default_factory=dict)
    _sides: dict[str, str] = field(default_factory=dict)
    _lines: set[str] = field(default_factory=set)

    def hear(self, entry: Entry, scope: str | None = None, parent: str | None = None) -> None:
        """One line. scope: of the agent that it is of, where the caller knows it. Raises BadSpan."""
        line = entry.held
        own = line.get("uuid")
        if isinstance(own, str):
            if own in self._lines:  # a session that was resumed repeats what it went on from
                return
            self._lines.add(own)
        found = scope or self._scope(line)
        common = {
            "at": line.get("timestamp"),
            "scope": found,
            "flags": set(entry.flags),
            "agent_version": line.get("version"),
        }
        common = {name: held for name, held in common.items() if held is not None}
        if line["type"] == "assistant":
            self._assistant(line, entry.place, common, parent)
        elif line["type"] == "user":
            self._user(line, entry.place, common, parent)
        else:
            self.beside(line, entry.place, common)

    def beside(self, line: dict[str, Any], place: str, common: dict[str, Any]) -> None:
        """A line that is no turn, kept as context."""
        name = "/".join(str(line[part]) for part in ("type", "subtype") if line.get(part))
        self.talk.add("step", name, place, line, ident=line.get("uuid"), **common)

    def _assistant(self, line: dict[str, Any], place: str, common: dict[str, Any], parent: str | None) -> None:
        message = line["message"]
        parts = shapes.parts_of(message["content"])
        key = str(message.get("id") or line.get("uuid") or len(self.talk))
        asker = self._said.get(key)
        if asker is None:
            asker = self._said[key] = self.talk.model(
                parts, place, line, ident=message.get("id") or line.get("uuid"), parent_span_id=parent, **common | _answered(message)
            )  # fmt: skip
            if line.get("isApiErrorMessage") is True or message.get("model") == _NO_MODEL:
                self._broke(asker, parts)
        else:
            self.talk.more(asker, parts, line)
            asker.finish_reason = message.get("stop_reason") or asker.finish_reason
            asker.usage = _usage(message) or asker.usage
        for part in parts:
            if isinstance(part, dict) and part.get("type") == "tool_call":
                held = Payload(part["arguments"], "json")
                self.talk.call(part["name"], held, place, part, call_id=part["id"], asker=asker, **common)

    def _broke(self, asker: Span, parts: list[Any]) -> None:
        """An answer that no model gave: the harness says why there is none."""
        text = transcripts.plain(parts) or "error"
        asker.messages_out = UNSET
        transcripts.failed(asker, faults.returned("model", {"is_error": True, "content": text}))

    def _user(self, line: dict[str, Any], place: str, common: dict[str, Any], parent: str | None) -> None:
        content = line["message"]["content"]
        blocks = content if isinstance(content, list) else []
        results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
        for block in results:
            self._result(line, block, place, alone=len(results) == 1)
        said = [block for block in blocks if block not in results] if results else content
        if said or not results:
            aside = "scope" in common or line.get("isMeta") is True or line.get("isCompactSummary") is True
            kind = "step" if aside else "user"
            self.talk.user(said, place, line, kind=kind, ident=line.get("uuid"), parent_span_id=parent, **common)

    def _result(self, line: dict[str, Any], block: dict[str, Any], place: str, *, alone: bool) -> None:
        held = transcripts.told(block.get("content", ""))
        fault = fault_of(self.talk.asked(block.get("tool_use_id")), held) if block.get("is_error") is True else None
        span = self.talk.answer(
            block.get("tool_use_id"), held, place, line, at=line.get("timestamp"), fault=fault
        )  # fmt: skip
        own = next((line[name] for name in ("toolUseResult", "tool_use_result") if name in line), UNSET)
        # A line with several results has one `toolUseResult`, and does not say whose; an error repeats its text there.
        if own is not UNSET and alone and not span.is_error and "raw" not in span.sides:
            span.sides["raw"] = Side(own, "json")

    def _scope(self, line: dict[str, Any]) -> str | None:
        """A sub-agent by its id; without one by the number of its first line among the sidechains of the file."""
        if line.get("isSidechain") is not True:
            return None
        if isinstance(line.get("agentId"), str) and line["agentId"]:
            return f"/{line['agentId']}"
        above = self._sides.get(str(line.get("parentUuid")))
        found = above or f"/sidechain:{len(set(self._sides.values())) + 1}"
        self._sides[str(line.get("uuid"))] = found
        return found


def fault_of(call: Span | None, held: Payload) -> Fault | None:
    """The error of a result that says it is one: an exit code, a refusal, or its text as a template."""
    text = held.value if isinstance(held.value, str) else ""
    wrapped = _WRAPPED.search(text)
    told = wrapped[1] if wrapped else text
    code = _EXIT.match(told)
    if code:
        return faults.returned("-", {"exit_code": int(code[1])})
    if _REFUSED.match(told):
        return faults.typed("approval", told, definite=True)
    return faults.returned(call.name if call else "-", {"is_error": True, "content": told or "error"})


def _answered(message: dict[str, Any]) -> dict[str, Any]:
    model = message.get("model")
    return {
        "model_answered": model if isinstance(model, str) and model != _NO_MODEL else None, "provider": "anthropic",
        "finish_reason": message.get("stop_reason"), "usage": _usage(message) or UNSET,
    }  # fmt: skip


def _usage(message: dict[str, Any]) -> dict[str, int]:
    listed = inner(message, "usage")
    return {name: listed[key] for name, key in _USAGE.items() if isinstance(listed.get(key), int)}


source = FileSource(NAME, spans)
