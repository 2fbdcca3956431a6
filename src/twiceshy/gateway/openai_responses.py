"""OpenAI responses: the request in our form, our output as a response or as its stream of events, and a response in our form again."""

from __future__ import annotations

from itertools import count
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
    from collections.abc import Iterator, Mapping

    from twiceshy.gateway.messages import Json, Said
    from twiceshy.gateway.pieces import Events, Piece

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


class Outflow:
    """A response as its named events, numbered; one item is open at a time."""

    def __init__(self, body: Mapping[str, Any], number: int, created: int) -> None:
        self._asked = (body, number, created)
        self._open: Piece | None = None
        self._order = count()

    def begin(self) -> Events:
        """The response that has begun."""
        begun = _head(*self._asked, "in_progress")
        yield self._named("response.created", response=begun)
        yield self._named("response.in_progress", response=begun)

    def piece(self, piece: Piece) -> Events:
        """An item where the piece is the first of it, and what came of it."""
        item = _out(piece.part, self._asked[1], piece.at)
        if piece.new:
            yield from self._closed()
            begun = {**item, **_EMPTY.get(item["type"], {}), "status": "in_progress"}
            yield self._named("response.output_item.added", output_index=piece.at, item=begun)
            for content in _contents(item):
                empty = content | {_field(content): ""}
                yield self._named("response.content_part.added", **_within(piece.at, item), part=empty)
        self._open = piece
        if piece.came:
            yield from self._delta(piece, item)

    def end(self, said: Said) -> Events:
        """The whole response."""
        yield from self._closed()
        whole = reply(said, *self._asked)
        yield self._named(f"response.{whole['status']}", response=whole)

    def failed(self, told: Json) -> Events:
        """An error in place of an event."""
        yield self._named("error", code=told["code"], message=told["message"], param=None)

    def _delta(self, piece: Piece, item: Json) -> Events:
        if item["type"] == "function_call":
            where = {"output_index": piece.at, "item_id": item["id"]}
            yield self._named("response.function_call_arguments.delta", **where, delta=piece.came)
        for content in _contents(item):
            told = {**_within(piece.at, item), "delta": piece.came, **_logprobs(content)}
            yield self._named(f"response.{_said(content)}.delta", **told)

    def _closed(self) -> Events:
        if self._open is None:
            return
        at = self._open.at
        item = _out(self._open.part, self._asked[1], at)
        if item["type"] == "function_call":
            where = {"output_index": at, "item_id": item["id"], "name": item["name"]}
            yield self._named("response.function_call_arguments.done", **where, arguments=item["arguments"])
        for content in _contents(item):
            field, where = _field(content), _within(at, item)
            yield self._named(
                f"response.{_said(content)}.done", **where, **{field: content[field]}, **_logprobs(content)
            )
            yield self._named("response.content_part.done", **where, part=content)
        yield self._named("response.output_item.done", output_index=at, item=item)

    def _named(self, event: str, /, **told: Any) -> tuple[str, Json]:
        return event, {"type": event, "sequence_number": next(self._order), **told}


class Inflow:
    """The events of a stream of theirs as chunks of ours."""

    def __init__(self) -> None:
        self._silent = True

    def chunks(self, event: Mapping[str, Any]) -> Iterator[Json]:
        """What came of an item, and how the response ended; of one that told nothing on its way, all of it."""
        kind = str(event.get("type"))
        if kind in _PIECES:
            self._silent = False
            yield _piece(_PIECES[kind], event)
        elif kind == "response.output_item.added" and event["item"].get("type") in ("function_call", "reasoning"):
            self._silent = False
            item = event["item"]
            yield {"index": str(event["output_index"]), **_begun(item)}
        elif kind == "response.output_item.done" and event["item"].get("type") not in _TOLD:
            self._silent = False
            yield dict(event["item"])
        elif kind in _ENDS:
            told = heard(event["response"])
            yield from told.pop("parts") if self._silent else ()
            told.pop("parts", None)
            yield told


def heard(response: Mapping[str, Any]) -> Json:
    """A response of an upstream in our form."""
    parts = [part for item in response.get("output") or () for part in _item(item)["parts"]]
    reason = (response.get("incomplete_details") or {}).get("reason")
    calls = any(part["type"] == "tool_call" for part in parts)
    output: Json = {"parts": parts, "finish_reason": reason or ("tool_calls" if calls else "stop")}
    return output | ({"usage": usage} if (usage := response.get("usage")) else {})


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


_EMPTY: dict[str, Json] = {"message": {"content": []}, "function_call": {"arguments": ""}}
_PIECES = {
    "response.output_text.delta": "text", "response.refusal.delta": "refusal", "response.function_call_arguments.delta": "tool_call",
    "response.reasoning_summary_text.delta": "reasoning",
}  # fmt: skip
_TOLD = frozenset({"message", "function_call", "reasoning"})
"""Items that come piece by piece."""
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _piece(kind: str, event: Mapping[str, Any]) -> Json:
    """What came of a part. The contents of a message are parts of their own."""
    at = str(event["output_index"])
    if kind == "tool_call":
        return {"index": at, "type": kind, "arguments": event["delta"]}
    place = at if kind == "reasoning" else f"{at}.{event['content_index']}"
    return {"index": place, "type": kind, "content": event["delta"]}


def _begun(item: Json) -> Json:
    if item["type"] == "reasoning":
        return {"type": "reasoning", "content": ""}
    return {"type": "tool_call", "id": item.get("call_id"), "name": item.get("name"), "arguments": ""}


def _contents(item: Json) -> list[Json]:
    contents: list[Json] = item["content"] if item["type"] == "message" else []
    return contents


def _within(at: int, item: Json) -> Json:
    return {"output_index": at, "item_id": item["id"], "content_index": 0}


def _field(content: Json) -> str:
    return "text" if content["type"] == "output_text" else "refusal"


def _said(content: Json) -> str:
    return "output_text" if content["type"] == "output_text" else "refusal"


def _logprobs(content: Json) -> Json:
    return {"logprobs": []} if content["type"] == "output_text" else {}
