"""What lies inside a passage that is answered from the record: it happened there, once, to nobody else, and is judged like the rest."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from builders import Build, a_case, a_policy, recorded, replayed, some_invariants
from shop import Agent, diverged
from small_worlds import POLICY as DIARY
from small_worlds import a_world
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, Kind
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Transcript
from twiceshy.worlds.authority import for_run

POLICY = a_policy(look="read", find="read", sync=ToolPolicy(effect=Effect.READ, reads=("books",)), note=ToolPolicy(touches=("notes",)))  # fmt: skip


def build(body: Callable[..., Any]) -> Build:
    """Tools, a model and people whose bodies call other boundaries."""

    def make(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", lambda amount: "paid")
        note = boundary.tool("note", lambda text: None)
        find = boundary.tool("find", lambda day: [day], effect="read")
        customer = boundary.user("customer", lambda said: f"yes to {said}")
        flags = iter([True, False, False])

        def look(day: str) -> Any:
            return [find(day=day), customer(f"is {day} fine?"), boundary.flag("fast", lambda: next(flags))]

        def asks_boss(asked: Any) -> Any:
            note(text="asked")
            return {"granted": True}

        def plans(request: Any) -> Any:
            note(text="planned")
            return {"parts": [{"type": "text", "text": "planned"}]}

        def order(amount: int) -> str:
            pay(amount=amount)
            return "ordered"

        named = {
            "pay": pay, "note": note, "find": find, "customer": customer, "look": boundary.tool("look", look, effect="read"),
            "sync": boundary.tool("sync", lambda: note(text="synced"), effect="read"), "order": boundary.tool("order", order),
            "approve": boundary.tool("approve", lambda: boss({}), effect="read"), "planner": boundary.model("planner", plans),
            "loop": boundary.model("loop", lambda request: {"parts": []}),
        }  # fmt: skip
        boss = boundary.human("boss", asks_boss)
        return lambda _: body(boundary=boundary, boss=boss, **named)

    return make


def judged(told: Transcript, envelope: Envelope, *specs: Any, policy: Any = POLICY, **file: Any) -> TrialVerdict:
    allowed = {"allowed_writes": [{"tool": "note"}, {"tool": "pay"}], **file}
    loaded = a_case(envelope, kind="positive")
    return case_grader(loaded, some_invariants(*specs, **allowed), policy).trial(told, CutPoint())


def violated(verdict: TrialVerdict) -> list[str]:
    return [judgement.id for judgement in verdict.violations]


@pytest.mark.parametrize("whom", ["planner", "boss"])
def test_what_a_model_or_a_person_did_is_told(whom: str) -> None:
    """A frozen model's or person's body does not run, and what it had written was in no transcript."""

    def body(**named: Any) -> Any:
        return [named[whom]({"a": 1}), named["find"](day="thu")]

    envelope = recorded(build(body), policy=POLICY)
    told = replayed(build(body), envelope, policy=POLICY)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    assert [(p.crossing.name, p.crossing.parent, p.boundary) for p in told.played if p.crossing.name == "note"] == [
        ("note", "#1", BoundaryState.FROZEN)
    ]
    forbidden = {"id": "no-note", "kind": "must_not", "at": {"tool": "note"}}
    assert violated(judged(told, envelope, forbidden)) == ["no-note"]


def test_an_output_with_a_write_in_it_is_not_given_twice() -> None:
    def body(times: int) -> Callable[..., Any]:
        return lambda planner, **_: [planner({"a": 1}) for _ in range(times)]

    assert diverged(replayed(build(body(2)), recorded(build(body(1)), policy=POLICY), policy=POLICY)) is Divergence.MODEL_EXHAUSTED  # fmt: skip


@pytest.mark.parametrize("tool", ["sync", "approve"])
def test_a_passage_with_a_write_or_a_person_in_it_is_not_repeated(tool: str) -> None:
    """The second call would write again, or ask the person again; it got the first one's answer and told of neither."""

    def body(times: int) -> Callable[..., Any]:
        def asks(loop: Any, **named: Any) -> Any:
            loop({"a": 1})
            return [named[tool]() for _ in range(times)]

        return asks

    envelope = recorded(build(body(1)), policy=POLICY)
    assert diverged(replayed(build(body(2)), envelope, policy=POLICY)) is Divergence.EXHAUSTED
    plain = recorded(build(lambda find, **_: find(day="thu")), policy=POLICY)
    twice = replayed(build(lambda find, **_: [find(day="thu"), find(day="thu")]), plain, policy=POLICY)
    assert [played.answered_by for played in twice.played] == [AnsweredBy.RECORDED, AnsweredBy.REPEATED]


def test_a_write_is_doubled_whatever_it_does_inside() -> None:
    """The payment inside an order stood between two equal orders, and made another state of them."""

    def twice(loop: Any, order: Any, **_: Any) -> Any:
        for turn in (1, 2):
            loop({"turn": turn})
            order(amount=5)

    envelope = recorded(build(twice), policy=POLICY)
    told = replayed(build(twice), envelope, policy=POLICY)
    assert told.divergence is None
    assert violated(judged(told, envelope)) == ["no_duplicate_write"]


def test_what_was_told_stands_in_the_turn_that_asked_for_it() -> None:
    """It stood in the recorded turn, which is another one here: what came last counted as first."""

    def body(turns: int) -> Callable[..., Any]:
        def asks(loop: Any, order: Any, note: Any, **_: Any) -> Any:
            for turn in range(turns):
                loop({"turn": turn})
            if turns > 1:
                note(text="early")
                loop({"turn": turns})
            order(amount=5)

        return asks

    envelope = recorded(build(body(1)), policy=a_policy(order=ToolPolicy(touches=()), note=ToolPolicy(touches=())))
    policy = a_policy(order=ToolPolicy(touches=()), note=ToolPolicy(touches=()))
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:loop"}))
    told = replayed(build(body(3)), envelope, policy=policy, cut=cut)
    assert told.divergence is None
    first = {"id": "paid-first", "kind": "order", "first": {"tool": "pay"}, "then": {"tool": "note"}}
    assert violated(judged(told, envelope, first, policy=policy)) == ["paid-first"]
    (pay,) = [played.crossing for played in told.played if played.crossing.name == "pay"]
    (order,) = [played.crossing for played in told.played if played.crossing.name == "order"]
    assert (pay.group, pay.parent) == (order.group, order.place)


def test_what_was_told_belongs_to_the_agent_that_asked() -> None:
    """An inner agent that calls what the outer one called: its write stood in the outer scope, and its own reads did not see it."""

    def handing(within: Callable[..., Any] | None, loop: Callable[..., Any]) -> Build:
        def make(boundary: Boundary) -> Agent:
            def inner(child: Boundary) -> Agent:
                return build(within or (lambda **_: None))(child)

            helper = boundary.handoff("helper", inner)
            outer = build(loop)(boundary)

            def agent(user: Any) -> Any:
                if within is not None:
                    helper(user)
                return outer(user)

            return agent

        return make

    def both(order: Any, find: Any, **_: Any) -> Any:
        return [find(day="thu"), order(amount=5)]

    def reads_after(order: Any, find: Any, **_: Any) -> Any:
        return [order(amount=5), find(day="thu")]

    envelope = recorded(handing(None, both), policy=POLICY)
    told = replayed(handing(reads_after, lambda **_: None), envelope, policy=POLICY)
    assert diverged(told) is Divergence.STATE_MISMATCH
    scopes = {played.crossing.name: played.crossing.scope for played in told.played}
    assert scopes["pay"] == scopes["order"] != ""


def test_a_turn_taken_inside_answers_nobody_else() -> None:
    def inside(look: Any, **_: Any) -> Any:
        return look(day="thu")

    def asks_again(look: Any, customer: Any, **_: Any) -> Any:
        return [look(day="thu"), customer("is thu fine?")]

    envelope = recorded(build(inside), policy=POLICY)
    assert diverged(replayed(build(asks_again), envelope, policy=POLICY)) is Divergence.EXHAUSTED


def test_a_flag_read_inside_is_read() -> None:
    """The loop got the value that a tool's body had read."""

    def body(look: Any, boundary: Boundary, **_: Any) -> Any:
        look(day="thu")
        return [boundary.flag("fast", lambda: None) for _ in range(2)]

    flags = iter([True, False, False])

    def recording(look: Any, boundary: Boundary, **_: Any) -> Any:
        look(day="thu")
        next(flags)
        return [boundary.flag("fast", lambda: next(flags)) for _ in range(2)]

    told = replayed(build(body), recorded(build(recording), policy=POLICY), policy=POLICY)
    assert told.disposition is not None
    assert told.disposition.output == [False, False]


def test_a_handoff_made_inside_is_made() -> None:
    """The recorded agent inside a tool's body answered for another one that the loop hands to."""

    def make(body: Callable[..., Any]) -> Build:
        def build_agent(boundary: Boundary) -> Agent:
            def inner(child: Boundary) -> Agent:
                planner = child.model("planner", lambda request: {"parts": []})
                return lambda asked: planner({"messages": [asked]})

            helper = boundary.handoff("helper", inner)
            ask = boundary.tool("look", lambda day: helper(day), effect="read")  # noqa: PLW0108 - a handoff is not called by name
            return lambda _: body(ask, helper)

        return build_agent

    envelope = recorded(make(lambda ask, helper: ask(day="thu")), policy=POLICY)
    told = replayed(make(lambda ask, helper: [ask(day="thu"), helper("thu")]), envelope, policy=POLICY)
    assert diverged(told) is Divergence.MODEL_EXHAUSTED
    assert len({played.crossing.at for played in told.played if played.crossing.kind is Kind.HANDOFF}) == 2


def test_a_world_does_not_know_what_a_frozen_agent_wrote() -> None:
    """It answered as if nothing had been written."""

    def make(boundary: Boundary) -> Agent:
        def inner(child: Boundary) -> Agent:
            move = child.tool("move", lambda id, slot: {"id": id, "status": "moved to thu"})  # noqa: A006 - the tool's own argument
            return lambda _: move(id="K1", slot="S1")

        helper = boundary.handoff("helper", inner)
        look = boundary.tool("look", lambda id: {"id": id, "day": "mon"}, effect="read")  # noqa: A006

        def agent(user: Any) -> Any:
            helper(user)
            return look(id="K1")

        return agent

    envelope = recorded(make, policy=DIARY)
    cut = CutPoint(mode=Mode.WORLD, freeze=frozenset({"handoff:helper"}))
    told = replayed(make, envelope, policy=DIARY, cut=cut, world=for_run(a_world(), DIARY, first=True))
    assert diverged(told) is Divergence.WORLD_MISS


def test_attempts_go_on_from_what_was_told() -> None:
    """The loop tries again what failed inside a tool: the second attempt, in the record and here, and no second write."""

    def make(boundary: Boundary) -> Agent:
        def slow(amount: int) -> Any:
            raise TimeoutError("slow")

        pay = boundary.tool("pay", slow)

        def tries(amount: int) -> None:
            with suppress(TimeoutError):
                pay(amount=amount)

        order = boundary.tool("order", tries)

        def agent(_: Any) -> None:
            order(amount=5)
            boundary.tool("note", lambda text: None)(text="late")
            tries(5)

        return agent

    envelope = recorded(make, policy=POLICY)
    told = replayed(make, envelope, policy=POLICY)
    assert [played.crossing.attempt for played in told.played if played.crossing.name == "pay"] == [1, 2]
    assert violated(judged(told, envelope, allowed_writes=[{"tool": "note"}])) == []


def test_a_live_read_is_free_inside_a_frozen_passage_too() -> None:
    def body(look: Any, note: Any, **_: Any) -> None:
        look(day="thu")
        note(text="seen")

    envelope = recorded(build(body), policy=POLICY)
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"tool:find"}))
    told = replayed(build(body), envelope, policy=POLICY, cut=cut)
    verdict = case_grader(a_case(envelope, kind="positive"), some_invariants(), POLICY).trial(told, cut)
    assert violated(verdict) == []
