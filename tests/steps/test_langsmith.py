"""LangSmith's runs in every container it writes are one trace; halves are joined, the tree is checked, and nothing is lost."""

import io
import json
from itertools import permutations
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sources.langsmith.source import spans
from tasks.sources.records import CONTRADICTED
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw, normalized
from twiceshy.errors import FormatError


def an_id(number: int) -> str:
    return f"d0d84d31-923d-4cb5-94a8-{number:012}"


def a_run(
    number: int, kind: str = "chain", name: str = "step", *, path: tuple[int, ...] = (), **fields: Any
) -> dict[str, Any]:
    """A run as `list_runs` has it; path: the numbers of the runs around it, the root's first."""
    order = ".".join(f"20261103T09140{at}000000Z{an_id(at)}" for at in (*path, number))
    return {
        "id": an_id(number), "trace_id": an_id((*path, number)[0]), "parent_run_id": an_id(path[-1]) if path else None, "dotted_order": order, "name": name,
        "run_type": kind, "start_time": f"2026-11-03T09:14:0{number}.000000", "end_time": f"2026-11-03T09:14:0{number}.500000", "inputs": {}, "outputs": None,
        "error": None, "extra": {}, "tags": [],
    } | fields  # fmt: skip


CALL = {"name": "get_order", "args": {"id": "A1"}, "id": "c1", "type": "tool_call"}


def serialized(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": kwargs}


def a_trace() -> list[dict[str, Any]]:
    asked = [[serialized("SystemMessage", content="Be brief."), serialized("HumanMessage", content="Where is A1?")]]
    said = serialized(
        "AIMessage",
        content="",
        tool_calls=[CALL],
        usage_metadata={"input_tokens": 12, "output_tokens": 3},
        response_metadata={"model_name": "m-1-2026"},
    )
    return [
        a_run(1, name="agent", inputs={"question": "Where is A1?"}, outputs={"answer": "On its way."}, tags=["dev"], extra={"metadata": {"thread_id": "t1", "revision_id": "r7"}}),
        a_run(
            2, "llm", "ChatOpenAI", path=(1,), inputs={"messages": asked}, outputs={"generations": [[{"text": "", "message": said}]]},
            extra={"invocation_params": {"temperature": 0, "tools": [{"type": "function", "function": {"name": "get_order", "parameters": {}}}]},
                   "metadata": {"ls_provider": "openai", "ls_model_name": "m-1", "lc_hub_repo": "support", "lc_hub_commit_hash": "abc123"}},
        ),
        a_run(3, "tool", "get_order", path=(1,), inputs={"input": "{'id': 'A1'}"}, outputs={"output": serialized("ToolMessage", content='{"total": 7}', tool_call_id="c1")}),
    ]  # fmt: skip


def read(content: Any, name: str = "runs.json") -> Mapped:
    return spans(
        a_raw(content if isinstance(content, str | bytes) else json.dumps(content), name), harness_state=HARNESS
    )


def only(*runs: dict[str, Any]) -> dict[str, Any]:
    found = read(list(runs)).spans.sort("start_ns").to_dicts()[-1]
    columns = ("seen", "raw", "messages_in", "messages_out", "tool_defs", "usage", "model_params")
    return dict(found) | {name: json.loads(found[name]) for name in columns if found[name] is not None}


def test_containers_of_one_trace_give_one_trace() -> None:
    runs = a_trace()
    texts = [{name: json.dumps(held) if isinstance(held, dict) else held for name, held in run.items()} for run in runs]
    table = io.BytesIO()
    pl.DataFrame(texts, infer_schema_length=None).write_parquet(table)
    told = sorted(read(runs).spans["row_id"])
    assert len(told) == 3
    for content in (
        "\n".join(map(json.dumps, runs)),
        json.dumps({"runs": runs, "cursors": {"next": None}}),
        table.getvalue(),
    ):
        assert sorted(read(content).spans["row_id"]) == told


@given(st.permutations(range(3)), st.integers(0, 3))
def test_order_and_split_of_the_runs_change_nothing(order: list[int], cut: int) -> None:
    runs = [a_trace()[at] for at in order]
    parts = [part for part in (runs[:cut], runs[cut:]) if part]
    found = [row_id for part in parts for row_id in read(part).spans["row_id"]]
    assert sorted(found) == sorted(read(a_trace()).spans["row_id"])


def test_run_of_langchain_is_read_whole() -> None:
    made = normalized(read(a_trace()))
    model, tool = made.crossings.to_dicts()
    assert json.loads(model["seen"])["messages"] == [
        {"role": "system", "parts": [{"type": "text", "text": "Be brief."}]}, {"role": "user", "parts": [{"type": "text", "text": "Where is A1?"}]},
    ]  # fmt: skip
    assert (tool["name"], tool["proposed"], tool["seen"], tool["raw"], tool["group"]) == (
        "get_order",
        '{"id":"A1"}',
        '{"id":"A1"}',
        '{"total":7}',
        1,
    )
    (trace,) = made.traces.to_dicts()
    assert json.loads(trace["input"])["user"] == {"question": "Where is A1?"}
    assert [trace[name] for name in ("conversation_id", "r5", "r6", "r7", "r9")] == [
        "t1",
        "recorded",
        "recorded",
        "recorded",
        "recorded",
    ]
    row = only(*a_trace()[:2])
    assert (row["prompt_name"], row["prompt_version"], row["model_requested"], row["model_answered"]) == (
        "support",
        "abc123",
        "m-1",
        "m-1-2026",
    )
    assert (row["usage"], row["model_params"], row["provider"]) == (
        {"input": 12, "output": 3},
        {"sampling": {"temperature": 0}},
        "openai",
    )


@pytest.mark.parametrize(
    ("inputs", "outputs", "seen", "raw"),
    [
        ({"id": "A1"}, {"output": '{"total": 7}'}, {"id": "A1"}, {"total": 7}), ({"input": '{"id": "A1"}'}, {"output": "ok"}, {"id": "A1"}, "ok"),
        ({"input": "A1"}, {"total": 7}, {"input": "A1"}, {"total": 7}), ({}, {"output": None}, {}, None),
        ({"input": {"id": "A1"}}, {"output": {"type": "tool", "content": "7", "tool_call_id": "c1"}}, {"id": "A1"}, "7"),
    ],
)  # fmt: skip
def test_tool_run_in_every_shape(inputs: object, outputs: object, seen: object, raw: object) -> None:
    row = only(a_run(1), a_run(2, "tool", "get_order", path=(1,), inputs=inputs, outputs=outputs))
    assert (row["tool_name"], row["seen"], row["raw"]) == ("get_order", seen, raw)


@pytest.mark.parametrize(
    ("kind", "ours"), [("llm", "model"), ("embedding", "model"), ("tool", "tool"), ("retriever", "retrieval"), ("chain", "step"), ("prompt", "step"), ("parser", "step")]
)  # fmt: skip
def test_run_type_is_the_kind(kind: str, ours: str) -> None:
    assert only(a_run(1), a_run(2, kind, path=(1,), inputs={"query": "x"}))["kind"] == ours


def test_errors_are_named_by_the_exception_that_their_text_shows() -> None:
    failed = a_run(
        2,
        "tool",
        "get_order",
        path=(1,),
        error="KeyError('A1')Traceback (most recent call last):\n  File ...",
        status="error",
    )
    row = only(a_run(1), failed)
    assert (row["error_code"], row["error_source"], row["error_class"], row["error_message"]) == (
        "KeyError",
        "exception",
        "KeyError",
        "A1",
    )
    row = only(a_run(1), failed | {"error": "it broke"})
    assert (row["error_code"], row["error_source"], row["error_message"]) == ("unknown", "status", "it broke")
    answer = {"type": "tool", "content": "no", "tool_call_id": "c1", "status": "error"}
    assert only(a_run(1), a_run(2, "tool", path=(1,), outputs={"output": answer}))["error_code"] == "tool_error"


def test_halves_of_a_run_are_joined_in_any_order() -> None:
    whole = a_trace()[1]
    post = whole | {"outputs": {}, "end_time": None}
    patch = {name: whole[name] for name in ("id", "end_time", "outputs", "dotted_order", "trace_id")} | {
        "inputs": {"messages": []},
        "extra": {},
    }
    told = read([whole]).spans["row_id"].to_list()
    documents = [json.dumps({"post": [post]}), json.dumps({"patch": [patch]})]
    for order in permutations(documents):
        assert read("\n".join(order)).spans["row_id"].to_list() == told
    nameless = {name: value for name, value in patch.items() if name != "id"}  # the JavaScript SDK
    found = read({"post": [post], "patch": [nameless]})
    assert (found.spans["row_id"].to_list(), found.spans_in) == (told, 1)


def test_half_without_the_other_is_set_aside() -> None:
    found = read(json.dumps({"post": [a_run(1)], "patch": [{"id": an_id(2), "outputs": {}}, {"outputs": {}}, 7]}))
    assert sorted(row.reason for row in found.rejected) == ["bad_id", "bad_id", "bad_type"]
    assert (found.spans.height, found.spans_in) == (1, 4)


@pytest.mark.parametrize(
    "change",
    [
        {"parent_run_id": an_id(2)}, {"parent_run_id": None}, {"trace_id": an_id(9)}, {"dotted_order": f"20261103T091401000000Z{an_id(1)}"},
    ],
)  # fmt: skip
def test_langsmith_sdk_751_litellm_7140_dotted_order_that_contradicts_the_parent_lowers_the_grade(
    change: dict[str, Any],
) -> None:
    root, child, call = (
        a_run(1, inputs={"q": 1}),
        a_run(2, "llm", path=(1,), inputs={"prompt": "x"}),
        a_run(3, "tool", path=(1,)),
    )
    found = read([root, child, call | change])
    assert [CONTRADICTED in flags for flags in found.spans.sort("start_ns")["flags"]] == [False, False, True]
    if "trace_id" not in change:
        assert normalized(found).traces["r9"].to_list() == ["derived"]
    assert normalized(read([root, child, call])).traces["r9"].to_list() == ["recorded"]


def test_parent_is_that_of_the_dotted_order_where_the_export_has_no_column_for_it() -> None:
    child = a_run(2, "tool", path=(1,))
    bare = {name: value for name, value in child.items() if name != "parent_run_id"}
    assert only(a_run(1), bare)["parent_span_id"] == only(a_run(1), child)["parent_span_id"] is not None


def test_langsmith_mcp_server_26_child_runs_that_are_null_are_no_matter() -> None:
    runs = [run | {"child_run_ids": None, "child_runs": None} for run in a_trace()]
    assert normalized(read(runs)).traces["tree_integrity"].to_list() == ["intact"]


@pytest.mark.parametrize(("count", "marked"), [(2, False), (3, True)])
def test_langsmith_sdk_2852_trace_at_the_cap_is_held(count: int, marked: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    monkeypatch.setattr("tasks.normalize.tracerow._CAPS", {"langsmith": 3})
    (marks,) = normalized(read(a_trace()[:count])).traces["marks"].to_list()
    assert ("trace_capped" in marks) == marked


@pytest.mark.parametrize(("count", "following", "flag"), [(100, None, True), (100, "c", False), (99, None, False)])
def test_full_page_without_a_next_one_is_held(count: int, following: str | None, flag: bool) -> None:  # noqa: FBT001
    runs = [a_run(1) | {"id": f"d0d84d31-923d-4cb5-94a8-{at:012}"} for at in range(count)]
    flags = read({"runs": runs, "cursors": {"next": following}}).spans["flags"]
    assert {"trace_capped" in held for held in flags} == {flag}


@pytest.mark.parametrize("spelling", ["2026-11-03T09:14:01.000000", "2026-11-03T09:14:01+00:00", 1793697241000])
def test_times_are_iso_or_milliseconds(spelling: object) -> None:
    assert only(a_run(1, start_time=spelling))["start_ns"] == 1793697241000000000


def test_feedback_says_who_gave_it() -> None:
    def given(key: str, origin: str | None, **fields: Any) -> dict[str, Any]:
        return {
            "key": key,
            "run_id": an_id(3),
            "trace_id": an_id(1),
            "score": None,
            "value": None,
            "feedback_source": {"type": origin, "user_id": "u1"} if origin else None,
        } | fields

    rows = [
        given("a", "app", score=0, comment="wrong"), given("b", "model", score=True), given("c", "api", value="bad"), given("d", None, trace_id=None, correction={"total": 8}),
        given("e", "api", trace_id=None, run_id=an_id(9), score=1), given("", "api", score=1),
    ]  # fmt: skip
    found = read([*a_trace(), *rows])
    held = {row["name"]: row for row in found.scores.to_dicts()}
    assert {name: (row["origin"], row["value"], row["label"], row["text"]) for name, row in held.items()} == {
        "a": ("human", 0.0, None, None), "b": ("llm", 1.0, None, None), "c": ("api", None, "bad", None), "d": ("api", None, None, '{"total":8}'),
        "tag": ("api", None, "dev", None),
    }  # fmt: skip
    assert {row["trace_id"] for row in held.values()} == {an_id(1).replace("-", "")}
    assert (held["a"]["comment"], held["a"]["author_ref"], held["tag"]["span_id"]) == ("wrong", "u1", None)
    assert [row.reason for row in found.rejected] == ["no_trace_id", "bad_type"]


def test_averages_count_where_the_feedback_itself_is_not_there() -> None:
    run = a_run(1, feedback_stats={"correct": {"n": 2, "avg": 0.5}, "note": {"n": 1, "avg": None}})
    assert read([run]).scores.select("name", "value").rows() == [("correct", 0.5)]
    assert read({"runs": [run]}).scores.height == 0


def test_bad_row_is_set_aside_alone() -> None:
    bad = [
        7,
        a_run(2) | {"start_time": "soon"},
        a_run(2) | {"trace_id": None, "dotted_order": None},
        a_run(2) | {"name": 7},
        {"id": "x"},
    ]
    found = read("not json\n" + "\n".join(json.dumps(row) for row in [a_run(1), *bad]))
    assert [row.reason for row in found.rejected] == [
        "bad_json",
        "unknown_container",
        "bad_time",
        "no_trace_id",
        "bad_type",
        "unknown_container",
    ]
    assert (found.spans.height, found.spans_in) == (1, 7)
    with pytest.raises(FormatError, match="no langsmith span in it"):
        read('{"resourceSpans": []}')
