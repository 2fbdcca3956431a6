"""What is said to a model and by it, in one form for every wire: the message parts of the OpenTelemetry GenAI conventions.

A request: {"messages": [{"role", "parts"}], "tools": [{"type": "function", "name", "description", "parameters"}], "output_format", "sampling", "model", "options"};
what a wire leaves out stays out. An output: {"parts", "finish_reason"}, with "usage" where it was told.
Parts: {"type": "text", "content"}, {"type": "reasoning", "content"}, {"type": "tool_call", "id", "name", "arguments"},
{"type": "tool_call_response", "id", "response"}; any other part keeps the form of its wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import msgspec

from twiceshy.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Json = dict[str, Any]


class Unspeakable(InputError):
    """A recorded output that no wire format can carry."""

    @classmethod
    def of(cls, output: object) -> Unspeakable:
        """The type that was recorded, never the value."""
        return cls(
            f"a recorded model output is a {type(output).__name__} without parts, which the gateway cannot put on the wire. "
            'Record {"parts": [...], "finish_reason": ...}.'
        )


class BadRequest(InputError):
    """A request that its own protocol does not allow; the client gets 400."""


class UnreadableCall(BadRequest):
    """A call of a tool whose arguments are no JSON object. tool: its name, empty where even that is missing."""

    tool: str = ""

    @classmethod
    def of(cls, tool: str) -> Self:
        """The tool, never what was sent."""
        made = cls("a call of a tool needs its name, and its arguments as one JSON object.")
        made.tool = tool
        return made


class UpstreamFailed(Exception):
    """A service answered with an error; it is recorded as one and goes back as it came."""

    def __init__(self, code: str, told: str) -> None:
        super().__init__(told)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One model output as every wire renders it. finish: stop, tool_calls, length or content_filter. usage: tokens in and out."""

    parts: Sequence[Json]
    finish: str
    usage: tuple[int, int] = (0, 0)

    @property
    def text(self) -> str | None:
        """All of its text, or None where it says nothing."""
        return "".join(texts) if (texts := [part["content"] for part in self.of("text")]) else None

    @property
    def calls(self) -> list[Json]:
        """The tool calls that it proposes, in order."""
        return list(self.of("tool_call"))

    def of(self, kind: str) -> Iterator[Json]:
        """Its parts of one kind."""
        return (part for part in self.parts if part["type"] == kind)


_FINISH = {
    "stop": "stop", "end_turn": "stop", "stop_sequence": "stop", "tool_calls": "tool_calls", "tool_call": "tool_calls", "tool_use": "tool_calls",
    "length": "length", "max_tokens": "length", "max_output_tokens": "length", "content_filter": "content_filter", "refusal": "content_filter",
}  # fmt: skip


def said(output: Any) -> Said:
    """The output of a recorded crossing. A bare text is one text part. Raises Unspeakable."""
    if isinstance(output, str):
        return Said(parts=[text_part(output)], finish="stop")
    held = output[0] if isinstance(output, list) and len(output) == 1 else output
    if not isinstance(held, dict) or not isinstance(held.get("parts"), list):
        raise Unspeakable.of(output)
    parts = [_part(part, at) for at, part in enumerate(held["parts"], start=1)]
    calls = any(part["type"] == "tool_call" for part in parts)
    finish = _FINISH.get(str(held.get("finish_reason")), "tool_calls" if calls else "stop")
    return Said(parts=parts, finish=finish, usage=_usage(held.get("usage")))


def text_part(text: str) -> Json:
    """A part of text."""
    return {"type": "text", "content": text}


def call_part(call_id: Any, name: Any, arguments: Any) -> Json:
    """A proposed tool call; arguments may be JSON text."""
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": parsed(arguments)}


def answer_part(call_id: Any, response: Any) -> Json:
    """What a tool call came to, as the model is told."""
    return {"type": "tool_call_response", "id": call_id, "response": parsed(response)}


def merged(messages: Sequence[Json]) -> list[Json]:
    """The messages with neighbouring tool messages made one: OpenAI tells a turn's results one by one, Anthropic all at once."""
    found: list[Json] = []
    for message in messages:
        if found and message["role"] == found[-1]["role"] == "tool":
            found[-1] = {"role": "tool", "parts": [*found[-1]["parts"], *message["parts"]]}
        else:
            found.append(message)
    return found


def parsed(text: Any) -> Any:
    """JSON text as its value; any other text, and what is no text, as it is. Numbers beyond a float stay text."""
    if not isinstance(text, str):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return text


def spelled(value: Any) -> str:
    """A value as the text that a wire carries: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def picked(body: Mapping[str, Any], names: Sequence[str]) -> Json:
    """Those members of a request that are there and not null."""
    return {name: body[name] for name in names if body.get(name) is not None}


def canonical_request(
    body: Mapping[str, Any], known: Mapping[str, Any], *, sampling: Sequence[str], spent: Sequence[str]
) -> Json:
    """A request in the one form: what its wire made of messages, tools and output format, then sampling, the model's name and all other options.

    spent: members that `known` stands for, or that say only how the answer is delivered.
    """
    rest = {
        name: value for name, value in body.items() if name not in {*sampling, *spent, "model"} and value is not None
    }
    request = {name: value for name, value in known.items() if value is not None}
    if chosen := picked(body, sampling):
        request["sampling"] = chosen
    if body.get("model") is not None:
        request["model"] = body["model"]
    if rest:
        request["options"] = rest
    return request


def function(name: Any, description: Any, parameters: Any, **more: Any) -> Json:
    """A tool as it is offered to a model; what is null or absent stays out."""
    told = {"description": description, "parameters": parameters, **more}
    return {"type": "function", "name": name, **{key: value for key, value in told.items() if value is not None}}


def _part(held: Any, at: int) -> Json:
    if isinstance(held, str):
        return text_part(held)
    if not isinstance(held, dict) or not isinstance(held.get("type", "text"), str):
        raise Unspeakable.of(held)
    kind = held.get("type", "text")
    if kind in ("text", "reasoning"):
        return {**held, "type": kind, "content": str(held.get("content", held.get("text", "")))}
    if kind == "tool_call":
        return {**held, "id": held.get("id") or f"call_{at}", "arguments": held.get("arguments", {})}
    return held


def _usage(held: Any) -> tuple[int, int]:
    counts = held if isinstance(held, dict) else {}
    names = (("input_tokens", "prompt_tokens", "input"), ("output_tokens", "completion_tokens", "output"))
    found = [next((counts[name] for name in side if isinstance(counts.get(name), int)), 0) for side in names]
    return found[0], found[1]
