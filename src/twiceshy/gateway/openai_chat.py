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
    from collections.abc import Iterator, Mapping

    from twiceshy.gateway.messages import Json, Said
    from twiceshy.gateway.pieces import Events, Piece

SAMPLING = (
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty", "frequency_penalty", "n", "logit_bias",
    "logprobs", "top_logprobs", "reasoning_effort", "verbosity",
)  # fmt: skip
_SPENT = ("messages", "tools", "response_format", "stream", "stream_options")
_ROLES = {"developer": "system", "function": "tool"}
_DELTAS = {"reasoning": "reasoning_content", "text": "content", "refusal": "refusal"}
"""What a delta calls the text of each kind of part."""


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
    for kind, name in (("reasoning", "reasoning_content"), ("refusal", "refusal")):
        if told := "".join(part["content"] for part in said.of(kind)):
            message[name] = told
    if said.calls:
        message["tool_calls"] = [_call(call) for call in said.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": said.finish}
    return {**_head("chat.completion", body, number, created), "choices": [choice], "usage": _usage(said)}


class Outflow:
    """A completion as the chunks of a stream; they have no names."""

    def __init__(self, body: Mapping[str, Any], number: int, created: int) -> None:
        options = body.get("stream_options")
        self._counted = isinstance(options, dict) and bool(options.get("include_usage"))
        self._head = _head("chat.completion.chunk", body, number, created)
        self._calls: dict[int, int] = {}
        self._begun = False

    def begin(self) -> Events:
        """Nothing: the first delta names the role."""
        return ()

    def piece(self, piece: Piece) -> Events:
        """One delta."""
        delta: Json = {} if self._begun else {"role": "assistant"}
        self._begun = True
        kind = piece.part["type"]
        if kind in _DELTAS:
            delta[_DELTAS[kind]] = piece.came
        elif kind == "tool_call":
            delta["tool_calls"] = [self._called(piece)]
        yield None, self._chosen(delta, None)

    def end(self, said: Said) -> Events:
        """How it finished, and the tokens where they were asked for."""
        yield None, self._chosen({}, said.finish)
        if self._counted:
            yield None, self._head | {"choices": [], "usage": _usage(said)}

    def failed(self, told: Json) -> Events:
        """An error in place of a chunk."""
        yield None, {"error": told}

    def _chosen(self, delta: Json, finish: str | None) -> Json:
        return self._head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    def _called(self, piece: Piece) -> Json:
        at = self._calls.setdefault(piece.at, len(self._calls))
        if not piece.new:
            return {"index": at, "function": {"arguments": piece.came}}
        function = {"name": piece.part.get("name"), "arguments": piece.came}
        return {
            "index": at,
            "id": piece.part.get("id") or f"call_{piece.at + 1}",
            "type": "function",
            "function": function,
        }


class Inflow:
    """The chunks of a stream of theirs as chunks of ours."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._finish: str | None = None

    def chunks(self, event: Mapping[str, Any]) -> Iterator[Json]:
        """The texts and calls of one delta, how it finished, and the tokens, which may come after that."""
        for choice in event.get("choices") or ():
            yield from self._delta(choice.get("delta") or {})
            self._finish = choice.get("finish_reason") or self._finish
            if choice.get("finish_reason"):
                yield {"finish_reason": self._finish}
        if event.get("usage"):
            yield {"finish_reason": self._finish, "usage": event["usage"]}

    def _delta(self, delta: Json) -> Iterator[Json]:
        for kind, name in _DELTAS.items():
            if isinstance(delta.get(name), str) and delta[name]:
                yield {"index": kind, "type": kind, "content": delta[name]}
        for piece in delta.get("tool_calls") or ():
            at, told = piece.get("index", 0), piece.get("function") or {}
            self._names[at] = self._names.get(at, "") + (told.get("name") or "")
            identity = {"id": piece["id"]} if piece.get("id") else {}
            arguments = told.get("arguments") or ""
            yield {
                "index": f"call {at}",
                "type": "tool_call",
                **identity,
                "name": self._names[at],
                "arguments": arguments,
            }


def heard(completion: Mapping[str, Any]) -> Json:
    """A completion of an upstream in our form."""
    choice = (completion.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    output: Json = {"parts": _parts(message), "finish_reason": choice.get("finish_reason")}
    return output | ({"usage": usage} if (usage := completion.get("usage")) else {})


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
