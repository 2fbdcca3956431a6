"""Logfire's records, row by row what its OpenTelemetry spans were."""

import io
import json
from typing import Any

import polars as pl
import pytest

from tasks.sources import logfire
from tasks.sources.source import Mapped
from traces import CALLED, HARNESS, a_raw, a_request, a_wire_span, wire
from twiceshy.errors import FormatError

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c10002"
Row = dict[str, Any]


def a_row(**more: Any) -> Row:
    return {
        "kind": "span", "start_timestamp": "2026-11-03T09:14:00.000001Z", "end_timestamp": "2026-11-03T09:14:01Z", "trace_id": TRACE, "span_id": SPAN,
        "parent_span_id": None, "span_name": "running tool", "message": "running tool: get_order", "attributes": CALLED, "tags": [], "is_exception": False,
        "otel_status_code": "UNSET", "otel_scope_name": "pydantic-ai", "otel_scope_version": "1", "otel_resource_attributes": {"service.name": "shop"},
        "otel_events": [],
    } | more  # fmt: skip


def read(*rows: Any, name: str = "r.jsonl") -> Mapped:
    content = b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    return logfire.spans(a_raw(content, name), harness_state=HARNESS)


def only(*rows: Row) -> Row:
    (row,) = read(*rows).spans.to_dicts()
    return row


def test_row_is_the_span_that_was_sent() -> None:
    held = a_wire_span(
        "2",
        "running tool",
        attributes=CALLED,
        startTimeUnixNano="1793697240000001000",
        endTimeUnixNano="1793697241000000000",
    )
    sent = wire(a_request(held, scope="pydantic-ai", resource={"service.name": "shop"})).spans
    columns = [
        "trace_id",
        "span_id",
        "kind",
        "tool_name",
        "seen",
        "raw",
        "start_ns",
        "end_ns",
        "dialect",
        "scope_name",
        "service_name",
        "is_error",
    ]
    assert read(a_row()).spans.select(columns).rows() == sent.select(columns).rows()
    assert only(a_row())["time_precision"] == "us"


def test_containers_of_one_row_tell_the_same() -> None:
    texts = a_row(
        attributes=json.dumps(CALLED),
        otel_resource_attributes='{"service.name": "shop"}',
        otel_events="[]",
        tags='["a"]',
    )
    table = pl.DataFrame([texts], schema_overrides={"parent_span_id": pl.String})
    parquet, comma = io.BytesIO(), io.BytesIO()
    stamped = table.with_columns(
        pl.col("start_timestamp", "end_timestamp").str.to_datetime(time_zone="UTC", time_unit="us")
    )
    stamped.write_parquet(parquet)
    table.write_csv(comma)
    told = read(a_row(tags=["a"]))
    for content, name in (
        (parquet.getvalue(), "r.parquet"),
        (comma.getvalue(), "r.csv"),
        (json.dumps({"columns": [], "rows": [texts]}).encode(), "r.json"),
    ):
        other = logfire.spans(a_raw(content, name), harness_state=HARNESS)
        assert other.spans["row_id"].to_list() == told.spans["row_id"].to_list(), name
        assert other.scores["label"].to_list() == ["a"], name


def test_status_and_exception_go_by_the_ladder() -> None:
    broken = a_row(attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x"}, is_exception=True, exception_type="TimeoutError", exception_message="late")  # fmt: skip
    row = only(broken)
    assert (row["error_code"], row["error_source"], row["error_message"]) == ("timeout", "exception", "late")
    event = {
        "event_name": "exception",
        "event_timestamp": "2026-11-03T09:14:01Z",
        "attributes": {"exception.type": "Gone"},
    }
    assert only(broken | {"otel_events": [event]})["error_code"] == "Gone"
    row = only(broken | {"is_exception": False, "exception_type": None, "otel_status_code": "ERROR"})
    assert (row["error_code"], row["error_source"]) == ("unknown", "status")


def test_spans_that_had_only_begun_are_refused() -> None:
    with pytest.raises(FormatError, match="Query the table records, not records_all"):
        read(a_row(), a_row(kind="pending_span"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trace_id": None}, "no_trace_id"), ({"span_id": ""}, "bad_id"), ({"start_timestamp": "soon"}, "bad_time"), ({"attributes": [1]}, "bad_type"),
        ({"otel_events": 7}, "bad_type"), ({"span_name": 7}, "bad_type"), ({"otel_status_code": "MAYBE"}, "bad_enum"),
    ],
)  # fmt: skip
def test_bad_row_is_set_aside_alone(change: Row, reason: str) -> None:
    mapped = read(a_row(), a_row(span_id="eee19b7ec3c10003") | change)
    assert [(row.reason, row.locator) for row in mapped.rejected] == [(reason, "line 2")]
    assert mapped.spans.equals(read(a_row()).spans)
    assert mapped.spans_in == 2


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(FormatError, match="It looks like --source braintrust"):
        read({"span_parents": []})
