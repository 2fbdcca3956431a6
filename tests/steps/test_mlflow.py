"""MLflow's traces as `Trace.to_json()` writes them."""

import base64
import json
from typing import Any

import pytest

from tasks.admit.considering import HOLDING
from tasks.sources import mlflow
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw, a_request, a_wire_span, an_attribute, normalized, wire
from twiceshy.errors import FormatError

TRACE = "5b8efff798038103d269b633813fc60c"
Row = dict[str, Any]


def b64(held: str) -> str:
    return base64.b64encode(bytes.fromhex(held)).decode()


def a_span(
    number: int, kind: str = "TOOL", *, parent: int | None = None, name: str = "get_order", **fields: Any
) -> Row:
    """One span; its inputs and outputs as plain values."""
    told = {"mlflow.spanType": kind, "mlflow.traceRequestId": f"tr-{TRACE}"}
    told |= {f"mlflow.span{side.title()}": fields.pop(side) for side in ("inputs", "outputs") if side in fields}
    return {
        "trace_id": b64(TRACE), "span_id": b64(f"{number:016x}"), "parent_span_id": b64(f"{parent:016x}") if parent else None, "name": name,
        "start_time_unix_nano": 1000 * number, "end_time_unix_nano": 1000 * number + 500, "events": [], "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {key: json.dumps(value) for key, value in told.items()},
    } | fields  # fmt: skip


def a_trace(*spans: Row, **info: Any) -> Row:
    held = {
        "trace_id": f"tr-{TRACE}",
        "request_time": "2026-11-03T09:14:00Z",
        "state": "OK",
        "request_preview": "cut",
        "trace_metadata": {},
        "tags": {},
    }
    return {"info": held | info, "data": {"spans": list(spans)}}


ROOT = a_span(1, "AGENT", name="clerk", inputs={"q": "Hi."}, outputs="Done.")
TOOL = a_span(2, parent=1, inputs={"id": "A1"}, outputs={"total": 7})


def read(*records: Any) -> Mapped:
    content = b"\n".join(held if isinstance(held, bytes) else json.dumps(held).encode() for held in records)
    return mlflow.spans(a_raw(content, "t.json"), harness_state=HARNESS)


def rows(*records: Any) -> list[Row]:
    return read(*records).spans.to_dicts()


def test_values_are_json_of_their_own() -> None:
    agent, tool = rows(a_trace(ROOT, TOOL))
    assert (tool["kind"], tool["tool_name"], tool["seen"], tool["raw"]) == (
        "tool",
        "get_order",
        '{"id":"A1"}',
        '{"total":7}',
    )
    assert (agent["kind"], agent["agent_name"], agent["seen"], agent["raw"]) == (
        "agent",
        "clerk",
        '{"q":"Hi."}',
        '"Done."',
    )
    assert (tool["trace_id"], tool["span_id"], tool["parent_span_id"]) == (TRACE, f"{2:016x}", agent["span_id"])
    assert (tool["start_ns"], tool["time_precision"], tool["source_trace_id"]) == (2000, "ns", f"tr-{TRACE}")


def test_export_over_otlp_is_the_same_trace() -> None:
    """mlflow/mlflow#22430: the attributes as kvlist there, as JSON texts here."""
    held = a_wire_span("2", "get_order", startTimeUnixNano="2000", endTimeUnixNano="2500")
    kvlist = {"kvlistValue": {"values": [an_attribute("id", "A1")]}}
    held["attributes"] = [
        an_attribute("mlflow.spanType", '"TOOL"'), {"key": "mlflow.spanInputs", "value": kvlist}, an_attribute("mlflow.spanOutputs", '{"total": 7}'),
    ]  # fmt: skip
    (other,) = wire(a_request(held | {"traceId": TRACE, "spanId": f"{2:016x}"})).spans.to_dicts()
    (own,) = rows(a_trace(TOOL | {"parent_span_id": None}))
    for column in ("trace_id", "span_id", "kind", "tool_name", "seen", "raw", "start_ns", "end_ns", "dialect"):
        assert own[column] == other[column], column


def test_previews_count_only_without_spans_and_are_held() -> None:
    (row,) = rows(a_trace(request_preview='{"q": "Hi', response_preview="Do", state="ERROR"))
    assert (row["seen"], row["raw"], row["is_error"]) == ('"{\\"q\\": \\"Hi"', '"Do"', True)
    assert row["flags"] == ["preview_only"]
    assert not [row["flags"] for row in rows(a_trace(TOOL)) if row["flags"]]


def test_trace_in_progress_is_held() -> None:
    made = normalized(read(a_trace(ROOT, TOOL, state="IN_PROGRESS")))
    (marks,) = made.traces["marks"].to_list()
    assert set(marks) & HOLDING == {"unfinished"}


def test_session_user_and_prompt_are_of_the_trace() -> None:
    metadata = {"mlflow.trace.session": "s1", "mlflow.trace.user": "u1"}
    linked = [{"name": "clerk", "version": "3"}]
    model = a_span(2, "CHAT_MODEL", parent=1, inputs={"messages": [{"role": "user", "content": "Hi."}]}, outputs="Hi.")
    _, row = rows(a_trace(ROOT, model, trace_metadata=metadata, tags={"mlflow.linkedPrompts": json.dumps(linked)}))
    assert (row["conversation_id"], row["user_ref"]) == ("s1", "u1")
    assert (row["prompt_name"], row["prompt_version"]) == ("clerk", "3")
    _, row = rows(a_trace(ROOT, model, tags={"mlflow.linkedPrompts": json.dumps([*linked, *linked])}))
    assert row["prompt_name"] is None


def test_assessments_are_scores() -> None:
    def assessed(kind: str, **more: Any) -> Row:
        return {"assessment_name": "good", "source": {"source_type": kind, "source_id": "x"}} | more

    mapped = read(
        a_trace(
            TOOL,
            assessments=[
                assessed("HUMAN", feedback={"value": False}, rationale="No.", span_id=f"{2:016x}", create_time="2026-11-03T09:15:00Z"),
                assessed("LLM_JUDGE", feedback={"value": "bad"}),
                assessed("CODE", feedback={"error": {"error_code": "E1"}}),
                assessed("CODE", expectation={"value": {"total": 7}}, assessment_name="expected"),
                assessed("HUMAN", feedback={"value": 1}, valid=False),
                assessed("HUMAN", feedback={"value": None}),
            ],
        )
    )  # fmt: skip
    held = [
        (row["name"], row["origin"], row["value"], row["label"], row["text"], row["comment"])
        for row in mapped.scores.to_dicts()
    ]
    assert sorted(held, key=str) == [
        ("expected", "code", None, None, '{"total":7}', None),
        ("good", "code", None, None, None, "E1"),
        ("good", "human", 0.0, None, None, "No."),
        ("good", "llm", None, "bad", None, None),
    ]
    (row,) = [row for row in mapped.scores.to_dicts() if row["origin"] == "human"]
    assert (row["span_id"], row["author_ref"], row["created_ns"]) == (f"{2:016x}", "x", 1793697300000000000)
    assert "expected" not in json.dumps(mapped.spans.to_dicts(), default=str)


def test_error_goes_by_the_ladder() -> None:
    event = {
        "name": "exception",
        "time_unix_nano": 1,
        "attributes": {"exception.type": "TimeoutError", "exception.message": "late"},
    }
    status = {"code": "STATUS_CODE_ERROR", "message": "late"}
    (raised,) = rows(a_trace(TOOL | {"events": [event], "status": status}))
    assert (raised["error_code"], raised["error_source"]) == ("timeout", "exception")
    (bare,) = rows(a_trace(TOOL | {"status": status}))
    assert (bare["error_code"], bare["error_source"]) == ("unknown", "status")


def test_spans_of_version_two() -> None:
    held = {
        "name": "get_order", "context": {"trace_id": f"0x{TRACE}", "span_id": "0x0000000000000002"}, "parent_id": None, "start_time": 2000, "end_time": 2500,
        "status_code": "OK", "attributes": TOOL["attributes"],
    }  # fmt: skip
    (row,) = rows({"info": {"request_id": TRACE, "status": "OK"}, "data": {"spans": [held]}})
    assert (row["trace_id"], row["span_id"], row["raw"]) == (TRACE, f"{2:016x}", '{"total":7}')


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"span_id": "abc"}, "bad_id"), ({"name": 7}, "bad_type"), ({"start_time_unix_nano": "soon"}, "bad_time"), ({"end_time_unix_nano": 1}, "bad_time"),
        ({"status": {"code": "MAYBE"}}, "bad_enum"), ({"attributes": 7}, "bad_type"), ({"events": 7}, "bad_type"), ({"parent_span_id": "abc"}, "bad_id"),
    ],
)  # fmt: skip
def test_bad_span_is_set_aside_alone(change: Row, reason: str) -> None:
    mapped = read(a_trace(ROOT, TOOL | change))
    assert [(row.reason, row.locator) for row in mapped.rejected] == [(reason, "line 1, span 1")]
    assert mapped.spans.equals(read(a_trace(ROOT)).spans)
    assert mapped.spans_in == 2


def test_other_records_are_set_aside() -> None:
    mapped = read(a_trace(ROOT), {"info": {}}, b"{", {"info": {"trace_id": None}, "data": {}})
    assert [row.reason for row in mapped.rejected] == ["unknown_container", "bad_json", "no_trace_id"]


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"no mlflow span in it .*It looks like --source otlp"):
        read({"resourceSpans": []})
