"""OpenLLMetry (Traceloop): `traceloop.*`, and messages as `gen_ai.prompt.N.*` and `gen_ai.completion.N.*`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import payloads, shapes
from tasks.sources.dialects import flattened, genai
from tasks.sources.dialects.told import Told, empty

if TYPE_CHECKING:
    from tasks.sources.carried import Carried
    from tasks.sources.otlp_values import Values
    from tasks.sources.records import Side

MAPPER = "openllmetry@1"
_KINDS = {"tool": "tool", "agent": "agent", "workflow": "step", "task": "step"}
_NUMBERED = re.compile(r"(?:gen_ai\.(?:prompt|completion)|llm\.(?:prompts|completions|request\.functions))\.\d+\.")
_REQUESTS = ("chat", "completion", "embedding", "rerank")
_ASSOCIATED = "traceloop.association.properties."


def evident(span: Carried) -> bool:
    """Attributes of Traceloop, or messages in numbered keys."""
    return any(key.startswith("traceloop.") or _NUMBERED.match(key) for key in span.attributes)


def read(span: Carried, values: Values) -> Told:
    """The span as this instrumentation tells it. Raises BadSpan."""
    kind = _kind(span, values)
    columns = genai.columns(kind, span, values)
    entity = values.text("traceloop.entity.name")
    if kind == "tool":
        name = values.text("gen_ai.tool.name") or entity or span.name.removesuffix(".tool")
        columns |= {"tool_name": name, "name": name}
    columns["conversation_id"] = columns["conversation_id"] or _associated(
        values, "session_id", "session.id", "conversation_id", "thread_id", "chat_id"
    )
    columns["user_ref"] = columns["user_ref"] or _associated(values, "user_id", "user.id")
    if kind == "agent":
        columns["agent_name"] = columns["agent_name"] or entity
    if kind in ("model", "agent"):
        columns |= _model(columns, values)
        genai.hear(columns, values)
    return Told(kind, columns, _sides(kind, values))


def _kind(span: Carried, values: Values) -> str:
    named = _KINDS.get(values.text("traceloop.span.kind") or "")
    if named is not None:
        return named
    if values.text("llm.request.type") in _REQUESTS or any(_NUMBERED.match(key) for key in span.attributes):
        return "model"
    return genai.kind_of(values)


def _associated(values: Values, *names: str) -> str | None:
    return values.text(*(f"{_ASSOCIATED}{name}" for name in names))


def _sides(kind: str, values: Values) -> dict[str, Side]:
    found = genai.sides(kind, values)
    if kind == "model":
        return found
    for side, key in (("seen", "traceloop.entity.input"), ("raw", "traceloop.entity.output")):
        held = None if side in found else values.side(side, key)
        if held is not None:
            found[side] = _unwrapped(held, kind) if side == "seen" else held
    return found


def _unwrapped(held: Side, kind: str) -> Side:
    """A decorated function's input is `{args, kwargs}`; LangChain's callback writes `{input_str, inputs, ...}`."""
    inner = held.value
    if kind != "tool" or not isinstance(inner, dict):
        return held
    if {"args", "kwargs"} <= inner.keys() and not inner["args"]:
        return held._replace(value=inner["kwargs"])
    if isinstance(inner.get("inputs"), dict) and "input_str" in inner:
        return held._replace(value=inner["inputs"])
    return held


def _model(columns: dict[str, Any], values: Values) -> dict[str, Any]:
    held = values.held
    made: dict[str, Any] = {}
    for column, prefixes in (
        ("messages_in", ("gen_ai.prompt.", "llm.prompts.")),
        ("messages_out", ("gen_ai.completion.", "llm.completions.")),
    ):
        listed = next((found for prefix in prefixes if (found := flattened.items(held, prefix))), [])
        if listed and empty(columns.get(column, UNSET)):
            made[column] = [_message(item, values) for item in listed]
            values.provenance[column] = {"key": prefixes[0].rstrip("."), "grade": "recorded"}
    tools = [_tool(item, values) for item in flattened.items(held, "llm.request.functions.")]
    if tools and empty(columns.get("tool_defs", UNSET)):
        made["tool_defs"] = tools
        values.provenance["tool_defs"] = {"key": "llm.request.functions", "grade": "recorded"}
    name, version = (
        values.text("traceloop.prompt.key"),
        values.text("traceloop.prompt.version", "traceloop.prompt.version_hash"),
    )
    if version is None and (number := values.number("traceloop.prompt.version")) is not None:
        version = str(number)
    made |= {"prompt_name": name} if name else {}
    return made | ({"prompt_version": version} if version else {})


def _message(held: Any, values: Values) -> Any:
    if not isinstance(held, dict):
        return held
    content = held.get("content")
    if (
        isinstance(content, str) and content.lstrip()[:1] == "["
    ):  # blocks, as JSON text; a text that merely begins so stays one
        found = payloads.parsed(content)
        if isinstance(found.value, list) and all(isinstance(part, dict) for part in found.value):
            values.flags |= found.flags
            held = held | {"content": found.value}
    return shapes.message(held)


def _tool(held: Any, values: Values) -> Any:
    if isinstance(held, dict) and isinstance(held.get("parameters"), str):
        held = held | {"parameters": values.decoded(held["parameters"])}
    return {"type": "function"} | held if isinstance(held, dict) else held
