"""The Claude Agent SDK's recorded stdio: {direction, message}, one conversation with the command line.

Its hooks make it the transcript that has both sides of a call: PreToolUse gets what was asked for and may answer with other arguments, PostToolUse gets what ran
and what came of it, and the `tool_result` is what went back. An answer `{}` of a hook says that it changed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from tasks.sources import faults, transcripts
from tasks.sources.claude_code import Session, fault_of
from tasks.sources.entries import Entry, entries, inner, listed
from tasks.sources.otlp_fields import UNREADABLE, BadSpan, reason_of
from tasks.sources.payloads import Payload
from tasks.sources.records import Side
from tasks.sources.source import FileSource, Intake, Mapped, Raw
from tasks.sources.transcripts import Transcript

if TYPE_CHECKING:
    from tasks.sources.records import Span

NAME = "claude_agent_sdk"
AGENT = "claude-agent"
_DIRECTIONS = ("send", "recv")
_CALLBACKS = ("hook_callback", "can_use_tool")


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per turn, call, hook and control message."""
    intake = Intake(raw, NAME, harness_state)
    held: list[Entry] = []
    for entry in entries(intake, "messages"):
        message = entry.held.get("message")
        if (
            entry.held.get("direction") in _DIRECTIONS
            and isinstance(message, dict)
            and isinstance(message.get("type"), str)
        ):
            held.append(entry._replace(held=message))
        else:
            entry.reject(intake, "unknown_container")
    ids = (entry.held.get("session_id") for entry in held)
    # What the SDK sends first goes to "default": the session gets its id from the other side.
    session_id = next((found for found in ids if found not in (None, "", "default")), None)
    common = {"conversation_id": session_id, "agent_name": AGENT}
    stdio = _Stdio(Session(Transcript.of(NAME, session_id, raw.name, common=common)))
    for entry in held:
        try:
            stdio.hear(entry)
        except UNREADABLE as bad:
            entry.reject(intake, reason_of(bad))
    stdio.join()
    stdio.session.talk.enter(intake)
    return intake.mapped()


class _Hook(NamedTuple):
    """One callback. said: what it was told; answer: what it answered, none where that is not in the file."""

    span: Span
    event: str
    call_id: Any
    said: dict[str, Any]
    answer: dict[str, Any]


@dataclass(slots=True)
class _Stdio:
    session: Session
    _hooks: dict[str, _Hook] = field(default_factory=dict)
    _agents: dict[str, str] = field(default_factory=dict)
    _denied: list[Any] = field(default_factory=list)

    def hear(self, entry: Entry) -> None:
        message = entry.held
        kind = message["type"]
        if kind in ("user", "assistant"):
            self._turn(entry)
        elif kind == "control_request" and inner(message, "request").get("subtype") in _CALLBACKS:
            self._hook(entry)
        elif kind == "result":
            self._result(entry)
        else:
            self.session.beside(message, entry.place, {"flags": set(entry.flags)})
            answer = inner(message, "response")
            asked = self._hooks.get(str(answer.get("request_id")))
            if kind == "control_response" and asked is not None:
                asked.answer.update(answer)

    def join(self) -> None:
        """Give every call what its hooks saw of it: they may stand before the call itself in the file."""
        for hook in self._hooks.values():
            call = self.session.talk.asked(hook.call_id)
            if call is not None:
                hook.span.parent_span_id, hook.span.scope = call.span_id, call.scope
                _ran(call, hook)
            _decided(hook, call)
        for call_id in self._denied:
            call = self.session.talk.asked(call_id)
            if call is not None and call.error_code != "approval":
                call.is_error = False  # its result told the refusal in words; this is the source's own word for it
                transcripts.failed(
                    call, faults.typed("approval", call.error_message or "permission denied", definite=True)
                )

    def _turn(self, entry: Entry) -> None:
        content = inner(entry.held, "message").get("content")
        if not isinstance(content, str | list):
            raise BadSpan("bad_type")
        call = self.session.talk.asked(entry.held.get("parent_tool_use_id"))
        self.session.hear(entry, self._scope(call) if call else None, call.span_id if call else None)

    def _scope(self, call: Span) -> str:
        """A sub-agent by the tool that was called for it, and the how-manieth such call that was."""
        known = self._agents.get(call.span_id)
        if known is None:
            path = f"{call.scope or ''}/{call.name}"
            known = f"{path}:{sum(held.rpartition(':')[0] == path for held in self._agents.values()) + 1}"
            self._agents[call.span_id] = known
        return known

    def _hook(self, entry: Entry) -> None:
        asked = inner(entry.held, "request")
        permission = asked["subtype"] == "can_use_tool"
        said = (
            {"tool_name": asked.get("tool_name"), "tool_input": inner(asked, "input")}
            if permission
            else inner(asked, "input")
        )
        event = "PreToolUse" if permission else str(said.get("hook_event_name"))
        before = event == "PreToolUse"
        got = said.get("tool_input" if before else "tool_response", UNSET)
        at = f"{'before' if before else 'after'}:{said['tool_name']}" if said.get("tool_name") else None
        made = self.session.talk.add(
            "guard" if permission else "hook", "can_use_tool" if permission else str(asked.get("callback_id")), entry.place, entry.held,
            sides={} if got is UNSET else {"seen": Side(got)}, flags=set(entry.flags),
        )  # fmt: skip
        made.at = at  # where it sits, not when it was
        hook = _Hook(made, event, asked.get("tool_use_id", said.get("tool_use_id")), said, {})
        self._hooks[str(entry.held.get("request_id"))] = hook

    def _result(self, entry: Entry) -> None:
        held = entry.held
        broke = held.get("is_error") is True
        self.session.talk.add(
            "agent", AGENT, entry.place, held, ident=held.get("uuid"), is_error=broke, error_class=str(held.get("subtype")) if broke else None,
            sides={"raw": Side(held["result"], "text")} if isinstance(held.get("result"), str) else {}, flags=set(entry.flags),
        )  # fmt: skip
        self._denied += [
            item.get("tool_use_id") for item in listed(held, "permission_denials") if isinstance(item, dict)
        ]


def _ran(call: Span, hook: _Hook) -> None:
    """What a hook after the call saw of it: the arguments that it ran with, and what came of it."""
    if hook.event not in ("PostToolUse", "PostToolUseFailure"):
        return
    if "tool_input" in hook.said:
        call.sides["seen"] = Side(hook.said["tool_input"])
    if "tool_response" in hook.said:
        call.sides["raw"] = Side(hook.said["tool_response"])
    if hook.event == "PostToolUseFailure":
        transcripts.failed(call, fault_of(call, Payload(str(hook.said.get("error") or "error"), "text")))


def _decided(hook: _Hook, call: Span | None) -> None:
    """What the answer of a hook says. None at all leaves what it gave unknown."""
    said = hook.answer.get("response")
    if hook.answer.get("subtype") == "error" or not isinstance(said, dict):
        if hook.answer:
            why = str(hook.answer.get("error") or "error")
            transcripts.failed(hook.span, faults.returned(hook.span.name, {"is_error": True, "content": why}))
        return
    told: dict[str, Any] = inner(said, "hookSpecificOutput") or said
    refused = "deny" in (told.get("permissionDecision"), said.get("behavior")) or said.get("decision") == "block"
    guard, before = hook.span.kind == "guard", hook.event == "PreToolUse"
    if guard:
        hook.span.sides["raw"] = Side({"blocked": refused})
    elif not (refused and before) and "seen" in hook.span.sides:
        changed = told.get("updatedInput" if before else "updatedMCPToolOutput", hook.span.sides["seen"].value)
        hook.span.sides["raw"] = Side(changed)
    if refused and before and call is not None:
        why = told.get("permissionDecisionReason") or said.get("reason") or said.get("message") or "denied"
        call.blocked_by, call.is_error = hook.span.name, False
        transcripts.failed(call, faults.typed("approval", str(why), definite=True))


source = FileSource(NAME, spans)
