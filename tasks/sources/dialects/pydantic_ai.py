"""pydantic-ai and Logfire beside the GenAI conventions: messages in `events` or `all_messages`, a tool's arguments and response under names of their own."""

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

MAPPER = "pydantic_ai@1"
_MARKS = (
    "pydantic_ai.all_messages",
    "all_messages_events",
    "model_request_parameters",
    "tool_arguments",
    "tool_response",
    "logfire.json_schema",
)
_RUNS = ("agent run", "invoke_agent")
_CHOICE = "gen_ai.choice"


def evident(span: Carried) -> bool:
    """The scope of the framework, or an attribute that only it or Logfire writes."""
    return span.scope_name == "pydantic-ai" or any(mark in span.attributes for mark in _MARKS)


def read(span: Carried, values: Values) -> Told:
    """The span as the framework tells it. Raises BadSpan."""
    kind = _kind(span, values)
    columns = genai.columns(kind, span, values)
    columns["agent_name"] = columns["agent_name"] or values.text("agent_name")
    if kind == "tool":
        name = (
            columns["tool_name"]
            or values.text("tool_name", "gen_ai.tool.name")
            or span.name.removeprefix("running tool: ")
        )
        columns |= {"tool_name": name, "name": name}
    if kind in ("model", "agent"):
        columns |= _model(columns, values)
        genai.hear(columns, values)
    return Told(kind, columns, _sides(kind, values))


def _kind(span: Carried, values: Values) -> str:
    if "tool_arguments" in values.held or "tool_response" in values.held or span.name.startswith("running tool: "):
        return "tool"
    found = genai.kind_of(values)
    if found == "step" and ("agent_name" in values.held or span.name.startswith(_RUNS)):
        return "agent"
    return found


def _sides(kind: str, values: Values) -> dict[str, Side]:
    found = genai.sides(kind, values)
    pairs: tuple[tuple[str, str], ...] = ()
    if kind == "tool":
        pairs = (("seen", "tool_arguments"), ("raw", "tool_response"))
    elif kind == "agent":
        pairs = (("raw", "final_result"),)
    for side, key in pairs:
        held = None if side in found else values.side(side, key)
        if held is not None:
            found[side] = held
    return found


def _model(columns: dict[str, Any], values: Values) -> dict[str, Any]:
    made: dict[str, Any] = {}
    listed, key = _events(values)
    asked = [shapes.message(_flat(event)) for event in listed if event.get("event.name") != _CHOICE]
    said = [_choice(event) for event in listed if event.get("event.name") == _CHOICE]
    for column, found in (("messages_in", asked), ("messages_out", said)):
        if found and empty(columns.get(column, UNSET)):
            made[column] = found
            values.provenance[column] = {"key": key, "grade": "recorded"}
    params = values.payload("tool_defs", "model_request_parameters")
    if not isinstance(params, dict):
        return made
    offered = [*(params.get("function_tools") or ()), *(params.get("output_tools") or ())]
    if offered and empty(columns.get("tool_defs", UNSET)):
        made["tool_defs"] = [_tool(held) for held in offered]
    else:
        values.provenance.pop("tool_defs", None)
    if params.get("output_object") and empty(columns.get("model_params", UNSET)):
        made["model_params"] = {"output_format": params["output_object"]}
    return made


def _events(values: Values) -> tuple[list[dict[str, Any]], str]:
    for key in ("pydantic_ai.all_messages", "all_messages_events", "events"):
        found = values.payload("messages_in", key)
        values.provenance.pop("messages_in", None)
        if isinstance(found, list) and found:
            return [held for held in found if isinstance(held, dict)], key
    return [], ""


def _flat(event: dict[str, Any]) -> dict[str, Any]:
    """An event without what says where it stood in the request."""
    return {name: value for name, value in event.items() if not name.startswith(("gen_ai.", "event."))}


def _choice(event: dict[str, Any]) -> Any:
    said = event.get("message", event)
    made = shapes.message({"role": "assistant"} | (_flat(said) if isinstance(said, dict) else {"content": said}))
    reason = event.get("finish_reason")
    return made | {"finish_reason": reason} if reason is not None else made


def _tool(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    named = {
        ("parameters" if name == "parameters_json_schema" else name): value
        for name, value in held.items()
        if value is not None
    }
    return {"type": "function"} | {
        name: named[name] for name in ("name", "description", "parameters", "strict") if name in named
    }
