"""Writes in a replay: never executed, whatever is named live; told as intents; answered in the order of semantics.md §5.2."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_policy, recorded, replayed
from shop import POLICY, Agent, Shop, build_with, diverged, record
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.policy import ToolPolicy

NAMES = ["tool:pay", "tool:*", "tool:find", "model:*", "model:planner"]
cuts = st.builds(
    CutPoint, mode=st.sampled_from(Mode), live=st.frozensets(st.sampled_from(NAMES)), after=st.none() | st.integers(0, 5), freeze=st.frozensets(st.sampled_from(NAMES)),
)  # fmt: skip


@given(cuts, st.sampled_from([None, "read", "write", "none"]), st.integers(0, 2))
def test_no_cut_executes_a_write(cut: CutPoint, effect: Any, amount: int) -> None:
    reached: list[int] = []

    def build(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", lambda amount: reached.append(amount), effect=effect)  # noqa: PLW0108 - its argument has a name
        return lambda _: pay(amount=amount)

    envelope = record(lambda user, find, pay, planner: pay(amount=1))
    for policy in (a_policy(), a_policy(pay="write")):
        told = replayed(build, envelope, policy=policy, cut=cut)
        assert [p.boundary for p in told.played] == [BoundaryState.INTERCEPTED]
    assert reached == []


def test_an_unlisted_tool_is_a_write() -> None:
    def build(boundary: Boundary) -> Agent:
        send = boundary.tool("send", lambda: 1 / 0)
        return lambda _: send()

    (sent,) = replayed(build, record()).played
    assert (sent.intent, sent.crossing.effect, sent.answered_by) == (True, Effect.WRITE, AnsweredBy.OK)


def test_an_intent_tells_all_of_itself() -> None:
    policy = a_policy(pay=ToolPolicy(idempotency_key="meta.id", volatile=("meta.id",)))

    def build(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay")
        boundary.hook("round", lambda asked: {**asked, "amount": round(asked["amount"])}, before="pay")
        return lambda _: [pay(amount=1.2, meta={"id": "k1"}), pay(amount=1.2, meta={"id": "k2"})]

    first, second = [p for p in replayed(build, record(), policy=policy).played if p.intent]
    assert [p.idempotency_key for p in (first, second)] == ["k1", "k2"]
    assert first.crossing.proposed == {"amount": 1.2, "meta": {"id": "k1"}}
    assert first.crossing.seen == {"amount": 1, "meta": {"id": "k1"}}
    assert first.crossing.key == second.crossing.key
    assert first.crossing.state != second.crossing.state


def found_then_paid(*steps: str) -> Callable[..., Any]:
    """A body that finds and pays in this order."""

    def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
        for step in steps:
            planner({"messages": [step]})
            if step.startswith("pay"):
                pay(amount=int(step[3:]))

    return body


def test_a_write_recorded_under_other_writes_diverges() -> None:
    envelope = record(found_then_paid("pay1", "pay2"))
    told = replayed(build_with(found_then_paid("pay2"), Shop()), envelope, policy=POLICY)
    assert diverged(told) is Divergence.STATE_MISMATCH
    assert told.divergence is not None
    assert (told.divergence.boundary, told.divergence.nearest[0].reason) == ("tool:pay", "other writes came before it")
    asked = told.played[-1]
    assert (asked.intent, asked.answered_by, asked.crossing.seen) == (True, None, {"amount": 2, "note": "none"})
    assert asked.crossing.error is not None
    assert not asked.crossing.error.definite


def test_a_write_answered_by_the_record_comes_before_every_other_answer() -> None:
    schema = {"properties": {"amount": {"type": "string"}}}
    policy = a_policy(find="read", pay=ToolPolicy(schema=schema, answer="template"))
    told = replayed(build_with(found_then_paid("pay1"), Shop()), record(found_then_paid("pay1")), policy=policy)
    paid = next(p for p in told.played if p.intent)
    assert (paid.answered_by, paid.matched, paid.crossing.error) == (AnsweredBy.RECORDED, "#2", None)


@pytest.mark.parametrize("definite", [True, False])
def test_a_recorded_refusal_writes_nothing_and_a_timeout_may_have(*, definite: bool) -> None:
    class Refused(Exception):
        pass

    Refused.definite = definite  # type: ignore[attr-defined]

    def pay(amount: int) -> None:
        raise Refused

    def build(*, again: bool) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            find = boundary.tool("find", lambda: 1, effect="read")
            tool = boundary.tool("pay", pay)

            def agent(_: Any) -> Any:
                if again:
                    with suppress(Exception):
                        tool(amount=1)
                return find()

            return agent

        return make

    told = replayed(build(again=False), recorded(build(again=True), policy=POLICY), policy=POLICY)
    assert diverged(told) is (None if definite else Divergence.STATE_MISMATCH)
