"""Claims that rested on nothing: a check that judged nothing, a layer that never ran, a write that the record explains once too often."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET

from builders import (
    Build,
    a_case,
    a_crossing,
    a_model,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    recorded,
    replayed,
    some_invariants,
)  # fmt: skip
from shop import Agent, diverged
from twiceshy.boundary import Boundary
from twiceshy.candidates import Candidate, layers
from twiceshy.casefile import Expect
from twiceshy.conversations import _joined
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, ErrorRecord
from twiceshy.errors import CaseError, InvariantError
from twiceshy.evidence import replayed_run
from twiceshy.exercise import changed_layers, exercise, not_exercised
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import BoundaryState, Divergence, Outcome
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Transcript
from twiceshy.writes import DeclaredWrite

POLICY = a_policy(find="read", pay=ToolPolicy(touches=("money",)), tell=ToolPolicy(touches=("money",)))


def judged(told: Transcript, envelope: Envelope, *, file: dict[str, Any] | None = None, **case: Any) -> TrialVerdict:
    loaded = a_case(envelope, **{"kind": "positive", **case})
    return case_grader(loaded, some_invariants(**(file or {})), POLICY).trial(told, CutPoint())


# The record explains a write as often as it was made.


def writes(*made: tuple[str, int]) -> Transcript:
    return a_transcript(*(a_write(seq, name, seen={"amount": amount}) for seq, (name, amount) in enumerate(made, start=1)))  # fmt: skip


def test_the_record_explains_a_write_once() -> None:
    """Made again after another one, a payment was no duplicate, and the record explained both."""
    envelope = an_envelope(a_crossing(1, "pay", effect=Effect.WRITE, seen={"amount": 5}))
    file = {"allowed_writes": [{"tool": "tell"}]}
    once, again = writes(("pay", 5), ("tell", 1)), writes(("pay", 5), ("tell", 1), ("pay", 5))
    assert judged(once, envelope, file=file).outcome is Outcome.PASSED
    assert [found.id for found in judged(again, envelope, file=file).violations] == ["explained_writes"]
    expected = Expect(writes=[DeclaredWrite(tool="pay", args={"amount": 5})])
    assert judged(again, envelope, file=file, expect=expected).outcome is Outcome.PASSED
    twice = an_envelope(*(a_crossing(at, "pay", effect=Effect.WRITE, seen={"amount": 5}) for at in (1, 2)))
    assert judged(again, twice, file=file).outcome is Outcome.PASSED


def test_attempts_of_one_write_are_explained_once() -> None:
    slow = ErrorRecord(cls="TimeoutError", type="timeout")
    envelope = an_envelope(a_crossing(1, "pay", effect=Effect.WRITE, seen={"amount": 5}))
    told = a_transcript(
        a_write(1, "pay", seen={"amount": 5}, error=slow, idempotency_key="k"),
        a_write(2, "pay", seen={"amount": 5}, attempt=2, idempotency_key="k"),
    )
    assert judged(told, envelope).outcome is Outcome.PASSED


def test_turns_joined_to_a_conversation_keep_what_lay_inside_what() -> None:
    """A step inside the second turn's second step seemed to lie inside the first turn's: so did the writes between two equal ones."""
    inside = replayed_run(
        a_transcript(a_write(1, "pay"), a_write(2, "tell", parent="#1"), a_write(3, "pay", parent="#2")), POLICY
    )  # fmt: skip
    joined, _ = _joined([inside, inside], {0: "first", 1: "second"}, POLICY)
    assert [step.crossing.parent for step in joined.steps] == [None, "#1", "#2", None, "#4", "#5"]


# What a case stands for is judged.


@pytest.mark.parametrize("name", ["no_loop", "goal", "nothing_else", "expected_writes", "latency", "forbidden_tools"])
def test_a_case_stands_for_no_check_that_is_off(name: str) -> None:
    with pytest.raises(CaseError, match=f"stands for {name}, which is off here"):
        judged(writes(("pay", 5)), an_envelope(a_crossing(1, "pay", effect=Effect.WRITE)), invariants=[name])


def test_a_check_of_its_own_that_had_nothing_to_judge_is_no_pass() -> None:
    """The user spoke once, so no fact could be lost between turns; that was a pass of the case about lost facts."""
    envelope = an_envelope(a_crossing(1, "pay", effect=Effect.WRITE, seen={"amount": 5}))
    assert judged(writes(("pay", 5)), envelope).outcome is Outcome.PASSED
    verdict = judged(writes(("pay", 5)), envelope, invariants=["context_drift"])
    assert verdict.outcome is Outcome.DIVERGED
    assert verdict.divergence is not None
    assert "context_drift" in verdict.divergence.detail


def test_a_case_about_counts_enforces_them() -> None:
    """In full mode a wrong count was reported only, also where the case is about nothing else."""
    envelope = an_envelope(a_crossing(1, "find"), a_crossing(2, "pay", effect=Effect.WRITE))
    told = a_transcript(a_write(1, "pay"))
    assert judged(told, envelope).outcome is Outcome.PASSED
    assert judged(told, envelope, invariants=["call_counts"]).outcome is Outcome.FAILED
    assert judged(told, envelope, invariants=["call_counts"], enforce_counts=False).outcome is Outcome.PASSED


@pytest.mark.parametrize("spec", [{"kind": "must_happen", "at": {"human": "boss"}}, {"kind": "order", "first": {"human": "boss"}, "then": {"tool": "pay"}}])  # fmt: skip
def test_an_answer_is_not_a_grant_yet(spec: dict[str, Any]) -> None:
    """A person who refused had answered, and an approval before the payment was thereby given."""
    with pytest.raises(InvariantError, match="boss may refuse"):
        some_invariants({"id": "approved", **spec})
    part = "at" if "at" in spec else "first"
    some_invariants({"id": "approved", **spec, part: {"human": "boss", "returned": {"granted": True}}})


# What was not exercised was not judged.


def played_by(*boundaries: tuple[str, BoundaryState]) -> Transcript:
    return a_transcript(*(a_model(seq, name, boundary=state) for seq, (name, state) in enumerate(boundaries, start=1)))


def test_one_live_model_does_not_exercise_another() -> None:
    """The digest of a layer is that of all its models and prompts; the one that changed may be the one that was frozen."""
    one = exercise([played_by(("planner", BoundaryState.LIVE), ("writer", BoundaryState.FROZEN))])
    assert not_exercised(one, ["model", "prompt"]) == ["model", "prompt"]
    both = [played_by(("planner", BoundaryState.LIVE)), played_by(("writer", BoundaryState.LIVE))]
    assert not_exercised(exercise([*both, played_by(("writer", BoundaryState.FROZEN))]), ["model", "prompt"]) == []


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"prompt": "be firm"}, {"prompt"}),
        ({"schema": {"type": "object"}}, {"tool:pay"}),
        ({"guard": lambda asked: None}, {"harness"}),
        ({}, set()),
    ],
    ids=["prompt", "schema", "guard", "nothing"],
)
def test_what_an_inner_agent_is_made_of_is_a_layer_too(given: Any, changed: set[str]) -> None:
    """Only what the outer agent declares had a digest: another prompt of the agent that it hands to was no change."""

    def limit(asked: Any) -> str | None:
        return "too much" if asked["amount"] > 5 else None

    def make(prompt: str = "be kind", schema: Any = None, guard: Callable[..., Any] = limit) -> Build:
        def within(child: Boundary) -> Agent:
            child.model("planner", plan, prompt=prompt)
            child.tool("pay", schema={"type": "array"} if schema is None else schema)
            child.guard("limit", guard, before="pay")
            return plan

        def build(boundary: Boundary) -> Agent:
            boundary.handoff("helper", within)
            return plan

        return build

    said = Candidate(workflow="refund")
    unknown = {"memory", "skills", "routing"}
    assert changed_layers(layers(make(**given), said), layers(make(), said)) - unknown == changed


def plan(request: Any) -> Any:
    return request


# A hook that needs what nobody recorded.


def test_an_error_needs_the_side_that_hooks_stand_on_too() -> None:
    """Only what was asked before the hooks was recorded, so what the tool had refused is not known."""
    error = ErrorRecord(cls="builtins.LookupError", type="LookupError", message="no such day")
    proposed = a_crossing(1, "find", proposed={"day": "thu"}, seen=UNSET, raw=UNSET, shown=UNSET, error=error)

    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda day: day, effect="read")
        boundary.hook("trim", lambda asked: asked, before="find")

        def agent(_: Any) -> str:
            try:
                find(day="thu")
            except LookupError:
                return "not there"
            return "there"

        return agent

    assert diverged(replayed(build, an_envelope(proposed), policy=POLICY)) is Divergence.SIDE_UNKNOWN
    assert diverged(replayed(build, recorded(build, policy=POLICY), policy=POLICY)) is None
