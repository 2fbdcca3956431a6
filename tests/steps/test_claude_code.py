"""Claude Code's session files, and the Agent SDK's stdio with hooks on both sides of a call."""

import json
from typing import Any

import polars as pl
import pytest

from tasks.sources import claude_agent_sdk, claude_code
from tasks.sources.source import Mapped
from traces import HARNESS, a_raw, normalized, real
from twiceshy.errors import FormatError

SESSION = "11111111-2222-4333-8444-555555555555"
Row = dict[str, Any]


def a_line(kind: str, content: Any, at: int = 0, **more: Any) -> Row:
    """One line; at: its second."""
    message = {"role": kind, "content": content} | more.pop("message", {})
    stamped = {
        "timestamp": f"2026-11-03T09:14:{at:02}.000Z",
        "uuid": f"u{at}",
        "sessionId": SESSION,
        "version": "2.1.0",
    }
    return {"type": kind, "message": message, **stamped, "cwd": "/home/jane/shop", **more}


def an_answer(*parts: Row, at: int = 1, message_id: str = "msg_1", **more: Any) -> Row:
    return a_line("assistant", list(parts), at, message={"id": message_id, "model": "claude-x-1"}, **more)


def a_use(call_id: str = "t1", name: str = "Read", **arguments: Any) -> Row:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def a_result(content: Any, call_id: str = "t1", at: int = 2, *, is_error: bool = False, **more: Any) -> Row:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
    return a_line("user", [block], at, **more)


ASKED = a_line("user", "Look at it.")
TEXT = {"type": "text", "text": "Let me look."}


def read(*lines: Any, name: str = "s.jsonl") -> Mapped:
    content = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    return claude_code.spans(a_raw(content, name), harness_state=HARNESS)


def of_kind(mapped: Mapped, kind: str) -> list[Row]:
    return mapped.spans.filter(pl.col("kind") == kind).sort("seq").to_dicts()


def test_lines_of_one_message_are_one_answer() -> None:
    mapped = read(
        ASKED,
        an_answer({"type": "thinking", "thinking": "Hm."}),
        an_answer(TEXT, at=2),
        an_answer(a_use(path="/a"), at=3),
        an_answer(TEXT, at=4, message_id="msg_2"),
    )
    first, second = of_kind(mapped, "model")
    (message,) = json.loads(first["messages_out"])
    assert [part["type"] for part in message["parts"]] == ["reasoning", "text", "tool_call"]
    assert len(json.loads(second["messages_out"])[0]["parts"]) == 1
    assert len(json.loads(first["attributes_json"])) == 3
    assert (first["model_answered"], first["agent_version"], first["conversation_id"]) == (
        "claude-x-1",
        "2.1.0",
        SESSION,
    )


def test_call_and_result_join_by_id_not_by_order() -> None:
    mapped = read(
        an_answer(a_use("t1", path="/a"), a_use("t2", path="/b")), a_result("B", "t2", 2), a_result("A", "t1", 3)
    )
    rows = of_kind(mapped, "tool")
    assert [(row["proposed"], row["shown"], row["seen"]) for row in rows] == [
        ('{"path":"/a"}', '"A"', None),
        ('{"path":"/b"}', '"B"', None),
    ]
    assert {row["parent_span_id"] for row in rows} == {of_kind(mapped, "model")[0]["span_id"]}


def test_structured_result_is_what_the_tool_returned() -> None:
    (row,) = of_kind(read(an_answer(a_use()), a_result("A", toolUseResult={"lines": 1})), "tool")
    assert (row["raw"], row["shown"]) == ('{"lines":1}', '"A"')


def test_structured_result_of_several_results_is_nobodys() -> None:
    blocks = [a_result("A", name)["message"]["content"][0] for name in ("t1", "t2")]
    line = a_line("user", blocks, 2, toolUseResult={"lines": 1})
    assert [row["raw"] for row in of_kind(read(an_answer(a_use("t1"), a_use("t2")), line), "tool")] == [None, None]


def test_unanswered_call_is_a_span_without_result() -> None:
    (row,) = of_kind(read(an_answer(a_use(path="/a"))), "tool")
    assert (row["proposed"], row["shown"], row["is_error"]) == ('{"path":"/a"}', None, False)


def test_result_without_call_is_a_call_without_arguments() -> None:
    (row,) = of_kind(read(ASKED, a_result("A")), "tool")
    assert (row["tool_name"], row["proposed"], row["shown"], row["call_id"]) == (None, None, '"A"', "t1")


@pytest.mark.parametrize(
    ("content", "code", "rung"),
    [
        ("Exit code 2\nno such file", "exit_2", "structured"),
        ("Error: Exit code 1", "exit_1", "structured"),
        ("The user doesn't want to proceed with this tool use.", "approval", "typed"),
        ("Permission to use Bash has been denied.", "approval", "typed"),
    ],
)
def test_error_of_a_result_is_named(content: str, code: str, rung: str) -> None:
    (row,) = of_kind(read(an_answer(a_use()), a_result(content, is_error=True)), "tool")
    assert (row["is_error"], row["error_code"], row["error_source"]) == (True, code, rung)
    assert row["error_definite"] is (True if code == "approval" else None)


def test_other_error_is_its_template() -> None:
    codes = {
        of_kind(read(an_answer(a_use()), a_result(f"<tool_use_error>{name} is gone 7</tool_use_error>", is_error=True)), "tool")[0]["error_code"]
        for name in ("A1042", "B2077")
    }  # fmt: skip
    assert len(codes) == 1
    assert codes.pop().startswith("Read:")


def test_api_error_is_no_answer_of_a_model() -> None:
    held = an_answer({"type": "text", "text": "API Error: 529 overloaded"}, isApiErrorMessage=True)
    held["message"]["model"] = "<synthetic>"
    (row,) = of_kind(read(ASKED, held), "model")
    assert (row["is_error"], row["messages_out"], row["model_answered"]) == (True, None, None)


def test_sidechain_is_a_scope_and_its_prompt_no_user() -> None:
    mapped = read(
        ASKED,
        an_answer(a_use("t1", "Task", prompt="Find it.")),
        a_line("user", "Find it.", 2, isSidechain=True, parentUuid=None),
        an_answer(TEXT, at=3, message_id="msg_2", isSidechain=True, parentUuid="u2"),
        a_line("user", "Find more.", 4, isSidechain=True, parentUuid=None),
        an_answer(TEXT, at=5, message_id="msg_3", isSidechain=True, parentUuid="u4", agentId="abc"),
    )
    assert [row["scope"] for row in of_kind(mapped, "model")] == [None, "/sidechain:1", "/abc"]
    assert [row["scope"] for row in of_kind(mapped, "step")] == ["/sidechain:1", "/sidechain:2"]
    assert len(of_kind(mapped, "user")) == 1


@pytest.mark.parametrize("mark", ["isMeta", "isCompactSummary"])
def test_what_the_harness_says_is_no_user(mark: str) -> None:
    mapped = read(ASKED, a_line("user", "Caveat: ...", 1, **{mark: True}))
    assert [row["raw"] for row in of_kind(mapped, "user")] == ['"Look at it."']
    assert [row["raw"] for row in of_kind(mapped, "step")] == ['"Caveat: ..."']


def test_other_lines_are_kept_as_context() -> None:
    mapped = read(
        {"type": "summary", "summary": "A talk", "leafUuid": "u1"},
        ASKED,
        {"type": "system", "subtype": "compact_boundary", "uuid": "x", "sessionId": SESSION, "parentUuid": "u0"},
    )
    assert [row["name"] for row in of_kind(mapped, "step")] == ["summary", "system/compact_boundary"]
    assert mapped.spans_in == mapped.spans.height == 3


def test_folders_of_users_reach_no_column() -> None:
    row = read(a_line("user", "Hi.", sessionId=None), name="-home-jane-shop/s.jsonl").spans.drop("attributes_json")
    assert "jane" not in json.dumps(row.to_dicts(), default=str)


def test_repeated_line_says_nothing_twice() -> None:
    once, twice = read(ASKED, an_answer(TEXT)), read(ASKED, an_answer(TEXT), an_answer(TEXT))
    assert once.spans.equals(twice.spans)


def test_sessions_of_one_file_are_traces_of_their_own() -> None:
    mapped = read(ASKED, a_line("user", "Else.", 1, sessionId="99999999-2222-4333-8444-555555555555"))
    assert mapped.spans["trace_id"].to_list() == [SESSION.replace("-", ""), "99999999222243338444555555555555"]


def test_times_that_contradict_the_file_are_left_out() -> None:
    straight = read(ASKED, an_answer(TEXT))
    assert straight.spans["start_ns"].to_list() == [1793697240000000000, 1793697241000000000]
    back = read(a_line("user", "Hi.", 5), an_answer(TEXT))
    assert (back.spans["start_ns"].null_count(), set(back.spans["time_precision"])) == (2, {"none"})
    half = read(a_line("user", "Hi.", timestamp=None), an_answer(TEXT))
    assert half.spans["start_ns"].null_count() == 2


def test_bad_lines_are_set_aside_alone() -> None:
    good = read(ASKED, an_answer(TEXT, at=4))
    mapped = read(
        ASKED, b'{"type": "user"', {"type": "user", "message": 7}, a_line("user", "Hi.", 2, timestamp="soon"),
        {"timestamp": "2026-11-03T09:14:00Z", "type": "response_item", "payload": {}}, 7, an_answer(TEXT, at=4),
    )  # fmt: skip
    assert [(row.reason, row.locator) for row in mapped.rejected] == [
        ("bad_json", "line 2"), ("unknown_container", "line 3"), ("bad_time", "line 4"), ("unknown_container", "line 5"), ("bad_type", "line 6"),
    ]  # fmt: skip
    assert mapped.spans.equals(good.spans)
    assert mapped.spans_in == mapped.spans.height + 5


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"no claude_code span in it .*It looks like --source codex"):
        read({"timestamp": "2026-11-03T09:14:00Z", "type": "response_item", "payload": {}})


def test_dates_in_a_turn_are_the_clock() -> None:
    (row,) = of_kind(read(a_line("user", "Today's date: 2026-11-03. Look.")), "user")
    assert (row["clock_text"], json.loads(row["provenance"])["clock_text"]["grade"]) == ("2026-11-03", "derived")


def test_session_is_put_together() -> None:
    made = normalized(
        read(ASKED, an_answer(a_use(path="/a")), a_result("A"), an_answer(TEXT, at=3, message_id="msg_2"))
    )
    crossings = made.crossings.sort("seq").to_dicts()
    assert [row["kind"] for row in crossings] == ["model", "tool", "model"]
    (trace,) = made.traces.to_dicts()
    assert (trace["r1"], trace["r2"], trace["r3"], trace["r4"], trace["r6"]) == ("derived", "recorded", "recorded", "missing", "missing")  # fmt: skip


# -- the Agent SDK's stdio


def stdio(*messages: Any, name: str = "c.json") -> Mapped:
    held = [
        {"direction": "send" if message.get("type") == "control_response" else "recv", "message": message}
        for message in messages
    ]
    return claude_agent_sdk.spans(a_raw(json.dumps({"messages": held}), name), harness_state=HARNESS)


def a_callback(event: str, number: str = "r1", **given: Any) -> Row:
    held = {"hook_event_name": event, "tool_name": "Bash", "tool_use_id": "t1"} | given
    request = {"subtype": "hook_callback", "callback_id": f"hook_{event}", "input": held, "tool_use_id": "t1"}
    return {"type": "control_request", "request_id": number, "request": request}


def a_reply(number: str = "r1", **response: Any) -> Row:
    return {"type": "control_response", "response": {"subtype": "success", "request_id": number, "response": response}}


def turned(line: Row, **more: Any) -> Row:
    """A line as it stands in the stdio recording."""
    held = {name: line[name] for name in ("type", "message", "uuid")}
    return held | {"session_id": SESSION, "parent_tool_use_id": None} | more


USED = turned(an_answer(a_use("t1", "Bash", cmd="ls")))
BACK = turned(a_result("A"))
RAN = a_callback("PostToolUse", "r2", tool_input={"cmd": "ls -a"}, tool_response={"stdout": "A\nB"})


def test_hooks_give_both_sides() -> None:
    mapped = stdio(USED, a_callback("PreToolUse", tool_input={"cmd": "ls"}), a_reply(hookSpecificOutput={"updatedInput": {"cmd": "ls -a"}}), RAN, a_reply("r2"), BACK)  # fmt: skip
    (row,) = of_kind(mapped, "tool")
    assert [row[side] for side in ("proposed", "seen", "raw", "shown")] == [
        '{"cmd":"ls"}',
        '{"cmd":"ls -a"}',
        '{"stdout":"A\\nB"}',
        '"A"',
    ]
    before, after = of_kind(mapped, "hook")
    assert (before["at"], before["seen"], before["raw"]) == ("before:Bash", '{"cmd":"ls"}', '{"cmd":"ls -a"}')
    assert (after["at"], after["seen"], after["raw"]) == ("after:Bash", '{"stdout":"A\\nB"}', '{"stdout":"A\\nB"}')
    assert {before["parent_span_id"], after["parent_span_id"]} == {row["span_id"]}


def test_hook_that_was_not_answered_leaves_its_output_unknown() -> None:
    (row,) = of_kind(stdio(USED, a_callback("PreToolUse", tool_input={"cmd": "ls"})), "hook")
    assert (row["seen"], row["raw"]) == ('{"cmd":"ls"}', None)


def test_hook_before_its_call_in_the_file_is_joined() -> None:
    (row,) = of_kind(stdio(RAN, a_reply("r2"), USED, BACK), "tool")
    assert (row["seen"], row["raw"]) == ('{"cmd":"ls -a"}', '{"stdout":"A\\nB"}')


@pytest.mark.parametrize(
    "answer",
    [
        {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "No."}},
        {"decision": "block", "reason": "No."},
    ],
)
def test_hook_that_refuses_blocks_the_call(answer: Row) -> None:
    mapped = stdio(USED, a_callback("PreToolUse", tool_input={"cmd": "ls"}), a_reply(**answer), turned(a_result("No.", is_error=True)))  # fmt: skip
    (row,) = of_kind(mapped, "tool")
    assert (row["blocked_by"], row["error_code"], row["error_message"], row["error_definite"]) == ("hook_PreToolUse", "approval", "No.", True)  # fmt: skip
    assert row["seen"] is None
    assert of_kind(mapped, "hook")[0]["raw"] is None


@pytest.mark.parametrize(("behavior", "blocked"), [("deny", "can_use_tool"), ("allow", None)])
def test_permission_is_a_guard(behavior: str, blocked: str | None) -> None:
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"cmd": "ls"}, "tool_use_id": "t1"}
    mapped = stdio(
        USED,
        {"type": "control_request", "request_id": "r1", "request": request},
        a_reply(behavior=behavior, message="No."),
    )
    (guard,), (row,) = of_kind(mapped, "guard"), of_kind(mapped, "tool")
    assert (guard["seen"], json.loads(guard["raw"])) == ('{"cmd":"ls"}', {"blocked": behavior == "deny"})
    assert (row["blocked_by"], row["is_error"]) == (blocked, behavior == "deny")
    assert normalized(mapped).crossings.filter(pl.col("kind") == "tool")["seen"].to_list() == [None]


def test_failure_hook_tells_the_error() -> None:
    failed = a_callback("PostToolUseFailure", tool_input={"cmd": "ls"}, error="Exit code 2")
    (row,) = of_kind(stdio(USED, failed), "tool")
    assert (row["seen"], row["error_code"]) == ('{"cmd":"ls"}', "exit_2")


def test_denials_of_the_result_are_the_sources_own_word() -> None:
    end = {"type": "result", "subtype": "success", "result": "Done.", "session_id": SESSION, "permission_denials": [{"tool_use_id": "t1"}]}  # fmt: skip
    mapped = stdio(USED, turned(a_result("not so", is_error=True)), end)
    assert of_kind(mapped, "tool")[0]["error_code"] == "approval"
    assert [(row["raw"], row["is_error"]) for row in of_kind(mapped, "agent")] == [('"Done."', False)]


def test_run_that_ended_in_an_error_is_failed() -> None:
    mapped = stdio(USED, {"type": "result", "subtype": "error_max_turns", "is_error": True, "session_id": SESSION})
    (row,) = of_kind(mapped, "agent")
    assert (row["is_error"], row["error_class"], row["error_code"]) == (True, "error_max_turns", None)


def test_agents_of_a_tool_call_are_scopes() -> None:
    spawned = turned(an_answer(a_use("t1", "Task"), a_use("t2", "Task")))
    inner = [turned(an_answer(TEXT, at=at, message_id=f"m{at}"), parent_tool_use_id=f"t{at - 5}") for at in (6, 7)]
    models = of_kind(stdio(spawned, *inner), "model")
    assert [row["scope"] for row in models] == [None, "/Task:1", "/Task:2"]


def test_stdio_and_session_files_are_told_apart() -> None:
    with pytest.raises(FormatError, match="It looks like --source claude_agent_sdk"):
        claude_code.spans(a_raw(json.dumps({"messages": [{"direction": "recv", "message": USED}]})), harness_state="")
    with pytest.raises(FormatError, match="It looks like --source claude_code"):
        claude_agent_sdk.spans(a_raw(json.dumps(ASKED | {"parentUuid": None})), harness_state="")


def test_real_session_cutting() -> None:
    mapped = claude_code.spans(a_raw(real("strands-evals/claude_code_skill_tool.json").read_bytes()), harness_state="")
    assert [row["kind"] for row in mapped.spans.sort("seq").to_dicts()] == ["user", "model", "tool", "user"]
    assert of_kind(mapped, "tool")[0]["shown"] == '"Launching skill: pdf-processing"'


def test_real_stdio_shows_every_side() -> None:
    mapped = claude_agent_sdk.spans(
        a_raw(real("claude-agent-sdk/tool_use_conversation.json").read_bytes()), harness_state=""
    )
    assert (mapped.spans_in, mapped.spans.height, mapped.rejected) == (12, 12, [])
    (trace,) = normalized(mapped).traces.to_dicts()
    assert (trace["r1"], trace["r2"], trace["r4"], trace["r10"]) == ("recorded", "recorded", "missing", "recorded")
