"""Tools whose bodies call other boundaries: their own record replays as itself, and what lay inside comes with the answer."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_policy, recorded, replayed
from shop import Agent, diverged
from tasks.admit.rerunning import rerun
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind
from twiceshy.exercise import exercise
from twiceshy.outcome import BoundaryState, Divergence, Mode

POLICY = a_policy(look="read", plain="read", docs="read", recall="read")


def build(body: Callable[..., Any], *, hooked: bool = False, inner: int = 1) -> Callable[[Boundary], Agent]:
    """look (read) and order (write) go through plain, a model, pay and chance on their way."""

    def make(boundary: Boundary) -> Agent:
        plain = boundary.tool("plain", lambda day: [day], effect="read")
        pay = boundary.tool("pay", lambda amount: amount)
        boundary.hook("seen", lambda asked: asked, before="pay")
        planner = boundary.model("planner", lambda request: {"parts": [request]})
        tools = {"plain": plain, "pay": pay, "planner": planner, "boundary": boundary}

        def order(amount: int) -> Any:
            done = [planner({"inside": at}) for at in range(inner)]
            pay(amount=amount)
            return [*done, boundary.rng.random(), boundary.now().isoformat(), plain(day="in")]

        tools["order"] = boundary.tool("order", order)
        tools["look"] = boundary.tool("look", lambda day: [plain(day=day), planner({"look": day})], effect="read")
        if hooked:
            boundary.hook("late", lambda found: [*found, plain(day="hook")], after="look")
        return lambda _: body(**tools)

    return make


def mixed(plain: Any, pay: Any, planner: Any, order: Any, look: Any, boundary: Boundary) -> Any:
    out = [planner({"loop": 1}), order(amount=5), plain(day="in"), look(day="x"), boundary.rng.random()]
    return [*out, planner({"loop": 2}), plain(day="in"), order(amount=6), boundary.rng.random(), pay(amount=5)]


@pytest.mark.parametrize(
    "cut", [CutPoint(), CutPoint(mode=Mode.STUB), *(CutPoint(mode=Mode.CUT_POINT, after=at) for at in (2, 7, 11))]
)
def test_a_reentrant_record_replays_as_itself(cut: CutPoint) -> None:
    envelope = recorded(build(mixed, hooked=True), policy=POLICY)
    told = replayed(build(mixed, hooked=True), envelope, policy=POLICY, cut=cut)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    steps = [
        (p.crossing.place, p.crossing.name, p.crossing.parent, p.crossing.group)
        for p in told.played
        if not p.crossing.sub
    ]
    assert steps == [(c.place, c.name, c.parent, c.group) for c in envelope.crossings if not c.sub]
    assert not any(p.stale or p.drift for p in told.played)


def routing(way: str, *, nested: bool = True) -> Callable[[Boundary], Agent]:
    """A tool whose body asks a router and a checkpoint, the router a model; hooks on both sides, and the same router in the loop."""

    def make(boundary: Boundary) -> Agent:
        planner = boundary.model("planner", lambda request: {"parts": [request]})
        choose = boundary.router("way", lambda day: [planner({"way": day}) if nested else None, way][1])
        check = boundary.checkpoint("open", lambda _: None)
        look = boundary.tool(
            "look", lambda day: [boundary.now().isoformat(), choose(day), check({"day": day})], effect="read"
        )
        boundary.hook("before", lambda asked: asked, before="look")
        boundary.hook("after", lambda found: found, after="look")
        return lambda _: [look(day="thu"), choose("fri")]

    return make


def test_code_that_was_called_in_a_body_is_told_with_its_answer() -> None:
    """It does not run, since the body does not, and what is not told was met by nobody: a changed router would pass unseen."""
    envelope = recorded(routing("east"), policy=POLICY)
    inside = [c for c in envelope.crossings if c.parent == "#1" and c.kind in (Kind.ROUTER, Kind.GUARD)]
    assert [c.name for c in inside] == ["way", "open"]
    told = replayed(routing("west"), envelope, policy=POLICY)
    assert told.divergence is None
    ways = [p for p in told.played if p.crossing.name == "way"]
    assert [(p.boundary, p.exercised, p.crossing.parent, p.crossing.raw) for p in ways] == [
        (BoundaryState.FROZEN, False, "#1", "east"), (BoundaryState.LIVE, True, None, "west"),
    ]  # fmt: skip
    assert "routing" not in exercise([told]).frozen  # the same router ran in the loop
    places = [p.crossing.place for p in told.played]
    assert len(places) == len(set(places))


def test_a_router_that_only_ran_in_frozen_bodies_was_not_exercised() -> None:
    def make(boundary: Boundary) -> Agent:
        choose = boundary.router("way", lambda day: day)
        look = boundary.tool("look", lambda day: [choose(day)], effect="read")
        return lambda _: look(day="thu")

    told = replayed(make, recorded(make, policy=POLICY), policy=POLICY)
    assert (exercise([told]).live, "routing" in exercise([told]).frozen) == (frozenset(), True)


@pytest.mark.parametrize("cut", [CutPoint(), CutPoint(mode=Mode.STUB), CutPoint(mode=Mode.CUT_POINT, after=1)])
def test_a_record_with_code_in_bodies_replays_as_itself(cut: CutPoint) -> None:
    envelope = recorded(routing("east"), policy=POLICY)
    told = replayed(routing("east"), envelope, policy=POLICY, cut=cut)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    asked = [
        (c.kind, c.name, c.parent and c.parent.partition(".")[0], c.raw)
        for c in envelope.crossings
        if c.kind is not Kind.CLOCK
    ]
    assert [
        (p.crossing.kind, p.crossing.name, p.crossing.parent and p.crossing.parent.partition(".")[0], p.crossing.raw)
        for p in told.played
        if p.crossing.kind is not Kind.CLOCK
    ] == asked


def test_a_bodys_writes_come_frozen_with_its_answer() -> None:
    told = replayed(build(mixed), recorded(build(mixed), policy=POLICY), policy=POLICY)
    pays = [p for p in told.played if p.crossing.name == "pay"]
    assert [(p.boundary, p.exercised, p.crossing.seen) for p in pays[:2]] == [
        (BoundaryState.FROZEN, False, {"amount": 5}),
        (BoundaryState.FROZEN, False, {"amount": 6}),
    ]
    assert [p.crossing.name for p in told.played if p.crossing.kind is Kind.HOOK] == ["seen"] * 3


def test_what_lay_inside_answers_nobody_else() -> None:
    """The model's output inside `order` was used up by it; asked for in the loop, it would be a second answer."""

    def once(plain: Any, order: Any, **_: Any) -> Any:
        return [order(amount=5), plain(day="in")]

    def in_the_loop(planner: Any, order: Any, **_: Any) -> Any:
        order(amount=5)
        return planner({"other": 1})

    envelope = recorded(build(once), policy=POLICY)
    assert diverged(replayed(build(in_the_loop), envelope, policy=POLICY)) is Divergence.MODEL_EXHAUSTED


def test_a_bodys_write_changes_the_state() -> None:
    def without(plain: Any, **_: Any) -> Any:
        return plain(day="in")

    def after(plain: Any, order: Any, **_: Any) -> Any:
        order(amount=5)
        return plain(day="in")

    assert (
        diverged(replayed(build(without), recorded(build(after), policy=POLICY), policy=POLICY))
        is Divergence.STATE_MISMATCH
    )


def test_a_live_read_crosses_its_own_boundaries() -> None:
    envelope = recorded(build(mixed), policy=POLICY)
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"tool:look"}))
    told = replayed(build(mixed), envelope, policy=POLICY, cut=cut)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    inside = [p for p in told.played if p.crossing.parent == "#7" and not p.crossing.sub]
    assert [(p.crossing.name, p.boundary) for p in inside] == [
        ("plain", BoundaryState.FROZEN),
        ("planner", BoundaryState.FROZEN),
    ]


def test_a_reentrant_record_is_admitted() -> None:
    envelope = recorded(build(mixed, hooked=True), policy=POLICY)
    told = rerun(envelope, POLICY)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    assert len(told.played) == len(envelope.crossings)


@given(st.lists(st.sampled_from(["plain", "pay", "order", "look", "planner", "rng"]), max_size=8), st.integers(0, 2))
def test_any_reentrant_run_is_its_own_replay(steps: list[str], inner: int) -> None:
    def body(boundary: Boundary, planner: Any, **tools: Any) -> Any:
        out: list[Any] = []
        for at, step in enumerate(steps):
            if step == "rng":
                out.append(boundary.rng.random())
            elif step == "planner":
                out.append(planner({"loop": at}))
            else:
                out.append(tools[step](**({"day": "x"} if step in ("plain", "look") else {"amount": at})))
        return out

    made = build(body, inner=inner)
    envelope = recorded(made, policy=POLICY)
    told = replayed(made, envelope, policy=POLICY)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)


def remembers(boundary: Boundary) -> Agent:
    docs = boundary.retrieval("docs", lambda query: [query])
    recall = boundary.memory("recall", lambda topic: [topic], effect="read")
    remember = boundary.memory("remember", lambda topic: None)
    return lambda _: [docs(query="a"), recall(topic="t"), remember(topic="t"), recall(topic="t"), docs(query="a")]


def test_memory_and_retrieval_replay_as_they_were() -> None:
    envelope = recorded(remembers, policy=POLICY)
    assert [(c.kind, c.effect) for c in envelope.crossings[:3]] == [
        (Kind.RETRIEVAL, "read"), (Kind.MEMORY, "read"), (Kind.MEMORY, "write")]  # fmt: skip
    told = replayed(remembers, envelope, policy=POLICY)
    assert (told.divergence, told.disposition) == (None, envelope.disposition)
    assert [p.boundary for p in told.played][:3] == [
        BoundaryState.FROZEN,
        BoundaryState.FROZEN,
        BoundaryState.INTERCEPTED,
    ]


def test_putting_into_memory_is_a_write() -> None:
    def forgets(boundary: Boundary) -> Agent:
        recall = boundary.memory("recall", lambda topic: [topic], effect="read")
        boundary.memory("remember", lambda topic: None)
        return lambda _: [recall(topic="t"), recall(topic="t"), recall(topic="u")]

    envelope = recorded(remembers, policy=POLICY)
    told = replayed(forgets, envelope, policy=POLICY)
    assert diverged(told) is Divergence.ARGS_MISMATCH

    def later(boundary: Boundary) -> Agent:
        recall = boundary.memory("recall", lambda topic: [topic], effect="read")
        remember = boundary.memory("remember", lambda topic: None)
        return lambda _: [remember(topic="other"), recall(topic="t")]

    assert diverged(replayed(later, envelope, policy=POLICY)) is Divergence.STATE_MISMATCH


@pytest.mark.parametrize("name", ["retrieval:docs", "memory:recall"])
def test_a_named_read_runs_live(name: str) -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({name}))
    cut.refuse_live_writes(POLICY)
    told = replayed(remembers, recorded(remembers, policy=POLICY), policy=POLICY, cut=cut)
    called = name.partition(":")[2]
    assert {p.boundary for p in told.played if p.crossing.name == called} == {BoundaryState.LIVE}
    assert told.divergence is None


def test_a_write_dressed_as_a_look_up_is_intercepted() -> None:
    def pays(boundary: Boundary) -> Agent:
        pay = boundary.tool("pay", lambda amount: amount)
        return lambda _: pay(amount=1)

    def looks(boundary: Boundary) -> Agent:
        pay = boundary.retrieval("pay", lambda amount: pytest.fail("it ran"))
        return lambda _: pay(amount=2)

    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"retrieval:pay"}))
    told = replayed(looks, recorded(pays), cut=cut)
    assert [p.boundary for p in told.played] == [BoundaryState.INTERCEPTED]


def test_chance_inside_a_body_is_its_own() -> None:
    def build_with(draws: int) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            roll = boundary.tool("roll", lambda: [boundary.rng.random() for _ in range(draws)], effect="none")
            return lambda _: [boundary.rng.random(), roll(), boundary.rng.random()]

        return make

    envelope = recorded(build_with(2))
    first, _, second = envelope.disposition.output
    told = replayed(build_with(5), envelope, policy=a_policy(roll="none"))
    assert told.disposition is not None
    assert (told.disposition.output[0], told.disposition.output[2]) == (first, second)
