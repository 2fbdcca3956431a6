"""Runs of several agents with who is to blame."""

import json
from typing import Any

import polars as pl
import pytest

from tasks.admit.considering import HOLDING
from tasks.sources import who_and_when
from tasks.sources.source import Mapped, Window
from traces import HARNESS, a_raw, normalized, real
from twiceshy.errors import FormatError

Row = dict[str, Any]
HISTORY = [
    {"content": "Solve it.", "role": "assistant", "name": "Manager"},
    {"content": "I run this.", "role": "assistant", "name": "Coder"},
    {"content": "exitcode: 1 (execution failed)\nCode output: no", "role": "user", "name": "Computer_terminal"},
    {"content": "So be it.", "role": "WebSurfer"},
]


def a_run(*history: Any, **more: Any) -> Row:
    labels = {"mistake_agent": "SECRET", "mistake_step": "1", "mistake_reason": "SECRET", "is_correct": False}
    return {"question_ID": "q1", "history": list(history or HISTORY), "ground_truth": "SECRET"} | labels | more


def read(*runs: Any) -> Mapped:
    content = b"\n".join(run if isinstance(run, bytes) else json.dumps(run).encode() for run in runs)
    return who_and_when.spans(a_raw(content), harness_state=HARNESS)


def test_steps_are_turns_of_their_agents() -> None:
    rows = read(a_run(system_prompt={"Coder": "You code."})).spans.to_dicts()
    assert [(row["kind"], row["name"]) for row in rows] == [
        ("user", "user"), ("model", "Coder"), ("tool", "Computer_terminal"), ("model", "WebSurfer"),
    ]  # fmt: skip
    assert (rows[1]["system_text"], rows[3]["system_text"], rows[1]["agent_name"]) == ('"You code."', None, "Coder")
    assert (rows[2]["error_code"], rows[2]["seen"], rows[2]["error_source"]) == ("exit_1", None, "structured")


def test_labels_are_scores_and_reach_no_span() -> None:
    mapped = read(a_run())
    assert "SECRET" not in json.dumps(mapped.spans.to_dicts(), default=str)
    held = {row["name"]: row for row in mapped.scores.to_dicts()}
    assert (held["mistake_step"]["label"], held["mistake_step"]["span_id"]) == ("1", mapped.spans["span_id"][1])
    assert (held["mistake_agent"]["label"], held["is_correct"]["value"]) == ("SECRET", 0.0)
    assert (held["ground_truth"]["text"], {row["origin"] for row in held.values()}) == ('"SECRET"', {"human"})


def test_step_that_is_not_there_is_kept_as_said() -> None:
    (row,) = read(a_run(mistake_step="9")).scores.filter(name="mistake_step").to_dicts()
    assert (row["label"], row["span_id"]) == ("9", None)


def test_every_run_is_held() -> None:
    (marks,) = normalized(read(a_run())).traces["marks"].to_list()
    assert set(marks) & HOLDING == {"preview_only"}


def test_bad_steps_and_records_are_set_aside_alone() -> None:
    mapped = read(a_run(*HISTORY, 7, {"content": 7, "role": "x"}), {"history": HISTORY}, b"{")
    assert [(row.reason, row.locator) for row in mapped.rejected] == [
        ("bad_type", "line 1, step 4"), ("bad_type", "line 1, step 5"), ("unknown_container", "line 2"), ("bad_json", "line 3"),
    ]  # fmt: skip
    assert (mapped.spans_in, mapped.spans.height) == (8, 4)


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match="It looks like --source swe_agent"):
        read({"trajectory": [], "history": []})


def test_real_runs_are_all_held() -> None:
    (raw,) = who_and_when.source.fetch(Window(paths=(real("who-and-when/who-and-when.jsonl.gz"),)))
    mapped = who_and_when.spans(raw, harness_state="")
    assert (mapped.spans_in, mapped.spans.height, mapped.spans["trace_id"].n_unique()) == (2081, 2081, 92)
    assert mapped.scores.filter(pl.col("name") == "mistake_step")["span_id"].null_count() == 0
    traces = normalized(mapped).traces
    assert traces.height == 92
    assert all(HOLDING & set(marks) for marks in traces["marks"].to_list())
    calls = mapped.spans.filter(kind="tool")
    assert (calls["seen"].null_count(), calls["proposed"].null_count()) == (calls.height, calls.height)
