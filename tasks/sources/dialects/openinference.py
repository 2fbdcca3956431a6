"""OpenInference, as Phoenix and its instrumentors write it: `openinference.span.kind`, payloads in `input.value` and `output.value`, messages in flattened keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import shapes
from tasks.sources.dialects import flattened, genai
from tasks.sources.dialects.told import Told
from tasks.sources.otlp_values import Values
from tasks.sources.records import Side

if TYPE_CHECKING:
    from tasks.sources.carried import Carried

MAPPER = "openinference@1"
_KINDS = {
    "TOOL": "tool", "LLM": "model", "EMBEDDING": "model", "RETRIEVER": "retrieval", "RERANKER": "retrieval", "AGENT": "agent", "GUARDRAIL": "guard",
    "EVALUATOR": "eval", "DECISION": "router",
}  # fmt: skip
_HANDOFF = "handoff to "
_PHASE = re.compile(r"(?P<call>.+)\.(?P<phase>start|success|error|finish)-(?P<number>\d+)")
_IN, _OUT = "llm.input_messages.", "llm.output_messages."
_USAGE = {
    "input": "llm.token_count.prompt", "output": "llm.token_count.completion", "cache_read": "llm.token_count.prompt_details.cache_read",
    "cache_write": "llm.token_count.prompt_details.cache_write", "reasoning": "llm.token_count.completion_details.reasoning",
}  # fmt: skip


def evident(span: Carried) -> bool:
    """A span kind of these conventions, or a scope of their instrumentors."""
    return "openinference.span.kind" in span.attributes or (span.scope_name or "").startswith(
        "openinference.instrumentation."
    )


def read(span: Carried, values: Values) -> Told:
    """The span as these conventions tell it."""
    kind = _KINDS.get(str(values.held.get("openinference.span.kind", "")).upper(), "step")
    if kind == "tool" and span.name.lower().startswith(_HANDOFF):
        kind = "handoff"
    resource = Values(span.resource)
    columns: dict[str, Any] = {
        "name": span.name, "conversation_id": values.text("session.id"), "user_ref": values.text("user.id"),
        "agent_name": values.text("agent.name", "graph.node.name") if kind == "agent" else values.text("agent.name"),
        "service_name": resource.text("service.name", "openinference.project.name"), "environment": resource.text("deployment.environment.name", "deployment.environment"),
    }  # fmt: skip
    if kind == "handoff":
        columns["name"] = span.name[len(_HANDOFF) :].strip() or span.name
    if kind == "tool":
        columns |= {
            "tool_name": values.text("tool.name") or span.name,
            "call_id": values.text("tool.id", "tool_call.id"),
        }
        columns["name"] = columns["tool_name"]
    if kind in ("model", "agent"):
        columns |= _model(values)
        genai.hear(columns, values)
    if kind in ("model", "tool", "retrieval"):
        columns |= _phase(span, columns, values)
    return Told(kind, columns, _sides(kind, values))


def _phase(span: Carried, columns: dict[str, Any], values: Values) -> dict[str, Any]:
    """BeeAI writes a span for each phase of a call, `tool.search.start-12`; the number is the call's own (flag `phase:<number>:<phase>`)."""
    hit = _PHASE.fullmatch(span.name) if (span.scope_name or "").endswith(".beeai") else None
    if hit is None:
        return {}
    values.flags.add(f"phase:{hit['number']}:{hit['phase']}")
    return {column: hit["call"] for column in ("name", "tool_name") if column in columns}


def _sides(kind: str, values: Values) -> dict[str, Side]:
    if kind == "model":
        return {}
    seen, raw = values.side("seen", "input.value"), values.side("raw", "output.value")
    if kind == "tool":
        seen = _arguments(values, seen)
    if kind == "retrieval":
        raw = _documents(values) or raw
    return {side: held for side, held in (("seen", seen), ("raw", raw)) if held is not None}


def _arguments(values: Values, seen: Side | None) -> Side | None:
    """`tool.parameters` is the schema in some instrumentors and the arguments in others: never taken where there is an input, nor where it reads as a schema."""
    if seen is None:
        told = values.side("seen", "tool.parameters")
        return None if told is None or _is_schema(told.value) else told
    if isinstance(seen.value, dict) and {"args", "kwargs"} <= seen.value.keys() and not seen.value["args"]:
        return seen._replace(value=seen.value["kwargs"])  # smolagents wraps them
    return seen


def _is_schema(held: Any) -> bool:
    if not isinstance(held, dict) or "properties" in held:
        return True
    return bool(held) and all(
        isinstance(value, dict) and ("type" in value or "description" in value) for value in held.values()
    )


def _documents(values: Values) -> Side | None:
    listed = [
        held.get("document", held)
        for held in flattened.items(values.held, "retrieval.documents.")
        if isinstance(held, dict)
    ]
    if not listed:
        return None
    values.provenance["raw"] = {"key": "retrieval.documents", "grade": "recorded"}
    return Side([_decoded(held, "metadata", values) for held in listed])


def _decoded(held: Any, name: str, values: Values) -> Any:
    if not isinstance(held, dict) or not isinstance(held.get(name), str):
        return held
    return held | {name: values.decoded(held[name])}


def _model(values: Values) -> dict[str, Any]:
    asked, said = (
        _messages(values, "messages_in", _IN, "input.value"),
        _messages(values, "messages_out", _OUT, "output.value"),
    )
    tools = [_schema(held, values) for held in flattened.items(values.held, "llm.tools.")]
    if tools:
        values.provenance["tool_defs"] = {"key": "llm.tools", "grade": "recorded"}
    params = values.payload("model_params", "llm.invocation_parameters")
    usage = {name: count for name, key in _USAGE.items() if (count := values.number(key)) is not None}
    return {
        "messages_in": asked, "messages_out": said, "system_text": UNSET, "tool_defs": tools or UNSET,
        "model_params": {"sampling": params} if isinstance(params, dict) and params else UNSET, "usage": usage or UNSET,
        "finish_reason": values.text("llm.finish_reason"), "model_requested": values.text("llm.request.model_name", "llm.model_name", "embedding.model_name"),
        "model_answered": values.text("llm.response.model_name"), "provider": values.text("llm.provider", "llm.system"),
        "prompt_name": values.text("prompt.id"), "prompt_version": values.text("llm.prompt_template.version"),
    }  # fmt: skip


def _messages(values: Values, column: str, prefix: str, whole: str) -> Any:
    """The flattened messages; else those in the payload that has all of it."""
    listed = [_message(held) for held in flattened.items(values.held, prefix)]
    if listed:
        values.provenance[column] = {"key": prefix.rstrip("."), "grade": "recorded"}
        chunks = prefix == _OUT and flattened.numbers(values.held, prefix)[0] > 0
        return [_joined(listed)] if chunks and all(_only_says(held) for held in listed) else listed
    held = values.held.get(whole)
    within = _within(values.decoded(held))
    if within is None:
        return UNSET
    values.provenance[column] = {"key": whole, "grade": "recorded"}
    return shapes.messages(within)


def _within(held: Any) -> list[Any] | None:
    """The messages of a request or an answer of a provider's API, as the payload holds it."""
    if not isinstance(held, dict):
        return None
    if isinstance(held.get("choices"), list):
        return [
            choice["message"]
            for choice in held["choices"]
            if isinstance(choice, dict) and isinstance(choice.get("message"), dict)
        ] or None
    listed = held.get("messages")
    return (
        listed
        if isinstance(listed, list) and all(shapes.is_message(item) or isinstance(item, list) for item in listed)
        else None
    )


def _message(held: Any) -> Any:
    inner = held.get("message", held) if isinstance(held, dict) else held
    if not isinstance(inner, dict):
        return inner
    made = {
        name: value
        for name, value in inner.items()
        if name not in ("contents", "tool_calls", "function_call_name", "function_call_arguments_json")
    }
    parts = [_content(item) for item in _list(inner.get("contents"))]
    if parts:
        made["content"] = parts
    calls = [item.get("tool_call", item) for item in _list(inner.get("tool_calls")) if isinstance(item, dict)]
    if inner.get("function_call_name"):
        calls.append(
            {"function": {"name": inner["function_call_name"], "arguments": inner.get("function_call_arguments_json")}}
        )
    if calls:
        made["tool_calls"] = calls
    return shapes.message(made)


def _content(held: Any) -> Any:
    inner = held.get("message_content", held) if isinstance(held, dict) else held
    if isinstance(inner, dict) and isinstance(inner.get("image"), dict):
        return {"type": "uri", "modality": "image", "uri": (inner["image"].get("image") or {}).get("url")}
    return inner


def _list(held: Any) -> list[Any]:
    return held if isinstance(held, list) else []


def _only_says(held: Any) -> bool:
    return isinstance(held, dict) and held.get("role") in ("assistant", None) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in held["parts"]
    )  # fmt: skip


def _joined(listed: list[Any]) -> dict[str, Any]:
    """One answer of which each chunk was written as a message: their numbers begin where the input's ended."""
    text = "".join(part["text"] for held in listed for part in held["parts"])
    return {"role": "assistant", "parts": [{"type": "text", "text": text}]}


def _schema(held: Any, values: Values) -> Any:
    inner = held.get("tool", held) if isinstance(held, dict) else held
    text = inner.get("json_schema", inner) if isinstance(inner, dict) else inner
    return values.decoded(text)
