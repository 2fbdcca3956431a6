"""OpenAI chat trajectories: one JSON object a run, its messages in `traj` or `messages`; one span a message, one more for a call that nothing answers.

There are no times, so order is the index of the message. Call ids repeat inside a trace, so a call joins the next tool message, by id only among the
tool messages that follow it directly. `info.task` (the gold actions) is the label side: it becomes scores, and never a span.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources import clock, faults, payloads
from tasks.sources.records import Score, Side, Span
from tasks.sources.source import FileSource, Intake, Mapped, Raw, lines
from twiceshy.identity import canonical, digest

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "openai_chat"
CONTAINER = "chat_list"
MAPPER = "openai_chat@1"
MODEL = "assistant"
"""The name of the model crossings: a message list does not say what the agent calls its model."""

EXPECTED_ACTIONS = "expected_actions"
EXPECTED_OUTPUTS = "expected_outputs"
_FAMILY = re.compile(
    r"\b(?:gpt-[\w.]+|o\d(?:-\w+)?|claude-[\w.-]*\d[\w.]*|gemini-[\w.]+|llama-?[\w.]+|mistral-[\w.]+|qwen[\w.]*)",
    re.IGNORECASE,
)


def spans(raw: Raw, *, harness_state: str) -> Mapped:
    """One row per message and per unanswered call; scores for the reward and the expected actions."""
    intake = Intake(raw, NAME, harness_state)
    for number, offset, line in lines(raw.content):
        place = f"line {number}"
        try:
            record = payloads.loads(line)
        except ValueError:
            intake.reject("bad_json", "row", place, line, byte_offset=offset)
            continue
        listed = _messages(record.value)
        if listed is None:
            intake.reject("unknown_container", "row", place, line, byte_offset=offset)
            continue
        _Run(raw.name, number, record.value, listed, record.flags).enter(intake)
    return intake.mapped()


def _messages(record: Any) -> list[Any] | None:
    held = (record.get("traj"), record.get("messages")) if isinstance(record, dict) else ()
    return next((listed for listed in held if isinstance(listed, list) and listed), None)


class _Run:
    """One trajectory on its way to spans."""

    def __init__(
        self, file: str, line: int, record: dict[str, Any], messages: list[Any], flags: frozenset[str]
    ) -> None:
        self._record, self._messages, self._flags = record, messages, flags
        self._line = line
        named = [record.get("task_id"), record.get("trial")] if "task_id" in record else [record.get("id", line)]
        self._key = "/".join(str(part) for part in (file, *named))
        self._trace_id = digest([NAME, file, *named])[:32]
        stem = re.sub(r"\.(?:trajectories|jsonl?|ndjson)", "", file)
        self._service = stem
        family = _FAMILY.search(stem)
        self._model = family.group() if family else None
        self._ids = Counter(call.get("id") for message in messages for call in _calls(message))

    def enter(self, intake: Intake) -> None:
        """Hand every message to the intake, in order, calls joined with what answers them."""
        asked: dict[int, tuple[dict[str, Any], int]] = {}
        for index, message in enumerate(self._messages):
            place = f"line {self._line}, message {index}"
            found = self._span(index, message, asked.pop(index, None))
            if found is None:
                intake.reject("bad_type", "span", place, canonical_bytes(message))
            else:
                intake.take(found, place)
            calls = _calls(message)
            answered = _answers(self._messages, index, calls)
            asked |= {at: (call, index) for call, at in zip(calls, answered, strict=True) if at is not None}
            for number, call in enumerate(calls):
                if answered[number] is None:
                    intake.take(self._unanswered(index, number, call), f"{place}, call {number}")
        intake.scores += self._scores()

    def _span(self, index: int, message: Any, asked: tuple[dict[str, Any], int] | None) -> Span | None:
        role = message.get("role") if isinstance(message, dict) else None
        made = {"system": self._system, "developer": self._system, "user": self._user, "assistant": self._assistant}
        if role == "tool":
            return self._tool(index, message, asked)
        if role not in made or not isinstance(message.get("content"), str | list | None):
            return None
        return made[role](index, message)

    def _base(self, index: str, kind: str, name: str, **fields: Any) -> Span:
        key = f"{self._key}#{index}"
        flags = set(self._flags) | fields.pop("flags", set())
        return Span(
            trace_id=self._trace_id, span_id=hashlib.sha256(key.encode()).hexdigest()[:16], source_trace_id=self._key, source_span_id=key,
            container=CONTAINER, dialect="openai_chat", mapper=MAPPER, service_name=self._service, kind=kind, name=name,
            seq=int(index.partition(".")[0]), time_precision="none", flags=flags, **fields,
        )  # fmt: skip

    def _system(self, index: int, message: dict[str, Any]) -> Span:
        text = _text(message)
        return self._base(
            str(index),
            "step",
            "system",
            system_text=text,
            attributes_json=_as_found(message),
            **clock.columns(text, "system message"),
        )

    def _user(self, index: int, message: dict[str, Any]) -> Span:
        text = _text(message)
        return self._base(
            str(index), "user", "user", sides={"raw": Side(text, "text")}, attributes_json=_as_found(message), **clock.columns(text, "user message")
        )  # fmt: skip

    def _assistant(self, index: int, message: dict[str, Any]) -> Span:
        parts: list[dict[str, Any]] = [{"type": "text", "text": _text(message)}] if message.get("content") else []
        flags: set[str] = set()
        for call in _calls(message):
            held = _arguments(call)
            flags |= held.flags
            parts.append({"type": "tool_call", "id": call.get("id"), "name": _tool_name(call), "arguments": held.value})
        source = {"model_requested": {"key": "file name", "grade": "derived"}} if self._model else {}
        return self._base(
            str(index), "model", MODEL, messages_out=[{"role": "assistant", "parts": parts}], model_requested=self._model,
            provenance=source, flags=flags, attributes_json=_as_found(message),
        )  # fmt: skip

    def _tool(self, index: int, message: dict[str, Any], asked: tuple[dict[str, Any], int] | None) -> Span | None:
        content = message.get("content")
        if not isinstance(content, str | list):
            return None
        held = payloads.parsed(content if isinstance(content, str) else _text(message))
        call, asker = asked or ({}, None)
        name = message.get("name") or _tool_name(call)
        fault = faults.returned(name or "-", held.value)
        return self._call(
            str(index), name, call, asker, shown=Side(held.value, held.encoding), flags=set(held.flags), is_error=fault is not None,
            error_class=fault.cls if fault else None, error_code=fault.code if fault else None,
            error_message=fault.message if fault else None, error_source=fault.source if fault else None,
            call_id=message.get("tool_call_id"), attributes_json=_as_found(message),
        )  # fmt: skip

    def _unanswered(self, index: int, number: int, call: dict[str, Any]) -> Span:
        return self._call(
            f"{index}.{number}", _tool_name(call), call, index, call_id=call.get("id"), attributes_json=_as_found(call)
        )

    def _call(self, index: str, name: str | None, call: dict[str, Any], asker: int | None, **fields: Any) -> Span:
        flags: set[str] = fields.pop("flags", set())
        sides = {"shown": fields.pop("shown")} if "shown" in fields else {}
        if call:
            held = _arguments(call)
            sides["proposed"] = Side(held.value, held.encoding)
            flags = flags | held.flags
        if self._ids[fields["call_id"]] > 1:
            flags = flags | {"repeated_call_id"}
        parent = None if asker is None else hashlib.sha256(f"{self._key}#{asker}".encode()).hexdigest()[:16]
        return self._base(
            index, "tool", name or "-", tool_name=name, parent_span_id=parent, sides=sides, flags=flags, **fields
        )

    def _scores(self) -> Iterator[Score]:
        record = self._record
        reward = record.get("reward")
        if isinstance(reward, int | float) and not isinstance(reward, bool):
            yield Score(trace_id=self._trace_id, name="reward", value=float(reward), origin="code")
        info = record.get("info")
        task = info.get("task") if isinstance(info, dict) else None
        if not isinstance(task, dict):
            return
        if isinstance(task.get("actions"), list):
            actions = [{"name": action.get("name"), "arguments": action.get("kwargs")} for action in task["actions"]]
            yield Score(
                trace_id=self._trace_id, name=EXPECTED_ACTIONS, text=canonical(actions).decode(), origin="human"
            )
        if isinstance(task.get("outputs"), list):
            yield Score(
                trace_id=self._trace_id, name=EXPECTED_OUTPUTS, text=canonical(task["outputs"]).decode(), origin="human"
            )


def _answers(messages: list[Any], index: int, calls: list[dict[str, Any]]) -> list[int | None]:
    """For each call of one message, the index of the tool message that answers it: by id where ids are distinct among those that follow directly, else in order."""
    following: list[int] = []
    for at in range(index + 1, len(messages)):
        if not isinstance(messages[at], dict) or messages[at].get("role") != "tool":
            break
        following.append(at)
    ids = [messages[at].get("tool_call_id") for at in following]
    asked = [call.get("id") for call in calls]
    if len(set(ids)) == len(ids) and len(set(asked)) == len(asked) and set(ids) <= set(asked):
        by_id = dict(zip(ids, following, strict=True))
        return [by_id.get(call_id) for call_id in asked]
    return [following[number] if number < len(following) else None for number in range(len(calls))]


def _calls(message: Any) -> list[dict[str, Any]]:
    listed = message.get("tool_calls") if isinstance(message, dict) and message.get("role") == "assistant" else None
    return [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []


def _tool_name(call: dict[str, Any]) -> str | None:
    function = call.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _arguments(call: dict[str, Any]) -> payloads.Payload:
    function = call.get("function")
    held = function.get("arguments") if isinstance(function, dict) else None
    return payloads.parsed(held) if isinstance(held, str) else payloads.Payload(held, "json")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content or ""


def _as_found(message: Any) -> str:
    return canonical_bytes(message).decode()


def canonical_bytes(message: Any) -> bytes:
    """A message as JSON bytes, its names in the order in which they came."""
    return msgspec.json.encode(message)


source = FileSource(NAME, spans)
