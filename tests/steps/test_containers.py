"""One trace, whatever container and id encoding it comes in."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from tasks.sources import otlp
from tasks.sources.otlp_fields import BadSpan
from tasks.sources.source import Mapped
from tasks.sources.times import time
from traces import CALLED, HARNESS, a_raw, a_request, a_wire_span, real, wire
from twiceshy.errors import FormatError

CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Seven."}]}]',
}
AN_EVENT = {
    "name": "exception",
    "timeUnixNano": "1500",
    "attributes": [{"key": "exception.type", "value": {"stringValue": "Gone"}}],
}


def spans_of_a_trace() -> list[dict[str, Any]]:
    """A model that asks for a tool, which fails; times are whole microseconds."""
    times = {"startTimeUnixNano": "1540000000000001000", "endTimeUnixNano": "1540000000000005000"}
    called = a_wire_span(
        "2", "call", attributes=CALLED, parent="1", status={"code": 2, "message": "boom"}, events=[AN_EVENT], **times
    )
    return [a_wire_span("1", "ask", attributes=CHAT, **times), called]


def as_read(content: bytes | str) -> Mapped:
    return otlp.spans(a_raw(content, "t"), harness_state=HARNESS)


def a_protobuf(*spans: dict[str, Any]) -> bytes:
    def recoded(span: dict[str, Any]) -> dict[str, Any]:
        names = ("traceId", "spanId", "parentSpanId")
        return span | {name: base64.b64encode(bytes.fromhex(span[name])).decode() for name in names if span.get(name)}

    return bytes(ParseDict(a_request(*(recoded(span) for span in spans)), TracesData()).SerializeToString())


def plain(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in pairs}


def a_flat(span: dict[str, Any], *, nested: bool = False) -> dict[str, Any]:
    ids = {"trace_id": span["traceId"], "span_id": span["spanId"]}
    events = [
        {"name": event["name"], "timestamp": int(event["timeUnixNano"]), "attributes": plain(event["attributes"])}
        for event in span.get("events", [])
    ]
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    status = span.get("status") or {}
    made = {
        "name": span["name"], "parent_span_id": span.get("parentSpanId"), "attributes": plain(span["attributes"]), "scope": {"name": "agent"},
        "status": {"code": ("UNSET", "OK", "ERROR")[status.get("code", 0)], "message": status.get("message")}, "span_events": events,
    }  # fmt: skip
    if nested:
        context = {"traceId": ids["trace_id"], "spanId": ids["span_id"]}
        return made | {
            "spanContext": context,
            "startTime": [start // 10**9, start % 10**9],
            "endTime": [end // 10**9, end % 10**9],
        }
    return made | ids | {"start_time": start, "end_time": end}


def a_jaeger(*spans: dict[str, Any]) -> dict[str, Any]:
    def one(span: dict[str, Any]) -> dict[str, Any]:
        tags = plain(span["attributes"]) | {"otel.scope.name": "agent"}
        if span.get("status", {}).get("code") == 2:
            tags |= {"error": True, "otel.status_description": "boom"}
        start = int(span["startTimeUnixNano"]) // 1000
        parent = (
            [{"refType": "CHILD_OF", "traceID": span["traceId"], "spanID": span["parentSpanId"]}]
            if span.get("parentSpanId")
            else []
        )
        logs = [
            {
                "timestamp": 1,
                "fields": [
                    {"key": "event", "value": event["name"]},
                    *({"key": key, "value": value} for key, value in plain(event["attributes"]).items()),
                ],
            }
            for event in span.get("events", [])
        ]
        return {
            "traceID": span["traceId"], "spanID": span["spanId"], "operationName": span["name"], "references": parent, "startTime": start,
            "duration": int(span["endTimeUnixNano"]) // 1000 - start, "tags": [{"key": key, "value": value} for key, value in tags.items()],
            "logs": logs, "processID": "p1",
        }  # fmt: skip

    process = {"serviceName": "shop", "tags": [{"key": "deployment.environment", "value": "prod"}]}
    return {
        "data": [{"traceID": spans[0]["traceId"], "spans": [one(span) for span in spans], "processes": {"p1": process}}]
    }


def test_containers_of_one_trace_give_one_trace() -> None:
    spans = spans_of_a_trace()
    told = wire(a_request(*spans)).spans["row_id"].to_list()
    whole = a_protobuf(*spans)
    framed = b"".join(len(part).to_bytes(4, "big") + part for part in (a_protobuf(spans[0]), a_protobuf(spans[1])))
    for content in (
        whole, framed, json.dumps([a_flat(span) for span in spans]), "\n".join(json.dumps(a_flat(span)) for span in spans),
        json.dumps({"spans": [a_flat(span, nested=True) for span in spans]}),
    ):  # fmt: skip
        assert as_read(content).spans["row_id"].to_list() == told


def test_jaeger_tells_the_same_but_for_its_microseconds_and_its_own_tags() -> None:
    spans = spans_of_a_trace()
    columns = ["trace_id", "span_id", "parent_span_id", "start_ns", "end_ns", "kind", "name", "seen", "raw", "messages_out", "is_error", "error_code", "error_message", "scope_name"]  # fmt: skip
    found = as_read(json.dumps(a_jaeger(*spans))).spans
    assert found.select(columns).rows() == wire(a_request(*spans)).spans.select(columns).rows()
    assert found.select("service_name", "environment", "time_precision").unique().rows() == [("shop", "prod", "us")]


def test_jaeger_link_is_no_parent() -> None:
    held = a_jaeger(*spans_of_a_trace())
    held["data"][0]["spans"][1]["references"][0]["refType"] = "FOLLOWS_FROM"
    assert as_read(json.dumps(held)).spans["parent_span_id"].to_list() == [None, None]


def test_ids_of_no_known_length_are_derived_alike_for_spans_and_parents() -> None:
    spans = [a_flat(span) | {"trace_id": "adot-trace-1", "span_id": f"s-{at}", "parent_span_id": "s-0" if at else None} for at, span in enumerate(spans_of_a_trace())]  # fmt: skip
    first, second = as_read(json.dumps(spans)).spans.to_dicts()
    assert first["flags"] == second["flags"] == ["id_derived"]
    assert second["parent_span_id"] == first["span_id"] != second["span_id"]
    assert (first["source_trace_id"], first["source_span_id"]) == ("adot-trace-1", "s-0")


def test_uuid_is_a_trace_id() -> None:
    held = a_flat(spans_of_a_trace()[0]) | {"trace_id": "d0d84d31-923d-4cb5-94a8-40a0a0087578"}
    (row,) = as_read(json.dumps(held)).spans.to_dicts()
    assert (row["trace_id"], row["flags"]) == ("d0d84d31923d4cb594a840a0a0087578", [])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trace_id": None}, "no_trace_id"), ({"span_id": ""}, "bad_id"), ({"start_time": "soon"}, "bad_time"), ({"end_time": 1}, "bad_time"),
        ({"attributes": None, "status": {"code": "MAYBE"}}, "bad_enum"), ({"span_events": [7]}, "bad_type"), ({"name": 7}, "bad_type"),
    ],
)  # fmt: skip
def test_bad_flat_span_is_set_aside_alone(change: dict[str, Any], reason: str) -> None:
    first, second = (a_flat(span) for span in spans_of_a_trace())
    found = as_read(json.dumps([first, second | change]))
    assert ([row.reason for row in found.rejected], found.spans.height, found.spans_in) == ([reason], 1, 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"traceID": ""}, "no_trace_id"), ({"startTime": -1}, "bad_time"), ({"duration": 1.5}, "bad_time"), ({"tags": [{"key": 1}]}, "bad_type"),
        ({"logs": [1]}, "bad_type"), ({"references": 1}, "bad_type"), ({"operationName": 7}, "bad_type"),
    ],
)  # fmt: skip
def test_bad_jaeger_span_is_set_aside_alone(change: dict[str, Any], reason: str) -> None:
    held = a_jaeger(*spans_of_a_trace())
    held["data"][0]["spans"][1] |= change
    found = as_read(json.dumps(held))
    assert ([row.reason for row in found.rejected], found.spans.height, found.spans_in) == ([reason], 1, 2)


def test_bad_protobuf_span_is_set_aside_alone() -> None:
    message = TracesData.FromString(a_protobuf(*spans_of_a_trace()))
    message.resource_spans[0].scope_spans[0].spans[1].span_id = b"123"
    found = as_read(message.SerializeToString())
    assert ([row.reason for row in found.rejected], found.spans.height) == (["bad_id"], 1)


@pytest.mark.parametrize("content", [b"\x00\x00\x00\x04abcd", b"\n\x00", b"\x00\x01\x02", b"\x00\x00\x00\xffcut"])
def test_bytes_of_no_container_are_an_error(content: bytes) -> None:
    with pytest.raises(FormatError, match="no otlp span"):
        as_read(content)


def test_half_a_protobuf_file_is_not_half_read() -> None:
    whole = b"".join(len(part).to_bytes(4, "big") + part for part in [a_protobuf(*spans_of_a_trace())] * 2)
    with pytest.raises(FormatError, match="no otlp span"):
        as_read(whole[:-3])


@pytest.mark.parametrize(
    ("held", "ns", "precision"),
    [
        ("2026-11-03T09:14:00Z", 1793697240000000000, "ms"), ("2026-11-03T10:14:00.123+01:00", 1793697240123000000, "ms"),
        ("2026-11-03 09:14:00.123456", 1793697240123456000, "us"), ("2026-11-03T09:14:00.123456789Z", 1793697240123456789, "ns"),
        (1793697240123456789, 1793697240123456789, "ns"), ("1793697240123456788", 1793697240123456788, "ns"),
        (1793697240123456, 1793697240123456000, "us"), (1793697240123, 1793697240123000000, "ms"), (1793697240.123456, 1793697240123456000, "us"),
        ([1793697240, 7], 1793697240000000007, "ns"), (None, None, "none"), ("", None, "none"), (0, None, "none"),
    ],
)  # fmt: skip
def test_times_are_read_in_every_spelling(held: object, ns: int | None, precision: str) -> None:
    assert time(held) == (ns, precision)


@pytest.mark.parametrize(
    "held", ["2026-02-30T00:00:00Z", "soon", -1, True, [1], [1, "2"], float("nan"), float("inf"), 2**70, {}]
)
def test_what_is_no_time_is_refused(held: object) -> None:
    with pytest.raises(BadSpan) as told:
        time(held)
    assert told.value.reason == "bad_time"


@pytest.mark.parametrize(
    ("name", "spans", "infra"), [("agentevals/helm.json", 96, 89), ("agentevals/k8s.json", 73, 69), ("agentevals/tempo_export_with_batches.json", 86, 77)]
)  # fmt: skip
def test_real_exports_keep_every_span(name: str, spans: int, infra: int) -> None:
    found = as_read(real(name).read_bytes())
    assert (found.spans_in, found.spans.height, found.rejected) == (spans, spans, [])
    assert found.spans.filter(dialect="infra").height == infra
