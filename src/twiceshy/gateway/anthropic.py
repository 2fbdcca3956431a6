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
    spelled,
    text_part,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from twiceshy.gateway.messages import Json, Said

    Event = tuple[str, Json]

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
    return _head(said, body, number) | {"content": content, "stop_reason": _REASONS[said.finish]}


def events(said: Said, body: Mapping[str, Any], number: int, _: int) -> Iterator[Event]:
    """The named events of a stream; a part is one delta."""
    for name, event in _events(said, body, number):
        yield name, {"type": name, **event}


def heard(message: Mapping[str, Any]) -> Json:
    """A message of an upstream in our form."""
    output: Json = {"parts": _parts(message.get("content") or []), "finish_reason": message.get("stop_reason")}
    return output | ({"usage": usage} if (usage := message.get("usage")) else {})


def gathered(told: Iterable[Json]) -> Json:
    """The message that the events of a stream tell."""
    message: Json = {}
    blocks: dict[int, Json] = {}
    for event in told:
        kind = event.get("type")
        if kind == "message_start":
            message = dict(event["message"])
        elif kind == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            _grow(blocks[event["index"]], event["delta"])
        elif kind == "message_delta":
            message |= {name: value for name, value in event["delta"].items() if value is not None}
            message["usage"] = {**(message.get("usage") or {}), **(event.get("usage") or {})}
    message["content"] = [_whole(blocks[at]) for at in sorted(blocks)]
    return message


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


def _head(said: Said, body: Mapping[str, Any], number: int) -> Json:
    asked_for, answered = said.usage
    return {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": body.get("model"), "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": asked_for, "output_tokens": answered},
    }  # fmt: skip


def _events(said: Said, body: Mapping[str, Any], number: int) -> Iterator[Event]:
    yield "message_start", {"message": _head(said, body, number)}
    for at, part in enumerate(said.parts):
        block = _block(part)
        yield "content_block_start", {"index": at, "content_block": block | _EMPTY.get(block["type"], {})}
        yield from (("content_block_delta", {"index": at, "delta": delta}) for delta in _deltas(block))
        yield "content_block_stop", {"index": at}
    ended = {"stop_reason": _REASONS[said.finish], "stop_sequence": None}
    yield "message_delta", {"delta": ended, "usage": {"output_tokens": said.usage[1]}}
    yield "message_stop", {}


_EMPTY: dict[str, Json] = {
    "text": {"text": ""},
    "tool_use": {"input": {}},
    "thinking": {"thinking": "", "signature": ""},
}


def _deltas(block: Json) -> Iterator[Json]:
    match block["type"]:
        case "text":
            yield {"type": "text_delta", "text": block["text"]}
        case "tool_use":
            yield {"type": "input_json_delta", "partial_json": spelled(block["input"])}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block["signature"]}


def _grow(block: Json, delta: Json) -> None:
    for name in ("text", "thinking", "signature", "partial_json"):
        if isinstance(delta.get(name), str):
            block[name] = block.get(name, "") + delta[name]


def _whole(block: Json) -> Json:
    if "partial_json" not in block:
        return block
    told = {name: value for name, value in block.items() if name != "partial_json"}
    return told | {"input": parsed(block["partial_json"] or "{}")}
