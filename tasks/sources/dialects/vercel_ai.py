"""The AI SDK of Vercel: `ai.operationId`, payloads as JSON text in `ai.*`. What is sent to a provider is the model's crossing; the call around it is context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import shapes
from tasks.sources.dialects import genai
from tasks.sources.dialects.told import Told
from tasks.sources.otlp_values import Values

if TYPE_CHECKING:
    from tasks.sources.carried import Carried
    from tasks.sources.records import Side

MAPPER = "vercel_ai@1"
_PROVIDER_CALLS = (".doGenerate", ".doStream", ".doEmbed", ".doRerank")
_WHOLE_CALLS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_METADATA = "ai.telemetry.metadata."
_USAGE = {
    "input": ("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"), "output": ("ai.usage.outputTokens", "ai.usage.completionTokens"),
    "cache_read": ("ai.usage.cachedInputTokens",), "reasoning": ("ai.usage.reasoningTokens",),
}  # fmt: skip


def evident(span: Carried) -> bool:
    """The SDK's operation, or its scope."""
    return "ai.operationId" in span.attributes or span.scope_name == "ai"


def read(span: Carried, values: Values) -> Told:
    """The span as the SDK tells it."""
    operation = values.text("ai.operationId") or span.name
    kind = _kind(operation)
    resource = Values(span.resource)
    columns: dict[str, Any] = {
        "name": span.name, "conversation_id": values.text(f"{_METADATA}sessionId", f"{_METADATA}conversationId", f"{_METADATA}chatId", "session.id"),
        "user_ref": values.text(f"{_METADATA}userId", "user.id"), "agent_name": values.text("ai.telemetry.functionId") if kind == "agent" else None,
        "service_name": resource.text("service.name"), "environment": resource.text("deployment.environment.name", "deployment.environment"),
    }  # fmt: skip
    if kind == "tool":
        name = values.text("ai.toolCall.name") or span.name
        columns |= {"name": name, "tool_name": name, "call_id": values.text("ai.toolCall.id")}
    if kind == "model":
        columns |= _model(values)
        genai.hear(columns, values)
    return Told(kind, columns, _sides(kind, values))


def _kind(operation: str) -> str:
    if operation == "ai.toolCall":
        return "tool"
    if operation.endswith(_PROVIDER_CALLS):
        return "model"
    return "agent" if operation in _WHOLE_CALLS else "step"


def _sides(kind: str, values: Values) -> dict[str, Side]:
    pairs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    if kind == "tool":
        pairs = (
            ("seen", ("ai.toolCall.args", "ai.toolCall.input")),
            ("raw", ("ai.toolCall.result", "ai.toolCall.output")),
        )
    elif kind == "agent":
        pairs = (("seen", ("ai.prompt",)), ("raw", ("ai.response.text", "ai.response.object")))
    return {side: held for side, keys in pairs if (held := values.side(side, *keys)) is not None}


def _model(values: Values) -> dict[str, Any]:
    asked = values.payload("messages_in", "ai.prompt.messages")
    tools = values.held.get("ai.prompt.tools")
    listed = [_tool(item, values) for item in tools] if isinstance(tools, list) else []
    if listed:
        values.provenance["tool_defs"] = {"key": "ai.prompt.tools", "grade": "recorded"}
    reasons = values.held.get("gen_ai.response.finish_reasons")
    reason = values.text("ai.response.finishReason") or (
        str(reasons[0]) if isinstance(reasons, list) and reasons else None
    )
    usage = {name: count for name, keys in _USAGE.items() if (count := values.number(*keys)) is not None}
    params = {
        key.removeprefix("ai.settings."): held for key, held in values.held.items() if key.startswith("ai.settings.")
    }
    choice = values.payload("model_params", "ai.prompt.toolChoice")
    params |= {"toolChoice": choice} if choice is not UNSET else {}
    return {
        "messages_in": shapes.messages(asked), "messages_out": _said(values), "system_text": UNSET, "tool_defs": listed or UNSET,
        "model_params": {"sampling": params} if params else UNSET, "usage": usage or UNSET, "finish_reason": reason,
        "model_requested": values.text("gen_ai.request.model", "ai.model.id"), "model_answered": values.text("ai.response.model", "gen_ai.response.model"),
        "provider": values.text("gen_ai.system", "ai.model.provider"), "prompt_name": None, "prompt_version": None,
    }  # fmt: skip


def _said(values: Values) -> Any:
    """The one message that a provider's answer is: its reasoning, its text or object, its calls. UNSET where none of them was recorded."""
    parts: list[Any] = []
    keys: list[str] = []
    for key, kind in (
        ("ai.response.reasoning", "reasoning"),
        ("ai.response.text", "text"),
        ("ai.response.object", "text"),
    ):
        text = values.text(key)
        if text is not None:
            parts.append({"type": kind, "text": text})
            keys.append(key)
    calls = values.payload("messages_out", "ai.response.toolCalls", "ai.result.toolCalls")
    if isinstance(calls, list):
        parts += [shapes.part({"type": "tool-call"} | call) for call in calls if isinstance(call, dict)]
        keys.append("ai.response.toolCalls")
    if not keys:
        return UNSET
    values.provenance["messages_out"] = {"key": " ".join(keys), "grade": "recorded"}
    return [{"role": "assistant", "parts": parts}]


def _tool(held: Any, values: Values) -> Any:
    """A tool as the provider was offered it; the SDK writes each as JSON text."""
    found = values.decoded(held)
    if isinstance(found, dict) and "parameters" not in found and "inputSchema" in found:
        return {("parameters" if name == "inputSchema" else name): value for name, value in found.items()}
    return found
