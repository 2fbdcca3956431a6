"""The OTel GenAI conventions (>= 1.37), with or without our recorder's `twiceshy.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tasks.sources import clock, messages
from tasks.sources.dialects.told import Told
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.otlp_values import Values
from twiceshy.envelope import Kind

if TYPE_CHECKING:
    from tasks.sources.carried import Carried
    from tasks.sources.records import Side

MAPPER = "genai@1"
DETAILS = "gen_ai.client.inference.operation.details"
"""The event that may hold the content in place of the span's attributes."""

_OPERATIONS = {
    "chat": "model", "generate_content": "model", "text_completion": "model", "embeddings": "model", "execute_tool": "tool",
    "retrieval": "retrieval", "invoke_agent": "agent", "create_agent": "agent", "invoke_workflow": "step", "plan": "step",
    **{f"{verb}_memory": "memory" for verb in ("create", "update", "upsert", "search", "delete")},
    "create_memory_store": "memory", "delete_memory_store": "memory",
}  # fmt: skip
_CALLS = ("tool", "retrieval", "memory")
_CONTEXT = ("agent", "step", "infra", "eval")
_REFERENCES = (
    "gen_ai.input.messages_ref",
    "gen_ai.output.messages_ref",
    "gen_ai.system_instructions_ref",
    "gen_ai.tool.definitions_ref",
)
_USAGE = {
    "input": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cache_read": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    "cache_write": ("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
    "reasoning": ("gen_ai.usage.reasoning_tokens",),
}
_SAMPLING = "gen_ai.request."
_NO_SAMPLING = frozenset({"gen_ai.request.model"})


def read(span: Carried, values: Values) -> Told:
    """The span as these conventions tell it. Raises BadSpan."""
    kind = kind_of(values)
    return Told(kind, columns(kind, span, values), sides(kind, values))


def kind_of(values: Values) -> str:
    """The kind of the span. Raises BadSpan for a `twiceshy.kind` that is none."""
    own = values.text("twiceshy.kind")
    if own is not None:
        if own not in {str(kind) for kind in Kind}:
            raise BadSpan("bad_enum")
        return own
    operation = values.text("gen_ai.operation.name")
    if operation is None and (
        "gen_ai.tool.call.arguments" in values.held or values.text("mcp.method.name") == "tools/call"
    ):
        return "tool"
    return _OPERATIONS.get(operation or "", "step")


def columns(kind: str, span: Carried, values: Values) -> dict[str, Any]:
    """The fields of `Span` that the attributes tell; sides are another's."""
    resource = Values(span.resource)
    tool = values.text("gen_ai.tool.name")
    called = kind in _CALLS
    told: dict[str, Any] = {
        "name": values.text("twiceshy.name") or (tool if called and tool else span.name),
        "tool_name": (tool or values.text("twiceshy.name")) if called else None,
        "call_id": values.text("gen_ai.tool.call.id") if called else None,
        "mcp_server": values.text("mcp.server.name", "server.address") if values.text("mcp.method.name") else None,
        "conversation_id": values.text("gen_ai.conversation.id", "session.id"), "user_ref": values.text("user.id", "enduser.id"),
        "agent_name": values.text("gen_ai.agent.name"),
        "agent_version": values.text("twiceshy.agent.version", "gen_ai.agent.version") or resource.text("twiceshy.agent.version"),
        "workflow": values.text("twiceshy.workflow") or resource.text("twiceshy.workflow"), "goal": values.text("twiceshy.goal"),
        "service_name": resource.text("service.name"), "environment": resource.text("deployment.environment.name", "deployment.environment"),
        "crossing_seq": values.number("twiceshy.seq"), "scope": values.text("twiceshy.scope"), "group": values.number("twiceshy.group"),
        "within": values.text("twiceshy.parent"), "tightened": values.held.get("twiceshy.tightened") is True or None,
        "at": values.text("twiceshy.at"), "blocked_by": values.text("twiceshy.blocked_by"), "clock_text": values.text("twiceshy.clock.text"),
        "clock_tz": values.text("twiceshy.clock.tz"), "clock_ns": values.number("twiceshy.clock.instant_ns"),
        "versions": values.payload("versions", "twiceshy.versions"),
    }  # fmt: skip
    if told["crossing_seq"] is not None:
        told["crossing_sub"] = values.number("twiceshy.sub") or 0
    if any(key in values.held for key in _REFERENCES):
        values.flags.add("ref_unresolved")
    if kind in ("model", "agent"):
        told |= _model(values)
        hear(told, values)
    return told


def sides(kind: str, values: Values) -> dict[str, Side]:
    """The recorded sides; an attribute that is not there leaves its side unknown."""
    seen, raw = ["twiceshy.seen"], ["twiceshy.raw"]
    if kind in _CALLS:
        seen.append("gen_ai.tool.call.arguments")
        raw.append("gen_ai.tool.call.result")
    found = {
        "proposed": values.side("proposed", "twiceshy.proposed"), "seen": values.side("seen", *seen), "raw": values.side("raw", *raw),
        "shown": values.side("shown", "twiceshy.shown"),
    }  # fmt: skip
    if kind in _CONTEXT and found["seen"] is not None:
        values.look_for_digests(found["seen"].value)
    return {side: held for side, held in found.items() if held is not None}


def hear(columns: dict[str, Any], values: Values) -> None:
    """What the messages tell besides: the system text where nothing else has it, the clock that the agent was told, and digests in place of content."""
    asked, system = columns["messages_in"], columns["system_text"]
    for held in (asked, columns["messages_out"], system):
        values.look_for_digests(held)
    if system is UNSET:
        columns["system_text"] = system = messages.of_role(asked, "system")
    if "twiceshy.clock.text" in values.held or columns.get("clock_text"):
        return
    texts = (system, messages.of_role(asked, "user"))
    found = next((told for text in texts if isinstance(text, str) and (told := clock.told(text))), None)
    if found is not None:
        values.provenance["clock_text"] = {"key": "gen_ai.input.messages", "grade": "derived"}
        columns |= {"clock_text": found.text, "clock_tz": found.tz}


def _model(values: Values) -> dict[str, Any]:
    asked = values.payload("messages_in", "gen_ai.input.messages")
    said = values.payload("messages_out", "gen_ai.output.messages")
    system = values.payload("system_text", "gen_ai.system_instructions")
    if not values.exact:
        asked, said = messages.shaped(asked), messages.shaped(said)
        system = messages.system_text(system)
    reasons = values.payload("finish_reason", "gen_ai.response.finish_reasons")
    usage = {name: count for name, keys in _USAGE.items() if (count := values.number(*keys)) is not None}
    return {
        "messages_in": asked, "messages_out": said, "system_text": system, "tool_defs": values.payload("tool_defs", "gen_ai.tool.definitions"),
        "model_params": _params(values), "usage": usage or UNSET, "finish_reason": str(reasons[0]) if isinstance(reasons, list) and reasons else None,
        "model_requested": values.text("gen_ai.request.model"), "model_answered": values.text("gen_ai.response.model"),
        "provider": values.text("gen_ai.provider.name", "gen_ai.system"),
        "prompt_name": values.text("twiceshy.prompt.name", "gen_ai.prompt.name"), "prompt_version": values.text("twiceshy.prompt.version"),
    }  # fmt: skip


def _params(values: Values) -> Any:
    own = values.payload("model_params", "twiceshy.request")
    if own is not UNSET:
        return own
    sampling = {
        key.removeprefix(_SAMPLING): held for key, held in values.held.items() if key.startswith(_SAMPLING) and key not in _NO_SAMPLING
    }  # fmt: skip
    return {"sampling": sampling} if sampling else UNSET
