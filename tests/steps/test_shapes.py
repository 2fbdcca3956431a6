"""One conversation in the shapes of every provider is one conversation."""

from typing import Any

import pytest

from tasks.sources import shapes

SAID = {
    "role": "assistant",
    "parts": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": {"id": "A1"}},
    ],
}
TOLD = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"total": 7}}]}
ASKED = {"role": "user", "parts": [{"type": "text", "text": "Where is it?"}]}
ARGUMENTS, RESULT = '{"id": "A1"}', '{"total": 7}'


@pytest.mark.parametrize(
    "held",
    [
        pytest.param({"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": ARGUMENTS}}]}, id="openai"),
        pytest.param({"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "c1", "name": "get_order", "input": {"id": "A1"}}]}, id="anthropic"),
        pytest.param({"role": "assistant", "content": [{"text": "Let me look."}, {"toolUse": {"toolUseId": "c1", "name": "get_order", "input": {"id": "A1"}}}]}, id="bedrock"),
        pytest.param({"role": "model", "parts": [{"text": "Let me look."}, {"function_call": {"id": "c1", "name": "get_order", "args": {"id": "A1"}}}]}, id="gemini"),
        pytest.param({"role": "model", "parts": [{"text": "Let me look."}, {"functionCall": {"id": "c1", "name": "get_order", "args": {"id": "A1"}}}]}, id="gemini, camel case"),
        pytest.param({"type": "ai", "content": "Let me look.", "tool_calls": [{"id": "c1", "name": "get_order", "args": {"id": "A1"}, "type": "tool_call"}]}, id="langchain"),
        pytest.param({"type": "ai", "data": {"content": "Let me look.", "tool_calls": [{"id": "c1", "name": "get_order", "args": {"id": "A1"}}]}}, id="langchain, stored"),
        pytest.param({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessageChunk"], "kwargs": {"content": "Let me look.", "type": "ai", "tool_calls": [{"id": "c1", "name": "get_order", "args": {"id": "A1"}}]}}, id="langchain, serialized"),
        pytest.param({"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool-call", "toolCallId": "c1", "toolName": "get_order", "args": {"id": "A1"}}]}, id="ai sdk 4"),
        pytest.param({"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool-call", "toolCallId": "c1", "toolName": "get_order", "input": {"id": "A1"}}]}, id="ai sdk 5"),
        pytest.param({"role": "assistant", "parts": [{"type": "text", "content": "Let me look."}, {"type": "tool_call", "id": "c1", "name": "get_order", "arguments": ARGUMENTS}]}, id="conventions"),
        pytest.param({"role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}], "tool_calls": [{"id": "c1", "name": "get_order", "arguments": ARGUMENTS}]}, id="responses"),
        pytest.param({"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "c1", "name": "get_order", "input": {"id": "A1"}}], "tool_calls": [{"id": "c1", "name": "get_order", "args": {"id": "A1"}}]}, id="told twice"),
    ],
)  # fmt: skip
def test_what_an_assistant_said(held: dict[str, Any]) -> None:
    assert shapes.message(held) == SAID


@pytest.mark.parametrize(
    "held",
    [
        pytest.param({"role": "tool", "tool_call_id": "c1", "content": RESULT}, id="openai"),
        pytest.param({"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": RESULT}]}]}, id="anthropic"),
        pytest.param({"role": "tool", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"json": {"total": 7}}]}}]}, id="bedrock"),
        pytest.param({"role": "function", "parts": [{"function_response": {"id": "c1", "name": "get_order", "response": {"total": 7}}}]}, id="gemini"),
        pytest.param({"type": "tool", "content": RESULT, "tool_call_id": "c1"}, id="langchain"),
        pytest.param({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "get_order", "result": {"total": 7}}]}, id="ai sdk 4"),
        pytest.param({"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "get_order", "output": {"type": "json", "value": {"total": 7}}}]}, id="ai sdk 5"),
        pytest.param({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": {"total": 7}}]}, id="conventions"),
        pytest.param({"type": "function_call_output", "call_id": "c1", "output": RESULT}, id="responses"),
    ],
)  # fmt: skip
def test_what_went_back(held: dict[str, Any]) -> None:
    assert shapes.message(held) == TOLD


@pytest.mark.parametrize(
    "held",
    [
        {"role": "user", "content": "Where is it?"}, {"role": "user", "content": [{"type": "input_text", "text": "Where is it?"}]},
        {"type": "human", "content": "Where is it?"}, {"role": "user", "parts": [{"text": "Where is it?"}]},
    ],
    ids=["text", "responses", "langchain", "gemini"],
)  # fmt: skip
def test_what_a_user_asked(held: dict[str, Any]) -> None:
    assert shapes.message(held) == ASKED
    assert shapes.messages([held]) == [ASKED]
    assert shapes.messages(held) == [ASKED]
    assert shapes.messages([[held]]) == [ASKED]


def test_item_of_the_responses_api_is_a_message() -> None:
    held = [
        {"type": "function_call", "call_id": "c1", "name": "get_order", "arguments": ARGUMENTS},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
    ]
    assert shapes.messages(held) == [
        {"role": "assistant", "parts": [SAID["parts"][1]]},
        {"role": "assistant", "parts": [{"type": "reasoning", "text": "Hm."}]},
    ]


@pytest.mark.parametrize(
    "held", [{"type": "image", "url": "x"}, {"type": "blob", "mime_type": "image/png", "content": "aGk="}, 7, {"type": "text", "other": 1}], ids=["image", "blob", "number", "text without text"]
)  # fmt: skip
def test_part_of_no_known_shape_stays_as_it_is(held: object) -> None:
    assert shapes.part(held) == held


@pytest.mark.parametrize("held", [7, "text", {"question": "x"}, None], ids=["number", "text", "inputs", "null"])
def test_what_is_no_message_list_stays_what_it_is(held: object) -> None:
    assert shapes.messages(held) == held


def test_members_beside_role_and_content_stay() -> None:
    assert shapes.message({"role": "user", "content": "Hi", "name": "ann"}) == {"role": "user", "parts": [{"type": "text", "text": "Hi"}], "name": "ann"}  # fmt: skip


def test_scalar_answer_stays_the_text_it_is() -> None:
    assert shapes.message({"role": "tool", "tool_call_id": "c1", "content": "42"})["parts"][0]["response"] == "42"


def test_shaping_twice_changes_nothing() -> None:
    for held in (SAID, TOLD, ASKED):
        assert shapes.message(held) == held
