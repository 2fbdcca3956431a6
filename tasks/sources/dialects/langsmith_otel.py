"""LangSmith's own OpenTelemetry export: `langsmith.span.kind`, a run's inputs and outputs whole in `gen_ai.prompt` and `gen_ai.completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import shapes, toolruns
from tasks.sources.dialects import genai
from tasks.sources.dialects.told import Told, empty

if TYPE_CHECKING:
    from tasks.sources.carried import Carried
    from tasks.sources.otlp_values import Values
    from tasks.sources.records import Side

MAPPER = "langsmith_otel@1"
_KINDS = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    "embedding": "model",
    "chain": "step",
    "prompt": "step",
    "parser": "step",
}
_METADATA = "langsmith.metadata."
_IN, _OUT = "gen_ai.prompt", "gen_ai.completion"


def evident(span: Carried) -> bool:
    """The exporter's scope, or its span kind."""
    return span.scope_name == "langsmith" or "langsmith.span.kind" in span.attributes


def read(span: Carried, values: Values) -> Told:
    """The span as LangSmith tells it. Raises BadSpan."""
    kind = _KINDS.get((values.text("langsmith.span.kind") or "").lower()) or genai.kind_of(values)
    columns = genai.columns(kind, span, values)
    threads = (f"{_METADATA}{name}" for name in ("thread_id", "session_id", "conversation_id"))
    columns["conversation_id"] = columns["conversation_id"] or values.text(*threads)
    columns["user_ref"] = columns["user_ref"] or values.text(f"{_METADATA}user_id")
    if kind == "tool":
        columns |= {"tool_name": columns["tool_name"] or span.name, "name": columns["tool_name"] or span.name}
    if kind == "model":
        columns |= _model(columns, values)
        genai.hear(columns, values)
    return Told(kind, columns, _sides(kind, values))


def _sides(kind: str, values: Values) -> dict[str, Side]:
    found = genai.sides(kind, values)
    if kind == "model":
        return found
    for side, key in (("seen", _IN), ("raw", _OUT)):
        held = None if side in found else values.side(side, key)
        if held is not None:
            found[side] = toolruns.arguments(held) if kind == "tool" and side == "seen" else held
    return found


def _model(columns: dict[str, Any], values: Values) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for column, key in (("messages_in", _IN), ("messages_out", _OUT)):
        if not empty(columns.get(column, UNSET)) or key not in values.held:
            continue
        held = messages_of(values.payload(column, key))
        if held is UNSET:
            values.provenance.pop(column, None)
        else:
            made[column] = held
    return made


def messages_of(held: Any) -> Any:
    """The messages in a run's inputs or outputs: `messages`, a provider's `choices`, LangChain's `generations`, or one message; UNSET where there are none."""
    if isinstance(held, list):
        return shapes.messages(held)
    if not isinstance(held, dict):
        return UNSET
    if isinstance(held.get("messages"), list):
        return shapes.messages(held["messages"])
    if isinstance(held.get("choices"), list):
        return [
            shapes.message(choice["message"])
            for choice in held["choices"]
            if isinstance(choice, dict) and isinstance(choice.get("message"), dict)
        ]
    generated = held.get("generations")
    if isinstance(generated, list):
        return [_generated(one) for batch in generated for one in (batch if isinstance(batch, list) else [batch])]
    for name in ("output", "message"):
        if isinstance(held.get(name), dict | list):
            return messages_of(held[name])
    return [shapes.message(held)] if shapes.is_message(held) else UNSET


def _generated(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    return (
        shapes.message(held["message"])
        if isinstance(held.get("message"), dict)
        else {"role": "assistant", "parts": shapes.parts_of(held.get("text"))}
    )
