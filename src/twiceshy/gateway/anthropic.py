"""Anthropic messages: the request in our form, our output as a message or as its stream of events, and a message in our form again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.gateway.messages import (
    BadRequest,
    answer_part,
    call_part,
    canonical_request,
    function,
    merged,
    parsed,
    text_part,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from twiceshy.gateway.messages import Json, Said
    from twiceshy.gateway.pieces import Events, Piece

SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "stop_sequences", "thinking")
_SPENT = ("messages", "system", "tools", "output_format", "output_config", "stream")
_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}


def asked(body: Mapping[str, Any]) -> Json:
    """The request in our form; where a prompt is cached says nothing of it. Raises BadRequest for one without messages."""
    if not isinstance(body.get("messages"), list):
        raise BadRequest("messages: `messages` must be a list.")
    system = _parts(body["system"]) if body.get("system") else []
    tools = body.get("tools")
    known = {
        "messages": merged(
            [
                *([{"role": "system", "parts": system}] if system else []),
                *(turn for message in body["messages"] for turn in _turns(message)),
            ]
        ),
        "tools": [_tool(tool) for tool in tools] if isinstance(tools, list) else None,
        "output_format": body.get("output_format") or (body.get("output_config") or {}).get("format"),
    }
    return canonical_request(body, known, sampling=SAMPLING, spent=_SPENT)


def reply(said: Said, body: Mapping[str, Any], number: int, _: int) -> Json:
    """A message."""
    content = [_block(part) for part in said.parts]
    return _head(body, number, said.usage) | {"content": content, "stop_reason": _REASONS[said.finish]}


class Outflow:
    """A message as its named events; one block is open at a time."""

    def __init__(self, body: Mapping[str, Any], number: int, _: int) -> None:
        self._head = _head(body, number)
        self._open: Piece | None = None

    def begin(self) -> Events:
        """The empty message. What it took in tokens comes at its end."""
        yield _named("message_start", message=self._head)

    def piece(self, piece: Piece) -> Events:
        """A block where the piece is the first of it, and what came of it."""
        if piece.new:
            yield from self._closed()
            block = _block(piece.part)
            block |= _EMPTY.get(block["type"], {})
            yield _named("content_block_start", index=piece.at, content_block=block)
        self._open = piece
        delta = _DELTAS.get(piece.part["type"])
        if delta is not None and piece.came:
            yield _named("content_block_delta", index=piece.at, delta={"type": delta[0], delta[1]: piece.came})

    def end(self, said: Said) -> Events:
        """Why it stopped, with the tokens."""
        yield from self._closed()
        stopped = {"stop_reason": _REASONS[said.finish], "stop_sequence": None}
        yield _named("message_delta", delta=stopped, usage=_usage(said.usage))
        yield _named("message_stop")

    def failed(self, told: Json) -> Events:
        """An error in place of an event."""
        yield _named("error", error=told)

    def _closed(self) -> Events:
        if self._open is None:
            return
        at, part = self._open.at, self._open.part
        if part["type"] == "reasoning":
            signed = {"type": "signature_delta", "signature": part.get("signature", "")}
            yield _named("content_block_delta", index=at, delta=signed)
        yield _named("content_block_stop", index=at)


class Inflow:
    """The events of a stream of theirs as chunks of ours."""

    def __init__(self) -> None:
        self._usage: Json = {}
        self._bare: set[int] = set()
        """The blocks of calls of whose arguments nothing has come."""

    def chunks(self, event: Mapping[str, Any]) -> Iterator[Json]:
        """The block that begins, what came of one, and how the message ended."""
        match event.get("type"):
            case "message_start":
                self._usage |= event["message"].get("usage") or {}
            case "content_block_start":
                yield self._begun(event["index"], event["content_block"])
            case "content_block_delta":
                yield from self._delta(event["index"], event["delta"])
            case "content_block_stop" if event["index"] in self._bare:
                yield {"index": event["index"], "type": "tool_call", "arguments": "{}"}
            case "message_delta":
                self._usage |= event.get("usage") or {}
                yield {"finish_reason": event["delta"].get("stop_reason"), "usage": dict(self._usage)}

    def _begun(self, at: int, block: Json) -> Json:
        part = {"index": at, **_part(dict(block))}
        if part["type"] == "tool_call":
            self._bare.add(at)
            part["arguments"] = ""
        return part

    def _delta(self, at: int, delta: Json) -> Iterator[Json]:
        if delta.get("type") == "signature_delta":
            yield {"index": at, "type": "reasoning", "signature": delta["signature"]}
        for kind, (name, field) in _DELTAS.items():
            if delta.get("type") == name and kind != "refusal":
                self._bare.discard(at)
                yield {"index": at, "type": kind, _GROWS.get(kind, "content"): delta[field]}


def heard(message: Mapping[str, Any]) -> Json:
    """A message of an upstream in our form."""
    output: Json = {"parts": _parts(message.get("content") or []), "finish_reason": message.get("stop_reason")}
    return output | ({"usage": usage} if (usage := message.get("usage")) else {})


def _turns(message: Any) -> Iterator[Json]:
    """A message of theirs as messages of ours: results of tools have a role of their own."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest("messages: a message is an object with a role.")
    parts = _parts(message.get("content") or [])
    answers = [part for part in parts if part["type"] == "tool_call_response"]
    rest = [part for part in parts if part["type"] != "tool_call_response"]
    if answers:
        yield {"role": "tool", "parts": answers}
    if rest or not answers:
        yield {"role": message["role"], "parts": rest}


def _parts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [text_part(content)]
    return [_part({name: value for name, value in block.items() if name != "cache_control"}) for block in content]


def _part(block: Json) -> Json:
    match block.get("type"):
        case "text":
            return text_part(block.get("text", ""))
        case "tool_use":
            return call_part(block.get("id"), block.get("name"), block.get("input"))
        case "tool_result":
            held = block.get("content")
            texts = [part["content"] for part in _parts(held or []) if part["type"] == "text"]
            error = {"is_error": True} if block.get("is_error") else {}
            return answer_part(block.get("tool_use_id"), "".join(texts)) | error
        case "thinking":
            signed = {"signature": block["signature"]} if block.get("signature") else {}
            return {"type": "reasoning", "content": block.get("thinking", ""), **signed}
    return block


def _tool(tool: Any) -> Json:
    told = {name: value for name, value in dict(tool).items() if name not in ("type", "cache_control")}
    if "input_schema" not in told:
        return {"type": tool.get("type"), **told}
    return function(told.pop("name", None), told.pop("description", None), told.pop("input_schema"), **told)


def _block(part: Json) -> Json:
    if part["type"] == "tool_call":
        arguments = parsed(part["arguments"])
        return {
            "type": "tool_use",
            "id": part["id"],
            "name": part["name"],
            "input": arguments if isinstance(arguments, dict) else {},
        }
    if part["type"] == "reasoning":
        return {"type": "thinking", "thinking": part["content"], "signature": part.get("signature", "")}
    if part["type"] in ("text", "refusal"):
        return {"type": "text", "text": part["content"]}
    return part


def _head(body: Mapping[str, Any], number: int, usage: tuple[int, int] = (0, 0)) -> Json:
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model"), "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": _usage(usage),
    }  # fmt: skip


def _named(event: str, /, **told: Any) -> tuple[str, Json]:
    return event, {"type": event, **told}


def _usage(tokens: tuple[int, int]) -> Json:
    return {"input_tokens": tokens[0], "output_tokens": tokens[1]}


_EMPTY: dict[str, Json] = {
    "text": {"text": ""},
    "tool_use": {"input": {}},
    "thinking": {"thinking": "", "signature": ""},
}
_DELTAS = {
    "text": ("text_delta", "text"), "tool_call": ("input_json_delta", "partial_json"), "reasoning": ("thinking_delta", "thinking"),
    "refusal": ("text_delta", "text"),
}  # fmt: skip
"""By the kind of a part: what a delta of it is called, and where in the delta its text stands."""
_GROWS = {"tool_call": "arguments"}
