"""Google's Agent Development Kit: `gcp.vertex.agent.*`, requests and responses of Gemini as JSON text. `{}` stands for content that was not captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import shapes
from tasks.sources.dialects import genai
from tasks.sources.dialects.told import Told, empty

if TYPE_CHECKING:
    from tasks.sources.carried import Carried
    from tasks.sources.otlp_values import Values
    from tasks.sources.records import Side

MAPPER = "adk@1"
SCOPE = "gcp.vertex.agent"
_REQUEST, _RESPONSE = "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response"
_ARGUMENTS, _RESULT = "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"
_NO_SAMPLING = frozenset({"system_instruction", "tools", "http_options", "labels"})
_USAGE = {
    "input": "prompt_token_count",
    "output": "candidates_token_count",
    "cache_read": "cached_content_token_count",
    "reasoning": "thoughts_token_count",
}


def evident(span: Carried) -> bool:
    """The kit's scope, or its attributes."""
    return span.scope_name == SCOPE or any(key.startswith("gcp.vertex.agent.") for key in span.attributes)


def read(span: Carried, values: Values) -> Told:
    """The span as the kit tells it. Raises BadSpan."""
    kind = _kind(span, values)
    columns = genai.columns(kind, span, values)
    columns["conversation_id"] = columns["conversation_id"] or values.text("gcp.vertex.agent.session_id")
    if kind == "model":
        columns |= _model(columns, values)
        genai.hear(columns, values)
    return Told(kind, columns, _sides(kind, values))


def _kind(span: Carried, values: Values) -> str:
    """`call_llm` is the kit's own span of a model call; where the conventions' `generate_content` stands below it, normalize finds the two alike."""
    if span.name.startswith("call_llm") or _held(values, _REQUEST) is not None:
        return "model"
    return genai.kind_of(values)


def _held(values: Values, key: str) -> dict[str, Any] | None:
    """A payload with something in it. `{}` is written where capture is off."""
    found = values.payload(key, key) if key in values.held else UNSET
    values.provenance.pop(key, None)
    return found if isinstance(found, dict) and found else None


def _sides(kind: str, values: Values) -> dict[str, Side]:
    found = genai.sides(kind, values)
    if kind != "tool":
        return found
    # Arguments of `{}` are those of a call without parameters only if its response was captured.
    response = values.side("raw", _RESULT)
    captured = response is not None and response.value not in ({}, "", None, "<not specified>")
    asked = values.side("seen", _ARGUMENTS)
    if not captured:
        values.provenance.pop("raw", None)
    if asked is not None and (captured or asked.value not in ({}, "", None)):
        found.setdefault("seen", asked)
    else:
        values.provenance.pop("seen", None)
    if captured and response is not None:
        found.setdefault("raw", response)
    return found


def _model(columns: dict[str, Any], values: Values) -> dict[str, Any]:
    asked, said = _asked(_held(values, _REQUEST) or {}), _said(_held(values, _RESPONSE) or {})
    for key, made in ((_REQUEST, asked), (_RESPONSE, said)):
        values.provenance |= {name: {"key": key, "grade": "recorded"} for name in made}
    kept = {name: columns[name] for name in ("model_requested", "usage") if not empty(columns.get(name, UNSET))}
    return asked | said | kept


def _asked(request: dict[str, Any]) -> dict[str, Any]:
    config = request.get("config")
    config = config if isinstance(config, dict) else {}
    declared = [held.get("function_declarations") or () for held in config.get("tools") or () if isinstance(held, dict)]
    tools = [_tool(tool) for listed in declared for tool in listed]
    sampling = {name: value for name, value in config.items() if name not in _NO_SAMPLING}
    system = _text(config.get("system_instruction"))
    made = {
        "messages_in": shapes.messages(request["contents"]) if "contents" in request else None, "model_requested": request.get("model"),
        "system_text": system or None, "tool_defs": tools or None, "model_params": {"sampling": sampling} if sampling else None,
    }  # fmt: skip
    return {name: value for name, value in made.items() if value is not None}


def _said(response: dict[str, Any]) -> dict[str, Any]:
    content, reason, usage = (response.get(name) for name in ("content", "finish_reason", "usage_metadata"))
    counted = usage if isinstance(usage, dict) else {}
    counts = {name: counted[key] for name, key in _USAGE.items() if isinstance(counted.get(key), int)}
    made = {
        "messages_out": [shapes.message(content)] if isinstance(content, dict) else None, "finish_reason": str(reason) if reason else None,
        "usage": counts or None, "model_answered": response.get("model_version"),
    }  # fmt: skip
    return {name: value for name, value in made.items() if value is not None}


def _text(held: Any) -> str:
    """A system instruction: a text, or a content of parts."""
    if isinstance(held, dict):
        held = held.get("parts")
    return (
        held
        if isinstance(held, str)
        else "".join(part.get("text") or "" for part in held or () if isinstance(part, dict))
    )


def _tool(held: Any) -> Any:
    return {"type": "function"} | held if isinstance(held, dict) else held
