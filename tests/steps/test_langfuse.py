"""Langfuse's rows in every container it writes are one trace; its columns fill what the attributes lack, and nothing is lost."""

import csv
import io
import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langfuse_rows import TRACE_ID, a_download, a_run, a_score, an_observation, only, read
from tasks.sources import otlp
from traces import HARNESS, a_raw, normalized
from twiceshy.errors import FormatError

ATTRIBUTES = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order", "gen_ai.tool.call.id": "c1"}


def lines(*rows: Any) -> str:
    return "\n".join(json.dumps(row) for row in rows)


def snake(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name): value
        for name, value in row.items()
    }


def a_csv(*rows: dict[str, Any]) -> str:
    held = io.StringIO()
    names = sorted({name for row in rows for name in row})
    writer = csv.DictWriter(held, names)
    writer.writeheader()
    writer.writerows(
        {name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()} for row in rows
    )
    return held.getvalue()


def a_parquet(*rows: dict[str, Any]) -> bytes:
    held = io.BytesIO()
    usage = [[{"key": name, "value": count} for name, count in row.get("usage_details", {}).items()] for row in rows]
    times = [
        pl.Series([row[name] for row in rows]).str.to_datetime(time_zone="UTC").alias(name)
        for name in ("start_time", "end_time")
    ]
    plain = [{name: value for name, value in row.items() if name not in ("usage_details", "metadata")} for row in rows]
    pl.DataFrame(plain, infer_schema_length=None).with_columns(*times, usage_details=pl.Series(usage)).write_parquet(
        held
    )
    return held.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("merged.json", a_download(*(row | {"input": json.loads(row["input"]) if row["input"][0] in "[{" else row["input"]} for row in a_run()))),
        ("page.json", json.dumps({"data": a_run(), "meta": {"cursor": "x"}})), ("list.json", json.dumps(a_run(), indent=1)), ("rows.jsonl", lines(*a_run())),
        ("export.jsonl", lines(*map(snake, a_run()))), ("export.csv", a_csv(*map(snake, a_run()))), ("export.parquet", a_parquet(*map(snake, a_run()))),
        ("trace.json", json.dumps({"id": TRACE_ID, "timestamp": "2026-11-03T09:14:00Z", "observations": a_run()})),
    ],
)  # fmt: skip
def test_containers_of_one_trace_give_one_trace(name: str, content: str | bytes) -> None:
    assert sorted(read(content, name).spans["row_id"]) == sorted(read(a_download(*a_run())).spans["row_id"])


@given(st.permutations(range(3)), st.integers(0, 3))
def test_order_and_split_of_the_rows_change_nothing(order: list[int], cut: int) -> None:
    rows = [a_run()[at] for at in order]
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    found = [row_id for part in parts for row_id in read(lines(*part), "rows.jsonl").spans["row_id"]]
    assert sorted(found) == sorted(read(a_download(*a_run())).spans["row_id"])


def test_run_is_read_from_the_columns_alone() -> None:
    made = normalized(read(a_download(*a_run(), sessionId="s1", userId="u1", environment="prod", release="r7")))
    assert made.crossings.select("kind", "name", "seen", "proposed").rows()[1] == (
        "tool",
        "get_order",
        '{"id":"A1"}',
        '{"id":"A1"}',
    )
    (trace,) = made.traces.to_dicts()
    assert json.loads(trace["input"])["user"] == "Where is A1?"
    assert (trace["conversation_id"], trace["user_ref"], trace["environment"], trace["r6"]) == (
        "s1",
        "u1",
        "prod",
        "recorded",
    )
    assert made.spans["agent_version"].unique().to_list() == ["r7"]


def test_attributes_come_first_and_columns_fill_what_they_lack() -> None:
    metadata = {"attributes": ATTRIBUTES | {"gen_ai.tool.call.arguments": '{"id": "B2"}'}, "scope": {"name": "x", "version": "1"}, "resourceAttributes": {"service.name": "shop"}}  # fmt: skip
    row = only(
        an_observation(
            1, "TOOL", "execute_tool", input={"id": "A1"}, output={"total": 7}, metadata=json.dumps(metadata)
        )
    )
    assert (row["dialect"], row["tool_name"], row["call_id"], row["service_name"], row["scope_name"]) == (
        "genai",
        "get_order",
        "c1",
        "shop",
        "x",
    )
    assert (row["seen"], row["raw"]) == ({"id": "B2"}, {"total": 7})
    assert row["provenance"]["seen"]["key"] == "gen_ai.tool.call.arguments"
    assert row["provenance"]["raw"] == {"key": "output", "grade": "recorded"}


@pytest.mark.parametrize(
    ("kind", "ours"),
    [
        ("SPAN", "step"), ("EVENT", "step"), ("CHAIN", "step"), ("GENERATION", "model"), ("EMBEDDING", "model"), ("TOOL", "tool"), ("AGENT", "agent"),
        ("RETRIEVER", "retrieval"), ("EVALUATOR", "eval"), ("GUARDRAIL", "guard"), ("something new", "step"),
    ],
)  # fmt: skip
def test_type_is_the_kind_where_no_attribute_says_it(kind: str, ours: str) -> None:
    assert only(an_observation(1), an_observation(2, kind, "x", parent=1, input="a"))["kind"] == ours
    chain = {"attributes": {"openinference.span.kind": "LLM"}}
    assert only(an_observation(1), an_observation(2, kind, "x", parent=1, metadata=chain))["kind"] == "model"


def test_model_columns_are_all_read() -> None:
    row = only(
        an_observation(
            1, "GENERATION", "chat", input={"messages": [{"role": "system", "content": "Be brief. Today is 2026-11-03."}, {"role": "user", "content": "Hi"}]},
            output="Hello.", providedModelName="m-1", modelParameters={"temperature": 0, "seed": None}, promptName="p", promptVersion=10,
            usageDetails={"input": 5, "output": 2, "input_cached_tokens": 1, "total": 7}, toolCalls=['{"id": "c1", "arguments": "{\\"id\\": \\"A1\\"}"}'],
            toolCallNames=["get_order"], toolDefinitions={"get_order": '{"description": "d", "parameters": {"type": "object"}}'},
        )
    )  # fmt: skip
    assert (row["system_text"], row["clock_text"]) == ("Be brief. Today is 2026-11-03.", "2026-11-03")
    call = {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"id": "A1"}}
    assert row["messages_out"] == [{"role": "assistant", "parts": [{"type": "text", "text": "Hello."}, call]}]
    assert row["tool_defs"] == [
        {"type": "function", "name": "get_order", "description": "d", "parameters": {"type": "object"}}
    ]
    assert (row["model_requested"], row["model_answered"], row["model_params"]) == (
        "m-1",
        None,
        {"sampling": {"temperature": 0}},
    )
    assert (row["usage"], row["prompt_name"], row["prompt_version"]) == (
        {"input": 5, "output": 2, "cache_read": 1},
        "p",
        "10",
    )


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("Hello.", {"type": "text", "text": "Hello."}), ({"answer": 7}, {"type": "text", "text": '{"answer":7}'}),
        ({"index": 0, "message": {"role": "assistant", "content": "Hello."}}, {"type": "text", "text": "Hello."}),
        ([{"toolCallId": "c1", "toolName": "t", "input": "{}"}], {"type": "tool_call", "id": "c1", "name": "t", "arguments": {}}),
        (
            {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [{"id": "c1", "function": {"name": "t", "arguments": "{}"}}]}},
            {"type": "tool_call", "id": "c1", "name": "t", "arguments": {}},
        ),
    ],
)  # fmt: skip
def test_output_of_any_shape_is_what_the_model_said(output: object, part: dict[str, Any]) -> None:
    (message,) = only(an_observation(1, "GENERATION", input="x", output=output))["messages_out"]
    assert message["parts"] == [part]


def test_tools_that_the_langchain_callback_lists_as_messages_are_tools() -> None:
    schema = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}
    row = only(
        an_observation(
            1, "GENERATION", input=[{"role": "user", "content": "Hi"}, {"role": "tool", "content": schema}], output="x"
        )
    )
    assert row["messages_in"] == [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}]
    assert row["tool_defs"] == [{"type": "function", "name": "search", "parameters": {"type": "object"}}]


@pytest.mark.parametrize(("status", "failed"), [("success", False), ("error", True)])
def test_tool_message_proves_a_tool_run_of_an_older_sdk(status: str, failed: bool) -> None:  # noqa: FBT001
    answer = {"type": "tool", "content": "[1, 2]", "tool_call_id": "c1", "name": "search", "status": status}
    row = only(
        an_observation(1), an_observation(2, "SPAN", "search", parent=1, input="{'query': \"it's\"}", output=answer)
    )
    assert (row["kind"], row["tool_name"], row["call_id"], row["raw"], row["is_error"]) == (
        "tool",
        "search",
        "c1",
        [1, 2],
        failed,
    )
    assert (row["seen"], row["seen_encoding"]) == ({"query": "it's"}, "pyrepr")


def test_level_error_is_the_last_rung() -> None:
    failed = an_observation(2, "TOOL", "get_order", parent=1, input="{}", level="ERROR", statusMessage="gone")
    row = only(an_observation(1), failed)
    assert (row["error_code"], row["error_source"], row["error_message"]) == ("unknown", "status", "gone")
    row = only(an_observation(1), failed | {"output": '{"response_status": "Error", "message": "No data"}'})
    assert row["error_source"] == "structured"
    row = only(an_observation(1), failed | {"type": "SPAN"})
    assert (row["is_error"], row["error_code"]) == (True, None)


def test_uuids_are_derived_and_hex_ids_stay() -> None:
    parent, child = an_observation(1, input="x"), an_observation(2, input="y")
    child |= {"id": "5422a9e9-19cf-4ba8-bbd4-2fe0108eefc5", "parentObservationId": parent["id"]}
    assert only(parent)["flags"] == []
    row = only(parent, child)
    assert (row["flags"], row["parent_span_id"], row["source_span_id"]) == (["id_derived"], parent["id"], child["id"])


@pytest.mark.parametrize(
    "observation",
    [an_observation(1), an_observation(1, metadata="{}"), {"id": "a" * 16, "type": "SPAN", "startTime": None}],
)
def test_download_of_the_trace_alone_is_refused(observation: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"trace alone.*together with its observations"):
        read(a_download(observation, input="Where is A1?", output="There."))
    with pytest.raises(FormatError, match="trace alone"):
        read(json.dumps({"trace": {"id": TRACE_ID}}))


def test_dump_with_the_default_fields_is_refused() -> None:
    bare = {name: value for name, value in an_observation(1).items() if name not in ("input", "output", "metadata")}
    with pytest.raises(FormatError, match=r"no field for input, output or metadata.*fields=core"):
        read(lines(bare, bare), "rows.jsonl")


@pytest.mark.parametrize("cut", ["x" * 200, "x" * 200 + "...", "x" * 200 + "…"])
def test_metadata_cut_at_200_characters_is_flagged(cut: str) -> None:
    held = an_observation(1, input="x", metadata={"note": cut})
    assert read(lines(held), "rows.jsonl").spans["flags"].to_list() == [["truncated"]]
    assert only(held)["flags"] == [], "a download is not cut"
    assert read(lines(held | {"metadata": {"note": cut[:199]}}), "rows.jsonl").spans["flags"].to_list() == [[]]


@pytest.mark.parametrize(("count", "cursor", "flags"), [(50, None, ["trace_capped"]), (50, "c", []), (49, None, [])])
def test_full_page_without_a_next_one_is_held(count: int, cursor: str | None, flags: list[str]) -> None:
    rows = [an_observation(number, input="x", startTime=None, endTime=None) for number in range(count)]
    page = {"data": rows, "meta": {"cursor": cursor} if cursor else {}}
    assert read(json.dumps(page)).spans["flags"].to_list() == [flags] * count


def test_bad_row_is_set_aside_alone() -> None:
    good = an_observation(1, input="x")
    bad = [7, good | {"id": ""}, good | {"traceId": ""}, good | {"startTime": "soon"}, good | {"name": 7}, {"id": "x"}]
    found = read("not json\n" + lines(good, *bad), "rows.jsonl")
    reasons = ["bad_json", "unknown_container", "bad_id", "no_trace_id", "bad_time", "bad_type", "unknown_container"]
    assert ([row.reason for row in found.rejected], found.spans.height, found.spans_in) == (reasons, 1, 8)


@pytest.mark.parametrize(
    ("name", "content"), [("x.json", '{"resourceSpans": []}'), ("x.csv", "a,b\n1,2"), ("x.json", "7")]
)
def test_file_without_a_row_of_langfuse_is_an_error(name: str, content: str) -> None:
    with pytest.raises(FormatError, match="no langfuse span in it"):
        read(content, name)


@pytest.mark.parametrize(("name", "content"), [("x.parquet", b"PAR1 cut"), ("x.csv", b'a,b\n"')])
def test_damaged_table_is_an_error(name: str, content: bytes) -> None:
    with pytest.raises(FormatError, match="damaged"):
        read(content, name)


def test_file_of_langfuse_is_known_where_another_source_was_named() -> None:
    with pytest.raises(FormatError, match="It looks like --source langfuse"):
        otlp.spans(a_raw(a_download(*a_run())), harness_state=HARNESS)


def test_export_of_scores_alone_is_read() -> None:
    found = read(lines(a_score()), "scores.jsonl")
    assert (found.spans_in, found.spans.height, found.scores.height) == (0, 0, 1)


def test_scores_say_who_gave_them() -> None:
    scores = [
        a_score("a", value=1, comment="fine", observationId=f"eee19b7ec3c1{1:04}"), a_score("b", source="ANNOTATION", authorUserId="u1", dataType="CATEGORICAL", value=0, stringValue="bad"),
        a_score("c", source="API", dataType="BOOLEAN", value=True), a_score("output", source="ANNOTATION", dataType="CORRECTION", value=0, longStringValue="Better."),
    ]  # fmt: skip
    found = {
        row["name"]: row
        for row in read(
            a_download(an_observation(1, input="x"), scores=scores[:3], corrections=scores[3:], tags=["dev"])
        ).scores.to_dicts()
    }
    assert {name: row["origin"] for name, row in found.items()} == {
        "a": "llm",
        "b": "human",
        "c": "api",
        "output": "human",
        "tag": "api",
    }
    assert (found["a"]["value"], found["a"]["comment"], found["a"]["span_id"]) == (1.0, "fine", f"eee19b7ec3c1{1:04}")
    assert (found["b"]["label"], found["b"]["author_ref"], found["b"]["span_id"]) == ("bad", "u1", None)
    assert (found["c"]["value"], found["output"]["text"], found["output"]["value"], found["tag"]["label"]) == (
        1.0,
        "Better.",
        None,
        "dev",
    )


def test_scores_of_the_api_have_their_subject_and_one_typed_value() -> None:
    def typed(name: str, subject: dict[str, Any], **fields: Any) -> dict[str, Any]:
        held = a_score(name, subject=subject, **fields)
        return {key: value for key, value in held.items() if key not in ("traceId", "observationId")}

    page = {"data": [
        typed("a", {"kind": "trace", "id": TRACE_ID}, dataType="CATEGORICAL", value="bad"), typed("b", {"kind": "observation", "id": "eee19b7ec3c10001", "traceId": TRACE_ID}),
        typed("c", {"kind": "session", "id": "s1"}),
    ], "meta": {}}  # fmt: skip
    found = read(json.dumps(page))
    assert (found.spans_in, [row.reason for row in found.rejected]) == (1, ["no_trace_id"])
    assert found.scores.sort("name").select("trace_id", "span_id", "label", "value").rows() == [
        (TRACE_ID, None, "bad", None),
        (TRACE_ID, "eee19b7ec3c10001", None, 0.0),
    ]


def test_tags_that_every_observation_repeats_are_one_score() -> None:
    rows = [row | {"tags": ["dev"]} for row in a_run()]
    assert read(lines(*rows), "rows.jsonl").scores.select("name", "label", "span_id").rows() == [("tag", "dev", None)]


def test_langfuse_8304_user_input_is_that_of_the_root_observation() -> None:
    root = an_observation(1, "SPAN", "run", input="Where is A1?")
    later = an_observation(2, "SPAN", "title", parent=1, input="Make a title.")
    (trace,) = normalized(read(a_download(root, later, input="Make a title.", name="title"))).traces.to_dicts()
    assert json.loads(trace["input"])["user"] == "Where is A1?"
    remote = root | {"parentObservationId": "f" * 16, "isRootObservation": True}
    (trace,) = normalized(read(lines(remote, later), "rows.jsonl")).traces.to_dicts()
    assert json.loads(trace["input"])["user"] == "Where is A1?"


def test_langfuse_6517_prompt_cut_at_1028_characters_is_kept_raw_and_held() -> None:
    cut = json.dumps([{"role": "user", "content": "x" * 2000}])[:1028]
    row = only(an_observation(1, "GENERATION", input=cut, output="ok"))
    assert row["flags"] == ["truncated"]
    assert json.loads(row["attributes_json"])["input"] == cut


@pytest.mark.parametrize(("times", "flags"), [(0, []), (1, ["nested_json:2"]), (2, ["nested_json:3"])])
def test_langfuse_8464_14751_7069_json_encoded_more_than_once_is_decoded(times: int, flags: list[str]) -> None:
    held = '{"id": "123"}'
    for _ in range(times):
        held = json.dumps(held)
    row = only(an_observation(1), an_observation(2, "TOOL", "t", parent=1, input=held, output='"123"'))
    assert (row["seen"], row["raw"], row["flags"]) == ({"id": "123"}, '"123"', flags)


@pytest.mark.parametrize(("count", "flags"), [(127, []), (128, ["dropped_attributes"])])
def test_litellm_34828_as_many_attributes_as_an_sdk_keeps_are_a_cut(count: int, flags: list[str]) -> None:
    attributes = {f"k{number}": "v" for number in range(count)}
    assert (
        only(an_observation(1, "GENERATION", input="x", output="y", metadata={"attributes": attributes}))["flags"]
        == flags
    )
