"""A run that was read while it went on, and again when it had gone on."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tasks.normalize.step import Normalized, normalize, unredacted
from tasks.pull.step import Known, Terms, pull
from tasks.sources.records import Side
from tasks.sources.registry import named
from tasks.sources.source import Window
from traces import HARNESS, a_proposal, a_span, an_output, mapped, normalized

ASKED = {"proposed": Side({"id": "A1"})}
TOLD = ASKED | {"shown": Side({"total": 7})}


def calls(*spans: Any) -> list[tuple[Any, ...]]:
    made = normalized(mapped(a_span("1", "agent", "a", start_ns=0), *spans))
    return made.crossings.select("kind", "shown").rows()


def test_answered_call_stands_for_the_one_that_waited() -> None:
    old, new = (a_span("2", parent="1", start_ns=1, sides=sides) for sides in (ASKED, TOLD))
    assert calls(old, new) == calls(new, old) == calls(new) == [("tool", '{"total":7}')]


def test_failed_call_stands_for_the_one_that_waited() -> None:
    failed = {"is_error": True, "error_code": "timeout", "error_source": "typed", "error_message": "late", "end_ns": 9}
    old, new = (
        a_span("2", parent="1", start_ns=1, sides=ASKED),
        a_span("2", parent="1", start_ns=1, sides=ASKED, **failed),
    )
    assert calls(old, new) == calls(new)


@pytest.mark.parametrize(
    "other",
    [
        {"sides": ASKED | {"shown": Side({"total": 8})}},
        {"sides": {"proposed": Side({"id": "B2"}), "shown": Side({"total": 7}), "raw": Side(1)}},
        {"sides": TOLD, "name": "get_user", "tool_name": "get_user"},
    ],
)
def test_rows_that_contradict_each_other_stay_two(other: dict[str, Any]) -> None:
    first = a_span("2", parent="1", start_ns=1, sides=TOLD)
    assert len(calls(first, a_span("2", parent="1", start_ns=1, **other))) == 2


def test_spans_of_other_ids_stay() -> None:
    old, new = (a_span(at, parent="1", start_ns=1, sides=sides) for at, sides in (("2", ASKED), ("3", TOLD)))
    assert len(calls(old, new)) == 2


def test_answer_with_further_parts_stands_for_its_beginning() -> None:
    text = {"type": "text", "text": "Let me look."}
    first, second = an_output(text), an_output(text, a_proposal("get_order", {"id": "A1"}))
    old, new = (a_span("2", "model", "m", parent="1", start_ns=1, messages_out=held, usage={"output": at}) for at, held in enumerate((first, second)))  # fmt: skip
    assert len(calls(old, new)) == 1
    other = a_span("2", "model", "m", parent="1", start_ns=1, messages_out=an_output({"type": "text", "text": "No."}))
    assert len(calls(new, other)) == 2


def a_session(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")


def test_session_that_went_on_is_one_session(tmp_path: Path) -> None:
    """What was stored of the trace is joined, since no file has the waiting call any more."""

    def line(kind: str, at: int, *blocks: dict[str, Any]) -> dict[str, Any]:
        about = {
            "sessionId": "11111111-2222-4333-8444-555555555555",
            "uuid": f"u{at}",
            "timestamp": f"2026-11-03T09:14:0{at}.000Z",
        }
        return about | {
            "type": kind,
            "message": {"role": kind, "id": f"m{at}" if kind == "assistant" else None, "content": list(blocks)},
        }

    asked = line("assistant", 1, {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "/a"}})
    told = line("user", 2, {"type": "tool_result", "tool_use_id": "t1", "content": "A"})
    path, source, terms = tmp_path / "s.jsonl", named("claude_code"), Terms(harness_state=HARNESS)
    a_session(path, asked)
    first = pull(source, Window(paths=(path,)), terms)
    a_session(path, asked, told)
    second = pull(
        source, Window(paths=(path,)), terms, Known.of(pulls=first.pulls, spans=first.spans, scores=first.scores)
    )
    assert len(second.unfound) == 1

    def made(spans: pl.DataFrame) -> Normalized:
        return normalize(unredacted(spans), second.scores, policies={}, harness_state=HARNESS)

    joined, alone = made(pl.concat([first.spans, second.spans])), made(second.spans)
    assert joined.crossings.equals(alone.crossings)
    assert joined.spans.equals(alone.spans)
    assert joined.traces["r2"].to_list() == ["recorded"]
