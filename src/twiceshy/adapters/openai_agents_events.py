"""A stream of the Responses API as the chunks of a model crossing, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling
from twiceshy.streaming import Growing, piece

controlling.require("agents", extra="adapters-openai-agents")

from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from twiceshy.adapters.openai_agents_messages import completed, ended_of, item_of, parts_of_item, response_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_OVER = frozenset({"response.completed", "response.incomplete", "response.failed"})
_DELTAS = {
    "response.output_text.delta": ("text", "content"),
    "response.function_call_arguments.delta": ("tool_call", "arguments"),
    "response.reasoning_summary_text.delta": ("reasoning", "content"),
    "response.reasoning_text.delta": ("reasoning", "content"),
}
"""What grows by an event: the type of the part, and the field of its text."""


class Telling:
    """A live stream as chunks that can be kept. events: the model's own by the id of the chunk that tells them; what says nothing new comes with the one after it."""

    def __init__(self, events: dict[int, list[Any]]) -> None:
        self._events = events
        self._held: list[Any] = []
        self._said: dict[str, dict[str, Any]] = {}

    def came(self, event: Any) -> Iterator[dict[str, Any]]:
        """The chunks that one more event makes."""
        self._held.append(event)
        for place, part in self._parts(event):
            told = piece(self._said.get(place, {}), part, place)
            self._said[place] = part
            if told is not None:
                yield self._kept(told)
        if event.type in _OVER:
            yield self._kept(ended_of(event.response))

    def _parts(self, event: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """What parts stand now where this event belongs."""
        if event.type in _DELTAS:
            kind, text = _DELTAS[event.type]
            at = f"{event.output_index}.{event.content_index}" if kind == "text" else str(event.output_index)
            before = self._said.get(at, {"type": kind, text: ""})
            if text in before:
                yield at, {**before, text: before[text] + event.delta}
        elif (
            event.type == "response.output_item.added" and event.item.type == "function_call"
        ) or event.type == "response.output_item.done":
            yield from _placed(event.output_index, event.item)
        elif event.type in _OVER:
            for index, item in enumerate(event.response.output):
                yield from _placed(index, item)

    def _kept(self, told: dict[str, Any]) -> dict[str, Any]:
        self._events[id(told)], self._held = self._held, []
        return told


def _placed(index: int, item: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The parts of an item, each by its place: texts by their number within it; the arguments of a call as the text they are."""
    for number, part in enumerate(parts_of_item(item)):
        if part["type"] == "tool_call":
            yield str(index), {**part, "arguments": item.arguments}
        else:
            yield f"{index}.{number}" if item.type == "message" else str(index), part


class Playing:
    """Chunks from the record as a stream of events: each part an item of its own."""

    def __init__(self) -> None:
        self._growing = Growing()
        self._count = 0

    def events(self, chunk: dict[str, Any]) -> Iterator[Any]:
        """What a stream tells of one more chunk; at the end, all that there was."""
        before = [*self._growing.parts]
        at = self._growing.add(chunk)
        if at is None:
            yield from self._ended()
            return
        part = self._growing.parts[at]
        if at == len(before):
            yield from self._begun(at, part)
        had = _text(before[at]) if at < len(before) else ""
        kind = {"text": "response.output_text.delta", "tool_call": "response.function_call_arguments.delta"}.get(
            part["type"]
        )
        if kind is not None and len(_text(part)) > len(had):
            extra = {"content_index": 0, "logprobs": []} if part["type"] == "text" else {}
            yield self._event(kind, output_index=at, item_id=f"item_{at}", delta=_text(part)[len(had) :], **extra)

    def _begun(self, at: int, part: dict[str, Any]) -> Iterator[Any]:
        if part["type"] == "text":
            item = {"type": "message", "id": f"item_{at}", "role": "assistant", "status": "in_progress", "content": []}
            yield self._event("response.output_item.added", output_index=at, item=item)
            text = {"type": "output_text", "text": "", "annotations": []}
            yield self._event(
                "response.content_part.added", output_index=at, item_id=f"item_{at}", content_index=0, part=text
            )
        elif part["type"] == "tool_call":
            call = {"type": "function_call", "call_id": part["id"], "name": part["name"], "arguments": ""}
            yield self._event("response.output_item.added", output_index=at, item=call)

    def _ended(self) -> Iterator[Any]:
        output = self._growing.output()
        for at, part in enumerate(output["parts"]):
            item = item_of(part, at)
            yield self._event("response.output_item.done", output_index=at, item=item.model_dump())
        yield completed(response_of(output))

    def _event(self, kind: str, **fields: Any) -> Any:
        self._count += 1
        return _EVENT.validate_python({"type": kind, "sequence_number": self._count, **fields})


def _text(part: dict[str, Any]) -> str:
    """The text of a part that grows; a call whose arguments came whole is spelt out."""
    found = part.get("arguments", "") if part["type"] == "tool_call" else part.get("content", "")
    return found if isinstance(found, str) else json.dumps(found)
