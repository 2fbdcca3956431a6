"""Lists of messages of any provider: what answered which call, what is missing, and what is refused."""

import json
from typing import Any

import pytest

from tasks.sources import messages_source
from tasks.sources.source import Mapped, Window
from traces import HARNESS, a_raw, real
from twiceshy.errors import FormatError

BEDROCK = [
    {"role": "user", "content": [{"text": "Where is A1?"}]},
    {
        "role": "assistant",
        "content": [
            {"text": "Let me look."},
            {"toolUse": {"toolUseId": "t1", "name": "get_order", "input": {"id": "A1"}}},
        ],
    },
    {
        "role": "user",
        "content": [{"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"text": '{"total": 7}'}]}}],
    },
    {"role": "assistant", "content": [{"text": "On its way."}]},
]


def read(*held: Any) -> Mapped:
    return messages_source.spans(a_raw("\n".join(json.dumps(one) for one in held)), harness_state=HARNESS)


def told(mapped: Mapped) -> list[tuple[str, str]]:
    return list(mapped.spans.sort("seq").select("kind", "name").iter_rows())


def test_call_is_joined_with_its_answer_and_its_asker() -> None:
    mapped = read({"id": "c-1", "system": "Be brief. Today is 2026-11-03.", "messages": BEDROCK, "model": "m-1"})
    assert told(mapped) == [
        ("step", "system"),
        ("user", "user"),
        ("model", "assistant"),
        ("tool", "get_order"),
        ("model", "assistant"),
    ]
    asker, call = (
        mapped.spans.filter(kind="model").sort("seq").to_dicts()[0],
        mapped.spans.filter(kind="tool").to_dicts()[0],
    )
    assert (json.loads(call["proposed"]), json.loads(call["shown"]), call["parent_span_id"]) == (
        {"id": "A1"},
        {"total": 7},
        asker["span_id"],
    )
    assert (call["seen"], call["raw"], asker["model_requested"]) == (None, None, "m-1")
    assert mapped.spans.filter(kind="step")["clock_text"].to_list() == ["2026-11-03"]


def test_conversations_by_name_are_traces_of_their_own() -> None:
    mapped = read({"first": {"messages": BEDROCK}, "second": {"messages": BEDROCK}, "note": "x"})
    assert mapped.spans["trace_id"].n_unique() == 2


def test_recorded_request_and_answer_are_one_conversation() -> None:
    answer = {
        "role": "assistant",
        "model": "m-1-0806",
        "content": [{"type": "tool_use", "id": "u1", "name": "get_order", "input": {"id": "A1"}}],
    }
    mapped = read(
        {"method": "POST", "body": {"messages": [{"role": "user", "content": "Where is A1?"}]}, "response": answer}
    )
    assert told(mapped) == [("user", "user"), ("model", "assistant"), ("tool", "get_order")]
    streamed = read({"body": {"messages": [{"role": "user", "content": "Hi"}]}, "response": "000001be0000004b"})
    assert streamed.spans.filter(kind="model")["flags"].to_list() == [["id_derived", "preview_only"]]


def test_text_with_a_role_a_line_shows_no_calls_and_says_so() -> None:
    mapped = read(
        {
            "messages_display": "user: Hi,\nit is me: Ann\nassistant: None\ntool: Error: user not found\nassistant: Who?\nuser: ###STOP###"
        }
    )
    assert told(mapped) == [
        ("user", "user"),
        ("model", "assistant"),
        ("tool", "-"),
        ("model", "assistant"),
        ("user", "user"),
    ]
    rows = mapped.spans.sort("seq").to_dicts()
    assert json.loads(rows[0]["raw"]) == "Hi,\nit is me: Ann"
    assert json.loads(rows[1]["messages_out"]) == [{"role": "assistant", "parts": []}]
    assert (rows[2]["is_error"], rows[2]["tool_name"], rows[2]["proposed"]) == (True, None, None)
    assert all("preview_only" in row["flags"] for row in rows if row["kind"] == "model")


def test_message_of_an_unknown_role_is_set_aside_alone() -> None:
    mapped = read(
        {
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "oracle", "content": "?"},
                {"role": "assistant", "content": "Hello"},
            ]
        }
    )
    assert ([row.reason for row in mapped.rejected], mapped.spans.height, mapped.spans_in) == (["bad_enum"], 2, 3)


@pytest.mark.parametrize(
    "held", [{"a": 1}, {"messages": []}, {"messages": ["x"]}, {"messages": 7}, {"messages_display": 7}], ids=str
)
def test_what_is_no_list_of_messages_is_refused(held: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="no messages span"):
        read(held)


@pytest.mark.parametrize(
    ("name", "traces"),
    [("tau-bench/airline-few-shot-transcripts.jsonl.gz", 10), ("tau-bench/retail-few-shot-transcripts.jsonl.gz", 35)],
)
def test_real_transcripts_are_read(name: str, traces: int) -> None:
    (raw,) = messages_source.source.fetch(Window(paths=(real(name),)))
    mapped = messages_source.spans(raw, harness_state=HARNESS)
    assert (mapped.spans["trace_id"].n_unique(), mapped.rejected) == (traces, [])
    assert mapped.spans.filter(kind="model")["flags"].list.contains("preview_only").all()
