"""Inspect's logs, as JSON and as the zip that `.eval` is."""

import io
import json
import zipfile
from typing import Any

import polars as pl
import pytest

from tasks.sources.inspect_logs import source
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw, normalized, real
from twiceshy.errors import FormatError

REF = "0123456789abcdef0123456789abcdef"
Row = dict[str, Any]


def an_event(event: str, at: int = 0, **held: Any) -> Row:
    return {"event": event, "timestamp": f"2026-11-03T09:14:{at:02}.000000+00:00", "span_id": "s1"} | held


def a_model(at: int = 1, *, asked: str = "Hi.", calls: Any = None, **held: Any) -> Row:
    said = {"role": "assistant", "content": "Ok."} | ({"tool_calls": calls} if calls else {})
    output = {
        "model": "gpt-x-2026",
        "choices": [{"message": said, "stop_reason": "stop"}],
        "usage": {"input_tokens": 7},
    }
    return an_event("model", at, model="openai/gpt-x", input=[{"role": "user", "content": asked}], tools=[], output=output, config={}, **held)  # fmt: skip


def a_tool(at: int = 2, **held: Any) -> Row:
    given = {
        "id": "c1",
        "function": "bash",
        "arguments": {"cmd": "ls"},
        "result": "A",
        "completed": f"2026-11-03T09:14:{at + 1:02}+00:00",
    }
    return an_event("tool", at, **given | held)


def a_sample(*events: Row, number: int = 1, **held: Any) -> Row:
    return {
        "id": number,
        "epoch": 1,
        "input": "Hi.",
        "target": "SECRET",
        "events": list(events),
        "attachments": {},
    } | held


def a_log(*samples: Any, **head: Any) -> Row:
    return {"version": 2, "status": "success", "eval": {"run_id": "r1", "task": "shop", "model": "openai/gpt-x", "packages": {"inspect_ai": "0.3.95"}}, "samples": list(samples)} | head  # fmt: skip


def read(log: Any, name: str = "log.json") -> Mapped:
    content = log if isinstance(log, bytes) else json.dumps(log).encode()
    return source.spans(a_raw(content, name), harness_state=HARNESS)


def zipped(log: Row, **more: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("header.json", json.dumps({name: part for name, part in log.items() if name != "samples"}))
        for sample in log["samples"]:
            held.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        for name, content in more.items():
            held.writestr(f"samples/{name}.json", content)
    return packed.getvalue()


def of_kind(mapped: Mapped, kind: str) -> list[Row]:
    return mapped.spans.filter(pl.col("kind") == kind).sort("seq").to_dicts()


BEGUN = an_event("span_begin", 0, id="s1", type="solver", name="generate")
ENDED = an_event("span_end", 9, id="s1")


def test_events_are_a_tree_under_their_sample() -> None:
    mapped = read(a_log(a_sample(BEGUN, a_model(), a_tool(), ENDED)))
    sample, begun, model, tool = mapped.spans.to_dicts()
    assert [row["kind"] for row in (sample, begun, model, tool)] == ["agent", "step", "model", "tool"]
    assert begun["parent_span_id"] == sample["span_id"]
    assert model["parent_span_id"] == tool["parent_span_id"] == begun["span_id"]
    assert begun["end_ns"] - begun["start_ns"] == 9_000_000_000
    assert tool["end_ns"] - tool["start_ns"] == 1_000_000_000
    assert mapped.spans_in == mapped.spans.height == 4
    assert normalized(mapped).traces["r9"].to_list() == ["recorded"]


def test_tool_has_what_ran_and_what_came_of_it() -> None:
    calls = [{"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}}]
    mapped = read(a_log(a_sample(a_model(calls=calls), a_tool())))
    (model,), (tool,) = of_kind(mapped, "model"), of_kind(mapped, "tool")
    assert (tool["tool_name"], tool["call_id"], tool["seen"], tool["raw"]) == ("bash", "c1", '{"cmd":"ls"}', '"A"')
    part = json.loads(model["messages_out"])[0]["parts"][1]
    assert part == {"type": "tool_call", "id": "c1", "name": "bash", "arguments": {"cmd": "ls"}}
    assert (model["model_requested"], model["model_answered"], model["finish_reason"]) == (
        "openai/gpt-x",
        "gpt-x-2026",
        "stop",
    )
    assert normalized(mapped).crossings.filter(pl.col("kind") == "tool")["group"].to_list() == [1]


def test_attachment_stands_for_its_text() -> None:
    asked = a_model(asked=f"attachment://{REF}")
    (row,) = of_kind(read(a_log(a_sample(asked, attachments={REF: "Today is 2026-11-03."}))), "model")
    assert "Today is" in row["messages_in"]
    assert (row["clock_text"], row["flags"]) == ("2026-11-03", ["id_derived"])
    (row,) = of_kind(read(a_log(a_sample(asked))), "model")
    assert "ref_unresolved" in row["flags"]


def test_pool_of_messages_that_is_not_read_is_held() -> None:
    (row,) = of_kind(read(a_log(a_sample(a_model() | {"input": [], "input_refs": [[0, 1]]}))), "model")
    assert (row["messages_in"], "ref_unresolved" in row["flags"]) == (None, True)


@pytest.mark.parametrize(
    ("name", "result", "cut"),
    [
        ("web_browser_go", "x" * 4002, True), ("web_browser_go", "x" * 6763, False), ("bash", "x" * 4002, False),
        ("bash", "was too long to be displayed.\n<START_TOOL_OUTPUT>\nx\n<END_TOOL_OUTPUT>\n", True),
    ],
)  # fmt: skip
def test_cut_results_are_flagged(name: str, result: str, cut: bool) -> None:  # noqa: FBT001
    (row,) = of_kind(read(a_log(a_sample(a_tool(function=name, result=result)))), "tool")
    assert ("truncated" in row["flags"]) is cut


def test_truncation_that_the_event_tells_is_flagged() -> None:
    (row,) = of_kind(read(a_log(a_sample(a_tool(truncated=[9000, 100])))), "tool")
    assert "truncated" in row["flags"]


def test_errors_of_tools_are_typed() -> None:
    failed = a_tool(result="", error={"type": "timeout", "message": "late"})
    (row,) = of_kind(read(a_log(a_sample(failed))), "tool")
    assert (row["error_code"], row["error_source"], row["error_message"], row["raw"]) == (
        "timeout",
        "typed",
        "late",
        None,
    )
    (row,) = of_kind(read(a_log(a_sample(a_tool(error={"type": "approval", "message": "No."})))), "tool")
    assert (row["error_code"], row["error_definite"]) == ("approval", True)


def test_error_of_a_model_is_no_output() -> None:
    (row,) = of_kind(read(a_log(a_sample(a_model(error="overloaded")))), "model")
    assert (row["is_error"], row["messages_out"]) == (True, None)


@pytest.mark.parametrize(("decision", "blocked"), [("approve", False), ("reject", True), ("terminate", True)])
def test_approval_is_a_guard(decision: str, blocked: bool) -> None:  # noqa: FBT001
    call = {"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}}
    mapped = read(a_log(a_sample(an_event("approval", 1, approver="human", decision=decision, call=call))))
    (row,) = of_kind(mapped, "guard")
    assert (row["name"], row["at"], row["seen"], json.loads(row["raw"])) == (
        "human",
        "before:bash",
        '{"cmd":"ls"}',
        {"blocked": blocked},
    )


def test_other_events_are_context() -> None:
    mapped = read(
        a_log(
            a_sample(
                an_event("sandbox", 1, action="exec"),
                an_event("input", 2, input="Yes."),
                an_event("error", 3, error={"message": "boom"}),
                an_event("step", 4, action="begin", name="generate", type="solver"),
                an_event("step", 5, action="end", name="generate", type="solver"),
                a_model(6, pending=True),
            )
        )
    )
    assert [row["kind"] for row in mapped.spans.to_dicts()] == ["agent", "infra", "human", "step", "step", "model"]
    assert of_kind(mapped, "step")[0]["error_message"] == "boom"
    assert "unfinished" in of_kind(mapped, "model")[0]["flags"]


def test_target_and_scores_are_of_the_label_side() -> None:
    scored = an_event("score", 3, score={"value": "I", "explanation": "SECRET"}, target="SECRET")
    opened = an_event("sample_init", 1, sample={"input": "Hi.", "target": "SECRET"})
    scores = {
        "match": {"value": "I", "explanation": "No."},
        "model_graded_qa": {"value": 0.25},
        "pass": {"value": True},
        "none": {"value": None},
    }
    mapped = read(a_log(a_sample(opened, scored, scores=scores, limit={"type": "token", "limit": 9})))
    assert "SECRET" not in json.dumps(mapped.spans.to_dicts(), default=str)
    held = {row["name"]: (row["origin"], row["value"], row["label"], row["text"]) for row in mapped.scores.to_dicts()}
    assert held == {
        "match": ("code", 0.0, "I", None), "model_graded_qa": ("llm", 0.25, None, None), "pass": ("code", 1.0, None, None),
        "target": ("human", None, None, '"SECRET"'), "limit": ("code", None, "token", None),
    }  # fmt: skip


def test_error_of_a_sample_is_the_runs_own() -> None:
    failed = a_sample(a_model(), error={"message": "boom"}, error_retries=[{"message": "first"}])
    mapped = read(a_log(failed))
    (row,) = of_kind(mapped, "agent")
    assert (row["is_error"], row["error_message"], row["error_class"]) == (True, "boom", "Exception")
    assert [(held["name"], held["error_message"]) for held in of_kind(mapped, "step")] == [("error_retry", "first")]


def test_what_a_person_cancelled_is_no_failure() -> None:
    (row,) = of_kind(read(a_log(a_sample(a_model(), error={"message": "cancelled"}), status="cancelled")), "agent")
    assert (row["is_error"], "unfinished" in row["flags"]) == (False, True)


def test_messages_stand_in_for_events() -> None:
    messages = [
        {"role": "system", "content": "You sell."},
        {"role": "user", "content": "Hi."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "function": "bash", "arguments": {"cmd": "ls"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "function": "bash", "content": f"attachment://{REF}"},
        {"role": "critic", "content": "?"},
    ]
    mapped = read(a_log(a_sample(events=[], messages=messages, attachments={REF: "A"})))
    (tool,) = of_kind(mapped, "tool")
    assert (tool["proposed"], tool["shown"], tool["tool_name"]) == ('{"cmd":"ls"}', '"A"', "bash")
    assert [(row.reason, row.locator) for row in mapped.rejected] == [("bad_type", "line 1, sample 0, message 4")]
    assert (mapped.spans_in, mapped.spans.height) == (6, 5)


def test_zip_holds_the_same_traces() -> None:
    log = a_log(a_sample(BEGUN, a_model(), ENDED), a_sample(a_tool(), number=2))
    told, packed = read(log), read(zipped(log), "log.eval")
    assert told.spans.sort("row_id").drop("row_id").equals(packed.spans.sort("row_id").drop("row_id"))
    assert packed.spans["trace_id"].n_unique() == 2


def test_bad_members_and_events_are_set_aside_alone() -> None:
    log = a_log(a_sample(a_model(), an_event("tool", 2, timestamp="soon"), 7, number=1))  # type: ignore[arg-type]
    mapped = read(zipped(log, bad=b"{", none=b"7"), "log.eval")
    assert [(row.reason, row.locator) for row in mapped.rejected] == [
        ("bad_time", "samples/1_epoch_1.json, event 1"), ("bad_type", "samples/1_epoch_1.json, event 2"), ("bad_json", "samples/bad.json"),
        ("bad_type", "samples/none.json"),
    ]  # fmt: skip
    assert (mapped.spans_in, mapped.spans.height) == (6, 2)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"PK\x03\x04damaged", "damaged zip"),
        (json.dumps(a_log()).encode(), "a log without samples"),
        (b'{"resourceSpans": []}', "It looks like --source otlp"),
    ],
)
def test_what_is_no_log_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        read(content)


def test_zip_of_something_else_is_refused() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as held:
        held.writestr("a.txt", "x")
    with pytest.raises(FormatError, match=r"Expected header\.json and samples"):
        read(packed.getvalue())


def logged(name: str) -> Mapped:
    return source.spans(a_raw(real(f"inspect-ai/{name}").read_bytes(), name), harness_state="")


def test_real_browser_run() -> None:
    mapped = logged("2025-05-12T20-27-36-04-00_browser.json")
    tools = of_kind(mapped, "tool")
    assert [row["tool_name"] for row in tools] == ["web_browser_go", *["web_browser_click"] * 3]
    assert [row["tool_name"] for row in tools if "truncated" in row["flags"]] == ["web_browser_click"] * 2
    assert "attachment://" not in json.dumps(mapped.spans.drop("attributes_json").to_dicts(), default=str)
    assert not mapped.spans.filter(pl.col("flags").list.contains("ref_unresolved")).height
    (trace,) = normalized(mapped).traces.to_dicts()
    assert (trace["r1"], trace["r2"], trace["r3"], trace["r4"]) == ("recorded", "recorded", "recorded", "missing")


def test_real_cancelled_run_is_no_failure() -> None:
    mapped = logged("2025-05-12T20-28-13-04-00_popularity.json")
    assert mapped.spans["trace_id"].n_unique() == 3
    assert not mapped.spans["is_error"].any()
    assert sorted(mapped.scores.filter(pl.col("name") == "match")["label"].to_list()) == ["C", "C", "I"]


def test_real_error_types() -> None:
    rows = of_kind(logged("log_tool_call_error.json"), "tool")
    assert len(rows) == 11
    assert {row["error_code"] for row in rows} == {
        "parsing", "timeout", "unicode_decode", "permission", "file_not_found", "is_a_directory", "limit", "approval", "unknown", "output_limit",
    }  # fmt: skip


def test_real_zip() -> None:
    mapped = logged("2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval")
    assert (mapped.spans["trace_id"].n_unique(), mapped.rejected) == (10, [])
    assert all(row["system_text"] for row in of_kind(mapped, "model"))
