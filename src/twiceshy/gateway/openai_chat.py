"""OpenAI chat completions: the request in our form, our output as a completion or as its stream, and a completion in our form again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.gateway.messages import (
    BadRequest,
    answer_part,
    call_part,
    canonical_request,
    function,
    merged,
    spelled,
    text_part,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from twiceshy.gateway.messages import Json, Said

SAMPLING = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty", "frequency_penalty", "n", "logit_bias",
    "logprobs", "top_logprobs", "reasoning_effort", "verbosity",
)  # fmt: skip
_SPENT = ("messages", "tools", "response_format", "stream", "stream_options")
_ROLES = {"developer": "system", "function": "tool"}


def asked(body: Mapping[str, Any]) -> Json:
    """The request in our form. Raises BadRequest for one without messages, or that wants several choices."""
    if not isinstance(body.get("messages"), list):
        raise BadRequest("chat/completions: `messages` must be a list.")
    if body.get("n") not in (None, 1):
        raise BadRequest("chat/completions: the gateway answers with one choice; leave `n` out.")
    tools = body.get("tools")
    known = {
        "messages": merged([_message(message) for message in body["messages"]]),
        "tools": [_tool(tool) for tool in tools] if isinstance(tools, list) else None,
        "output_format": _output_format(body.get("response_format")),
    }
    return canonical_request(body, known, sampling=SAMPLING, spent=_SPENT)


def reply(said: Said, body: Mapping[str, Any], number: int, created: int) -> Json:
    """A chat completion. number: of this answer within its run, for ids; created: seconds since the epoch."""
    message: Json = {"role": "assistant", "content": said.text, "refusal": None}
    if said.calls:
        message["tool_calls"] = [_call(call) for call in said.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said.finish}
    return {**_head("chat.completion", body, number, created), "choices": [choice], "usage": _usage(said)}


def events(said: Said, body: Mapping[str, Any], number: int, created: int) -> Iterator[tuple[str | None, Json]]:
    """The chunks of a stream, each with the name of its event (none here); a part is one chunk."""
    head = _head("chat.completion.chunk", body, number, created)
    calls = 0
    for at, part in enumerate(said.parts):
        delta: Json = {"role": "assistant"} if at == 0 else {}
        if part["type"] == "text":
            delta["content"] = part["content"]
        elif part["type"] == "tool_call":
            delta["tool_calls"] = [{"index": calls, **_call(part)}]
            calls += 1
        yield None, head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
    yield None, head | {"choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": said.finish}]}
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield None, head | {"choices": [], "usage": _usage(said)}


def heard(completion: Mapping[str, Any]) -> Json:
    """A completion of an upstream in our form."""
    choice = (completion.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    output: Json = {"parts": _parts(message), "finish_reason": choice.get("finish_reason")}
    return output | ({"usage": usage} if (usage := completion.get("usage")) else {})


def gathered(chunks: Iterable[Json]) -> Json:
    """The completion that the chunks of a stream tell."""
    message: Json = {"role": "assistant", "content": None}
    calls: dict[int, Json] = {}
    told: Json = {"choices": [{"message": message, "finish_reason": None}]}
    for chunk in chunks:
        told |= {name: chunk[name] for name in ("id", "model", "usage") if chunk.get(name) is not None}
        for choice in chunk.get("choices") or ():
            _gather(message, calls, choice.get("delta") or {})
            told["choices"][0]["finish_reason"] = choice.get("finish_reason") or told["choices"][0]["finish_reason"]
    if calls:
        message["tool_calls"] = [calls[at] for at in sorted(calls)]
    return told


def _output_format(asked_for: Any) -> Json | None:
    """What the answer must look like: {"type": "json"}, or a JSON Schema with its name; None for plain text."""
    if not isinstance(asked_for, dict) or asked_for.get("type") in (None, "text"):
        return None
    if asked_for["type"] == "json_object":
        return {"type": "json"}
    return {"type": asked_for["type"], **(asked_for.get("json_schema") or {})}


def content_parts(content: Any) -> list[Json]:
    """The parts of a message's content: text in our form, anything else in the wire's own."""
    if content is None:
        return []
    if isinstance(content, str):
        return [text_part(content)]
    texts = ("text", "input_text", "output_text")
    return [text_part(part.get("text", "")) if part.get("type") in texts else dict(part) for part in content]


def _message(message: Any) -> Json:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest("chat/completions: a message is an object with a role.")
    role = _ROLES.get(message["role"], message["role"])
    if role == "tool":
        text = "".join(part.get("content", "") for part in content_parts(message.get("content")))
        return {"role": role, "parts": [answer_part(message.get("tool_call_id"), text)]}
    return {"role": role, "parts": _parts(message)}


def _parts(message: Mapping[str, Any]) -> list[Json]:
    reasoning = message.get("reasoning_content")
    parts = [{"type": "reasoning", "content": reasoning}] if isinstance(reasoning, str) and reasoning else []
    parts += content_parts(message.get("content"))
    if message.get("refusal"):
        parts.append({"type": "refusal", "content": message["refusal"]})
    for call in message.get("tool_calls") or ():
        asked_for = call.get("function") or {}
        parts.append(call_part(call.get("id"), asked_for.get("name"), asked_for.get("arguments")))
    return parts


def _tool(tool: Any) -> Json:
    if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
        return dict(tool)
    told = dict(tool["function"])
    return function(told.pop("name", None), told.pop("description", None), told.pop("parameters", None), **told)


def _call(part: Json) -> Json:
    return {
        "id": part["id"],
        "type": "function",
        "function": {"name": part["name"], "arguments": spelled(part["arguments"])},
    }


def _head(kind: str, body: Mapping[str, Any], number: int, created: int) -> Json:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": created, "model": body.get("model")}


def _usage(said: Said) -> Json:
    asked_for, answered = said.usage
    return {"prompt_tokens": asked_for, "completion_tokens": answered, "total_tokens": asked_for + answered}


def _gather(message: Json, calls: dict[int, Json], delta: Json) -> None:
    for name in ("content", "reasoning_content", "refusal"):
        if isinstance(delta.get(name), str):
            message[name] = (message.get(name) or "") + delta[name]
    for piece in delta.get("tool_calls") or ():
        call = calls.setdefault(piece.get("index", 0), {"id": None, "function": {"name": "", "arguments": ""}})
        call["id"] = piece.get("id") or call["id"]
        told = piece.get("function") or {}
        call["function"]["name"] += told.get("name") or ""
        call["function"]["arguments"] += told.get("arguments") or ""
