"""Worlds that were judged as if they knew: rows that a write changed in a way nobody knows, and look-ups that nobody can answer."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builders import a_case, a_policy, recorded, replayed, some_invariants
from shop import Agent
from small_worlds import POLICY, WORLD, a_world, build_with, changed, in_world
from twiceshy import worlds
from twiceshy.boundary import Boundary
from twiceshy.casefile import Expect
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Envelope
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import AnsweredBy, Divergence, Mode, Outcome
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.transcript import Transcript
from twiceshy.worlds.authority import for_run
from twiceshy.worlds.goals import Goal, MayChange
from twiceshy.worlds.tables import WorldMiss
from twiceshy.writes import DeclaredWrite

MOVED = Goal(table="appointments", key={"id": "K1"}, fields={"day": "thu"})
SLOT = MayChange(table="slots", key={"slot": "S1"})
TOLD = Goal(table="letters", change="inserted", fields={"body": "see you"})
UNTOLD = changed(WORLD, "tools", to={name: tool for name, tool in WORLD["tools"].items() if name != "tell"})
"""A world that does not answer `tell`."""


def touching(*resources: str) -> ToolsPolicy:
    """The diary's tools, where telling somebody touches these resources."""
    return a_policy(**{**POLICY.tools, "tell": ToolPolicy(touches=resources, answer={"queued": True})})


def moves(look: Any, move: Any, **_: Any) -> Any:
    look(id="K1")
    return move(id="K1", slot="S1")


def tells(tell: Any, **_: Any) -> Any:
    return tell(body="see you")


def both(**tools: Any) -> Any:
    return [moves(**tools), tells(**tools)]


def judged(told: Transcript, envelope: Envelope, policy: ToolsPolicy, **expected: Any) -> TrialVerdict:
    case = a_case(envelope, kind="positive", world="world.yaml", expect=Expect(**{"nothing_else": True, **expected}))
    allowed = some_invariants(allowed_writes=[{"tool": "move"}, {"tool": "tell"}])
    return case_grader(case, allowed, policy).trial(told, CutPoint(mode=Mode.WORLD))


def in_diary(body: Callable[..., Any], policy: ToolsPolicy, world: Any = UNTOLD, **expected: Any) -> TrialVerdict:
    envelope = recorded(build_with(body), policy=policy)
    told = in_world(body, envelope, a_world(world, policy), policy=policy)
    assert told.divergence is None
    return judged(told, envelope, policy, **expected)


def unknown(verdict: TrialVerdict) -> bool:
    """Whether it could not be judged, because nobody knows what became of the rows."""
    found = verdict.divergence
    return verdict.outcome is Outcome.DIVERGED and found is not None and found.kind is Divergence.WORLD_MISS


@pytest.mark.parametrize(
    ("policy", "expected", "known"),
    [
        (touching("appointments"), {}, False),
        (touching("letters"), {}, True),
        (touching("appointments"), {"writes": [DeclaredWrite(tool="tell", args={"body": "see you"})]}, True),
        (touching("appointments"), {"writes": [DeclaredWrite(tool="tell", args={"body": "other"})]}, False),
        (touching("appointments"), {"may_change": [MayChange(table="appointments"), MayChange(table="slots")]}, True),
        (touching("appointments"), {"may_change": [MayChange(table="slots")]}, False),
    ],
)
def test_nothing_else_needs_every_write_to_be_known(policy: ToolsPolicy, expected: Any, *, known: bool) -> None:
    """A write that the world does not answer had changed nothing."""
    verdict = in_diary(tells, policy, **expected)
    assert (verdict.outcome is Outcome.PASSED, unknown(verdict)) == (known, not known)


def test_a_goal_may_be_undone_by_what_nobody_knows() -> None:
    assert in_diary(moves, touching("appointments"), goal=[MOVED], may_change=[SLOT]).outcome is Outcome.PASSED
    assert unknown(in_diary(both, touching("appointments"), goal=[MOVED], may_change=[SLOT], nothing_else=False))


def test_a_goal_that_somebody_may_have_met_is_not_missed() -> None:
    assert unknown(in_diary(tells, touching("appointments"), goal=[MOVED], nothing_else=False))
    assert in_diary(tells, touching("letters"), goal=[MOVED], nothing_else=False).outcome is Outcome.FAILED


def test_an_unsettled_table_is_as_expected_or_unknown() -> None:
    """`unsettle` had left no trace in the transcript. Where the write is the one that the case expects, so is what it does."""
    changes = [*WORLD["tools"]["tell"]["changes"], {"unsettle": "appointments"}]
    policy = touching("appointments", "letters")
    written = changed(WORLD, "tools", "tell", "changes", to=changes)
    assert in_diary(tells, policy, written, goal=[TOLD]).outcome is Outcome.PASSED
    alone = changed(WORLD, "tools", "tell", "changes", to=changes[1:])
    assert unknown(in_diary(tells, policy, alone))


def test_a_failed_call_unsettles_nothing() -> None:
    """What a call does that then fails is taken back, unsettling too."""
    move = {**WORLD["tools"]["move"], "changes": [{"unsettle": "letters"}, {"insert": "slots", "row": {"slot": "S1"}}]}
    running = a_world(changed(WORLD, "tools", "move", to=move)).started()
    with pytest.raises(WorldMiss, match="is there already"):
        running.answer("move", {"id": "K1", "slot": "S1"})
    assert running.answer("tell", {"body": "a"}).changes


def test_a_write_that_may_have_failed_may_have_changed_a_row() -> None:
    """The record's timeout was served, and the world was judged as if nothing had come of it."""

    def build(boundary: Boundary) -> Agent:
        def slow(id: str, slot: str) -> Any:  # noqa: A002 - the tool's own argument
            raise TimeoutError("slow")

        move = boundary.tool("move", slow)

        def agent(_: Any) -> str:
            try:
                move(id="K1", slot="S1")
            except TimeoutError:
                return "try later"
            return "moved"

        return agent

    envelope = recorded(build, policy=POLICY)
    told = replayed(build, envelope, policy=POLICY, world=for_run(a_world(), POLICY, first=False))
    assert [played.answered_by for played in told.played] == [AnsweredBy.RECORDED]
    assert unknown(judged(told, envelope, POLICY))


def test_what_a_frozen_agent_wrote_may_have_changed_a_row() -> None:
    def build(boundary: Boundary) -> Agent:
        def inner(child: Boundary) -> Agent:
            move = child.tool("move", lambda id, slot: {"id": id, "status": "moved to thu"})  # noqa: A006 - the tool's own argument
            return lambda _: move(id="K2", slot="S1")

        return boundary.handoff("helper", inner)

    envelope = recorded(build, policy=POLICY)
    cut = CutPoint(mode=Mode.WORLD, freeze=frozenset({"handoff:helper"}))
    told = replayed(build, envelope, policy=POLICY, cut=cut, world=for_run(a_world(), POLICY, first=True))
    assert told.divergence is None
    assert unknown(judged(told, envelope, POLICY))


class Guessing(worlds.World):
    """A world whose code takes what nobody knows for an absence."""

    @worlds.read
    def look(self, id: str) -> Any:  # noqa: A002 - the tool's own argument
        try:
            return self.tables.find("appointments", id=id)
        except WorldMiss:
            raise worlds.Refused(LookupError(f"no appointment {id}")) from None

    @worlds.read
    def slots(self, day: str) -> Any:
        try:
            return self.tables.rows("appointments")
        except WorldMiss:
            return []


@pytest.mark.parametrize(("tool", "args"), [("look", {"id": "K7"}), ("slots", {"day": "thu"})])
def test_code_of_a_world_cannot_know_what_nobody_knows(tool: str, args: Any) -> None:
    loaded = replace(a_world(changed(WORLD, "tools", to={})), python=Guessing)
    running = loaded.started()
    with pytest.raises(WorldMiss):
        running.answer(tool, args)
    assert running.answer("look", {"id": "K1"}).value == {"id": "K1", "day": "mon"}
