"""Every break operator on an agent of each framework: it kills, or says that it applied nowhere (semantics.md §8.2)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broken_agents import FRAMEWORKS, TOOLS, Framework, Tool, Turn
from broken_runs import broken, judged, steps
from builders import Build, a_policy, recorded, some_invariants
from twiceshy import breaking
from twiceshy.boundary import Boundary
from twiceshy.breaking.operators import OF_CODE, Operator
from twiceshy.casefile import Judge, Opportunity
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect, Envelope, Kind
from twiceshy.outcome import Mode
from twiceshy.policy import ToolPolicy

# The frameworks take seconds to import.
pytestmark = pytest.mark.slow

POLICY = a_policy(
    find=ToolPolicy(effect=Effect.READ, reads=("days",)), look=ToolPolicy(effect=Effect.READ, reads=("days",)), ask=ToolPolicy(touches=("asked",)),
    pay=ToolPolicy(touches=("paid",)), tell=ToolPolicy(touches=("told",)),
)  # fmt: skip
"""No call sees another, so what a break makes of one is all that differs."""

OVER = {
    "id": "over-limit",
    "kind": "must_not",
    "at": {"tool": "pay"},
    "when": "args.amount > 500",
    "on_missing": "violated",
}
UNSIGNED = {
    "id": "unsigned",
    "kind": "must_not",
    "at": {"tool": "pay"},
    "when": 'args.by != "bot"',
    "on_missing": "violated",
}
ASKED = {"id": "asked-first", "tier": "trajectory", "kind": "order", "first": {"tool": "ask"}, "then": {"tool": "pay"}}
TOLD = {"id": "told", "kind": "must_happen", "at": {"tool": "tell"}}
LIMIT = {
    "type": "object",
    "required": ["shown"],
    "properties": {"shown": {"type": "object", "properties": {"find": {"type": "object", "required": ["limit"]}}}},
}
SHOWN = {"id": "limit-shown", "kind": "output", "schema": LIMIT}
SPECS = [OVER, UNSIGNED, ASKED, TOLD, SHOWN]
INVARIANTS = some_invariants(*SPECS)

TURNS: Sequence[Turn] = [
    [("find", {"day": "thu"})], [("look", {"day": "thu"})], [("ask", {"amount": 100})], [("pay", {"amount": 100})], [("pay", {"amount": 750})],
    [("tell", {"to": "ann"})], "All is done.",
]  # fmt: skip

FULL, LIVE = Judge(), Judge(mode=Mode.CUT_POINT, live=["model:*"])
each = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
late = pytest.mark.parametrize(
    "framework", [one for one in FRAMEWORKS if one.late], ids=lambda framework: framework.name
)


def built(
    framework: Framework, turns: Sequence[Turn] = TURNS, late: Sequence[Tool] = (), *, guarded: bool = True
) -> Build:
    """The agent, with a hook that signs every payment and a guard that refuses large ones."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        boundary.hook("sign", lambda asked: {**asked, "by": "bot"}, before="pay")
        if guarded:
            boundary.guard("limit", lambda asked: "too much" if asked["amount"] > 500 else None, before="pay")
        return framework.make(boundary, turns, late)

    return build


def record(build: Build) -> Envelope:
    envelope = recorded(build, "go", policy=POLICY)
    assert envelope.disposition.error is None, envelope.disposition.error
    return envelope


def states(build: Build, breaks: Sequence[str], judge: Judge = FULL) -> dict[str, str]:
    runs = judged(build, record(build), breaks, policy=POLICY, invariants=INVARIANTS, judge=judge)
    return {run.text: f"{run.state} {run.why or ', '.join(run.violated)}" for run in runs}


KILLED = {
    "guard.off:limit": "killed explained_writes, over-limit",
    "hook.off:sign": "killed explained_writes, unsigned",
    "hook.strip:find.limit": "killed limit-shown",
    'args.set:pay.by="eve"': "killed explained_writes, unsigned",
    "call.drop:tell": "killed told",
    "call.duplicate:tell": "killed no_duplicate_write",
    "order.swap:ask,pay": "killed asked-first",
    "error.swallow:look": "killed no_swallowed_error",
}
STALE = {"hook.strip:find.limit": "inconclusive model_exhausted"}
"""What a frozen model says after a result that differs proves nothing of the output."""


@each
def test_every_break_kills(framework: Framework) -> None:
    build = built(framework)
    assert states(build, list(KILLED), LIVE) == KILLED
    assert states(build, list(KILLED), FULL) == KILLED | STALE


@late
def test_tools_that_come_late_are_broken_too(framework: Framework) -> None:
    """They were declared after the hooks of a break had been placed, and escaped those."""
    assert states(built(framework, late=TOOLS), list(KILLED), LIVE) == KILLED


NOWHERE = [
    "guard.off:nobody", "hook.off:nobody", "hook.strip:find.nothing", 'args.set:pay.by="bot"', "call.drop:nobody", "call.duplicate:nobody",
    "order.swap:tell,ask", "error.swallow:find", "proposal.replace:1",
]  # fmt: skip


@each
def test_a_break_without_a_place_says_so(framework: Framework) -> None:
    assert set(Operator) - OF_CODE == {breaking.parse(text).operator for text in NOWHERE}
    found = {text: why.partition(":")[0] for text, why in states(built(framework), NOWHERE, LIVE).items()}
    assert found == dict.fromkeys(NOWHERE, "error it applied nowhere")


@each
def test_a_live_model_proposes_again_what_was_recorded(framework: Framework) -> None:
    """The recorded agent paid too much; the one that is judged does not, until its model is made to."""
    sound, wrong = (
        [[("find", {"day": "thu"})], [("ask", {"amount": 100})], [("pay", {"amount": amount})], [("tell", {"to": "ann"})], "done"]
        for amount in (100, 750)
    )  # fmt: skip
    envelope = record(built(framework, wrong, guarded=False))
    proposed = next(c.seq for c in envelope.crossings if c.kind is Kind.MODEL and "750" in str(c.raw))
    (run,) = judged(
        built(framework, sound, guarded=False), envelope, [f"proposal.replace:{proposed}"], policy=POLICY,
        invariants=some_invariants(*SPECS, allowed_writes=[{"tool": "pay"}]), judge=LIVE, opportunity=Opportunity(tool="pay"),
    )  # fmt: skip
    assert (run.state, run.violated) == ("killed", ["over-limit"])


IN_PREFIX = {
    "guard.off:limit": "pay", "hook.off:sign": "pay", "hook.strip:pay.paid": "pay", 'args.set:pay.by="eve"': "pay", "call.drop:pay": "pay",
    "call.duplicate:pay": "pay", "order.swap:pay,tell": "pay", "error.swallow:look": "look",
}  # fmt: skip
"""The call that each of these changes."""


@each
@pytest.mark.parametrize("text", IN_PREFIX)
def test_the_last_step_of_a_prefix_is_left_as_it_was(framework: Framework, text: str) -> None:
    """The number of a framework's call is taken before its middleware: a break saw the one after it."""
    build = built(
        framework, [[("look", {"day": "thu"})], [("pay", {"amount": 100})], [("tell", {"to": "ann"})], "done"]
    )
    envelope = record(build)
    (last,) = (crossing.seq for crossing in envelope.crossings if crossing.name == IN_PREFIX[text])
    within, before = (CutPoint(mode=Mode.CUT_POINT, after=after) for after in (last, last - 1))
    plain, _ = broken(build, envelope, policy=POLICY, cut=within)
    told, applied = broken(build, envelope, text, policy=POLICY, cut=within)
    assert applied == []
    assert steps(told) == steps(plain)
    assert broken(build, envelope, text, policy=POLICY, cut=before)[1] == [text]


@each
def test_a_call_that_waited_for_its_turn_is_made_whole(framework: Framework) -> None:
    """It kept the number that it had before it waited, and nobody closed it."""
    build = built(framework)
    told, applied = broken(build, record(build), "order.swap:ask,pay", policy=POLICY)
    asked, paid = (
        next(played.crossing for played in told.played if played.crossing.name == name) for name in ("ask", "pay")
    )  # fmt: skip
    assert applied == ["order.swap:ask,pay"]
    assert (asked.seq > paid.seq, asked.group) == (True, paid.group)
    assert (asked.seen, asked.shown, asked.error) == ({"amount": 100}, {"asked": 100}, None)
    assert len({played.crossing.place for played in told.played}) == len(told.played)
