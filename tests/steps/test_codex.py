"""Codex: the rollout of a session, and the event stream of `exec --json`."""

import json
from typing import Any

import polars as pl
import pytest

from tasks.sources import codex
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw, normalized, real
from twiceshy.errors import FormatError

SESSION = "019fafbf-3fb1-7d80-93bb-bfb2563751bd"
Row = dict[str, Any]


def an_item(kind: str, at: int = 1, **payload: Any) -> Row:
    stamp = f"2026-11-03T09:14:{at:02}.000Z"
    return {"timestamp": stamp, "type": "response_item", "payload": {"type": kind, **payload}}


def a_message(role: str, text: str, at: int = 1) -> Row:
    kind = "output_text" if role == "assistant" else "input_text"
    return an_item("message", at, role=role, content=[{"type": kind, "text": text}])


def a_call(call_id: str = "c1", name: str = "shell", at: int = 2, **arguments: Any) -> Row:
    return an_item("function_call", at, name=name, arguments=json.dumps(arguments), call_id=call_id)


def an_output(output: Any, call_id: str = "c1", at: int = 3) -> Row:
    return an_item("function_call_output", at, call_id=call_id, output=output)


def beside(kind: str, at: int = 0, **payload: Any) -> Row:
    return {"timestamp": f"2026-11-03T09:14:{at:02}.000Z", "type": kind, "payload": payload}


META = beside("session_meta", id=SESSION, cli_version="0.60.0", model_provider="openai", base_instructions={"text": "You code."})  # fmt: skip


def read(*lines: Any, name: str = "rollout.jsonl") -> Mapped:
    content = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return codex.spans(a_raw(content, name), harness_state=HARNESS)


def of_kind(mapped: Mapped, kind: str) -> list[Row]:
    return mapped.spans.filter(pl.col("kind") == kind).sort("seq").to_dicts()


def test_items_up_to_an_answer_are_one_answer_of_the_model() -> None:
    mapped = read(
        META,
        an_item("reasoning", 1, summary=[{"type": "summary_text", "text": "Hm."}]),
        a_message("assistant", "Let me look."),
        a_call("c1", cmd="ls"),
        beside("event_msg", 2, type="agent_message", message="Let me look."),
        a_call("c2", cmd="pwd"),
        an_output("A", "c2", 3),
        an_output("B", "c1", 4),
        a_message("assistant", "Done.", 5),
    )
    first, second = of_kind(mapped, "model")
    assert [part["type"] for part in json.loads(first["messages_out"])[0]["parts"]] == [
        "reasoning",
        "text",
        "tool_call",
        "tool_call",
    ]
    assert json.loads(second["messages_out"])[0]["parts"] == [{"type": "text", "text": "Done."}]
    calls = of_kind(mapped, "tool")
    assert [(row["proposed"], row["shown"]) for row in calls] == [('{"cmd":"ls"}', '"B"'), ('{"cmd":"pwd"}', '"A"')]
    assert {row["parent_span_id"] for row in calls} == {first["span_id"]}
    assert [row["name"] for row in of_kind(mapped, "step")] == ["system", "event_msg/agent_message"]


def test_session_says_versions_and_system_text() -> None:
    mapped = read(META, beside("turn_context", 1, model="gpt-x"), a_message("assistant", "Hi.", 2))
    (system,) = [row for row in of_kind(mapped, "step") if row["system_text"]]
    (row,) = of_kind(mapped, "model")
    assert (system["system_text"], row["model_requested"], row["agent_version"]) == ('"You code."', "gpt-x", "0.60.0")
    assert (row["trace_id"], row["conversation_id"], row["provider"]) == (SESSION.replace("-", ""), SESSION, "openai")


def test_what_the_harness_says_is_no_user_and_tells_the_clock() -> None:
    told = "<environment_context>\n<current_date>2026-11-03</current_date>\n<timezone>Europe/Paris</timezone>\n</environment_context>"
    mapped = read(META, a_message("user", told), a_message("user", "Fix it.", 2), a_message("assistant", "Ok.", 3))
    assert [row["raw"] for row in of_kind(mapped, "user")] == ['"Fix it."']
    (row,) = [row for row in of_kind(mapped, "step") if row["clock_text"]]
    assert (row["clock_text"], row["clock_tz"]) == ("2026-11-03", "Europe/Paris")
    assert normalized(mapped).traces["r4"].to_list() == ["derived"]


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno", "exit_2"),
        ("Exit code: 1\nWall time: 0 seconds\nOutput:\nno", "exit_1"),
        ('{"output": "no", "metadata": {"exit_code": 3}}', "exit_3"),
        ("exec command rejected by user", "approval"),
        ({"content": "patch rejected by user", "success": False}, "approval"),
        ("Process exited with code 0\nOutput:\nProcess exited with code 9", None),
        ('{"output": "", "metadata": {"exit_code": 0}}', None),
        ("Process exited with code 0\nOutput:\nrejected by user", None),
        ("Wall time: 0.1 seconds\nOutput:\nExit code: 9", None),
    ],
)
def test_exit_code_stands_in_the_head(output: Any, code: str | None) -> None:
    (row,) = of_kind(read(META, a_call(), an_output(output)), "tool")
    assert (row["is_error"], row["error_code"]) == (code is not None, code)
    assert row["error_definite"] is (True if code == "approval" else None)


def test_failure_without_code_is_its_template() -> None:
    (row,) = of_kind(read(META, a_call(), an_output({"content": "it broke", "success": False})), "tool")
    assert str(row["error_code"]).startswith("shell:")
    assert row["shown"] == '"it broke"'


def test_calls_of_other_shapes() -> None:
    custom = an_item("custom_tool_call", 2, name="apply_patch", call_id="c1", input="*** Begin")
    shell = an_item("local_shell_call", 2, call_id="c2", action={"type": "exec", "command": ["ls"]})
    mapped = read(META, custom, shell, an_item("custom_tool_call_output", 3, call_id="c1", output="ok"))
    first, second = of_kind(mapped, "tool")
    assert (first["tool_name"], first["proposed"], first["shown"]) == ("apply_patch", '{"input":"*** Begin"}', '"ok"')
    assert (second["tool_name"], second["shown"]) == ("local_shell", None)
    assert json.loads(second["proposed"])["command"] == ["ls"]


def test_truncated_arguments_are_flagged() -> None:
    call = an_item("function_call", 2, name="shell", call_id="c1", arguments='{"cmd": "ls')
    assert "truncated" in of_kind(read(META, call), "tool")[0]["flags"]


def test_lines_before_they_were_wrapped() -> None:
    items = [
        {"id": SESSION, "timestamp": "2025-05-01T00:00:00Z", "instructions": "You code."},
        {"record_type": "state"},
    ]
    mapped = read(*items, a_message("assistant", "Hi.")["payload"])
    assert mapped.spans["trace_id"].unique().to_list() == [SESSION.replace("-", "")]
    assert [row["name"] for row in of_kind(mapped, "step")] == ["system", "state"]


def test_tokens_go_to_the_answer_before_them() -> None:
    counted = beside("event_msg", 3, type="token_count", info={"last_token_usage": {"input_tokens": 7, "output_tokens": 2}})  # fmt: skip
    (row,) = of_kind(read(META, a_message("assistant", "Hi."), counted), "model")
    assert json.loads(row["usage"]) == {"input": 7, "output": 2}


# -- exec --json


def an_event(kind: str, **item: Any) -> Row:
    return {"type": f"item.{kind}", "item": item}


def test_completed_item_has_the_last_word() -> None:
    mapped = read(
        {"type": "thread.started", "thread_id": SESSION},
        an_event("started", id="i1", type="command_execution", command="ls", aggregated_output="", status="in_progress"),
        an_event("completed", id="i1", type="command_execution", command="ls", aggregated_output="A", exit_code=2, status="failed"),
        {"type": "turn.completed", "usage": {"input_tokens": 7}},
    )  # fmt: skip
    (row,) = of_kind(mapped, "tool")
    assert (row["tool_name"], row["seen"], json.loads(row["raw"])) == ("shell", '{"command":"ls"}', {"aggregated_output": "A", "exit_code": 2})  # fmt: skip
    assert (row["error_code"], row["error_source"]) == ("exit_2", "structured")
    assert row["trace_id"] == SESSION.replace("-", "")


def test_item_that_never_ended_has_no_result() -> None:
    begun = an_event("started", id="i1", type="command_execution", command="ls", aggregated_output="")
    (row,) = of_kind(read(begun), "tool")
    assert (row["seen"], row["raw"]) == ('{"command":"ls"}', None)


def test_other_items() -> None:
    mapped = read(
        an_event("completed", id="i1", type="mcp_tool_call", server="shop", tool="get", arguments={"id": 1}, result={"content": []}),
        an_event("completed", id="i2", type="mcp_tool_call", server="shop", tool="get", arguments={"id": 2}, error={"message": "gone"}),
        an_event("completed", id="i3", type="file_change", changes=[{"path": "a", "kind": "add"}], status="declined"),
        an_event("completed", id="i4", type="web_search", query="q"),
        an_event("completed", id="i5", type="todo_list", items=[]),
        {"type": "turn.failed", "error": {"message": "out of tokens"}},
    )  # fmt: skip
    rows = of_kind(mapped, "tool")
    assert [(row["tool_name"], row["mcp_server"]) for row in rows] == [
        ("get", "shop"),
        ("get", "shop"),
        ("apply_patch", None),
        ("web_search", None),
    ]
    assert (rows[0]["seen"], rows[0]["raw"], rows[1]["is_error"]) == ('{"id":1}', '{"content":[]}', True)
    assert (rows[2]["seen"], rows[2]["error_code"]) == (None, "approval")  # which files, not what was written
    assert (rows[3]["seen"], rows[3]["raw"]) == ('{"query":"q"}', None)
    (ended,) = of_kind(mapped, "agent")
    assert (ended["is_error"], ended["error_message"]) == (True, "out of tokens")
    assert mapped.spans_in == mapped.spans.height == 6


def test_stream_shows_no_whole_answer_of_a_model() -> None:
    mapped = read(an_event("completed", id="i1", type="agent_message", text="Hi."))
    assert "preview_only" in of_kind(mapped, "model")[0]["flags"]
    assert normalized(mapped).traces["marks"].to_list()[0].count("preview_only") == 1


# -- files


def test_bad_lines_are_set_aside_alone() -> None:
    mapped = read(META, b"{", {"type": "user", "message": {}}, a_message("user", "Hi.") | {"timestamp": "soon"}, {"type": "item.started", "item": 7}, a_message("assistant", "Hi.", 4))  # fmt: skip
    assert [(row.reason, row.locator) for row in mapped.rejected] == [
        ("bad_json", "line 2"), ("unknown_container", "line 3"), ("bad_time", "line 4"), ("bad_type", "line 5"),
    ]  # fmt: skip
    assert mapped.spans_in == mapped.spans.height + 4
    assert mapped.spans.equals(read(META, a_message("assistant", "Hi.", 4)).spans)


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"no codex span in it .*It looks like --source claude_code"):
        read({"type": "user", "parentUuid": None, "message": {"role": "user", "content": "Hi."}})


def test_real_rollout() -> None:
    mapped = codex.spans(a_raw(real("strands-evals/codex_session_rollout.json").read_bytes()), harness_state="")
    assert [row["kind"] for row in mapped.spans.sort("seq").to_dicts()] == ["model", "tool", "model", "tool"]
    first, second = of_kind(mapped, "tool")
    assert (first["is_error"], first["shown"] is not None, second["shown"]) == (False, True, None)


def test_real_event_stream() -> None:
    mapped = codex.spans(a_raw(real("strands-evals/codex_exec_json.json").read_bytes()), harness_state="")
    assert [row["kind"] for row in mapped.spans.sort("seq").to_dicts()] == ["model", "tool", "model"]
    assert json.loads(of_kind(mapped, "tool")[0]["raw"])["exit_code"] == 0
