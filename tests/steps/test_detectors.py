from typing import Any

import pytest
from msgspec import UNSET

from builders import a_crossing, an_envelope
from tasks.detect.detectors import Hit, hits
from twiceshy.conditions import Condition
from twiceshy.envelope import Crossing, Effect, ErrorRecord
from twiceshy.evidence import recorded_run
from twiceshy.policy import ToolPolicy, ToolsPolicy

POLICY = ToolsPolicy(
    workflow="refund",
    tools={
        "get_order": ToolPolicy(effect=Effect.READ),
        "get_status": ToolPolicy(effect=Effect.READ, poll=True, max_polls=4),
        "think": ToolPolicy(effect=Effect.NONE),
        "send_message": ToolPolicy(effect=Effect.WRITE, closing=True),
    },
)
TIMEOUT = ErrorRecord(cls="TimeoutError", type="timeout", message="timed out after 10 s")


def calls(*names: str, **given: Any) -> list[Crossing]:
    """Tool calls in order; `name:x` asks with x."""
    made = []
    for seq, text in enumerate(names, start=1):
        name, _, asked = text.partition(":")
        made.append(a_crossing(seq, name, **{"seen": {"id": asked}, "effect": None, **given}))
    return made


def found(*crossings: Crossing, done: str | None = None) -> list[Hit]:
    condition = Condition(done, where="tools.yaml") if done else None
    return hits(recorded_run(an_envelope(*crossings), POLICY), condition)


def named(hit: Hit) -> tuple[str, str, list[str]]:
    return hit.detector, hit.level, [step.crossing.place for step in hit.steps]


def test_two_equal_calls_are_a_signal() -> None:
    assert [named(hit) for hit in found(*calls("get_order", "get_order"))] == [("repeat", "signal", ["#1", "#2"])]


def test_three_equal_calls_fail() -> None:
    assert [named(hit) for hit in found(*calls(*["get_order"] * 3))] == [("repeat", "failure", ["#1", "#2", "#3"])]


def test_write_between_is_no_repeat() -> None:
    assert found(*calls("get_order", "pay", "get_order", "pay:2", "get_order")) == []


def test_other_result_is_no_repeat() -> None:
    assert found(*(a_crossing(seq, raw=seq) for seq in (1, 2, 3))) == []


def test_agents_repeat_apart() -> None:
    scoped = [a_crossing(seq, scope=str(seq % 2)) for seq in (1, 2, 3, 4)]
    assert [named(hit)[2] for hit in found(*scoped)] == [["#1", "#3"], ["#2", "#4"]]


def test_poll_may_repeat() -> None:
    assert found(*calls(*["get_status"] * 4)) == []


def test_poll_past_its_limit_fails() -> None:
    assert [named(hit)[:2] for hit in found(*calls(*["get_status"] * 5))] == [("repeat", "failure")]


def test_same_result_is_no_progress() -> None:
    assert [named(hit)[:2] for hit in found(*calls(*[f"get_order:{at}" for at in range(5)]))] == [
        ("no_progress", "failure")
    ]
    assert found(*calls(*[f"get_order:{at}" for at in range(4)])) == []


def test_thinking_is_progress() -> None:
    assert found(*calls(*[f"think:{at}" for at in range(5)])) == []


def test_equal_errors_in_a_row_fail() -> None:
    failed = calls("get_order:1", "get_order:2", "get_order:3", error=TIMEOUT, raw=UNSET, shown=UNSET)
    assert [named(hit) for hit in found(*failed)] == [("error_run", "failure", ["#1", "#2", "#3"])]


def test_another_tool_does_not_break_error_run() -> None:
    failed = calls("get_order:1", "get_order:2", error=TIMEOUT, raw=UNSET, shown=UNSET)
    other = a_crossing(3, "think", effect=None)
    third = a_crossing(4, "get_order", seen={"id": "3"}, error=TIMEOUT, raw=UNSET, shown=UNSET)
    assert [named(hit) for hit in found(*failed, other, third)] == [("error_run", "failure", ["#1", "#2", "#4"])]


def test_hidden_error_is_swallowed() -> None:
    hidden = a_crossing(1, raw={"error": "not found"}, shown={"status": "fine"})
    assert [named(hit) for hit in found(hidden)] == [("swallowed_error", "failure", ["#1"])]


@pytest.mark.parametrize("shown", [{"error": "not found"}, "Error: not found", {"status": "error"}, UNSET])
def test_shown_error_is_not_swallowed(shown: Any) -> None:
    assert found(a_crossing(1, raw={"error": "not found"}, shown=shown)) == []


def test_work_after_done_is_overrun() -> None:
    done = 'state.writes.exists(write, write.tool == "pay")'
    hit = found(*calls("get_order", "pay", "get_order:2", "send_message", "think"), done=done)
    assert [named(one) for one in hit] == [("overrun", "failure", ["#3", "#5"])]
    assert found(*calls("get_order", "pay", "get_order:2")) == []
