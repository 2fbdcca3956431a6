"""People and flags in a replay: recorded user turns, approvals that nobody makes up, flags with an overlay."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import a_policy, recorded, replayed
from shop import Agent, diverged
from twiceshy.agreement import agreement
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint, LivePerson
from twiceshy.errors import InvariantError
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.writes import DeclaredGrant

POLICY = a_policy(find="read")


def build(body: Callable[..., Any]) -> Callable[[Boundary], Agent]:
    def make(boundary: Boundary) -> Agent:
        customer = boundary.user("customer", lambda said: f"yes to {said}")
        boss = boundary.human("boss", lambda asked: {"granted": asked["amount"] < 100})
        pay = boundary.tool("pay", lambda amount: "paid")
        return lambda _: body(customer, boss, pay)

    return make


def says(*messages: Any) -> Callable[..., Any]:
    return lambda customer, boss, pay: [customer(message) for message in messages]


def requests(*amounts: int, before: bool = False) -> Callable[..., Any]:
    def body(customer: Any, boss: Any, pay: Any) -> Any:
        if before:
            pay(amount=1)
        return [boss({"amount": amount}) for amount in amounts]

    return body


def replay(envelope: Any, body: Callable[..., Any], **terms: Any) -> Any:
    return replayed(build(body), envelope, **{"policy": POLICY, **terms})


def output(told: Any) -> Any:
    return told.disposition.output if told.disposition else None


def test_user_turns_come_back_in_order() -> None:
    envelope = recorded(build(says("a", "b")), policy=POLICY)
    told = replay(envelope, says("a", "b"))
    assert output(told) == ["yes to a", "yes to b"]
    assert [(p.boundary, p.matched) for p in told.played] == [
        (BoundaryState.FROZEN, "#1"),
        (BoundaryState.FROZEN, "#2"),
    ]


def test_a_turn_answers_only_its_message() -> None:
    envelope = recorded(build(says("a", "b")), policy=POLICY)
    assert diverged(replay(envelope, says("b"))) is Divergence.STALE_USER_TURN
    assert diverged(replay(envelope, says("a", "c"))) is Divergence.STALE_USER_TURN
    assert diverged(replay(envelope, says("a", "b", "b"))) is Divergence.EXHAUSTED
    assert diverged(replay(recorded(build(says()), policy=POLICY), says("a"))) is Divergence.UNRECORDED_CALL


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("any", None),
        ("said.contains('total') && recorded.contains('total')", None),
        ("said.contains('price')", Divergence.STALE_USER_TURN),
    ],
)
def test_a_case_may_say_what_agrees(rule: str, kind: Divergence | None) -> None:
    envelope = recorded(build(says("the total is 5")), policy=POLICY)
    told = replay(envelope, says("5 in total"), agrees=agreement(rule, where="case.yaml"))
    assert diverged(told) is kind


def test_a_wrong_rule_for_turns_is_refused() -> None:
    assert agreement(None, where="case.yaml") is None
    with pytest.raises(InvariantError, match=r"case\.yaml"):
        agreement("sayd == recorded", where="case.yaml")


def test_only_a_recorded_answer_grants() -> None:
    envelope = recorded(build(requests(50, 500)), policy=POLICY)
    assert output(replay(envelope, requests(50, 500))) == [{"granted": True}, {"granted": False}]
    assert diverged(replay(envelope, requests(60))) is Divergence.ARGS_MISMATCH
    assert diverged(replay(recorded(build(requests()), policy=POLICY), requests(1))) is Divergence.UNRECORDED_CALL


def test_a_grant_is_good_once_and_here() -> None:
    envelope = recorded(build(requests(50)), policy=POLICY)
    assert diverged(replay(envelope, requests(50, 50))) is Divergence.EXHAUSTED
    assert diverged(replay(envelope, requests(50, before=True))) is Divergence.STATE_MISMATCH


def test_a_declared_grant_answers_one_request() -> None:
    envelope = recorded(build(requests(500)), policy=POLICY)
    grants = [DeclaredGrant(human="boss", args={"amount": 60}, answer={"granted": True})]
    told = replay(envelope, requests(60), grants=grants)
    assert (output(told), told.played[0].answered_by) == ([{"granted": True}], AnsweredBy.DECLARED)
    assert diverged(replay(envelope, requests(60, 60), grants=grants)) is Divergence.ARGS_MISMATCH
    assert diverged(replay(envelope, requests(61), grants=grants)) is Divergence.ARGS_MISMATCH


@pytest.mark.parametrize("name", ["user:customer", "human:*", "clock:now", "flag:new", "random:seed"])
def test_nobody_is_asked_live(name: str) -> None:
    with pytest.raises(LivePerson, match="come from the record"):
        CutPoint(mode=Mode.CUT_POINT, live=frozenset({name})).refuse_live_writes(POLICY)


def flagged(*values: Any, name: str = "fast") -> Callable[[Boundary], Agent]:
    held = iter(values)
    return lambda boundary: lambda _: [boundary.flag(name, lambda: next(held)) for _ in values]


def test_flags_come_from_the_record() -> None:
    assert output(replayed(flagged(1, 1), recorded(flagged(True, False)))) == [True, False]
    assert output(replayed(flagged(1, 1), recorded(flagged(True)))) == [True, True]
    assert diverged(replayed(flagged(1, 1, 1), recorded(flagged(True, False)))) is Divergence.EXHAUSTED


def test_an_unrecorded_flag_takes_the_overlay() -> None:
    envelope = recorded(flagged(True))
    assert diverged(replayed(flagged(1, name="slow"), envelope)) is Divergence.FLAG_UNRECORDED
    assert output(replayed(flagged(1, name="slow"), envelope, flags={"slow": "on"})) == ["on"]
    assert output(replayed(flagged(1), envelope, flags={"fast": False})) == [True]
