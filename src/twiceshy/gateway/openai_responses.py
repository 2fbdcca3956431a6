"""OpenAI responses: the request in our form, our output as a response or as its stream of events, and a response in our form again."""

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
from twiceshy.gateway.openai_chat import content_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from twiceshy.gateway.messages import Json, Said

    Event = tuple[str, Json]

SAMPLING = ("temperature", "top_p", "max_output_tokens", "reasoning", "top_logprobs")
_SPENT = ("input", "instructions", "tools", "text", "stream", "stream_options", "store", "previous_response_id")
_ROLES = {"developer": "system"}


def asked(body: Mapping[str, Any], before: list[Json]) -> Json:
    """The request in our form. before: the messages of the response that it goes on from. Raises BadRequest."""
    held = body.get("input")
    items = [{"role": "user", "content": held}] if isinstance(held, str) else held
    if not isinstance(items, list):
        raise BadRequest("responses: `input` must be text or a list.")
    told = [{"role": "system", "parts": [text_part(body["instructions"])]}] if body.get("instructions") else []
    tools = body.get("tools")
    known = {
        "messages": merged([*told, *before, *_turns([_item(item) for item in items])]),
        "tools": [_tool(tool) for tool in tools] if isinstance(tools, list) else None,
        "output_format": _format(body.get("text")),
    }
    return canonical_request(body, known, sampling=SAMPLING, spent=_SPENT)


def reply(said: Said, body: Mapping[str, Any], number: int, created: int) -> Json:
    """A response object."""
    whole = _head(body, number, created, "incomplete" if said.finish == "length" else "completed")
    items = [_out(part, number, at) for at, part in enumerate(said.parts)]
    asked_for, answered = said.usage
    usage = {
        "input_tokens": asked_for, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": asked_for + answered,
    }  # fmt: skip
    return whole | {"output": items, "usage": usage}


def events(said: Said, body: Mapping[str, Any], number: int, created: int) -> Iterator[Event]:
    """The named events of a stream; a part is one delta."""
    for order, (name, event) in enumerate(_events(said, body, number, created)):
        yield name, {"type": name, "sequence_number": order, **event}


def heard(response: Mapping[str, Any]) -> Json:
    """A response of an upstream in our form."""
    parts = [part for item in response.get("output") or () for part in _item(item)["parts"]]
    reason = (response.get("incomplete_details") or {}).get("reason")
    calls = any(part["type"] == "tool_call" for part in parts)
    output: Json = {"parts": parts, "finish_reason": reason or ("tool_calls" if calls else "stop")}
    return output | ({"usage": usage} if (usage := response.get("usage")) else {})


def gathered(told: Iterable[Json]) -> Json:
    """The response that the events of a stream tell: the last one holds it whole."""
    whole: Json = {}
    for event in told:
        if isinstance(event.get("response"), dict):
            whole = event["response"]
    return whole


def spoken(request: Json, body: Mapping[str, Any], said: Said) -> list[Json]:
    """The conversation after an answer, as the next request may go on from it; instructions hold for one request only."""
    told = request["messages"][1:] if body.get("instructions") else request["messages"]
    return [*told, {"role": "assistant", "parts": list(said.parts)}]


def _turns(messages: list[Json]) -> list[Json]:
    """The messages with neighbouring pieces of one answer made one: text, reasoning and each call are items of their own here."""
    found: list[Json] = []
    for message in messages:
        if found and message["role"] == found[-1]["role"] == "assistant":
            found[-1] = {"role": "assistant", "parts": [*found[-1]["parts"], *message["parts"]]}
        else:
            found.append(message)
    return found


def _item(item: Any) -> Json:
    if not isinstance(item, dict):
        raise BadRequest("responses: an input item is an object.")
    kind = item.get("type", "message")
    if kind == "function_call":
        return {"role": "assistant", "parts": [call_part(item.get("call_id"), item.get("name"), item.get("arguments"))]}
    if kind == "function_call_output":
        held = item.get("output")
        text = held if isinstance(held, str) else "".join(part.get("content", "") for part in content_parts(held))
        return {"role": "tool", "parts": [answer_part(item.get("call_id"), text)]}
    if kind == "reasoning":
        thought = "".join(piece.get("text", "") for piece in item.get("summary") or ())
        return {"role": "assistant", "parts": [{"type": "reasoning", "content": thought}]}
    if kind != "message":
        return {"role": "assistant", "parts": [dict(item)]}
    role = str(item.get("role"))
    return {"role": _ROLES.get(role, role), "parts": content_parts(item.get("content"))}


def _tool(tool: Any) -> Json:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        return dict(tool)
    told = {name: value for name, value in tool.items() if name != "type"}
    return function(told.pop("name", None), told.pop("description", None), told.pop("parameters", None), **told)


def _format(text: Any) -> Json | None:
    held = text.get("format") if isinstance(text, dict) else None
    if not isinstance(held, dict) or held.get("type") in (None, "text"):
        return None
    return {"type": "json"} if held["type"] == "json_object" else dict(held)


def _head(body: Mapping[str, Any], number: int, created: int, status: str) -> Json:
    return {
        "id": f"resp_{number}", "object": "response", "created_at": created, "status": status, "model": body.get("model"), "output": [], "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None, "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {}, "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"), "temperature": body.get("temperature"),
        "text": body.get("text") or {"format": {"type": "text"}}, "tool_choice": body.get("tool_choice", "auto"), "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
    }  # fmt: skip


def _out(part: Json, number: int, at: int) -> Json:
    if part["type"] == "tool_call":
        return {
            "type": "function_call", "id": f"fc_{number}_{at}", "call_id": part["id"], "name": part["name"],
            "arguments": spelled(part["arguments"]), "status": "completed",
        }  # fmt: skip
    if part["type"] == "reasoning":
        return {
            "type": "reasoning",
            "id": f"rs_{number}_{at}",
            "summary": [{"type": "summary_text", "text": part["content"]}],
        }
    if part["type"] == "refusal":
        content = [{"type": "refusal", "refusal": part["content"]}]
    elif part["type"] == "text":
        content = [{"type": "output_text", "text": part["content"], "annotations": []}]
    else:
        return part
    return {
        "type": "message",
        "id": f"msg_{number}_{at}",
        "status": "completed",
        "role": "assistant",
        "content": content,
    }


def _events(said: Said, body: Mapping[str, Any], number: int, created: int) -> Iterator[Event]:
    begun = _head(body, number, created, "in_progress")
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    whole = reply(said, body, number, created)
    for at, item in enumerate(whole["output"]):
        yield from _item_events(item, at)
    yield f"response.{whole['status']}", {"response": whole}


_EMPTY: dict[str, Json] = {"message": {"content": []}, "function_call": {"arguments": ""}}


def _item_events(item: Json, at: int) -> Iterator[Event]:
    where = {"output_index": at, "item_id": item.get("id")}
    begun: Json = {**item, **_EMPTY.get(item["type"], {}), "status": "in_progress"}
    yield "response.output_item.added", {"output_index": at, "item": begun}
    if item["type"] == "function_call":
        yield "response.function_call_arguments.delta", {**where, "delta": item["arguments"]}
        yield "response.function_call_arguments.done", {**where, "name": item["name"], "arguments": item["arguments"]}
    for place, content in enumerate(item["content"] if item["type"] == "message" else ()):
        yield from _content_events(content, {**where, "content_index": place})
    yield "response.output_item.done", {"output_index": at, "item": item}


def _content_events(content: Json, where: Json) -> Iterator[Event]:
    field = "text" if content["type"] == "output_text" else "refusal"
    said = "output_text" if field == "text" else "refusal"
    extra: Json = {"logprobs": []} if field == "text" else {}
    yield "response.content_part.added", {**where, "part": content | {field: ""}}
    yield f"response.{said}.delta", {**where, "delta": content[field], **extra}
    yield f"response.{said}.done", {**where, field: content[field], **extra}
    yield "response.content_part.done", {**where, "part": content}
