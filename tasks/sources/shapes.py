"""Messages in every shape that providers and frameworks write, to the engine's: {role, parts}; parts text, reasoning, tool_call, tool_call_response, other.

OpenAI chat and responses, Anthropic blocks, Bedrock Converse, Gemini contents, LangChain messages, AI SDK parts and the GenAI conventions. A part of no known
shape stays as it is, nothing is made up; what LangChain repeats beside the message (`additional_kwargs`, `response_metadata`) is left out, but for calls
that stand nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tasks.sources import payloads

if TYPE_CHECKING:
    from collections.abc import Callable

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "function": "tool",
    "developer": "system",
    "AIMessageChunk": "assistant",
}
_CONTENTS = ("parts", "content", "contents")


def messages(held: Any) -> Any:
    """A list of messages, one message, or a text as the user's; anything else stays what it is."""
    if isinstance(held, list):
        # LangChain hands a model a batch: a list of message lists, of which a trace has one.
        flat = held[0] if len(held) == 1 and isinstance(held[0], list) else held
        return [message(item) for item in flat]
    return [message(held)] if isinstance(held, dict) and is_message(held) else held


def is_message(held: Any) -> bool:
    """Whether a value is one message, in any shape."""
    if not isinstance(held, dict):
        return False
    unwrapped = _unwrapped(held)
    return isinstance(unwrapped.get("role", unwrapped.get("type")), str) and (
        "role" in unwrapped or "data" in held or "lc" in held or unwrapped.get("type") in _ROLES
    )


def message(held: Any) -> Any:
    """One message. A role is spelled as the conventions do; members of no known meaning stay beside `role` and `parts`."""
    if not isinstance(held, dict):
        return held
    if str(held.get("type")) in _ITEMS:
        return _item(held)
    found = _unwrapped(held)
    role = found.get("role") or found.get("type")
    made = {name: value for name, value in found.items() if name not in _TAKEN}
    made["role"] = _ROLES.get(role, role) if isinstance(role, str) else role
    parts = parts_of(next((found[name] for name in _CONTENTS if name in found), None))
    calls = [_call(call) for call in _listed(found, "tool_calls") or _listed(_beside(found), "tool_calls")]
    legacy = found.get("function_call")
    if isinstance(legacy, dict):
        calls.append(_tool_call(None, legacy.get("name"), legacy.get("arguments")))
    known = [part.get("id") for part in parts if isinstance(part, dict) and part.get("type") == "tool_call"]
    parts += [call for call in calls if call["id"] is None or call["id"] not in known]
    if made["role"] == "tool" and not _answers(parts):
        parts = [_response(found.get("tool_call_id", found.get("id")), _as_said(parts))]
    return made | {"parts": parts}


def parts_of(content: Any) -> list[Any]:
    """The parts of a message's content: a text, one part or a list of either. None and an empty text say nothing."""
    if content is None or content == "":
        return []
    listed = content if isinstance(content, list) else [content]
    return [part(item) for item in listed]


def part(held: Any) -> Any:
    """One part."""
    if isinstance(held, str):
        return {"type": "text", "text": held}
    if not isinstance(held, dict):
        return held
    named = _BY_TYPE.get(str(held.get("type")))
    if named is not None:
        return named(held)
    for key, read in _BY_KEY.items():
        if isinstance(held.get(key), dict):
            return read(held[key])
    if held.get("type") is None and isinstance(held.get("text"), str):
        return {"type": "reasoning" if held.get("thought") is True else "text", "text": held["text"]}
    return held


def arguments(held: Any) -> Any:
    """Arguments of a call: the value of a JSON text, anything else as it is."""
    return payloads.parsed(held).value if isinstance(held, str) else held


def _unwrapped(held: dict[str, Any]) -> dict[str, Any]:
    """A LangChain message out of its envelope: `{lc, type: constructor, id, kwargs}`, or `{type: human, data}`."""
    if isinstance(held.get("kwargs"), dict) and isinstance(held.get("id"), list):
        kind = str(held["id"][-1]).removesuffix("Chunk").removesuffix("Message").lower()
        return dict({"type": kind}, **held["kwargs"])
    if isinstance(held.get("data"), dict) and isinstance(held.get("type"), str):
        return dict({"type": held["type"]}, **held["data"])
    return held


def _item(held: dict[str, Any]) -> dict[str, Any]:
    """An item of the Responses API that is no message: a call, what answers it, or reasoning."""
    made = part(held)
    return {"role": "tool" if made.get("type") == "tool_call_response" else "assistant", "parts": [made]}


def _call(held: Any) -> dict[str, Any]:
    """A member of `tool_calls`: OpenAI's `{id, function}`, or LangChain's `{id, name, args}`."""
    if not isinstance(held, dict):
        return _tool_call(None, None, held)
    function = held.get("function")
    if isinstance(function, dict):
        return _tool_call(held.get("id"), function.get("name"), function.get("arguments"))
    return _tool_call(held.get("id"), held.get("name"), held.get("args", held.get("arguments")))


def _tool_call(call_id: Any, name: Any, held: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments(held)}


def _response(call_id: Any, held: Any) -> dict[str, Any]:
    return {"type": "tool_call_response", "id": call_id, "response": held}


def _as_said(parts: list[Any]) -> Any:
    """What a tool message said: its text where it is one, else its parts."""
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].get("type") == "text":
        return payloads.parsed(parts[0]["text"]).value
    return parts or ""


def _answered(held: Any) -> Any:
    """The content of a result block: a text, or blocks of which one text alone stands for itself."""
    if isinstance(held, str):
        return payloads.parsed(held).value
    if isinstance(held, list) and len(held) == 1 and isinstance(held[0], dict):
        if set(held[0]) <= {"type", "text"} and isinstance(held[0].get("text"), str):
            return payloads.parsed(held[0]["text"]).value
        if set(held[0]) == {"json"}:
            return held[0]["json"]
    return held


def _answers(parts: list[Any]) -> bool:
    return any(isinstance(held, dict) and held.get("type") == "tool_call_response" for held in parts)


def _beside(held: dict[str, Any]) -> dict[str, Any]:
    """What a LangChain message has in the form of its provider: some exports keep the calls there alone."""
    found = held.get("additional_kwargs")
    return found if isinstance(found, dict) else {}


def _listed(held: dict[str, Any], name: str) -> list[Any]:
    found = held.get(name)
    return found if isinstance(found, list) else []


def _text(*names: str, kind: str = "text") -> Callable[[dict[str, Any]], Any]:
    def read(held: dict[str, Any]) -> Any:
        found = next((held[name] for name in names if isinstance(held.get(name), str)), None)
        return held if found is None else {"type": kind, "text": found}

    return read


def _reasons(held: dict[str, Any]) -> Any:
    """Reasoning as a text, or as the summaries of the Responses API."""
    summaries = [str(item.get("text", "")) for item in _listed(held, "summary") if isinstance(item, dict)]
    if summaries:
        return {"type": "reasoning", "text": "\n".join(summaries)}
    return _text("text", "content", "thinking", "reasoning", kind="reasoning")(held)


_TAKEN = frozenset(
    {
        "role",
        "type",
        *_CONTENTS,
        "tool_calls",
        "function_call",
        "tool_call_id",
        "additional_kwargs",
        "response_metadata",
    }
)
_ITEMS = frozenset({"function_call", "function_call_output", "reasoning"})
_BY_TYPE: dict[str, Callable[[dict[str, Any]], Any]] = {
    **dict.fromkeys(("text", "input_text", "output_text"), _text("text", "content")),
    **dict.fromkeys(("reasoning", "thinking"), _reasons),
    "tool_call": lambda held: _tool_call(held.get("id"), held.get("name"), held.get("arguments", held.get("args"))),
    "tool_use": lambda held: _tool_call(held.get("id"), held.get("name"), held.get("input")),
    "tool-call": lambda held: _tool_call(held.get("toolCallId"), held.get("toolName"), held.get("args", held.get("input"))),
    "function_call": lambda held: _tool_call(held.get("call_id", held.get("id")), held.get("name"), held.get("arguments")),
    "tool_call_response": lambda held: _response(held.get("id"), held.get("response", held.get("result"))),
    "tool_result": lambda held: _response(held.get("tool_use_id"), _answered(held.get("content"))),
    "tool-result": lambda held: _response(held.get("toolCallId"), _result_of(held)),
    "function_call_output": lambda held: _response(held.get("call_id"), _answered(held.get("output"))),
}  # fmt: skip
_BY_KEY: dict[str, Callable[[dict[str, Any]], Any]] = {
    "toolUse": lambda held: _tool_call(held.get("toolUseId"), held.get("name"), held.get("input")),
    "toolResult": lambda held: _response(held.get("toolUseId"), _answered(held.get("content"))),
    **dict.fromkeys(("functionCall", "function_call"), lambda held: _tool_call(held.get("id"), held.get("name"), held.get("args"))),
    **dict.fromkeys(("functionResponse", "function_response"), lambda held: _response(held.get("id"), held.get("response"))),
    **dict.fromkeys(("reasoningContent",), lambda held: _reasons(held.get("reasoningText") or held)),
}  # fmt: skip


def _result_of(held: dict[str, Any]) -> Any:
    """The AI SDK: `result` to version 4, after it `output: {type: json | text, value}`."""
    output = held.get("output")
    if isinstance(output, dict) and "value" in output and isinstance(output.get("type"), str):
        return output["value"]
    return held.get("result", output)
