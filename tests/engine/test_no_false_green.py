"""Runs that looked good and were not: each was PASSED once, or stood behind a claim that did not hold, and must never be so again."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from builders import Build, a_case, a_crossing, a_policy, an_envelope, recorded, replayed, some_invariants
from shop import Agent, diverged
from twiceshy import casefile
from twiceshy.boundary import Boundary
from twiceshy.casefile import Case, Expect, Opportunity
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, Kind
from twiceshy.errors import CaseError
from twiceshy.frozenmodel import FrozenModels
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import Divergence, Mode, Outcome
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.transcript import Transcript
from twiceshy.worlds.goals import Goal
from twiceshy.writes import DeclaredGrant, DeclaredWrite

POLICY = a_policy(find=ToolPolicy(effect=Effect.READ, definite_errors=("LookupError",)), pay=ToolPolicy(definite_errors=("LookupError",)))  # fmt: skip


def judged(
    told: Transcript, envelope: Envelope, *specs: Any, policy: ToolsPolicy = POLICY, file: dict[str, Any] | None = None, cut: CutPoint | None = None,
    **case: Any,
) -> TrialVerdict:  # fmt: skip
    loaded = a_case(envelope, **{"kind": "positive", **case})
    return case_grader(loaded, some_invariants(*specs, **(file or {})), policy).trial(told, cut or CutPoint())


def violated(verdict: TrialVerdict) -> list[str]:
    return [judgement.id for judgement in verdict.violations]


# People.


def talking(*messages: str) -> Build:
    def build(boundary: Boundary) -> Agent:
        customer = boundary.user("customer", lambda said: f"yes to {said}")
        return lambda _: [customer(message) for message in messages]

    return build


def test_first_turn_of_a_user_is_not_the_second() -> None:
    """An opportunity at the second question was found at the first one, for neither has a key."""
    envelope = recorded(talking("a", "b"))
    told = replayed(talking("a"), envelope)
    verdict = judged(told, envelope, opportunity=Opportunity(seq=2))
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.OPPORTUNITY_NOT_REACHED


def asking(amount: int) -> Build:
    def build(boundary: Boundary) -> Agent:
        boss = boundary.human("boss", lambda asked: {"granted": asked["amount"] < 100})
        planner = boundary.model("planner", lambda request: {"parts": [{"type": "text", "text": "refused"}]})

        def agent(_: Any) -> Any:
            boss({"amount": amount})
            return planner({"messages": [1]})

        return agent

    return build


def test_text_that_answers_a_refusal_is_none_after_a_grant() -> None:
    """A declared grant is shown where the record has a refusal, so what the frozen model says after it is another run's."""
    envelope = recorded(asking(500))
    told = replayed(asking(600), envelope, grants=[DeclaredGrant(human="boss", answer={"granted": True})])
    assert [played.stale for played in told.played] == [False, True]
    assert not any(played.stale for played in replayed(asking(500), envelope).played)


# Models.


def requesting(*requests: Any, fails: bool = False) -> Build:
    def build(boundary: Boundary) -> Agent:
        def plan(request: Any) -> Any:
            if fails:
                raise TimeoutError("slow")
            return {"parts": [{"type": "tool_call", "name": "find", "arguments": {}}]}

        planner = boundary.model("planner", plan)

        def agent(_: Any) -> str:
            for request in requests:
                with suppress(TimeoutError):
                    planner(request)
            return "gave up"

        return agent

    return build


def test_a_request_without_a_shape_is_of_another_shape() -> None:
    envelope = recorded(requesting({"messages": [], "tools": [{"name": "find"}]}))
    assert diverged(replayed(requesting(["find"]), envelope)) is Divergence.MODEL_SHAPE


def test_a_models_error_is_not_made_up_again() -> None:
    """Who tries again asks something that nobody recorded."""
    envelope = recorded(requesting({"messages": [1]}, fails=True))
    told = replayed(requesting({"messages": [1]}, {"messages": [1]}), envelope)
    assert diverged(told) is Divergence.MODEL_EXHAUSTED


def test_counting_outputs_as_served_looks_through_none() -> None:
    """`passed` walked through all outputs once for each of them."""

    class Watched(list[Any]):
        looked = 0

        def __iter__(self) -> Any:
            Watched.looked += 1
            return super().__iter__()

    outputs = [a_crossing(at, "planner", kind=Kind.MODEL, effect=None, raw={"at": at}) for at in range(1, 4)]
    models = FrozenModels(outputs)
    held = models._outputs["", "planner"]
    held.crossings = Watched(held.crossings)
    models.passed(outputs[1])
    assert (held.served, Watched.looked) == ({1}, 0)


# Writes that a case expects.


def test_an_approval_that_may_have_failed_comes_before_nothing() -> None:
    def build(*, fails: bool) -> Build:
        def make(boundary: Boundary) -> Agent:
            def approve(amount: int) -> None:
                if fails:
                    raise TimeoutError

            asked, pay = boundary.tool("approve", approve), boundary.tool("pay", lambda amount: None)

            def agent(_: Any) -> None:
                with suppress(TimeoutError):
                    asked(amount=5)
                pay(amount=5)

            return agent

        return make

    expect = Expect(writes=[DeclaredWrite(tool="approve"), DeclaredWrite(tool="pay")], in_order=True)
    outcomes = {}
    for fails in (True, False):
        envelope = recorded(build(fails=fails), policy=POLICY)
        outcomes[fails] = judged(replayed(build(fails=fails), envelope, policy=POLICY), envelope, expect=expect)
    assert outcomes[False].outcome is Outcome.PASSED
    assert violated(outcomes[True]) == ["expected_writes"]


def test_an_order_that_rests_on_an_improvised_answer_proves_nothing() -> None:
    def build(*tools: str) -> Build:
        return lambda boundary: lambda _: [boundary.tool(name, lambda: None)() for name in tools]

    envelope = recorded(build("pay"), policy=POLICY)
    expect = Expect(writes=[DeclaredWrite(tool="approve"), DeclaredWrite(tool="pay", args={})], in_order=True)
    policy = a_policy(approve=ToolPolicy(touches=()), pay=ToolPolicy(touches=("money",)))
    verdict = judged(replayed(build("approve", "pay"), envelope, policy=policy), envelope, policy=policy, expect=expect)
    assert verdict.divergence is not None
    assert verdict.divergence.kind is Divergence.WRITE_UNANSWERABLE


@pytest.mark.parametrize("change", ["updated", "deleted"])
def test_a_goal_without_a_key_would_cover_a_strangers_row(change: Any, tmp_path: Path) -> None:
    envelope = an_envelope(a_crossing(1))
    expect = Expect(goal=[Goal(table="appointments", change=change, fields={"day": "thu"})])
    case = Case(id="c", kind="positive", workflow="refund", trace_id=envelope.trace_id, world="world.yaml", expect=expect)  # fmt: skip
    casefile.save(tmp_path / "case", case, envelope, world="format: twiceshy/world/1\n")
    with pytest.raises(CaseError, match="needs its key"):
        casefile.load(tmp_path / "case")


def asking_for(name: str, *amounts: int, kind: str) -> Build:
    def build(boundary: Boundary) -> Agent:
        made = getattr(boundary, kind)(name, lambda amount: amount, **({"tightened": True} if kind == "tool" else {}))
        return lambda _: [made(amount=amount) for amount in amounts]

    return build


@pytest.mark.parametrize("kind", ["tool", "retrieval"])
def test_what_is_intercepted_as_a_write_is_judged_as_one(kind: str) -> None:
    """A tool that tools.yaml calls a read and its server a write; a look-up that tools.yaml calls a write: nobody asked what explains them."""
    name = "find" if kind == "tool" else "pay"
    envelope = recorded(asking_for(name, 1, kind=kind), policy=POLICY)
    once, other, twice = (
        replayed(asking_for(name, *amounts, kind=kind), envelope, policy=POLICY) for amounts in ([1], [2], [1, 1])
    )
    assert all(played.intent for told in (once, other, twice) for played in told.played)
    assert judged(once, envelope).outcome is Outcome.PASSED
    assert violated(judged(other, envelope)) == ["explained_writes"]
    assert violated(judged(twice, envelope)) == ["no_duplicate_write"]


# Cut-points.


def test_all_of_a_kind_may_be_frozen() -> None:
    """`--freeze hook:*` was taken, shown in the manifest as live, and left every hook live."""
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}), freeze=frozenset({"hook:*", "model:*"}))
    states = cut.manifest(["hook:strip", "guard:limit", "model:planner"], POLICY)
    assert states == {"guard:limit": "live", "hook:strip": "frozen", "model:planner": "frozen"}
    assert not cut.has_live_model
