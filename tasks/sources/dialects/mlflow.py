"""MLflow 3: `mlflow.spanType`, every attribute's value a JSON text of its own; over OTLP a kvlist may stand there instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import payloads, shapes
from tasks.sources.dialects import genai
from tasks.sources.dialects.told import Told
from tasks.sources.otlp_values import Values
from tasks.sources.records import Side

if TYPE_CHECKING:
    from tasks.sources.carried import Carried

MAPPER = "mlflow@1"
_KINDS = {
    "TOOL": "tool", "LLM": "model", "CHAT_MODEL": "model", "EMBEDDING": "model", "RETRIEVER": "retrieval", "RERANKER": "retrieval", "AGENT": "agent",
    "MEMORY": "memory", "GUARDRAIL": "guard", "EVALUATOR": "eval",
}  # fmt: skip
_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}
_LISTS = ("messages", "input", "contents")


def evident(span: Carried) -> bool:
    """A span type, or any attribute of MLflow's."""
    return any(key.startswith("mlflow.") for key in span.attributes)


def read(span: Carried, values: Values) -> Told:
    """The span as MLflow tells it."""
    kind = _KINDS.get(str(_once(values, "mlflow.spanType")).upper(), "step")
    resource = Values(span.resource)
    columns: dict[str, Any] = {
        "name": span.name, "conversation_id": _text(values, "mlflow.trace.session"), "user_ref": _text(values, "mlflow.trace.user"),
        "agent_name": span.name if kind == "agent" else None, "service_name": resource.text("service.name"),
        "environment": resource.text("deployment.environment.name", "deployment.environment"),
    }  # fmt: skip
    if kind == "tool":
        columns |= {"tool_name": _text(values, "mlflow.spanFunctionName") or span.name}
        columns["name"] = columns["tool_name"]
    if kind in ("model", "agent"):
        columns |= _model(values)
        genai.hear(columns, values)
    pairs = () if kind == "model" else (("seen", "mlflow.spanInputs"), ("raw", "mlflow.spanOutputs"))
    return Told(kind, columns, {side: held for side, key in pairs if (held := _side(values, side, key)) is not None})


def _once(values: Values, key: str) -> Any:
    """The value of an attribute whose JSON text is MLflow's own; a scalar is one too. What is no JSON stands for itself."""
    held = values.held.get(key)
    if not isinstance(held, str):
        return held
    try:
        found = payloads.loads(held)
    except ValueError:
        return values.decoded(held)
    values.flags |= found.flags
    return found.value


def _text(values: Values, key: str) -> str | None:
    found = _once(values, key)
    return found if isinstance(found, str) and found else None


def _side(values: Values, side: str, key: str) -> Side | None:
    if key not in values.held:
        return None
    values.provenance[side] = {"key": key, "grade": "recorded"}
    held = values.held[key]
    if not isinstance(held, str):
        values.flags.add("kvlist")
        return Side(held, "kvlist")
    try:
        payloads.loads(held)
    except ValueError:  # no JSON: cut, or a text
        found = payloads.parsed(held)
        values.flags |= found.flags
        return Side(found.value, found.encoding)
    return Side(_once(values, key))


def _model(values: Values) -> dict[str, Any]:
    asked, said = _once(values, "mlflow.spanInputs"), _once(values, "mlflow.spanOutputs")
    chat, tools, usage = (_once(values, f"mlflow.chat.{name}") for name in ("messages", "tools", "tokenUsage"))
    request = asked if isinstance(asked, dict) else {}
    listed = next((request[name] for name in _LISTS if isinstance(request.get(name), list)), None)
    if listed is None and isinstance(chat, list):
        listed = chat[:-1]  # with the answer as its last
    output = _said(said)
    if output is UNSET and isinstance(chat, list) and chat:
        output = [shapes.message(chat[-1])]
    for column, held, key in (
        ("messages_in", listed, "mlflow.spanInputs"),
        ("messages_out", None if output is UNSET else output, "mlflow.spanOutputs"),
    ):
        if held is not None:
            values.provenance[column] = {"key": key, "grade": "recorded"}
    counts = {
        name: usage[key] for name, key in _USAGE.items() if isinstance(usage, dict) and isinstance(usage.get(key), int)
    }
    offered = tools if isinstance(tools, list) else request.get("tools")
    model = request.get("model") or _once(values, "mlflow.llm.model") or _once(values, "gen_ai.request.model")
    answered = said.get("model") if isinstance(said, dict) else None
    sampling = {
        name: held
        for name, held in request.items()
        if name not in (*_LISTS, "tools", "model", "system") and held is not None
    }
    return {
        "messages_in": shapes.messages(listed) if listed is not None else UNSET, "messages_out": output,
        "system_text": request["system"] if isinstance(request.get("system"), str) else UNSET, "tool_defs": offered or UNSET,
        "model_params": {"sampling": sampling} if sampling else UNSET, "usage": counts or UNSET, "finish_reason": _reason(said),
        "model_requested": model if isinstance(model, str) else None, "model_answered": answered if isinstance(answered, str) else None,
        "provider": _text(values, "mlflow.llm.provider") or values.text("gen_ai.provider.name"), "prompt_name": None, "prompt_version": None,
    }  # fmt: skip


def _said(held: Any) -> Any:
    """The messages of an answer: OpenAI's choices, the output of its Responses API, Anthropic's content, one message, or a text."""
    if isinstance(held, str):
        return [{"role": "assistant", "parts": [{"type": "text", "text": held}]}]
    if not isinstance(held, dict):
        return UNSET
    choices = held.get("choices")
    if isinstance(choices, list):
        return [
            shapes.message(choice["message"])
            for choice in choices
            if isinstance(choice, dict) and isinstance(choice.get("message"), dict)
        ] or UNSET
    if isinstance(held.get("output"), list):
        return shapes.messages(held["output"])
    return [shapes.message({"role": "assistant"} | held)] if "content" in held else UNSET


def _reason(held: Any) -> str | None:
    if not isinstance(held, dict):
        return None
    choices = held.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else held
    found = first.get("finish_reason", first.get("stop_reason"))
    return found if isinstance(found, str) else None
