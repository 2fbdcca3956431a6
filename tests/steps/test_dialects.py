"""One model call and the tool call it asked for, as each instrumentation writes them, are one record; and what real exports hold."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.sources import otlp
from tasks.sources.source import Mapped, Window
from traces import CALLED, HARNESS, a_raw, a_request, a_wire_span, normalized, real, wire

ARGUMENTS, RESULT = '{"id": "A1"}', '{"total": 7}'
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": ARGUMENTS}}
SYSTEM, QUESTION = "Be brief. The current time is 2026-11-03 09:14 UTC.", "Where is A1?"
CHAT = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
ASKED = [
    {"role": role, "parts": [{"type": "text", "text": text}]} for role, text in (("system", SYSTEM), ("user", QUESTION))
]
SAID = [
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"id": "A1"}}]}
]
OPENAI_SAID = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOOL = {"type": "function", "name": "get_order", "parameters": SCHEMA}

Attributes = dict[str, Any]


def an_event(name: str, **attributes: str) -> dict[str, Any]:
    return {
        "name": name,
        "timeUnixNano": "1",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


MODELS: dict[str, tuple[str, Attributes]] = {
    "genai": ("x", {
        "gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(CHAT), "gen_ai.output.messages": json.dumps(SAID),
        "gen_ai.tool.definitions": json.dumps([TOOL]), "gen_ai.request.model": "m-1", "gen_ai.usage.input_tokens": 12,
    }),
    "openinference": ("openinference.instrumentation.openai", {
        "openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "system", "llm.input_messages.0.message.content": SYSTEM,
        "llm.input_messages.1.message.role": "user", "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": QUESTION, "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1", "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "get_order",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": ARGUMENTS, "llm.tools.0.tool.json_schema": json.dumps(TOOL),
        "llm.model_name": "m-1", "llm.token_count.prompt": 12,
    }),
    "openllmetry": ("opentelemetry.instrumentation.openai", {
        "llm.request.type": "chat", "gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": SYSTEM, "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": QUESTION, "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "get_order", "gen_ai.completion.0.tool_calls.0.arguments": ARGUMENTS,
        "llm.request.functions.0.name": "get_order", "llm.request.functions.0.parameters": json.dumps(SCHEMA), "gen_ai.request.model": "m-1",
        "gen_ai.usage.prompt_tokens": 12,
    }),
    "vercel_ai": ("ai", {
        "ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": json.dumps([CHAT[0], {"role": "user", "content": [{"type": "text", "text": QUESTION}]}]),
        "ai.response.toolCalls": json.dumps([{"toolCallType": "function", "toolCallId": "c1", "toolName": "get_order", "args": ARGUMENTS}]),
        "ai.prompt.tools": {"arrayValue": {"values": [{"stringValue": json.dumps({"type": "function", "name": "get_order", "inputSchema": SCHEMA})}]}},
        "ai.model.id": "m-1", "ai.usage.promptTokens": 12,
    }),
    "adk": ("gcp.vertex.agent", {
        "gcp.vertex.agent.llm_request": json.dumps({"model": "m-1", "config": {"system_instruction": SYSTEM, "tools": [{"function_declarations": [{"name": "get_order", "parameters": SCHEMA}]}]}, "contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}),
        "gcp.vertex.agent.llm_response": json.dumps({"content": {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "get_order", "args": {"id": "A1"}}}]}, "usage_metadata": {"prompt_token_count": 12}}),
    }),
    "pydantic_ai": ("pydantic-ai", {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", "gen_ai.usage.input_tokens": 12,
        "events": json.dumps([
            {"event.name": "gen_ai.system.message", "gen_ai.message.index": 0, "role": "system", "content": SYSTEM},
            {"event.name": "gen_ai.user.message", "gen_ai.message.index": 1, "role": "user", "content": QUESTION},
            {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "tool_calls": [CALL]}},
        ]),
        "model_request_parameters": json.dumps({"function_tools": [{"name": "get_order", "parameters_json_schema": SCHEMA}], "output_tools": []}),
    }),
    "mlflow": ("mlflow", {
        "mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"model": "m-1", "messages": CHAT}),
        "mlflow.spanOutputs": json.dumps({"choices": [{"message": OPENAI_SAID, "finish_reason": "tool_calls"}]}),
        "mlflow.chat.tools": json.dumps([TOOL]), "mlflow.chat.tokenUsage": '{"input_tokens": 12}',
    }),
    "langsmith_otel": ("langsmith", {
        "langsmith.span.kind": "llm", "gen_ai.prompt": json.dumps({"messages": CHAT}), "gen_ai.completion": json.dumps({"choices": [{"message": OPENAI_SAID}]}),
        "gen_ai.request.model": "m-1", "gen_ai.usage.input_tokens": 12, "gen_ai.tool.definitions": json.dumps([TOOL]),
    }),
    "genai_old": ("opentelemetry.instrumentation.openai_v2", {
        "gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m-1", "gen_ai.usage.prompt_tokens": 12,
    }),
}  # fmt: skip
OLD_EVENTS = [
    an_event("gen_ai.system.message", content=SYSTEM), an_event("gen_ai.user.message", content=QUESTION),
    an_event("gen_ai.choice", index="0", finish_reason="tool_calls", message=json.dumps({"role": "assistant", "tool_calls": [CALL]})),
]  # fmt: skip
TOOLS: dict[str, tuple[str, Attributes]] = {
    "genai": ("x", CALLED | {"gen_ai.tool.call.id": "c1"}),
    "openinference": ("x", {"openinference.span.kind": "TOOL", "tool.name": "get_order", "tool.id": "c1", "input.value": ARGUMENTS, "output.value": RESULT}),
    "openllmetry": ("x", {"traceloop.span.kind": "tool", "traceloop.entity.name": "get_order", "traceloop.entity.input": json.dumps({"args": [], "kwargs": {"id": "A1"}}), "traceloop.entity.output": RESULT, "gen_ai.tool.call.id": "c1", "gen_ai.operation.name": "execute_tool"}),
    "vercel_ai": ("ai", {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "get_order", "ai.toolCall.id": "c1", "ai.toolCall.args": ARGUMENTS, "ai.toolCall.result": RESULT}),
    "adk": ("gcp.vertex.agent", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order", "gen_ai.tool.call.id": "c1", "gcp.vertex.agent.tool_call_args": ARGUMENTS, "gcp.vertex.agent.tool_response": RESULT}),
    "pydantic_ai": ("pydantic-ai", {"gen_ai.tool.name": "get_order", "gen_ai.tool.call.id": "c1", "tool_arguments": ARGUMENTS, "tool_response": RESULT}),
    "mlflow": ("mlflow", {"mlflow.spanType": '"TOOL"', "mlflow.spanFunctionName": '"get_order"', "mlflow.spanInputs": ARGUMENTS, "mlflow.spanOutputs": RESULT}),
    "langsmith_otel": ("langsmith", {"langsmith.span.kind": "tool", "gen_ai.tool.name": "get_order", "gen_ai.tool.call.id": "c1", "gen_ai.operation.name": "execute_tool", "gen_ai.prompt": ARGUMENTS, "gen_ai.completion": RESULT}),
}  # fmt: skip


def only(scope: str, attributes: Attributes, name: str = "get_order", **fields: Any) -> dict[str, Any]:
    (row,) = wire(a_request(a_wire_span("1", name, attributes=attributes, **fields), scope=scope)).spans.to_dicts()
    return dict(row)


def value(row: dict[str, Any], column: str) -> Any:
    return None if row[column] is None else json.loads(row[column])


@pytest.mark.parametrize("dialect", MODELS)
def test_model_call_is_the_same_in_every_dialect(dialect: str) -> None:
    scope, attributes = MODELS[dialect]
    row = only(
        scope,
        attributes,
        "call_llm" if dialect == "adk" else "chat",
        events=OLD_EVENTS if dialect == "genai_old" else [],
    )
    assert (row["dialect"], row["kind"], row["model_requested"]) == (dialect, "model", "m-1")
    asked = value(row, "messages_in")
    assert asked == (ASKED[1:] if dialect == "adk" else ASKED)
    (said,) = value(row, "messages_out")
    assert {name: said[name] for name in ("role", "parts")} == SAID[0]
    assert value(row, "system_text") == SYSTEM
    assert (row["clock_text"], row["clock_tz"]) == ("2026-11-03 09:14 UTC", "UTC")
    assert json.loads(row["usage"])["input"] == 12
    if dialect != "genai_old":  # which has no tools
        (tool,) = value(row, "tool_defs")
        assert {name: tool[name] for name in ("name", "parameters")} == {"name": "get_order", "parameters": SCHEMA}
    assert json.loads(row["provenance"])["messages_out"]["grade"] == "recorded"
    assert row["flags"] == []


@pytest.mark.parametrize("dialect", TOOLS)
def test_tool_call_is_the_same_in_every_dialect(dialect: str) -> None:
    row = only(*TOOLS[dialect])
    assert (row["dialect"], row["kind"], row["tool_name"], row["name"]) == (dialect, "tool", "get_order", "get_order")
    assert (value(row, "seen"), value(row, "raw"), row["proposed"], row["shown"]) == (
        {"id": "A1"},
        {"total": 7},
        None,
        None,
    )
    assert row["call_id"] == (None if dialect == "mlflow" else "c1")
    assert json.loads(row["provenance"])["seen"]["grade"] == "recorded"


@pytest.mark.parametrize("dialect", sorted(MODELS.keys() - {"genai_old"}))
def test_cut_payload_is_flagged_in_every_dialect(dialect: str) -> None:
    scope, attributes = MODELS[dialect]
    longest = max(
        (key for key, held in attributes.items() if isinstance(held, str) and held[:1] in "[{"),
        key=lambda key: len(attributes[key]),
    )
    row = only(scope, attributes | {longest: attributes[longest][:-5]}, "chat")
    assert "truncated" in row["flags"]


def test_later_dialect_fills_what_the_first_left_empty_and_says_so() -> None:
    both = TOOLS["genai"][1] | {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "other",
        "traceloop.association.properties.session_id": "s1",
    }
    row = only("x", both)
    assert (row["dialect"], row["tool_name"], row["conversation_id"]) == ("genai", "get_order", "s1")
    bare = {
        "openinference.span.kind": "TOOL",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "get_order",
        "gen_ai.tool.call.arguments": ARGUMENTS,
    }
    row = only("x", bare)
    assert (row["dialect"], value(row, "seen")) == ("openinference", {"id": "A1"})
    assert json.loads(row["provenance"])["seen"] == {"key": "gen_ai.tool.call.arguments", "grade": "recorded"}


def test_dialect_of_another_kind_fills_nothing() -> None:
    row = only(
        "x",
        {
            "openinference.span.kind": "CHAIN",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.call.arguments": ARGUMENTS,
        },
    )
    assert (row["kind"], row["seen"]) == ("step", None)


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        (json.dumps(SCHEMA), None), (json.dumps({"id": {"type": "string", "description": "an order"}}), None), (ARGUMENTS, {"id": "A1"}), ("{}", {}),
    ],
)  # fmt: skip
def test_tool_parameters_are_arguments_only_where_they_are_no_schema(parameters: str, seen: object) -> None:
    held = {"openinference.span.kind": "TOOL", "tool.name": "get_order", "tool.parameters": parameters}
    assert value(only("x", held), "seen") == seen
    assert value(only("x", held | {"input.value": '{"id": "B2"}'}), "seen") == {"id": "B2"}


def test_openinference_2827_repr_of_arguments_is_read_as_literals_only() -> None:
    row = only(
        "x",
        {
            "openinference.span.kind": "TOOL",
            "input.value": "{'q': \"it's\"}",
            "output.value": "HumanMessage(content='x')",
        },
    )
    assert (value(row, "seen"), row["seen_encoding"], row["flags"]) == (
        {"q": "it's"},
        "pyrepr",
        ["opaque_repr", "pyrepr"],
    )


def test_smolagents_wrapping_is_taken_off() -> None:
    row = only(
        "openinference.instrumentation.smolagents",
        {
            "openinference.span.kind": "TOOL",
            "input.value": json.dumps({"args": [], "sanitize_inputs_outputs": True, "kwargs": {"id": "A1"}}),
        },
    )
    assert value(row, "seen") == {"id": "A1"}


def test_message_numbers_sort_as_numbers_and_chunks_of_one_answer_are_joined() -> None:
    held = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Hi",
    }
    for at, chunk in enumerate(("One", " two", " three", " four"), start=8):
        held |= {
            f"llm.output_messages.{at}.message.role": "assistant",
            f"llm.output_messages.{at}.message.content": chunk,
        }
    assert value(only("x", held), "messages_out") == [
        {"role": "assistant", "parts": [{"type": "text", "text": "One two three four"}]}
    ]
    first = {key.replace(".8.", ".0."): text for key, text in held.items()}
    assert len(value(only("x", first), "messages_out")) == 4


def a_phase(number: str, phase: str, **attributes: str) -> dict[str, Any]:
    held = {"openinference.span.kind": "TOOL"} | {name.replace("_", "."): text for name, text in attributes.items()}
    return a_wire_span(number, f"tool.search.{phase}", attributes=held, startTimeUnixNano=str(1000 + int(number)))


def test_phases_of_one_call_are_one_crossing() -> None:
    scope = "openinference.instrumentation.beeai"
    spans = [
        a_phase("1", "start-12", tool_parameters=ARGUMENTS), a_phase("2", "finish-12"), a_phase("3", "error-13", output_value="Error: gone"),
        a_phase("4", "success-12", output_value=RESULT), a_phase("5", "start-13", tool_parameters=ARGUMENTS),
    ]  # fmt: skip
    for order in (spans, spans[::-1]):
        made = normalized(wire(a_request(*order, scope=scope)))
        calls = made.crossings.select("name", "seen", "raw", "error_code").rows()
        assert [call[:3] for call in calls] == [
            ("tool.search", '{"id":"A1"}', '{"total":7}'),
            ("tool.search", '{"id":"A1"}', '"Error: gone"'),
        ]
        assert [call[3] is None for call in calls] == [True, False]
        flags = [flag for held in made.spans["flags"] for flag in held if flag.startswith("shadow_of")]
        assert (made.spans.filter(dialect="openinference").height, len(flags)) == (5, 3)


def test_phases_that_repeat_stay_calls_of_their_own() -> None:
    spans = [a_phase(str(number), "start-12", tool_parameters=ARGUMENTS) for number in (1, 2)]
    made = normalized(wire(a_request(*spans, scope="openinference.instrumentation.beeai")))
    assert made.crossings.height == 2
    assert all("maybe_doubled" in held for held in made.spans.filter(dialect="openinference")["flags"])
    made = normalized(wire(a_request(a_phase("1", "start-12"), a_phase("2", "finish-12"), scope="x")))
    assert made.crossings["name"].to_list() == ["tool.search.start-12", "tool.search.finish-12"]


def test_handoff_and_retrieval_of_openinference() -> None:
    row = only("x", {"openinference.span.kind": "TOOL"}, "handoff to billing")
    assert (row["kind"], row["name"]) == ("handoff", "billing")
    held = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "refunds",
        "retrieval.documents.0.document.id": "d1",
        "retrieval.documents.0.document.metadata": '{"page": 2}',
    }
    row = only("x", held, "search")
    assert (row["kind"], value(row, "seen"), value(row, "raw")) == (
        "retrieval",
        "refunds",
        [{"id": "d1", "metadata": {"page": 2}}],
    )


@pytest.mark.parametrize(
    ("response", "seen", "raw"),
    [('{"result": 1}', {}, {"result": 1}), ("{}", None, None), ("<not specified>", None, None)],
)
def test_adk_placeholder_is_no_content(response: str, seen: object, raw: object) -> None:
    row = only(
        "gcp.vertex.agent",
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "now",
            "gcp.vertex.agent.tool_call_args": "{}",
            "gcp.vertex.agent.tool_response": response,
        },
    )
    assert (value(row, "seen"), value(row, "raw")) == (seen, raw)


def test_mlflow_22430_kvlist_and_json_text_are_one_record_of_mlflow_too() -> None:
    scope, attributes = TOOLS["mlflow"]
    listed = {"kvlistValue": {"values": [{"key": "id", "value": {"stringValue": "A1"}}]}}
    text, kvlist = only(scope, attributes), only(scope, attributes | {"mlflow.spanInputs": listed})
    assert (text["row_id"], kvlist["seen_encoding"], kvlist["flags"]) == (kvlist["row_id"], "kvlist", ["kvlist"])


def test_scalar_of_mlflow_is_the_scalar() -> None:
    row = only("mlflow", {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": "7", "mlflow.spanOutputs": '"7"'})
    assert (row["seen"], row["raw"]) == ("7", '"7"')


def test_old_conventions_may_have_all_messages_in_one_attribute() -> None:
    held = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt": json.dumps(CHAT),
        "gen_ai.completion": json.dumps([OPENAI_SAID]),
    }
    row = only("x", held)
    assert (value(row, "messages_in"), value(row, "messages_out")[0]["parts"]) == (ASKED, SAID[0]["parts"])
    held = {"gen_ai.operation.name": "chat"}
    events = [
        an_event("gen_ai.content.prompt", **{"gen_ai.prompt": "Where?"}),
        an_event("gen_ai.content.completion", **{"gen_ai.completion": "Here."}),
    ]
    row = only("x", held, events=events)
    assert value(row, "messages_in") == [{"role": "user", "parts": [{"type": "text", "text": "Where?"}]}]
    assert value(row, "messages_out") == [{"role": "assistant", "parts": [{"type": "text", "text": "Here."}]}]


def a_call(name: str, *, parent: str, said: bool, number: str) -> dict[str, Any]:
    attributes = dict(MODELS["adk"][1]) if said else {"gen_ai.operation.name": "generate_content"}
    return a_wire_span(number, name, attributes=attributes, parent=parent)


def test_model_span_without_output_is_the_one_it_stands_in() -> None:
    root = a_wire_span("1", "run", attributes={"gen_ai.operation.name": "invoke_agent"})
    outer = a_call("call_llm", parent="1", said=True, number="2")
    inner = a_call("generate_content", parent="2", said=False, number="3")
    made = normalized(wire(a_request(root, outer, inner, scope="gcp.vertex.agent")))
    assert made.crossings["name"].to_list() == ["call_llm"]
    beside = a_call("generate_content", parent="2", said=False, number="4")
    made = normalized(wire(a_request(root, outer, inner, beside, scope="gcp.vertex.agent")))
    assert made.crossings.height == 3, "of two of them nobody knows which is the call"


def test_model_span_without_output_is_the_one_that_stands_in_it() -> None:
    root = a_wire_span("1", "run", attributes={"gen_ai.operation.name": "invoke_agent"})
    outer = a_call("call_llm", parent="1", said=False, number="2")
    inner = a_call("generate_content", parent="2", said=True, number="3")
    made = normalized(wire(a_request(root, outer, inner, scope="gcp.vertex.agent")))
    assert made.crossings["name"].to_list() == ["generate_content"]


def crossings(name: str) -> Counter[str]:
    return Counter(normalized(as_read(name)).crossings["kind"].to_list())


def as_read(name: str) -> Mapped:
    path = real(name)
    (raw,) = otlp.source.fetch(otlp_window(path))
    return otlp.spans(a_raw(raw.content, raw.name), harness_state=HARNESS)


def otlp_window(path: Path) -> Window:
    return Window(paths=(path,))


@pytest.mark.parametrize(
    ("name", "models", "tools"),
    [
        ("agent-prism/quo_tav_agent.otlp.json.gz", 3, 2), ("agent-prism/smol_deep_research_agent.otlp.json", 6, 0), ("agentevals/helm.json", 2, 1),
        ("agentevals/k8s.json", 1, 0), ("agentevals/tempo_export_with_batches.json", 2, 1), ("strands-evals/adk_live_spans.json", 2, 1),
        ("strands-evals/claude_adot_spans.json", 0, 4), ("strands-evals/openai_agents_genai_live_spans.json", 8, 5),
        ("strands-evals/smolagents_live_spans.json", 2, 2), ("strands-evals/autogen_live_spans.json", 0, 1), ("openinference/vercel-v6-all-spans.json", 5, 0),
    ],
)  # fmt: skip
def test_real_exports_hold_the_crossings_that_happened(name: str, models: int, tools: int) -> None:
    found = crossings(name)
    assert (found["model"], found["tool"]) == (models, tools)
