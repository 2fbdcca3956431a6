"""What a frozen call gets, rule by rule, where the whole run has to be looked at (semantics.md §3.2, §4.3-§4.6, §6)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from builders import a_case, a_crossing, a_policy, an_envelope, recorded, replayed, some_invariants
from shop import POLICY, Agent, diverged
from twiceshy.boundary import Boundary
from twiceshy.casefile import Judge, LoadedCase, Opportunity
from twiceshy.cutpoint import CutPoint, UnknownBoundary
from twiceshy.envelope import Crossing, Effect, Kind
from twiceshy.errors import CaseError
from twiceshy.judging import Rules, Terms, graders
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Mode
from twiceshy.policy import ToolPolicy


def output(told: Any) -> Any:
    assert told.disposition is not None, told
    return told.disposition.output


def test_defaults_come_from_the_callers_own_schema() -> None:
    """A candidate that leaves out what its schema fills in makes the recorded call."""
    policy = a_policy(find=ToolPolicy(effect=Effect.READ, defaults={"size": "absent"}))

    def build(default: int, **asked: Any) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            find = boundary.tool("find", effect="read", schema={"properties": {"size": {"default": default}}})
            return lambda _: find(**asked)

        return make

    envelope = an_envelope(a_crossing(1, "find", seen={"day": "thu", "size": 10}, raw="ten", shown="ten"))
    assert output(replayed(build(10, day="thu"), envelope, policy=policy)) == "ten"
    assert diverged(replayed(build(20, day="thu"), envelope, policy=policy)) is Divergence.ARGS_MISMATCH
    missed = replayed(build(10, day="fri"), envelope, policy=policy).divergence
    assert missed is not None
    assert [field.path for field in missed.nearest[0].fields] == ["day"]


def hooked(place: str) -> Callable[[Boundary], Agent]:
    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", effect="read")
        if place:
            boundary.hook("same", lambda value: value, **{place: "find"})
        return lambda _: find(day="thu")

    return build


SIDES = {"proposed": {"day": "thu"}, "seen": {"day": "thu"}, "raw": [1], "shown": [1]}


@pytest.mark.parametrize(
    ("known", "place", "kind"),
    [
        (("seen",), "", Divergence.SIDE_UNKNOWN),
        (("proposed", "shown"), "", None),
        (("proposed", "raw"), "before", Divergence.SIDE_UNKNOWN),
        (("seen", "raw"), "before", None),
        (("seen", "shown"), "after", Divergence.SIDE_UNKNOWN),
        (("seen", "raw"), "after", None),
        (("proposed", "shown"), "before", Divergence.SIDE_UNKNOWN),
    ],
)
def test_a_live_hook_needs_its_side(known: tuple[str, ...], place: str, kind: Divergence | None) -> None:
    """As chat logs have it: what was proposed and what was shown, and nothing between."""
    crossing = Crossing(seq=1, kind=Kind.TOOL, name="find", effect=Effect.READ, **{side: SIDES[side] for side in known})
    assert diverged(replayed(hooked(place), an_envelope(crossing), policy=POLICY)) is kind


def test_a_pure_tool_without_code_is_answered_by_its_key() -> None:
    def build(*, pays: bool) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            pay, add = boundary.tool("pay"), boundary.tool("add")
            return lambda _: [pay(amount=1) if pays else None, add(a=1)][1]

        return make

    envelope = an_envelope(a_crossing(1, "add", effect=Effect.NONE, seen={"a": 1}, raw=2, shown=2))
    assert output(replayed(build(pays=True), envelope, policy=POLICY)) == 2
    assert output(replayed(build(pays=False), envelope, policy=POLICY)) == 2


def test_a_repeated_answer_is_the_recorded_one_however_it_was_used() -> None:
    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda: {"slots": [1]}, effect="read")

        def agent(_: Any) -> Any:
            find()["slots"].append("mine")
            return find()

        return agent

    once = recorded(
        lambda boundary: lambda _: boundary.tool("find", lambda: {"slots": [1]}, effect="read")(), policy=POLICY
    )
    told = replayed(build, once, policy=POLICY)
    assert (output(told), told.played[1].answered_by) == ({"slots": [1]}, AnsweredBy.REPEATED)


def test_attempts_are_served_and_counted_in_order() -> None:
    answers = iter([TimeoutError("one"), TimeoutError("two"), "there", "again"])

    def find() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def build(boundary: Boundary) -> Agent:
        tool = boundary.tool("find", find, effect="read")

        def agent(_: Any) -> list[str]:
            got = []
            for _ in range(4):
                with suppress(TimeoutError):
                    got.append(tool())
            return got

        return agent

    envelope = recorded(build, policy=POLICY)
    told = replayed(build, envelope, policy=POLICY)
    assert output(told) == ["there", "again"]
    assert [p.crossing.attempt for p in told.played] == [c.attempt for c in envelope.crossings] == [1, 2, 3, 1]


def test_the_candidates_own_result_schema_shapes_an_improvised_answer() -> None:
    def build(boundary: Boundary) -> Agent:
        send = boundary.tool("send", result_schema={"type": "object", "required": ["a"], "properties": {"a": {"const": "own"}}})  # fmt: skip
        return lambda _: send()

    policy = a_policy(send=ToolPolicy(result_schema={"const": "of tools.yaml"}))
    assert output(replayed(build, an_envelope(), policy=policy)) == {"a": "own"}


def test_a_stub_freezes_code_too() -> None:
    def build(*, passes: bool) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            find = boundary.tool("find", lambda: "found", effect="read")
            boundary.guard("limit", lambda asked: passes, before="find")
            return lambda _: find()

        return make

    envelope = recorded(build(passes=True), policy=POLICY)
    told = replayed(build(passes=False), envelope, policy=POLICY, cut=CutPoint(mode=Mode.STUB))
    assert (output(told), [p.boundary for p in told.played]) == ("found", [BoundaryState.FROZEN] * 2)
    assert replayed(build(passes=False), envelope, policy=POLICY).played[0].crossing.blocked_by == "limit"


def test_only_declared_boundaries_can_be_named() -> None:
    known = {"tool:find", "model:planner", "hook:strip"}
    CutPoint(live=frozenset({"tool:find", "model:*"}), freeze=frozenset({"hook:strip"})).refuse_unknown(known)
    for cut in (CutPoint(live=frozenset({"tool:fnd"})), CutPoint(freeze=frozenset({"guard:*"}))):
        with pytest.raises(UnknownBoundary, match="It declares hook:strip, model:planner, tool:find"):
            cut.refuse_unknown(known)


def refused(judge: Judge, *cases: LoadedCase) -> None:
    rules = Rules(policy=POLICY, invariants=some_invariants(), harness="h")
    graders(cases, rules, Terms(judges=[judge]))


def a_positive(*crossings: Crossing, **given: Any) -> LoadedCase:
    return a_case(an_envelope(*crossings), kind="positive", **given)


def test_a_mode_that_judges_nothing_is_refused() -> None:
    says = (
        a_crossing(1, "planner", kind=Kind.MODEL, effect=None),
        a_crossing(3, "planner", kind=Kind.MODEL, effect=None),
    )
    silent = a_positive(*says)
    refused(Judge(mode=Mode.CUT_POINT, after=2), silent)
    with pytest.raises(CaseError, match=r"nothing to judge of .*--after 3, and the record ends at step 3"):
        refused(Judge(mode=Mode.CUT_POINT, after=3), silent)
    with pytest.raises(CaseError, match="needs a world"):
        refused(Judge(mode=Mode.WORLD), silent)


@pytest.mark.parametrize("named", [None, Opportunity(seq=3), Opportunity(tool="pay")])
def test_a_prefix_that_holds_the_opportunity_is_refused_with_every_case_it_holds_it_of(
    named: Opportunity | None,
) -> None:
    """The record would stand for the candidate at the very step that the case is about."""
    calls = a_crossing(1), a_crossing(2), a_crossing(3, "pay", effect=Effect.WRITE), a_crossing(4)
    early = a_positive(*calls, id="early", opportunity=named)
    also = a_positive(*calls, id="also", opportunity=Opportunity(seq=2))
    late = a_positive(*calls, id="late", opportunity=Opportunity(seq=4))
    refused(Judge(mode=Mode.CUT_POINT, after=2), early, late)
    with pytest.raises(CaseError) as raised:
        refused(Judge(mode=Mode.CUT_POINT, after=3), early, also, late)
    assert str(raised.value) == (
        "the prefix leaves nothing to judge of early (--after 3, and its opportunity is step 3), "
        "also (--after 3, and its opportunity is step 2). Cut earlier, or choose other cases."
    )
