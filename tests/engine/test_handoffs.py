"""Agents that hand to others: scopes, histories side by side, one digest whatever the threads do."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from builders import a_policy, recorded, replayed
from shop import Agent, diverged
from twiceshy.boundary import Boundary
from twiceshy.candidates import candidate, described
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind
from twiceshy.evidence import replayed_run
from twiceshy.outcome import BoundaryState, Divergence, Mode

POLICY = a_policy(find="read")


def specialist(waits: dict[Any, float] | None = None, says: str = "found", *, extra: bool = False) -> Any:
    """An agent that asks its planner, reads, writes, and reads again."""

    def build(boundary: Boundary) -> Agent:
        planner = boundary.model("inner", lambda request: {"parts": [{"type": "text", "text": f"{says} {request}"}]})
        find = boundary.tool("find", lambda day: [day], effect="read")
        pay = boundary.tool("pay", lambda amount: amount)

        def agent(topic: Any) -> Any:
            time.sleep((waits or {}).get(topic, 0))
            planner(topic)
            found = find(day=topic)
            planner([topic, found])
            if extra:
                pay(amount=0)
            pay(amount=topic)
            planner([topic, "again"])
            return [found, find(day=topic)]

        return agent

    return build


def in_turn(*topics: Any, **how: Any) -> Callable[[Boundary], Agent]:
    def build(boundary: Boundary) -> Agent:
        ask = boundary.handoff("specialist", specialist(**how))
        find = boundary.tool("find", lambda day: [day], effect="read")
        return lambda _: [*(ask(topic) for topic in topics), find(day=0)]

    return build


def side_by_side(waits: dict[Any, float], *topics: Any) -> Callable[[Boundary], Agent]:
    """One output asks for all of them at once; threads decide who comes first."""

    def build(boundary: Boundary) -> Agent:
        triage = boundary.model("triage", lambda request: {"parts": []})
        ask = boundary.handoff("specialist", specialist(waits))
        find = boundary.tool("find", lambda day: [day], effect="read")

        def agent(_: Any) -> Any:
            triage("start")
            with ThreadPoolExecutor(len(topics)) as threads:
                said = list(threads.map(ask, topics))
            triage(said)
            return [said, find(day=0)]

        return agent

    return build


def test_a_scope_is_a_spawn_path() -> None:
    envelope = recorded(in_turn(1, 1, 2), policy=POLICY)
    handoffs = [crossing for crossing in envelope.crossings if crossing.kind is Kind.HANDOFF]
    ones = [handoff.at or "" for handoff in handoffs]
    assert [scope[-2:] for scope in ones] == ["#0", "#1", "#0"]
    assert ones[0][:-1] == ones[1][:-1] != ones[2][:-1]
    assert {c.scope for c in envelope.crossings} == {"", *ones}
    assert [c.parent for c in envelope.crossings if c.scope == ones[0]] == [handoffs[0].place] * 6


def test_handing_off_replays_as_it_was() -> None:
    envelope = recorded(in_turn(1, 1, 2), policy=POLICY)
    told = replayed(in_turn(1, 1, 2), envelope, policy=POLICY)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    assert [p.boundary for p in told.played if p.crossing.kind is Kind.HANDOFF] == [BoundaryState.LIVE] * 3
    assert [p.matched for p in told.played if p.matched] == [
        c.place for c in envelope.crossings if c.kind is not Kind.HANDOFF
    ]
    assert not any(p.stale for p in told.played)


@pytest.mark.parametrize("after", [1, 5, 9])
def test_an_agent_runs_in_a_prefix_too(after: int) -> None:
    envelope = recorded(in_turn(1, 2), policy=POLICY)
    told = replayed(in_turn(1, 2), envelope, policy=POLICY, cut=CutPoint(mode=Mode.CUT_POINT, after=after))
    assert (told.divergence, told.disposition) == (None, envelope.disposition)


def test_outputs_belong_to_their_scope() -> None:
    envelope = recorded(in_turn(1), policy=POLICY)
    told = replayed(in_turn(1, 1), envelope, policy=POLICY)
    assert diverged(told) is Divergence.MODEL_EXHAUSTED
    drifted = replayed(in_turn(7), envelope, policy=POLICY)
    assert (diverged(drifted), drifted.played[1].drift) == (Divergence.ARGS_MISMATCH, "messages")


def test_a_frozen_handoff_brings_all_that_lay_in_it() -> None:
    envelope = recorded(in_turn(1, 2), policy=POLICY)
    cut = CutPoint(mode=Mode.CUT_POINT, freeze=frozenset({"handoff:specialist"}))
    told = replayed(in_turn(1, 2, says="other", extra=True), envelope, policy=POLICY, cut=cut)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    assert [p.crossing.name for p in told.played] == [c.name for c in envelope.crossings]
    assert [p.crossing.parent for p in told.played] == [c.parent for c in envelope.crossings]
    assert diverged(replayed(in_turn(3), envelope, policy=POLICY, cut=cut)) is Divergence.ARGS_MISMATCH


def test_threads_change_neither_state_nor_digest() -> None:
    slow, fast = {1: 0.05, 2: 0.0, 3: 0.02}, {1: 0.0, 2: 0.03, 3: 0.01}
    envelope = recorded(side_by_side(slow, 1, 2, 3), policy=POLICY)
    told = [replayed(side_by_side(waits, 1, 2, 3), envelope, policy=POLICY) for waits in (slow, fast, {})]
    assert [(one.divergence, one.disposition) for one in told] == [(None, envelope.disposition)] * 3
    assert len({one.digest for one in told}) == 1
    orders = [[(step.crossing.name, step.key) for step in replayed_run(one, POLICY).steps] for one in told]
    assert orders[0] == orders[1] == orders[2]


def test_agents_side_by_side_do_not_see_each_other() -> None:
    envelope = recorded(side_by_side({1: 0.05}, 1, 2), policy=POLICY)
    alone = recorded(side_by_side({}, 1), policy=POLICY)

    def states(made: Any) -> list[str]:
        one = next(c.at for c in made.crossings if c.kind is Kind.HANDOFF and c.seen == 1)
        return [c.state for c in made.crossings if c.scope == one and c.name == "find"]

    assert states(envelope) == states(alone)
    last = [c.state for c in envelope.crossings if c.name == "find" and not c.scope]
    assert last != [c.state for c in alone.crossings if c.name == "find" and not c.scope]


def test_a_write_of_an_agent_counts_for_who_comes_after() -> None:
    envelope = recorded(in_turn(1), policy=POLICY)
    assert diverged(replayed(in_turn(1, extra=True), envelope, policy=POLICY)) is Divergence.STATE_MISMATCH


def test_async_agents_are_handed_to() -> None:
    def build(boundary: Boundary) -> Agent:
        def inner(within: Boundary) -> Agent:
            find = within.tool("find", lambda day: [day], effect="read")

            async def agent(day: Any) -> Any:
                await asyncio.sleep(0)
                return find(day=day)

            return agent

        ask = boundary.handoff("specialist", inner)

        async def agent(_: Any) -> Any:
            return await asyncio.gather(ask(1), ask(2))

        return agent

    envelope = recorded(build, policy=POLICY)
    assert envelope.disposition.output == [[1], [2]]
    assert replayed(build, envelope, policy=POLICY).disposition == envelope.disposition


def test_agents_may_hand_to_each_other() -> None:
    def ping(boundary: Boundary) -> Agent:
        back = boundary.handoff("pong", pong)
        return lambda n: n if n == 0 else back(n - 1)

    def pong(boundary: Boundary) -> Agent:
        back = boundary.handoff("ping", ping)
        return lambda n: n if n == 0 else back(n - 1)

    def build(boundary: Boundary) -> Agent:
        start = boundary.handoff("ping", ping)
        return lambda _: start(4)

    envelope = recorded(build)
    assert [c.name for c in envelope.crossings] == ["ping", "pong", "ping", "pong", "ping"]
    assert [c.scope.count("/") for c in envelope.crossings] == [0, 1, 2, 3, 4]
    assert replayed(build, envelope).disposition == envelope.disposition


def test_what_an_inner_agent_declares_is_known() -> None:
    factory = candidate(workflow="refund")(in_turn(1))
    said = factory.__twiceshy_candidate__  # type: ignore[attr-defined]
    assert described(factory, said).boundaries == {"handoff:specialist", "model:inner", "tool:find", "tool:pay"}


def test_another_answer_of_an_agent_makes_the_rest_stale() -> None:
    def build(answer: str) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            ask = boundary.handoff("specialist", lambda within: lambda _: answer)
            triage = boundary.model("triage", lambda request: {"parts": []})
            return lambda _: [ask(1), triage("go on")]

        return make

    envelope = recorded(build("yes"))
    assert [p.stale for p in replayed(build("yes"), envelope).played] == [False, False]
    assert [p.stale for p in replayed(build("no"), envelope).played] == [False, True]
