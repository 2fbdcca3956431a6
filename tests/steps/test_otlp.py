import base64
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks.sources import otlp
from tasks.sources.source import MAX_SPAN_BYTES, Window
from tasks.store.database import Limits, connect
from traces import CALLED, HARNESS, a_raw, a_request, a_wire_span, normalized, real, wire
from twiceshy.errors import FormatError, InputError

TRACE = "5b8efff798038103d269b633813fc60c"


def only(mapped: Any) -> dict[str, Any]:
    (row,) = mapped.spans.to_dicts()
    return dict(row)


def a_call(span_id: str = "1", **fields: Any) -> dict[str, Any]:
    attributes = CALLED | fields.pop("attributes", {})
    return a_wire_span(span_id, attributes=attributes, **fields)


def spelled(held: str, how: str) -> str:
    raw = bytes.fromhex(held)
    return {
        "hex": held,
        "upper": held.upper(),
        "base64": base64.b64encode(raw).decode(),
        "base64 of hex": base64.b64encode(held.encode()).decode(),
    }[how]


def test_opentelemetry_proto_129_four_id_encodings_are_one_trace() -> None:
    spans = []
    for at, how in enumerate(("hex", "upper", "base64", "base64 of hex"), start=1):
        span = a_call(str(at), parent="1" if at > 1 else None)
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = spelled(span[name], how)
        spans.append(span)
    made = normalized(wire(*(a_request(span) for span in spans)))
    assert made.traces.select("trace_id", "spans", "orphans", "tree_integrity").rows() == [(TRACE, 4, 0, "intact")]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("traceId", "5b8efff798038103d269b633813fc6", "bad_id"),
        ("traceId", "0" * 32, "bad_id"),
        ("traceId", "", "no_trace_id"),
        ("traceId", None, "no_trace_id"),
        ("traceId", 7, "bad_id"),
        ("spanId", "zzzzzzzzzzzzzzzz", "bad_id"),
        ("spanId", "", "bad_id"),
        ("parentSpanId", "12", "bad_id"),
        ("kind", "SPAN_KIND_BANANA", "bad_enum"),
        ("kind", 99, "bad_enum"),
        ("status", {"code": "STATUS_CODE_MAYBE"}, "bad_enum"),
        ("status", 2, "bad_type"),
        ("startTimeUnixNano", "yesterday", "bad_time"),
        ("startTimeUnixNano", 1.5, "bad_time"),
        ("startTimeUnixNano", -1, "bad_time"),
        ("startTimeUnixNano", 2**63, "bad_time"),
        ("endTimeUnixNano", "999", "bad_time"),
        ("attributes", {"a": 1}, "bad_type"),
        ("attributes", [{"key": 1}], "bad_type"),
        ("attributes", [{"key": "a", "value": {"intValue": "x"}}], "bad_type"),
        ("attributes", [{"key": "twiceshy.kind", "value": {"stringValue": "banana"}}], "bad_enum"),
        ("events", [7], "bad_type"),
        ("name", 7, "bad_type"),
    ],
)
def test_bad_span_is_set_aside_alone(field: str, value: object, reason: str) -> None:
    mapped = wire(a_request(a_call("1"), a_call("2") | {field: value}, a_call("3")))
    assert [(row.reason, row.unit, row.locator) for row in mapped.rejected] == [(reason, "span", "line 1, span 1")]
    assert (mapped.spans_in, mapped.spans.height) == (3, 2)
    if field not in ("traceId", "spanId"):
        assert (mapped.rejected[0].trace_id, mapped.rejected[0].span_id) == (TRACE, "eee19b7ec3c10002")


def test_bad_span_is_set_aside_alone_where_it_is_no_object() -> None:
    mapped = wire(a_request(a_call("1"), "span", None))
    assert [row.reason for row in mapped.rejected] == ["bad_type", "bad_type"]


def test_triggerdev_3620_oversize_span_drops_no_batch() -> None:
    mapped = wire(a_request(a_call("1"), a_call("2", attributes={"blob": "x" * MAX_SPAN_BYTES})))
    assert [row.reason for row in mapped.rejected] == ["too_large"]
    assert mapped.spans.height == 1


@pytest.mark.parametrize(
    ("kind", "code"), [(3, 2), ("2", "2"), ("SPAN_KIND_CLIENT", "STATUS_CODE_ERROR"), (None, "ERROR")]
)
def test_enum_names_are_read(kind: object, code: object) -> None:
    row = only(wire(a_request(a_call(kind=kind, status={"code": code, "message": "boom"}))))
    assert (row["is_error"], row["error_code"], row["error_source"], row["error_message"]) == (
        True,
        "unknown",
        "status",
        "boom",
    )


@pytest.mark.parametrize(
    ("start", "ns", "precision"),
    [
        ("1540000000000000003", 1540000000000000003, "ns"),
        (1540000000000000001, 1540000000000000001, "ns"),
        (1.5e18, 1500000000000000000, "rounded"),
        (0, None, "none"),
        (None, None, "none"),
    ],
)
def test_nanoseconds_are_kept_exact(start: object, ns: int | None, precision: str) -> None:
    row = only(wire(a_request(a_call(startTimeUnixNano=start, endTimeUnixNano=None))))
    assert (row["start_ns"], row["time_precision"]) == (ns, precision)
    assert ("precision_lost" in row["flags"]) is isinstance(start, float)


def test_grafana_tempo_5437_batches_are_read() -> None:
    span = a_call(startTimeUnixNano=1540000000000000100, endTimeUnixNano=1540000000000000200)
    row = only(
        wire(
            {
                "batches": [
                    {
                        "resource": {"attributes": []},
                        "instrumentationLibrarySpans": [{"instrumentationLibrary": {"name": "agent"}, "spans": [span]}],
                    }
                ]
            }
        )
    )
    assert (row["scope_name"], row["time_precision"], row["flags"]) == ("agent", "rounded", ["precision_lost"])


def test_lightspeed_service_3015_snake_case_is_read() -> None:
    def snake(held: Any) -> Any:
        if isinstance(held, list):
            return [snake(item) for item in held]
        if not isinstance(held, dict):
            return held
        return {
            "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name): snake(item)
            for name, item in held.items()
        }

    camel = a_request(a_call(parent="2", droppedAttributesCount=1), resource={"service.name": "shop"})
    plain, other = only(wire(camel)), only(wire(snake(camel)))
    assert plain["row_id"] == other["row_id"]
    assert (other["service_name"], other["flags"]) == ("shop", ["dropped_attributes"])


def test_one_file_may_hold_any_container() -> None:
    whole = [a_request(a_call("1")), a_request(a_call("2"), a_call("3"))]
    in_lines, in_array, pretty = (
        wire(*whole),
        wire(whole),
        otlp.spans(a_raw(json.dumps(whole, indent=1)), harness_state=HARNESS),
    )
    for other in (in_array, pretty):
        assert other.spans.equals(in_lines.spans)


def test_line_separator_inside_a_text_cuts_no_line() -> None:
    line = json.dumps(a_request(a_call(attributes={"note": "a\u2028b"})), ensure_ascii=False).encode()
    assert wire(line, line).spans_in == 2


def test_broken_json_in_the_middle_is_set_aside() -> None:
    mapped = wire(a_request(a_call("1")), b'{"resourceSpans": [', a_request(a_call("2")), b'{"resourceLogs": []}', b"")
    assert [(row.reason, row.locator) for row in mapped.rejected] == [
        ("bad_json", "line 2"),
        ("unknown_container", "line 4"),
    ]
    assert (mapped.spans_in, mapped.spans.height) == (4, 2)


@pytest.mark.parametrize(
    "content", [b'{"resourceLogs": []}', b'{"traj": []}', b"[]", b'{"resourceSpans": []}', b"nonsense"]
)
def test_no_span_in_a_file_is_an_error(content: bytes) -> None:
    with pytest.raises(FormatError, match="no otlp span in it"):
        otlp.spans(a_raw(content), harness_state=HARNESS)


def test_opentelemetry_collector_11449_bad_text_hurts_one_span() -> None:
    good = json.dumps(a_call("1"))
    line = json.dumps(a_request("X")).replace('"X"', good + "," + json.dumps(a_call("2", name="x\ud800y"))).encode()
    broken = (
        json.dumps(a_request("X"))
        .replace('"X"', good + "," + json.dumps(a_call("2", name="zz")))
        .encode()
        .replace(b'"zz"', b'"x\xffy"')
    )
    for mapped in (wire(line), wire(broken)):
        rows = mapped.spans.sort("span_id").to_dicts()
        assert [row["flags"] for row in rows] == [[], ["lossy_text"]]
        assert (rows[1]["name"], rows[0]["row_id"]) == ("get_order", only(wire(a_request(a_call("1"))))["row_id"])


def test_future_agi_1028_odd_values_survive_the_round_trip(tmp_path: Path) -> None:
    mapped = wire(
        a_request(
            a_call(attributes={"gen_ai.tool.call.result": '{"a": NaN, "b": "x\\u0000y"}'}),
            a_call("2", attributes={"n": {"doubleValue": "NaN"}}),
        )
    )
    mapped.spans.write_parquet(tmp_path / "spans.parquet")
    assert pl.read_parquet(tmp_path / "spans.parquet").equals(mapped.spans)
    with connect({"spans": [tmp_path / "spans.parquet"]}, limits=Limits(spill=tmp_path)) as database:
        through = database.sql("select raw from spans order by span_id").fetchall()
    assert [raw for (raw,) in through] == mapped.spans.sort("span_id")["raw"].to_list()
    assert mapped.spans.sort("span_id")["raw"][0] == '{"a":{"$float":"nan"},"b":"x\\u0000y"}'


def test_mlflow_22430_kvlist_and_json_text_are_one_record() -> None:
    structured = {"kvlistValue": {"values": [{"key": "id", "value": {"stringValue": "A1"}}]}}
    as_text, as_kvlist = (
        only(wire(a_request(a_call()))),
        only(wire(a_request(a_call(attributes={"gen_ai.tool.call.arguments": structured})))),
    )
    assert (as_kvlist["seen"], as_kvlist["seen_encoding"], as_kvlist["flags"]) == ('{"id":"A1"}', "kvlist", ["kvlist"])
    assert as_text["row_id"] == as_kvlist["row_id"]


def test_litellm_34828_dropped_attributes_are_flagged() -> None:
    row = only(
        wire(
            a_request(a_wire_span("1", "chat", attributes={"gen_ai.operation.name": "chat"}, droppedAttributesCount=3))
        )
    )
    assert (row["kind"], row["flags"]) == ("model", ["dropped_attributes"])


@pytest.mark.parametrize(
    ("attributes", "flag"),
    [
        ({"gen_ai.tool.call.result": '{"total": 7, "lines": ['}, "truncated"),
        ({"gen_ai.tool.call.result": "sha256:" + "ab" * 32}, "hashed_content"),
        ({"gen_ai.tool.call.result": "HumanMessage(content='x')"}, "opaque_repr"),
        ({"gen_ai.input.messages_ref": "s3://bucket/1"}, "ref_unresolved"),
    ],
)
def test_damaged_content_is_flagged(attributes: dict[str, Any], flag: str) -> None:
    assert only(wire(a_request(a_call(attributes=attributes))))["flags"] == [flag]


def test_digest_inside_a_message_is_flagged() -> None:
    messages = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "sha256:" + "0f" * 32}]}])
    row = only(
        wire(
            a_request(
                a_wire_span(
                    "1", "chat", attributes={"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages}
                )
            )
        )
    )
    assert row["flags"] == ["hashed_content"]


def test_damaged_resource_keeps_its_spans() -> None:
    request = a_request(a_call())
    request["resourceSpans"][0]["resource"] = {"attributes": 7}
    assert only(wire(request))["service_name"] is None


def test_permuted_and_split_input_gives_same_rows() -> None:
    spans = [a_call(str(at)) for at in range(1, 7)]
    one = wire(a_request(*spans)).spans.sort("row_id")
    other = pl.concat([wire(a_request(span)).spans for span in reversed(spans)]).sort("row_id")
    assert one.equals(other)


def test_agent_prism_base64_requests_are_one_trace() -> None:
    (raw,) = otlp.source.fetch(Window(paths=(real("agent-prism/quo_tav_agent.otlp.json.gz"),)))
    mapped = otlp.spans(raw, harness_state=HARNESS)
    made = normalized(mapped)
    assert (mapped.spans_in, mapped.spans.height, made.traces.height) == (29, 29, 1)
    assert made.traces.select("tree_integrity", "orphans").rows() == [("intact", 0)]


def test_real_tempo_export_has_nine_orphans() -> None:
    (raw,) = otlp.source.fetch(Window(paths=(real("agentevals/tempo_export_with_batches.json"),)))
    made = normalized(otlp.spans(raw, harness_state=HARNESS))
    assert made.traces.select("spans", "tree_integrity", "orphans").rows() == [(86, "synthetic_root", 9)]
    assert made.spans.filter(pl.col("kind") == "infra")["error_code"].null_count() == 77


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="gone: no such file"):
        list(otlp.source.fetch(Window(paths=(tmp_path / "gone",))))


def test_folder_is_read_in_order_of_names(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".hidden", "notes.txt"):
        (tmp_path / name).write_bytes(json.dumps(a_request(a_call())).encode())
    assert [raw.name for raw in otlp.source.fetch(Window(paths=(tmp_path,)))] == ["a.jsonl", "b.jsonl"]
