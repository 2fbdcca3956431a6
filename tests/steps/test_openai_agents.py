"""What the OpenAI Agents SDK exports of itself, written by the SDK."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest
from agents.tracing import Span, Trace, TracingProcessor
from agents.tracing.processors import BackendSpanExporter
from agents.tracing.provider import DefaultTraceProvider
from agents.tracing.span_data import (
    AgentSpanData,
    CustomSpanData,
    FunctionSpanData,
    GenerationSpanData,
    GuardrailSpanData,
    HandoffSpanData,
    MCPListToolsSpanData,
    ResponseSpanData,
    SpanData,
)
from agents.tracing.spans import SpanError

from tasks.sources import openai_agents
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw, normalized
from twiceshy.errors import FormatError

Row = dict[str, Any]


class Kept(TracingProcessor):
    """Keeps what the SDK would export."""

    def __init__(self) -> None:
        self.exported: list[Row] = []

    def on_trace_start(self, trace: Trace) -> None:
        self.exported.append(trace.export() or {})

    def on_trace_end(self, trace: Trace) -> None: ...

    def on_span_start(self, span: Span[Any]) -> None: ...

    def on_span_end(self, span: Span[Any]) -> None:
        self.exported.append(span.export() or {})

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@contextmanager
def a_provider() -> Iterator[tuple[DefaultTraceProvider, Kept]]:
    kept, provider = Kept(), DefaultTraceProvider()
    provider.set_processors([kept])
    provider.set_disabled(False)
    yield provider, kept


def exported(*datas: SpanData, error: SpanError | None = None) -> list[Row]:
    """The SDK's export of one trace with these spans in an agent's."""
    with a_provider() as (provider, kept):
        with provider.create_trace("shop", group_id="g1"), provider.create_span(AgentSpanData(name="clerk")):
            for data in datas:
                with provider.create_span(data) as span:
                    if error is not None:
                        span.set_error(error)
        return kept.exported


def read(*records: Any) -> Mapped:
    content = b"\n".join(held if isinstance(held, bytes) else json.dumps(held).encode() for held in records)
    return openai_agents.spans(a_raw(content, "t.jsonl"), harness_state=HARNESS)


def only(kind: str, *datas: SpanData, error: SpanError | None = None) -> Row:
    (row,) = read(*exported(*datas, error=error)).spans.filter(pl.col("kind") == kind).to_dicts()
    return row


def a_function(output: Any, arguments: str | None = '{"id": "A1"}') -> FunctionSpanData:
    return FunctionSpanData(name="get_order", input=arguments, output=output)


@dataclass
class Order:
    total: int


def test_export_is_a_tree_with_its_trace_beside_it() -> None:
    mapped = read(*exported(a_function("7")))
    trace, tool, agent = mapped.spans.to_dicts()
    assert (trace["kind"], trace["name"], trace["conversation_id"]) == ("step", "shop", "g1")
    assert (tool["parent_span_id"], agent["parent_span_id"]) == (agent["span_id"], None)
    assert (agent["kind"], agent["agent_name"]) == ("agent", "clerk")
    assert trace["trace_id"] == tool["trace_id"] == tool["source_trace_id"].removeprefix("trace_")
    assert (tool["start_ns"] is not None, tool["time_precision"]) == (True, "us")
    assert mapped.spans_in == mapped.spans.height == 3


@pytest.mark.parametrize(
    ("output", "raw", "encoding", "flag"),
    [
        ({"total": 7, "note": "it's"}, '{"total":7,"note":"it\'s"}', "pyrepr", "pyrepr"),
        (["a", None], '["a",null]', "pyrepr", "pyrepr"),
        ('{"total": 7}', '{"total":7}', "json", None),
        ("It is 7.", '"It is 7."', "text", None),
        (7, '"7"', "text", None),
        (Order(7), '"Order(total=7)"', "text", "opaque_repr"),
        ({"order": Order(7)}, "\"{'order': Order(total=7)}\"", "text", "opaque_repr"),
    ],
)
def test_output_is_the_text_of_an_object(output: Any, raw: str, encoding: str, flag: str | None) -> None:
    row = only("tool", a_function(output))
    assert (row["raw"], row["raw_encoding"]) == (raw, encoding)
    assert [held for held in row["flags"] if held != "id_derived"] == ([flag] if flag else [])
    assert (row["tool_name"], row["seen"]) == ("get_order", '{"id":"A1"}')


def test_nothing_recorded_is_no_null() -> None:
    row = only("tool", a_function(None, None))
    assert (row["seen"], row["raw"]) == (None, None)


def test_generation_has_what_was_asked_and_said() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "A1"}'}}
    data = GenerationSpanData(
        input=[{"role": "system", "content": "You sell. Today is 2026-11-03."}, {"role": "user", "content": "Hi."}],
        output=[{"role": "assistant", "content": None, "tool_calls": [call]}], model="gpt-x", model_config={"temperature": 0, "top_p": None},
        usage={"input_tokens": 7, "output_tokens": 2},
    )  # fmt: skip
    row = only("model", data)
    assert json.loads(row["messages_out"])[0]["parts"] == [
        {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"id": "A1"}}
    ]
    assert [message["role"] for message in json.loads(row["messages_in"])] == ["system", "user"]
    assert (row["system_text"], row["clock_text"]) == ('"You sell. Today is 2026-11-03."', "2026-11-03")
    assert (row["model_requested"], json.loads(row["model_params"]), json.loads(row["usage"])) == (
        "gpt-x",
        {"sampling": {"temperature": 0}},
        {"input": 7, "output": 2},
    )


def test_response_span_holds_no_content() -> None:
    made = normalized(read(*exported(ResponseSpanData())))
    assert (made.traces["r3"].to_list(), made.crossings["kind"].to_list()) == (["missing"], ["model"])


def test_other_spans_have_their_kinds() -> None:
    mapped = read(
        *exported(
            HandoffSpanData(from_agent="clerk", to_agent="refunds"),
            GuardrailSpanData(name="limit", triggered=True),
            MCPListToolsSpanData(server="shop", result=["get_order"]),
            CustomSpanData(name="turn", data={"n": 1}),
        )
    )
    rows = {row["name"]: row for row in mapped.spans.to_dicts()}
    assert (rows["refunds"]["kind"], json.loads(rows["refunds"]["seen"])) == (
        "handoff",
        {"from_agent": "clerk", "to_agent": "refunds"},
    )
    assert (rows["limit"]["kind"], rows["limit"]["raw"]) == ("guard", '{"blocked":true}')
    assert (rows["mcp_tools"]["kind"], rows["turn"]["kind"]) == ("step", "step")


def test_error_of_a_span_is_named_by_its_template() -> None:
    codes = {
        only("tool", a_function(None), error=SpanError(message="Error running tool", data={"error": f"order {order} is gone"}))["error_code"]
        for order in ("A1042", "B2077")
    }  # fmt: skip
    assert len(codes) == 1
    assert codes.pop().startswith("get_order:")


def test_error_of_context_has_no_code() -> None:
    rows = read(*exported(CustomSpanData(name="turn", data={}), error=SpanError(message="no", data=None))).spans.to_dicts()  # fmt: skip
    (row,) = [held for held in rows if held["name"] == "turn"]
    assert (row["is_error"], row["error_message"], row["error_code"]) == (True, "no", None)


def test_error_in_the_output_is_one() -> None:
    row = only("tool", a_function("Error: no such order"))
    assert (row["is_error"], row["error_source"]) == (True, "text")


def sent(data: SpanData) -> Row:
    """A span as the SDK's exporter sends it to the backend."""
    (_, span, _) = exported(data)
    return BackendSpanExporter()._sanitize_for_openai_tracing_api(span)


@pytest.mark.parametrize(
    "data",
    [
        a_function("x" * 200_000),
        a_function("7", json.dumps({"text": "x" * 200_000})),
        GenerationSpanData(input=[{"role": "user", "content": "x" * 200_000}], output=[], model="m"),
        GenerationSpanData(input=[{"role": "user", "content": "x" * 90} for _ in range(2000)], output=[], model="m"),
    ],
    ids=["output", "arguments", "message", "messages"],
)
def test_what_the_backend_exporter_cut_is_flagged(data: SpanData) -> None:
    held = sent(data)
    (row,) = read(held).spans.to_dicts()
    assert "truncated" in row["flags"]


def test_what_fits_is_not_flagged() -> None:
    (row,) = read(sent(a_function("x" * 90_000))).spans.to_dicts()
    assert "truncated" not in row["flags"]


def test_preview_in_place_of_a_value_is_flagged() -> None:
    held = exported(a_function("7"))[1]
    held["span_data"]["output"] = {"truncated": True, "original_type": "Order", "preview": "<Order truncated>"}
    assert "truncated" in read(held).spans["flags"][0]


def test_request_to_the_backend_is_the_same_trace() -> None:
    records = exported(a_function("7"))
    assert read({"data": records}).spans.equals(read(*records).spans)


def test_bad_spans_are_set_aside_alone() -> None:
    trace, tool, agent = exported(a_function("7"))
    mapped = read(
        trace, tool | {"trace_id": None}, tool | {"id": ""}, tool | {"span_data": 7}, tool | {"started_at": "soon"}, {"object": "response"}, b"{", agent
    )  # fmt: skip
    assert [row.reason for row in mapped.rejected] == [
        "no_trace_id", "bad_id", "bad_type", "bad_time", "unknown_container", "bad_json",
    ]  # fmt: skip
    assert mapped.spans.equals(read(trace, agent).spans)
    assert mapped.spans_in == 8


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="It looks like --source otlp"):
        read({"resourceSpans": []})
