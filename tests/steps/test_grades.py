import json
from typing import Any

import polars as pl
import pytest

from tasks.envelopes import envelopes
from tasks.normalize.step import Normalized
from tasks.sources import openai_chat
from tasks.sources.records import Side
from tasks.sources.source import Window
from traces import (
    HARNESS,
    a_proposal,
    a_run,
    a_span,
    airline,
    an_output,
    chat,
    mapped,
    normalized,
    real,
    said,
    told,
    user,
)
from twiceshy.envelope import Effect, Envelope
from twiceshy.policy import ToolPolicy, ToolsPolicy

TOOLS = ToolsPolicy(workflow="w", tools={"get_order": ToolPolicy(effect=Effect.READ, schema={"type": "object"})})
ORDER = {"seen": Side({"id": "A1"}), "raw": Side({"total": 7})}


def only(made: Normalized) -> Envelope:
    (held,) = envelopes(made.traces, made.crossings)
    return held


def trace(made: Normalized) -> dict[str, Any]:
    (row,) = made.traces.to_dicts()
    return row


def test_chat_grades_are_derived() -> None:
    row = trace(
        normalized(
            chat(
                a_run(said(None, ("c1", "get_order", {"id": "A1"})), told("[1]"), said("Done.")),
                name="gpt-4o-shop.jsonl",
            ),
            TOOLS,
        )
    )
    assert {name: row[name] for name in (f"r{number}" for number in range(1, 12))} == {
        "r1": "derived", "r2": "recorded", "r3": "recorded", "r4": "derived", "r5": "derived", "r6": "derived", "r7": "derived", "r8": "recorded",
        "r9": "derived", "r10": "missing", "r11": "derived",
    }  # fmt: skip
    assert json.loads(row["grades_how"])["R9"] == "a synthetic root; order from the message index"


@pytest.mark.parametrize(
    ("messages", "grade", "value"),
    [
        ([told("[1]")], "r1", "missing"),
        ([said(None, ("c1", "get_order", {})), user("?")], "r2", "missing"),
        ([said("Hi.")], "r3", "recorded"),
        ([user("?")], "r3", "missing"),
        ([said(None, ("c1", "book", {})), told("[1]", tool="book")], "r11", "missing"),
        ([said(None, ("c1", "book", {})), told("[1]", tool="book")], "r7", "missing"),
    ],
)
def test_worst_crossing_grades_the_trace(messages: list[dict[str, Any]], grade: str, value: str) -> None:
    assert trace(normalized(chat(a_run(*messages)), TOOLS))[grade] == value


def test_no_clock_is_missing() -> None:
    row = trace(normalized(chat(a_run(said("Hi."), system={"role": "system", "content": "Be brief."}))))
    assert (row["r4"], json.loads(row["pins"])["clock"]) == ("missing", None)


def test_agent_prism_date_without_zone_is_marked() -> None:
    row = trace(normalized(chat(a_run(said("Hi."), system={"role": "system", "content": "Today is July 02, 2025."}))))
    assert (row["r4"], row["marks"]) == ("derived", ["synthetic_root", "tz_missing"])


def test_next_model_input_tells_what_was_shown() -> None:
    reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": '{"total": 5}'}]}
    made = normalized(
        mapped(
            a_span("1", "agent", "a", start_ns=0),
            a_span(
                "2", "model", "m", parent="1", start_ns=1, messages_out=an_output(a_proposal("get_order", {"id": "A1"}))
            ),
            a_span("3", parent="1", start_ns=2, call_id="c1", sides=ORDER),
            a_span("4", "model", "m", parent="1", start_ns=3, messages_in=[reply], messages_out=an_output()),
        ),
        TOOLS,
    )
    held = only(made).at(2)
    assert held is not None
    assert (held.raw, held.shown) == ({"total": 7}, {"total": 5})
    assert trace(made)["r10"] == "derived"


def test_real_airline_runs_are_derived() -> None:
    (raw,) = openai_chat.source.fetch(Window(paths=(real("tau-bench/gpt-4o-airline.trajectories.jsonl.gz"),)))
    made = normalized(openai_chat.spans(raw, harness_state=HARNESS), airline(), rule="reward == 0.0")
    assert (made.traces.height, made.traces["flagged"].sum(), made.quarantine.height) == (100, 51, 0)
    blocking = made.traces.select("r1", "r2", "r3", "r4", "r9").unique().sort("r1").rows()
    assert blocking == [
        ("derived", "recorded", "recorded", "derived", "derived"),
        ("recorded", "recorded", "recorded", "derived", "derived"),
    ]
    assert made.traces.filter(pl.col("r1") == "recorded").height == 9  # the runs that call no tool
    assert set(made.traces["outcome"]) == {"failure", "success"}
    calls = made.crossings.filter(pl.col("kind") == "tool")
    assert calls["group"].null_count() == 0
    assert calls.filter(pl.col("error_code").is_not_null())["error_definite"].all()


def a_talk(*call_ids: str) -> Envelope:
    """Models that each ask for one call, and are shown what the one before got."""
    spans = [a_span("1", "agent", "a", start_ns=0)]
    for at, call_id in enumerate(call_ids, start=2):
        reply = {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_ids[at - 3], "response": 7}]}
        asked = {"messages_in": [reply]} if at > 2 else {}
        spans.append(
            a_span(
                f"{at}",
                "model",
                "m",
                parent="1",
                start_ns=at,
                messages_out=an_output(a_proposal("get_order", {}, call_id)),
                **asked,
            )
        )
    return only(normalized(mapped(*spans)))


def test_call_ids_are_runtime_values() -> None:
    held = a_talk("toolu_x9", "toolu_f2")
    assert [row.raw["parts"][0]["id"] for row in held.crossings] == ["call_1", "call_2"]
    assert held.crossings[1].seen["messages"][0]["parts"][0]["id"] == "call_1"
    assert a_talk("a", "b").crossings == held.crossings


def test_repeated_call_ids_stay() -> None:
    assert [row.raw["parts"][0]["id"] for row in a_talk("same", "same").crossings] == ["same", "same"]
