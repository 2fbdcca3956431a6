"""One small file of each source that reads files of records, whole enough to be damaged in every place."""

import json
from typing import Any

TRACE = "5b8efff798038103d269b633813fc60c"
SESSION = "11111111-2222-4333-8444-555555555555"
AT = "2026-11-03T09:14:00.000Z"
CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": "A1"}'}}
ASKED = [{"role": "system", "content": "You sell."}, {"role": "user", "content": "Hi."}]


def _line(kind: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"role": kind, "id": "m1", "model": "claude-x", "content": list(content), "usage": {"input_tokens": 1}}
    return {
        "type": kind,
        "uuid": kind,
        "sessionId": SESSION,
        "timestamp": AT,
        "version": "2",
        "message": message,
    } | more


USE = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"cmd": "ls"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "A"}], "is_error": True}
HOOK = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"cmd": "ls"}}
AFTER = HOOK | {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "A"}}


def _callback(number: str, given: dict[str, Any]) -> dict[str, Any]:
    request = {"subtype": "hook_callback", "callback_id": "h", "input": given, "tool_use_id": "t1"}
    return {"type": "control_request", "request_id": number, "request": request}


def _answered(number: str, **said: Any) -> dict[str, Any]:
    return {"type": "control_response", "response": {"subtype": "success", "request_id": number, "response": said}}


def _said(direction: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"direction": direction, "message": message}


def _item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "response_item", "payload": {"type": kind, **payload}}


def _agents(kind: str, **data: Any) -> dict[str, Any]:
    return {
        "object": "trace.span", "id": f"span_{kind}", "trace_id": f"trace_{TRACE}", "parent_id": None, "started_at": AT, "ended_at": AT,
        "span_data": {"type": kind, **data}, "error": {"message": "no", "data": {"error": "x"}},
    }  # fmt: skip


def _event(event: str, **held: Any) -> dict[str, Any]:
    return {"event": event, "timestamp": AT, "span_id": "s1"} | held


SAMPLES: dict[str, list[Any]] = {
    "claude_code": [
        _line("user", {"type": "text", "text": "Hi."}, uuid="u0"), _line("assistant", USE), _line("user", RESULT, toolUseResult={"a": 1}),
        {"type": "summary", "summary": "x", "leafUuid": "u"},
    ],
    "claude_agent_sdk": [
        _said("recv", _line("assistant", USE, session_id=SESSION)), _said("recv", _callback("r1", HOOK)),
        _said("send", _answered("r1", hookSpecificOutput={"updatedInput": {"cmd": "ls -a"}})), _said("recv", _callback("r2", AFTER)),
        _said("recv", _line("user", RESULT, uuid="u9", parent_tool_use_id="t1")),
        _said("recv", {"type": "result", "subtype": "success", "is_error": True, "result": "x", "permission_denials": [{"tool_use_id": "t1"}]}),
    ],
    "codex": [
        {"timestamp": AT, "type": "session_meta", "payload": {"id": SESSION, "cli_version": "1", "base_instructions": {"text": "You code."}}},
        {"timestamp": AT, "type": "turn_context", "payload": {"model": "gpt-x"}}, _item("message", role="user", content=[{"type": "input_text", "text": "Hi."}]),
        _item("reasoning", summary=[{"type": "summary_text", "text": "Hm."}]), _item("function_call", name="shell", arguments='{"cmd": "ls"}', call_id="c1"),
        _item("function_call_output", call_id="c1", output={"content": "Exit code: 1", "success": False}),
        _item("local_shell_call", call_id="c2", action={"command": ["ls"]}),
        {"timestamp": AT, "type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 1}}}},
        {"type": "item.started", "item": {"id": "i1", "type": "command_execution", "command": "ls"}},
        {"type": "item.completed", "item": {"id": "i1", "type": "command_execution", "command": "ls", "aggregated_output": "A", "exit_code": 1}},
        {"type": "item.completed", "item": {"id": "i2", "type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": {}, "error": {"message": "x"}}},
        {"type": "item.completed", "item": {"id": "i3", "type": "agent_message", "text": "Hi."}},
        {"type": "turn.completed", "usage": {"input_tokens": 1}}, {"type": "turn.failed", "error": {"message": "x"}},
    ],
    "openai_agents": [
        {"object": "trace", "id": f"trace_{TRACE}", "workflow_name": "shop", "group_id": "g1"}, _agents("agent", name="clerk"),
        _agents("function", name="get_order", input='{"id": 1}', output="{'a': 1}", mcp_data={"server": "s"}),
        _agents("generation", input=ASKED, output=[{"role": "assistant", "tool_calls": [CALL]}], model="m", model_config={"a": 1}, usage={"input_tokens": 1}),
        _agents("response", response={"model": "m", "output": [{"type": "message", "role": "assistant", "content": []}], "instructions": "x"}),
        _agents("handoff", from_agent="a", to_agent="b"), _agents("guardrail", name="g", triggered=True),
    ],
    "mlflow": [
        {
            "info": {
                "trace_id": f"tr-{TRACE}", "state": "OK", "request_preview": "x", "trace_metadata": {"mlflow.trace.user": "u"},
                "tags": {"mlflow.linkedPrompts": '[{"name": "p", "version": "1"}]'},
                "assessments": [{"assessment_name": "a", "source": {"source_type": "HUMAN"}, "feedback": {"value": True}, "span_id": "0" * 15 + "1"}],
            },
            "data": {
                "spans": [
                    {
                        "trace_id": "W47/95gDgQPSabYzgT/GDA==", "span_id": "7uGbfsPBAAE=", "parent_span_id": None, "name": "chat", "start_time_unix_nano": 1,
                        "end_time_unix_nano": 2, "status": {"code": "STATUS_CODE_ERROR", "message": "x"}, "events": [{"name": "exception", "attributes": {"exception.type": "E"}}],
                        "attributes": {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": '{"messages": [{"role": "user", "content": "Hi."}]}', "mlflow.spanOutputs": '"Hi."'},
                    }
                ]
            },
        }
    ],
    "inspect": [
        {
            "status": "cancelled", "eval": {"run_id": "r", "task": "t", "model": "m", "packages": {"inspect_ai": "1"}},
            "samples": [
                {
                    "id": 1, "epoch": 1, "input": "Hi.", "target": "x", "attachments": {"0" * 32: "A"}, "scores": {"m": {"value": "C", "explanation": "x"}},
                    "error": {"message": "x"}, "error_retries": [{"message": "x"}], "limit": {"type": "token"}, "output": {"completion": "x"},
                    "events": [
                        _event("span_begin", id="s1", type="agent", name="a"), _event("span_end", id="s1"), _event("step", name="x", action="begin"),
                        _event("model", model="m", input=[{"role": "user", "content": "attachment://" + "0" * 32}], tools=[{"name": "bash"}], config={"a": 1},
                               output={"model": "m", "choices": [{"message": {"role": "assistant", "content": "x", "tool_calls": [{"id": "c", "function": "bash", "arguments": {}}]}, "stop_reason": "stop"}], "usage": {"input_tokens": 1}}),
                        _event("tool", id="c", function="bash", arguments={"cmd": "ls"}, result="A", completed=AT, error={"type": "timeout", "message": "x"}),
                        _event("approval", approver="a", decision="reject", call={"function": "bash", "arguments": {}}), _event("error", error={"message": "x"}),
                    ],
                },
                {
                    "id": 2, "epoch": 1, "messages": [
                        {"role": "system", "content": "x"}, {"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [{"id": "c", "function": "bash", "arguments": {}}]},
                        {"role": "tool", "tool_call_id": "c", "function": "bash", "content": "A", "error": {"type": "parsing", "message": "x"}},
                    ],
                },
            ],
        }
    ],
    "swe_agent": [
        {
            "environment": "m", "history": [*ASKED, {"role": "assistant", "content": "x", "action": "ls", "tool_calls": [CALL]}, {"role": "tool", "content": [{"type": "text", "text": "A"}]}],
            "trajectory": [{"action": "ls", "observation": "A", "response": "x", "query": ASKED}, {"action": "submit", "observation": "", "response": "x"}],
            "info": {"exit_status": "exit_error", "submission": "x"}, "replay_config": {"agent": {"model": {"name": "m"}}},
        }
    ],
    "who_and_when": [
        {
            "question_ID": "q", "history": [{"role": "human", "content": "Hi."}, {"role": "a", "content": "x"}, {"role": "user", "name": "Computer_terminal", "content": "exitcode: 1"}],
            "mistake_agent": "a", "mistake_step": "1", "is_correct": False, "system_prompt": {"a": "x"}, "ground_truth": "x",
        }
    ],
    "braintrust": [
        {
            "id": f"i{at}", "_xact_id": "1", "created": AT, "root_span_id": SESSION, "span_id": f"s{at}", "span_parents": ["s0"] if at else [], "is_root": not at,
            "span_attributes": {"name": "n", "type": kind}, "metrics": {"start": 1793697240.5, "end": 1793697241.5, "prompt_tokens": 1}, "metadata": {"model": "m"},
            "input": ASKED, "output": [{"message": {"role": "assistant", "tool_calls": [CALL]}, "finish_reason": "stop"}], "error": {"message": "x"},
            "scores": {"a": 0.5}, "expected": {"a": 1}, "tags": ["t"],
        }
        for at, kind in enumerate(("task", "llm", "tool", "score"))
    ],
    "logfire": [
        {
            "kind": "span", "start_timestamp": AT, "end_timestamp": AT, "trace_id": TRACE, "span_id": "eee19b7ec3c10001", "parent_span_id": None, "span_name": "chat",
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(ASKED), "model_request_parameters": "{}"}, "tags": ["t"],
            "is_exception": True, "exception_type": "E", "otel_status_code": "ERROR", "otel_scope_name": "pydantic-ai", "otel_resource_attributes": {"service.name": "s"},
            "otel_events": [{"event_name": "exception", "event_timestamp": AT, "attributes": {"exception.type": "E"}}],
        }
    ],
}  # fmt: skip
"""Source -> the records of its file, a line each."""
