"""What must become of a world's rows, and what may not: goal and nothing_else (semantics.md §7)."""

from typing import Any

import pytest

from builders import a_case, a_divergence, a_model, a_policy, a_transcript, a_write, an_envelope, some_invariants
from twiceshy.casefile import Expect
from twiceshy.cutpoint import CutPoint
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.outcome import Failure, Mode, Outcome
from twiceshy.transcript import Played, RowChange
from twiceshy.worlds.goals import Goal, MayChange

POLICY = a_policy(move="write", tell="write")
INVARIANTS = some_invariants(allowed_writes=[{"tool": "move"}, {"tool": "tell"}])
MOVED = Goal(table="appointments", key={"id": "K1"}, fields={"day": "thu"})
TOLD = Goal(table="letters", change="inserted", fields={"to": "K1"})


def row(key: str = "K1", before: Any = "mon", after: Any = "thu", **more: Any) -> RowChange:
    """An appointment that was moved."""
    return RowChange(
        table="appointments", row=f"appointments[{key[1:]}]", key={"id": key}, before={"id": key, "day": before, "note": ""},
        after={"id": key, "day": after, "note": "", **more},
    )  # fmt: skip


def letter(to: str = "K1") -> RowChange:
    """A letter that was written."""
    return RowChange(table="letters", row="letters[new]", key={"#": to}, after={"to": to})


def a_change(seq: int, *changes: RowChange, tool: str = "move") -> Played:
    """A write with the rows that it changed."""
    return a_write(seq, tool, seen={"at": seq}, changes=list(changes))


def graded(*played: Played, **expected: Any) -> TrialVerdict:
    """The verdict of a run in a world under these expectations."""
    ending = {name: expected.pop(name) for name in list(expected) if name in ("divergence", "crash")}
    case = a_case(an_envelope(), kind="positive", world="world.yaml", expect=Expect(**{"goal": [MOVED], **expected}))
    return case_grader(case, INVARIANTS, POLICY).trial(a_transcript(*played, **ending), CutPoint(mode=Mode.WORLD))


def said(verdict: TrialVerdict, name: str) -> Any:
    return next(judgement for judgement in verdict.judgements if judgement.id == name)


def test_goal_met_and_nothing_else_passes() -> None:
    assert graded(a_change(1, row())).outcome is Outcome.PASSED


def test_goal_that_nothing_met_fails() -> None:
    verdict = graded(a_write(1, "tell"))
    assert (verdict.outcome, verdict.failure) == (Outcome.FAILED, Failure.INVARIANT)
    assert said(verdict, "goal").detail == "goal 1, appointments: no row was updated"


def test_row_that_is_not_as_it_must_be_fails() -> None:
    found = said(graded(a_change(3, row(after="fri"))), "goal")
    assert (found.truth, found.place, found.detail) == (
        "violated",
        "#3",
        "goal 1, appointments[1]: day not as it must be",
    )
    assert str(found.rows[0]) == "appointments[1] updated (day)"


def test_goal_looks_at_the_end_of_the_run() -> None:
    assert graded(a_change(1, row(after="fri")), a_change(2, row(before="fri"))).outcome is Outcome.PASSED
    assert said(graded(a_change(1, row()), a_change(2, row(before="thu", after="mon"))), "goal").truth == "violated"


def test_goal_is_open_before_an_undiverged_end() -> None:
    verdict = graded(a_write(1, "tell"), divergence=a_divergence())
    assert said(verdict, "goal").truth == "open"
    assert verdict.outcome is Outcome.DIVERGED


def test_goal_stays_open_where_the_model_could_not_react() -> None:
    verdict = graded(a_write(1, "tell"), a_model(2, stale=True))
    assert said(verdict, "goal").stale
    assert verdict.outcome is Outcome.DIVERGED


def test_strangers_row_is_damage() -> None:
    verdict = graded(a_change(1, row()), a_change(2, row("K2")))
    assert [judgement.id for judgement in verdict.violations] == ["nothing_else"]
    found = said(verdict, "nothing_else")
    assert (found.place, found.detail) == ("#2", "appointments[2] updated (day)")


def test_damage_before_a_divergence_is_proven() -> None:
    assert graded(a_change(1, row("K2")), divergence=a_divergence()).outcome is Outcome.FAILED


def test_damage_that_is_put_right_again_was_done() -> None:
    verdict = graded(a_change(1, row("K2")), a_change(2, row("K2", before="thu", after="mon")), a_change(3, row()))
    assert said(verdict, "nothing_else").truth == "violated"


def test_other_field_of_the_right_row_is_damage() -> None:
    changed = row(note="left the gate open")
    assert said(graded(a_change(1, changed)), "nothing_else").detail == "appointments[1] updated (day, note)"
    allowed = Goal(table="appointments", key={"id": "K1"}, fields={"day": "thu"}, may=["note"])
    assert graded(a_change(1, changed), goal=[allowed]).outcome is Outcome.PASSED


def test_each_insertion_needs_a_goal_of_its_own() -> None:
    once = [a_change(1, letter(), tool="tell")]
    twice = [*once, a_change(2, letter(), tool="tell")]
    assert graded(*once, goal=[TOLD]).outcome is Outcome.PASSED
    assert said(graded(*twice, goal=[TOLD]), "nothing_else").place == "#2"
    assert said(graded(*once, goal=[TOLD, TOLD]), "goal").truth == "violated"


@pytest.mark.parametrize(
    ("may", "outcome"),
    [
        (MayChange(table="letters"), Outcome.PASSED),
        (MayChange(table="letters", fields=["to"]), Outcome.FAILED),
        (MayChange(table="appointments"), Outcome.FAILED),
        (MayChange(table="letters", key={"#": "K7"}), Outcome.FAILED),
    ],
)
def test_may_change_covers_what_it_names(may: MayChange, outcome: Outcome) -> None:
    assert graded(a_change(1, row(), letter()), may_change=[may]).outcome is outcome


def test_nothing_else_can_be_left_out() -> None:
    assert graded(a_change(1, row(), row("K2")), nothing_else=False).outcome is Outcome.PASSED


def test_nothing_else_alone_forbids_every_change() -> None:
    assert graded(a_change(1, row()), goal=[], nothing_else=True).outcome is Outcome.FAILED
    assert graded(a_write(1, "tell"), goal=[], nothing_else=True).outcome is Outcome.PASSED
