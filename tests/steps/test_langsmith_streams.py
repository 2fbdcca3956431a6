"""Streams of managed agents as LangSmith's SDK records them; and what real recordings of LangSmith hold (formats.md §9)."""

import json
from typing import Any

import pytest

from tasks.sources.langsmith.source import source, spans
from tasks.sources.source import Mapped, Window
from traces import HARNESS, a_raw, normalized, real
from twiceshy.errors import FormatError


def read(content: str) -> Mapped:
    return spans(a_raw(content), harness_state=HARNESS)


def an_event(number: int, kind: str, **fields: Any) -> list[Any]:
    return [
        "client.beta.sessions.events.stream",
        {"id": f"sevt_{number}", "processed_at": f"2026-07-06T14:16:{number:02}.000000Z", "type": kind, **fields},
    ]


def a_stream(
    verdict: str | None = None,
    *,
    use: str = "agent.mcp_tool_use",
    result: str = "agent.mcp_tool_result",
    error: bool = False,
) -> list[Any]:
    agent = {
        "name": "Desk",
        "model": {"id": "m-1"},
        "system": "Today is 2026-07-06.",
        "version": 3,
        "tools": [{"name": "refund", "input_schema": {"type": "object"}}],
    }
    key = {"agent.mcp_tool_result": "mcp_tool_use_id", "user.custom_tool_result": "custom_tool_use_id"}.get(
        result, "tool_use_id"
    )
    deny = {"deny_message": "not today"} if verdict == "deny" else {}
    return [
        ["client.beta.sessions.create", {"id": "sesn_1", "created_at": "2026-07-06T14:16:00Z", "agent": agent}],
        ["client.beta.sessions.events.send", ["sesn_1", {"events": []}]],
        an_event(1, "user.message", content=[{"type": "text", "text": "Refund A1."}]), an_event(2, "span.model_request_start"),
        an_event(3, use, name="refund", input={"id": "A1"}), an_event(4, "span.model_request_end", model_request_start_id="sevt_2", model_usage={"input_tokens": 2}),
        *([an_event(5, "user.tool_confirmation", tool_use_id="sevt_3", result=verdict, **deny)] if verdict else []),
        an_event(6, result, content=[{"type": "text", "text": '{"ok": true}'}], is_error=error, **{key: "sevt_3"}), an_event(7, "span.model_request_start"),
        an_event(8, "agent.message", content=[{"type": "text", "text": "Done."}]), an_event(9, "span.model_request_end", model_request_start_id="sevt_7"),
        an_event(10, "user.message", content="Thanks"), an_event(11, "session.status_idle"),
    ]  # fmt: skip


def lines(stream: list[Any]) -> str:
    return "\n".join(json.dumps(line) for line in stream)


@pytest.mark.parametrize(
    ("use", "result"), [("agent.tool_use", "agent.tool_result"), ("agent.mcp_tool_use", "agent.mcp_tool_result"), ("agent.custom_tool_use", "user.custom_tool_result")]
)  # fmt: skip
def test_stream_of_a_managed_agent_is_one_trace(use: str, result: str) -> None:
    made = normalized(read(lines(a_stream(use=use, result=result))))
    assert made.crossings["kind"].to_list() == ["model", "tool", "model", "user"]
    call = made.crossings.to_dicts()[1]
    assert [call[side] for side in ("proposed", "seen", "raw", "shown")] == [
        '{"id":"A1"}',
        '{"id":"A1"}',
        '{"ok":true}',
        '{"ok":true}',
    ]
    (trace,) = made.traces.to_dicts()
    assert json.loads(trace["input"])["user"] == "Refund A1."
    assert (trace["r1"], trace["r2"], trace["r3"], trace["r4"], trace["r7"], trace["agent_name"]) == (
        "recorded",
        "recorded",
        "recorded",
        "derived",
        "recorded",
        "Desk",
    )
    assert made.spans.filter(kind="agent")["agent_version"].to_list() == ["3"]


def test_denied_call_never_ran() -> None:
    made = normalized(read(lines(a_stream("deny"))))
    assert made.crossings["kind"].to_list() == ["model", "human", "tool", "model", "user"]
    call = made.crossings.to_dicts()[2]
    assert (call["proposed"], call["seen"], call["raw"], call["shown"]) == ('{"id":"A1"}', None, None, '{"ok":true}')
    assert (call["error_code"], call["error_definite"], call["error_message"]) == ("approval", True, "not today")
    allowed = normalized(read(lines(a_stream("allow")))).crossings.to_dicts()
    assert (allowed[1]["raw"], allowed[2]["error_code"], allowed[2]["seen"]) == (
        '{"result":"allow"}',
        None,
        '{"id":"A1"}',
    )


def test_failed_call_of_a_stream_is_a_structured_error() -> None:
    found = read(lines(a_stream(error=True))).spans.filter(kind="tool")
    assert found.select("is_error", "error_source").rows() == [(True, "structured")]


def test_bad_line_of_a_stream_is_set_aside_alone() -> None:
    found = read(lines([*a_stream(), ["client.beta.sessions.events.stream", 7], {"x": 1}]) + "\nnot json")
    assert ([row.reason for row in found.rejected], found.spans.height) == (
        ["bad_type", "unknown_container", "bad_json"],
        5,
    )
    nameless = [line for line in a_stream() if line[0].endswith(".stream")]
    with pytest.raises(FormatError, match="no_trace_id"):
        read(lines(nameless))
    assert read(lines(a_stream()[1:])).spans.height == 5


def as_read(name: str) -> Mapped:
    (raw,) = source.fetch(Window(paths=(real(f"langsmith/{name}"),)))
    return source.spans(raw, harness_state=HARNESS)


@pytest.mark.parametrize("name", ["js_wrap_openai_default", "js_wrap_openai_stream", "js_wrap_openai_stream_no_usage", "py_wrap_openai_", "py_wrap_openai_reasoning", "py_wrap_openai_stream"])  # fmt: skip
def test_real_halves_are_one_model_call_each(name: str) -> None:
    found = as_read(f"langsmith_{name}.json")
    assert (found.spans_in, found.spans["kind"].to_list(), found.spans["finish_reason"].to_list()) == (
        1,
        ["model"],
        ["stop"],
    )
    (trace,) = normalized(found).traces.to_dicts()
    assert [trace[f"r{number}"] for number in (3, 4, 5, 9)] == ["recorded", "missing", "recorded", "recorded"]


@pytest.mark.parametrize(
    ("name", "kinds", "errors"),
    [
        ("custom_tools", ["model", "tool", "model"], []), ("mcp_tools", ["model", "human", "tool", "model"], []),
        ("mcp_tools_reject", ["model", "human", "tool", "model", "tool", "model"], ["approval"]),
    ],
)  # fmt: skip
def test_real_streams_of_managed_agents(name: str, kinds: list[str], errors: list[str]) -> None:
    made = normalized(as_read(f"anthropic_managed_{name}.jsonl"))
    assert (made.crossings["kind"].to_list(), made.crossings["error_code"].drop_nulls().to_list()) == (kinds, errors)
    (trace,) = made.traces.to_dicts()
    assert [trace[f"r{number}"] for number in (2, 3, 4, 9)] == ["recorded", "recorded", "missing", "recorded"]
    assert made.spans["agent_version"].drop_nulls().to_list() == ["1"]
