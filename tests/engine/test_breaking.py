from collections.abc import Callable
from typing import Any

import pytest

from builders import a_policy, recorded, replayed
from twiceshy import breaking
from twiceshy.boundary import Blocked, Boundary
from twiceshy.breaking import Break, BreakingBoundary
from twiceshy.errors import CaseError
from twiceshy.replaying import Replay

POLICY = a_policy(get="read")


def build(boundary: Boundary) -> Callable[[Any], Any]:
    get = boundary.tool("get", lambda: {"limit": 500, "total": 750}, effect="read")
    pay = boundary.tool("pay", lambda amount: {"paid": amount})
    boundary.hook("note", lambda order: {**order, "noted": True}, after="get")
    boundary.guard("limit", lambda asked: "too much" if asked["amount"] > 500 else None, before="pay")

    def agent(_: Any) -> Any:
        order = get()
        try:
            return [order, pay(amount=order["total"])]
        except Blocked as refused:
            return [order, refused.reason]

    return agent


def broken(*texts: str) -> tuple[Any, set[str]]:
    """The output of a replay under these breaks, and the breaks that changed something."""
    applied: set[str] = set()

    def boundary(replay: Replay) -> Boundary:
        return BreakingBoundary(
            replay, [breaking.parse(text) for text in texts], on_applied=lambda found: applied.add(found.text)
        )

    def built(made: Boundary) -> Callable[[Any], Any]:
        agent = build(made)
        assert isinstance(made, BreakingBoundary)
        made.strip()
        return agent

    told = replayed(built, recorded(build, policy=POLICY), boundary=boundary, policy=POLICY)
    return told.disposition.output if told.disposition else None, applied


def test_without_a_break_nothing_changes() -> None:
    assert broken() == ([{"limit": 500, "total": 750, "noted": True}, "too much"], set())


def test_guard_off_lets_the_write_pass() -> None:
    output, applied = broken("guard.off:limit")
    assert output[1] == {"ok": True}
    assert applied == {"guard.off:limit"}


def test_hook_off_passes_on_what_it_got() -> None:
    output, applied = broken("hook.off:note")
    assert output[0] == {"limit": 500, "total": 750}
    assert applied == {"hook.off:note"}


def test_hook_strip_removes_a_path_after_all_hooks() -> None:
    output, applied = broken("hook.strip:get.limit", "hook.strip:get.noted")
    assert output[0] == {"total": 750}
    assert applied == {"hook.strip:get.limit", "hook.strip:get.noted"}


@pytest.mark.parametrize(
    "text", ["guard.off:other", "hook.off:other", "hook.strip:get.missing", "hook.strip:nothing.limit"]
)
def test_a_break_that_finds_nothing_is_not_applied(text: str) -> None:
    assert broken(text) == (broken()[0], set())


@pytest.mark.parametrize("text", ["guard.of:limit", "guard.off", "guard.off:", "hook.strip:get", "hook.strip:get.[0]"])
def test_a_wrong_break_is_refused(text: str) -> None:
    with pytest.raises(CaseError):
        breaking.parse(text)


def test_a_break_reads_as_it_was_written() -> None:
    assert breaking.parse("hook.strip:get.a.b") == Break("hook.strip", "get.a.b")
    assert breaking.parse("guard.off:limit").text == "guard.off:limit"
