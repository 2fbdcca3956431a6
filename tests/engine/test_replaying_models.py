from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from builders import recorded, replayed
from shop import POLICY, Agent, diverged, record, replay
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Grade
from twiceshy.outcome import BoundaryState, Divergence, Mode


def test_a_changed_prompt_is_noted_as_drift() -> None:
    def asks(system: str, text: str) -> Callable[..., Any]:
        def body(user: Any, find: Any, pay: Any, planner: Any) -> Any:
            return planner({"messages": [{"role": "system", "content": system}, {"role": "user", "content": text}]})

        return body

    envelope = record(asks("be kind", "hello"))
    assert [p.drift for p in replay(envelope, asks("be kind", "hello")).played] == [None]
    assert [p.drift for p in replay(envelope, asks("be kind", "bye")).played] == ["messages"]
    assert [p.drift for p in replay(envelope, asks("be firm", "hello")).played] == ["template"]


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        ({"messages": [1], "tools": [{"name": "find"}]}, None),
        ({"messages": [2], "tools": [{"name": "find"}]}, None),
        ({"messages": [1], "tools": [{"name": "find", "parameters": {}}]}, Divergence.MODEL_SHAPE),
        ({"messages": [1], "tools": [{"name": "find"}], "output_format": "json"}, Divergence.MODEL_SHAPE),
        ({"messages": [1], "tools": [{"name": "find"}], "output_format": None}, None),
        ({"messages": [1], "tools": []}, Divergence.MODEL_SHAPE),
    ],
)
def test_a_frozen_output_needs_the_same_tools(request_: Any, kind: Divergence | None) -> None:
    def asks(request: Any) -> Callable[..., Any]:
        return lambda user, find, pay, planner: planner(request)

    assert diverged(replay(record(asks({"messages": [1], "tools": [{"name": "find"}]})), asks(request_))) is kind


@pytest.mark.parametrize(
    ("grade", "kind"), [(None, Divergence.MODEL_SHAPE), ("recorded", Divergence.MODEL_SHAPE), ("missing", None), ("derived", None)]
)  # fmt: skip
def test_what_no_request_names_was_not_offered(grade: Any, kind: Divergence | None) -> None:
    """Unless the record grades that nobody knows what was."""

    def asks(**more: Any) -> Callable[..., Any]:
        return lambda user, find, pay, planner: planner({"messages": [1], **more})

    grades = {} if grade is None else {"R7": Grade(grade=grade)}
    envelope = msgspec.structs.replace(record(asks()), grades=grades)
    for more in ({"tools": [{"name": "wipe"}]}, {"output_format": "json"}):
        assert diverged(replay(envelope, asks(**more))) is kind
    assert replay(envelope, asks(tools=[], output_format=None)).divergence is None


def test_a_proposal_must_still_be_offered() -> None:
    def build(offered: list[Any], output: Any) -> Callable[[Boundary], Agent]:
        def make(boundary: Boundary) -> Agent:
            planner = boundary.model("planner", lambda _: output)
            return lambda _: planner({"messages": [], "tools": offered})

        return make

    output = {"parts": [{"type": "tool_call", "name": "pay", "arguments": {}}]}
    envelope = recorded(build([{"name": "find"}], output), policy=POLICY)
    assert (
        diverged(replayed(build([{"name": "find"}], output), envelope, policy=POLICY))
        is Divergence.PROPOSAL_NOT_OFFERED
    )


def test_no_further_output_is_model_exhausted() -> None:
    def asks(times: int) -> Callable[..., Any]:
        return lambda user, find, pay, planner: [planner({"messages": [at] * 2}) for at in range(times)]

    assert diverged(replay(record(asks(1)), asks(2))) is Divergence.MODEL_EXHAUSTED


def test_an_exhausted_model_is_named_with_what_the_record_holds_of_it_and_of_others() -> None:
    def asks(name: str, times: int = 1) -> Callable[[Boundary], Agent]:
        def build(boundary: Boundary) -> Agent:
            model = boundary.model(name, lambda _: {"parts": []})
            return lambda _: [model({"messages": [at]}) for at in range(times)]

        return build

    def said(build: Callable[[Boundary], Agent]) -> str:
        told = replayed(build, recorded(asks("planner", 2), policy=POLICY), policy=POLICY)
        assert told.divergence is not None
        return told.divergence.detail

    assert said(asks("planner", 3)) == "all 2 outputs recorded of 'planner' were served"
    assert said(asks("writer")) == "the record holds no output of 'writer'; it holds 'planner' (2 outputs)"


def test_outputs_are_served_by_request_before_order() -> None:
    def asks(*sizes: int) -> Callable[..., Any]:
        return lambda user, find, pay, planner: [
            planner({"messages": [0] * size})["parts"][0]["text"] for size in sizes
        ]

    told = replay(record(asks(1, 2)), asks(2, 1))
    assert told.disposition is not None
    assert told.disposition.output == ["step 2", "step 1"]


@pytest.mark.parametrize("name", ["model:planner", "model:*"])
def test_a_live_model_runs_the_candidates_code(name: str) -> None:
    told = replay(record(), cut=CutPoint(mode=Mode.CUT_POINT, live=frozenset({name})))
    assert [p.boundary for p in told.played if p.crossing.name == "planner"] == [BoundaryState.LIVE] * 2


def test_a_live_model_must_be_told_the_date() -> None:
    def asks(text: str) -> Callable[..., Any]:
        return lambda user, find, pay, planner: planner({"messages": [{"role": "system", "content": text}]})

    live = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))
    envelope = record(asks("Today is 2026-06-02."))
    assert diverged(replay(envelope, asks("Hello."), cut=live)) is Divergence.CLOCK_NOT_IN_PROMPT
    assert replay(envelope, asks("On 2026-06-02 all is well."), cut=live).divergence is None
    assert replay(record(asks("Hello.")), asks("Hello."), cut=live).divergence is None


def test_time_moves_by_the_record_and_by_sleeping() -> None:
    def build(boundary: Boundary) -> Agent:
        find = boundary.tool("find", lambda: 1, effect="read")

        def agent(_: Any) -> list[str]:
            times = [boundary.now()]
            find()
            times.append(boundary.now())
            boundary.sleep(30)
            times.append(boundary.now())
            return [str((moment - times[0]).total_seconds()) for moment in times] + [times[0].isoformat()]

        return agent

    envelope = recorded(_without_sleep, policy=POLICY)
    told = replayed(build, envelope, policy=POLICY)
    assert told.disposition is not None
    assert told.disposition.output == ["0.0", "0.001", "30.001", "2026-06-02T10:00:00+00:00"]


def _without_sleep(boundary: Boundary) -> Agent:
    find = boundary.tool("find", lambda: 1, effect="read")
    return lambda _: find()


def test_chance_is_recorded_once_and_served_again() -> None:
    def build(boundary: Boundary) -> Agent:
        return lambda _: [boundary.rng.random(), boundary.rng.randint(1, 6)]

    envelope = recorded(build)
    told = replayed(build, envelope)
    assert told.disposition == envelope.disposition


def test_draws_past_the_record_depend_on_case_and_trial() -> None:
    def build(boundary: Boundary) -> Agent:
        return lambda _: boundary.rng.random()

    def draw(seed: bytes) -> Any:
        told = replayed(build, recorded(lambda boundary: lambda _: None), seed=seed)
        return told.disposition.output if told.disposition else None

    assert draw(b"case/0") == draw(b"case/0") != draw(b"case/1")
