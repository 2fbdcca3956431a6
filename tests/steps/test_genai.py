import json
from typing import Any

import pytest

from tasks.sources.carried import Carried
from tasks.sources.dialects import dialects_of
from traces import CALLED, a_request, a_wire_span, wire

CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m-1",
    "gen_ai.response.model": "m-1-0806",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.usage.input_tokens": 12,
    "gen_ai.input.messages": json.dumps(
        [
            {
                "role": "system",
                "parts": [{"type": "text", "content": "Be brief. The current time is 2026-11-03 09:14 UTC."}],
            },
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": 7}]},
        ]
    ),
    "gen_ai.output.messages": json.dumps(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Seven."}], "finish_reason": "stop"}]
    ),
    "gen_ai.tool.definitions": json.dumps(
        [{"type": "function", "name": "get_order", "parameters": {"type": "object"}}]
    ),
}


def only(
    *events: dict[str, Any],
    attributes: dict[str, Any],
    scope: str = "agent",
    resource: dict[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    (row,) = wire(
        a_request(
            a_wire_span("1", "a span", attributes=attributes, events=list(events), **fields),
            scope=scope,
            resource=resource,
        )
    ).spans.to_dicts()
    return dict(row)


def an_event(name: str, **attributes: Any) -> dict[str, Any]:
    held = [
        {
            "key": key.replace("__", "."),
            "value": {"stringValue": value} if isinstance(value, str) else {"doubleValue": value},
        }
        for key, value in attributes.items()
    ]
    return {"name": name, "timeUnixNano": "1500", "attributes": held}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("chat", "model"),
        ("generate_content", "model"),
        ("execute_tool", "tool"),
        ("retrieval", "retrieval"),
        ("search_memory", "memory"),
        ("invoke_agent", "agent"),
        ("plan", "step"),
        ("new_thing", "step"),
    ],
)
def test_operation_names_the_kind(operation: str, kind: str) -> None:
    assert only(attributes={"gen_ai.operation.name": operation})["kind"] == kind


def test_model_span_is_read_whole() -> None:
    row = only(attributes=CHAT)
    assert (row["dialect"], row["model_requested"], row["model_answered"], row["usage"]) == (
        "genai",
        "m-1",
        "m-1-0806",
        '{"input":12}',
    )
    assert json.loads(row["messages_in"])[1] == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c1", "response": 7}],
    }
    assert json.loads(row["messages_out"]) == [
        {"role": "assistant", "parts": [{"type": "text", "text": "Seven."}], "finish_reason": "stop"}
    ]
    assert json.loads(row["model_params"]) == {"sampling": {"temperature": 0.5}}
    assert json.loads(row["system_text"]).startswith("Be brief.")
    assert (row["clock_text"], row["clock_tz"], row["prompt_hash"] is not None) == ("2026-11-03 09:14 UTC", "UTC", True)
    assert json.loads(row["provenance"])["clock_text"]["grade"] == "derived"


def test_content_may_stand_in_the_details_event() -> None:
    details = an_event(
        "gen_ai.client.inference.operation.details", gen_ai__output__messages=CHAT["gen_ai.output.messages"]
    )
    row = only(details, attributes={"gen_ai.operation.name": "chat"})
    assert json.loads(row["messages_out"])[0]["parts"][0]["text"] == "Seven."


def test_tool_span_has_seen_and_raw() -> None:
    row = only(attributes=CALLED | {"gen_ai.tool.call.id": "c1"})
    assert (row["tool_name"], row["call_id"], row["seen"], row["raw"], row["proposed"], row["shown"]) == (
        "get_order",
        "c1",
        '{"id":"A1"}',
        '{"total":7}',
        None,
        None,
    )


@pytest.mark.parametrize(
    ("result", "raw"),
    [
        ('"7"', '"\\"7\\""'),
        ("7", '"7"'),
        ("null", '"null"'),
        ("", '""'),
        ({"intValue": "7"}, "7"),
        ({"boolValue": False}, "false"),
    ],
)
def test_scalar_results_stay_as_typed(result: object, raw: str) -> None:
    assert only(attributes=CALLED | {"gen_ai.tool.call.result": result})["raw"] == raw


def test_recorders_scalars_are_json() -> None:
    recorder = {
        "twiceshy.kind": "tool",
        "twiceshy.seq": 4,
        "gen_ai.tool.call.result": "null",
        "twiceshy.shown": '{"$decimal":"1.50"}',
    }
    row = only(attributes=CALLED | recorder)
    assert (row["dialect"], row["raw"], row["shown"], row["crossing_seq"], row["crossing_sub"]) == (
        "twiceshy",
        "null",
        '{"$decimal":"1.50"}',
        4,
        0,
    )


def test_recorders_cut_text_is_truncated() -> None:
    row = only(attributes={"twiceshy.kind": "tool", "twiceshy.raw": '{"total": 7, "li'})
    assert (row["raw_encoding"], row["flags"]) == ("text", ["truncated"])


@pytest.mark.parametrize(
    ("attributes", "events", "status", "expected"),
    [
        ({"error.type": "TimeoutError"}, [], {}, ("TimeoutError", "timeout", "typed")),
        ({"error.type": "_OTHER"}, [], {"code": 2, "message": "?"}, ("_OTHER", "unknown", "typed")),
        ({}, [("shop.Denied", "no")], {"code": 2}, ("shop.Denied", "Denied", "exception")),
        (
            {"gen_ai.tool.call.result": '{"error": {"code": "E1"}}'},
            [],
            {},
            ("twiceshy.ReturnedError", "E1", "structured"),
        ),
        ({"gen_ai.tool.call.result": "Error: E2"}, [], {"code": 2}, ("twiceshy.ReturnedError", None, "text")),
        ({"gen_ai.tool.call.result": ""}, [], {"code": 2}, ("twiceshy.UnknownError", "unknown", "status")),
        ({}, [("shop.Denied", "handled")], {}, (None, None, None)),
    ],
)
def test_first_rung_that_holds_names_the_error(
    attributes: dict[str, Any], events: list[tuple[str, str]], status: dict[str, Any], expected: tuple[str | None, ...]
) -> None:
    raised = [an_event("exception", exception__type=kind, exception__message=message) for kind, message in events]
    row = only(*raised, attributes=CALLED | attributes, status=status)
    cls, code, rung = expected
    assert (row["error_class"], row["error_source"], row["is_error"]) == (cls, rung, rung is not None)
    assert code is None or row["error_code"] == code


def test_recorded_error_keeps_class_and_definiteness() -> None:
    told = {
        "twiceshy.kind": "tool",
        "twiceshy.error.class": "shop.Denied",
        "twiceshy.error.type": "denied",
        "twiceshy.error.message": "no",
        "twiceshy.error.definite": True,
    }
    row = only(attributes=told, status={"code": 2})
    assert (row["error_class"], row["error_code"], row["error_message"], row["error_definite"]) == (
        "shop.Denied",
        "denied",
        "no",
        True,
    )


def test_errors_of_context_have_no_code() -> None:
    row = only(
        attributes={"http.request.method": "GET"},
        scope="opentelemetry.instrumentation.httpx",
        status={"code": 2, "message": "404"},
    )
    assert (row["kind"], row["is_error"], row["error_code"], row["error_message"]) == ("infra", True, None, "404")


@pytest.mark.parametrize(
    ("attributes", "resource", "scope", "dialect"),
    [
        ({"twiceshy.kind": "tool"}, {}, "x", "twiceshy"),
        ({"gen_ai.operation.name": "invoke_agent"}, {"twiceshy.workflow": "w"}, "twiceshy", "twiceshy"),
        ({"gen_ai.operation.name": "chat"}, {"twiceshy.workflow": "w"}, "openai", "genai_old"),
        (CALLED, {}, "x", "genai"),
        ({"gen_ai.tool.call.id": "c1"}, {}, "x", "unknown"),
        ({"gen_ai.operation.name": "chat"}, {}, "x", "genai_old"),
        ({"gen_ai.conversation.id": "c"}, {}, "opentelemetry.instrumentation.httpx", "infra"),
        ({"db.system": "pg"}, {}, "x", "infra"),
        ({}, {}, "x", "unknown"),
    ],
)
def test_each_span_has_its_own_dialect(
    attributes: dict[str, Any], resource: dict[str, Any], scope: str, dialect: str
) -> None:
    ids = {"trace_id": "a" * 32, "span_id": "b" * 16, "source_trace_id": "a", "source_span_id": "b"}
    span = Carried(**ids, container="otlp_json", name="s", attributes=attributes, resource=resource, scope_name=scope)
    assert dialects_of(span)[0].name == dialect


def test_evaluation_events_and_tags_are_scores() -> None:
    event = an_event(
        "gen_ai.evaluation.result", gen_ai__evaluation__name="helpful", gen_ai__evaluation__score__value=0.2, gen_ai__evaluation__score__label="poor",
        gen_ai__evaluation__explanation="late", twiceshy__score__origin="api",
    )  # fmt: skip
    tags = {"arrayValue": {"values": [{"stringValue": "vip"}]}}
    mapped = wire(a_request(a_wire_span("1", "a span", attributes={"twiceshy.tags": tags}, events=[event])))
    rows = mapped.scores.select("name", "value", "label", "comment", "origin", "created_ns").rows()
    assert sorted(rows) == [("helpful", 0.2, "poor", "late", "api", 1500), ("tag", None, "vip", None, "api", None)]
