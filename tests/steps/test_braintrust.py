"""Braintrust's rows."""

import json
from itertools import permutations
from typing import Any

import pytest

from tasks.sources import braintrust
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw, normalized
from twiceshy.errors import FormatError

Row = dict[str, Any]


def a_row(number: int = 1, kind: str = "tool", name: str = "get_order", **more: Any) -> Row:
    return {
        "id": f"row{number}", "_xact_id": "1000", "created": "2026-11-03T09:14:00.000Z", "root_span_id": "11111111-2222-4333-8444-555555555555",
        "span_id": f"s{number}", "span_parents": None if number == 1 else ["s1"], "is_root": number == 1, "span_attributes": {"name": name, "type": kind},
        "metrics": {"start": 1793697240.123456, "end": 1793697241.5}, "input": None, "output": None,
    } | more  # fmt: skip


def read(*rows: Any) -> Mapped:
    content = b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)
    return braintrust.spans(a_raw(content), harness_state=HARNESS)


def only(**row: Any) -> Row:
    (made,) = read(a_row(**row)).spans.to_dicts()
    return made


ROOT = a_row(1, "task", "clerk", input="Hi.", output="Done.")
TOOL = a_row(2, input={"id": "A1"}, output={"total": 7})


def test_rows_are_a_tree() -> None:
    root, tool = read(ROOT, TOOL).spans.to_dicts()
    assert (root["kind"], root["agent_name"], root["seen"], root["raw"]) == ("agent", "clerk", '"Hi."', '"Done."')
    assert (tool["kind"], tool["tool_name"], tool["seen"], tool["raw"]) == (
        "tool",
        "get_order",
        '{"id":"A1"}',
        '{"total":7}',
    )
    assert (tool["parent_span_id"], tool["trace_id"]) == (root["span_id"], "11111111222243338444555555555555")
    assert (tool["start_ns"], tool["time_precision"]) == (1793697240123456000, "us")
    assert normalized(read(ROOT, TOOL)).traces["r9"].to_list() == ["recorded"]


def test_last_written_row_stands_whatever_its_place() -> None:
    rows = [
        a_row(2, output=output, _xact_id=written)
        for output, written in (("old", "999"), ("new", "1001"), ("mid", "1000"))
    ]
    for order in permutations(rows):
        mapped = read(ROOT, *order)
        assert [row["raw"] for row in mapped.spans.to_dicts() if row["kind"] == "tool"] == ['"new"']
        assert mapped.spans_in == mapped.spans.height == 2
    assert read(ROOT, *rows, a_row(2, _xact_id="1002", _object_delete=True)).spans["kind"].to_list() == ["agent"]


def test_null_is_a_column_that_nothing_was_written_to() -> None:
    row = only(kind="tool")
    assert (row["seen"], row["raw"]) == (None, None)


def test_model_has_what_was_asked_and_said() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "A1"}'}}
    row = only(
        kind="llm", input=[{"role": "system", "content": "Today is 2026-11-03."}, {"role": "user", "content": "Hi."}],
        output=[{"finish_reason": "tool_calls", "message": {"role": "assistant", "content": None, "tool_calls": [call]}}],
        metadata={"model": "gpt-x", "temperature": 0, "session_id": "s9", "user_id": "u9"}, metrics={"prompt_tokens": 7, "completion_tokens": 2},
    )  # fmt: skip
    assert json.loads(row["messages_out"])[0]["parts"][0]["name"] == "get_order"
    assert (row["model_requested"], row["finish_reason"], json.loads(row["usage"])) == (
        "gpt-x",
        "tool_calls",
        {"input": 7, "output": 2},
    )
    assert (row["system_text"], row["clock_text"], json.loads(row["model_params"])) == ('"Today is 2026-11-03."', "2026-11-03", {"sampling": {"temperature": 0}})  # fmt: skip
    assert (row["conversation_id"], row["user_ref"], row["start_ns"]) == ("s9", "u9", None)
    assert json.loads(only(kind="llm", output="Hi.")["messages_out"])[0]["parts"] == [{"type": "text", "text": "Hi."}]


def test_labels_are_scores_and_reach_no_span() -> None:
    scorer = a_row(2, "score", "match", input={"expected": "SECRET"}, output="SECRET")
    mapped = read(
        ROOT | {"expected": {"a": "SECRET"}, "scores": {"match": 0.25, "none": None}, "tags": ["flagged"]}, scorer
    )
    assert "SECRET" not in json.dumps(mapped.spans.to_dicts(), default=str)
    held = {row["name"]: (row["origin"], row["value"], row["label"], row["text"]) for row in mapped.scores.to_dicts()}
    assert held == {
        "match": ("code", 0.25, None, None),
        "expected": ("human", None, None, '{"a":"SECRET"}'),
        "tag": ("api", None, "flagged", None),
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("TimeoutError: late", "timeout"),
        ({"type": "PermissionError", "message": "no"}, "permission"),
        (["x"], None),
        ("it broke", None),
    ],
)
def test_error_may_be_of_any_type(error: Any, code: str | None) -> None:
    row = only(kind="tool", error=error)
    assert row["is_error"]
    assert row["error_code"] == code if code else str(row["error_code"]).startswith("get_order:")


def test_error_of_context_has_no_code() -> None:
    row = only(kind="task", error="TimeoutError: late")
    assert (row["is_error"], row["error_class"] is not None, row["error_code"]) == (True, True, None)


def test_page_of_the_api_holds_the_same() -> None:
    paged = braintrust.spans(a_raw(json.dumps({"events": [ROOT, TOOL], "cursor": None})), harness_state=HARNESS)
    assert paged.spans.equals(read(ROOT, TOOL).spans)


def test_bad_rows_are_set_aside_alone() -> None:
    mapped = read(
        ROOT, a_row(2, span_parents="s1"), a_row(3, metrics={"start": "soon"}), a_row(4, _xact_id="x"), a_row(5, root_span_id=None), {"id": 1}, b"{"
    )  # fmt: skip
    assert sorted((row.locator, row.reason) for row in mapped.rejected) == [
        ("line 2", "bad_type"), ("line 3", "bad_time"), ("line 4", "bad_type"), ("line 5", "no_trace_id"), ("line 6", "unknown_container"), ("line 7", "bad_json"),
    ]  # fmt: skip
    assert (mapped.spans_in, mapped.spans.height) == (7, 1)


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="It looks like --source logfire"):
        read({"span_name": "x"})
