"""Any agent, recorded and then changed for the worse: no cut-point passes it. Unchanged, every cut-point does."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders import Build, a_case, a_policy, recorded, replayed, some_invariants
from shop import Agent
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope
from twiceshy.grading import TrialVerdict, case_grader, judge_recorded
from twiceshy.outcome import Mode, Outcome
from twiceshy.policy import ToolPolicy, ToolsPolicy

Op = tuple[str, int]
"""What an agent does, and with which argument."""

READS, WRITES = ("find", "look"), ("pay", "tell", "slow")
INSIDE = (*READS, *WRITES, "ask", "plan", "flag")
SPECS = (
    {"id": "granted", "kind": "order", "first": {"human": "boss", "returned": {"ok": True}}, "then": {"tool": "pay"}, "same_turn": True},
    {"id": "paid", "kind": "must_happen", "at": {"tool": "pay"}},
)  # fmt: skip
CUTS = (
    CutPoint(),
    *(CutPoint(mode=Mode.CUT_POINT, after=at) for at in (1, 3, 6)),
    CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:plan", "tool:find"})),
    CutPoint(mode=Mode.CUT_POINT, freeze=frozenset({"handoff:helper"})),
)

ops = st.tuples(st.sampled_from([*INSIDE, "outer", "helper"]), st.integers(1, 2))
inner = st.lists(st.tuples(st.sampled_from(INSIDE), st.integers(1, 2)), max_size=2)
resources = st.sampled_from([None, ("a",), ("b",), ("a", "b"), ()])


@st.composite
def policies(draw: st.DrawFn) -> ToolsPolicy:
    """Tools that read and touch this and that."""
    reads = {name: ToolPolicy(effect=Effect.READ, reads=draw(resources)) for name in READS}
    writes = {name: ToolPolicy(touches=draw(resources), answer={"ok": True}) for name in WRITES}
    return a_policy(**reads, **writes, outer=ToolPolicy(effect=draw(st.sampled_from([Effect.READ, Effect.WRITE]))))


@st.composite
def programs(draw: st.DrawFn) -> list[Op]:
    """An approval, then a payment, and anything around them."""
    before, between, after = (draw(st.lists(ops, max_size=2)) for _ in range(3))
    paying = [op for op in before if op[0] not in ("pay", "outer", "helper")]
    return [*paying, ("boss", 1), *between, ("pay", draw(st.integers(1, 2))), *after]


def too_slow(at: int) -> None:
    raise TimeoutError("slow")


def boundaries(boundary: Boundary, inside: Sequence[Op]) -> dict[str, Callable[[int], Any]]:
    """Everything that an agent can do, by name. `outer` is a tool whose body does what is inside."""

    def body(at: int) -> int:
        done(named, inside)
        return at

    reads = {name: boundary.tool(name, lambda at: {"at": at}, effect="read") for name in READS}
    paying = {name: boundary.tool(name, lambda at: "done") for name in ("pay", "tell")}
    tools = {**reads, **paying, "slow": boundary.tool("slow", too_slow), "outer": boundary.tool("outer", body)}
    customer = boundary.user("customer", lambda said: f"yes to {said}")
    boss = boundary.human("boss", lambda asked: {"ok": True})
    planner = boundary.model("plan", lambda request: {"parts": [{"type": "text", "text": str(request)}]})
    named: dict[str, Callable[[int], Any]] = {
        **{name: lambda at, tool=tool: tool(at=at) for name, tool in tools.items()},
        "ask": lambda at: customer(f"question {at}"), "boss": lambda at: boss({"at": at}), "plan": lambda at: planner({"at": at}),
        "flag": lambda at: boundary.flag(f"flag {at}", lambda: True),
    }  # fmt: skip
    return named


def done(named: dict[str, Callable[[int], Any]], ops: Sequence[Op]) -> None:
    for name, at in ops:
        with suppress(TimeoutError):
            named[name](at)


def build(program: Sequence[Op], inside: Sequence[Op], handed: Sequence[Op]) -> Build:
    """An agent that does so; `helper` is another one, which does what it is handed."""

    def make(boundary: Boundary) -> Agent:
        def helps(child: Boundary) -> Agent:
            within = boundaries(child, inside)
            return lambda _: done(within, handed)

        named = {**boundaries(boundary, inside), "helper": boundary.handoff("helper", helps)}

        def agent(_: Any) -> str:
            done(named, program)
            return "done"

        return agent

    return make


INVARIANTS = some_invariants(*SPECS, checks={"no_swallowed_error": False})


def judged(made: Build, envelope: Envelope, policy: ToolsPolicy, cut: CutPoint) -> TrialVerdict:
    told = replayed(made, envelope, policy=policy, cut=cut)
    return case_grader(a_case(envelope, kind="positive"), INVARIANTS, policy).trial(told, cut)


@st.composite
def worse(draw: st.DrawFn) -> tuple[list[Op], list[Op]]:
    """A program, and the same with a write made twice, with other arguments or without its approval, or a new one."""
    program = draw(programs())
    at = draw(st.sampled_from([at for at, (name, _) in enumerate(program) if name in WRITES]))
    again = draw(st.integers(at + 1, len(program)))
    changed = draw(
        st.sampled_from(
            [
                [*program[:again], program[at], *program[again:]],
                [*program[:at], (program[at][0], 9), *program[at + 1 :]],
                [*program[:again], (draw(st.sampled_from(WRITES)), 8), *program[again:]],
                [op for op in program if op[0] != "boss"],
            ]
        )
    )
    return program, changed


@given(worse(), inner, inner, policies(), st.sampled_from(CUTS))
@settings(max_examples=150, deadline=None)
def test_no_cut_point_passes_an_agent_that_became_worse(
    agents: tuple[list[Op], list[Op]], inside: list[Op], handed: list[Op], policy: ToolsPolicy, cut: CutPoint
) -> None:
    program, changed = agents
    made, broken = (build(steps, inside, [op for op in handed if op[0] != "pay"]) for steps in (program, changed))
    envelope = recorded(made, policy=policy)
    assume(not judge_recorded(envelope, INVARIANTS, policy))
    assert judged(made, envelope, policy, cut).outcome is Outcome.PASSED
    assert judged(broken, envelope, policy, cut).outcome is not Outcome.PASSED
