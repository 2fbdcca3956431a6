"""Conditions over `world`: the rows of closed tables as they stood at the start of a turn, and at the end (semantics.md §7)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_case, a_policy, a_transcript, a_write, an_envelope, some_invariants
from small_worlds import WORLD, a_world
from twiceshy.conditions import Condition
from twiceshy.cutpoint import CutPoint
from twiceshy.errors import InvariantError
from twiceshy.evidence import replayed_run
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.invariants import Invariants
from twiceshy.outcome import Mode, Outcome
from twiceshy.transcript import Played, RowChange
from twiceshy.worlds.tables import TableSeed
from twiceshy.worlds.viewing import known_rows

POLICY = a_policy(move="write", tell="write")
CLOSED = {name for name, table in WORLD["tables"].items() if table.get("closed")}
SLOT = {"slot": "S1", "day": "thu"}


def taken(*, open_: bool = False) -> RowChange:
    """The slot of Thursday, taken or opened again."""
    return RowChange(
        table="slots", row="slots[0]", key={"slot": "S1"}, before={**SLOT, "open": not open_}, after={**SLOT, "open": open_}
    )  # fmt: skip


def a_move(seq: int, *changes: RowChange, **given: Any) -> Played:
    return a_write(seq, "move", seen={"id": "K1", "slot": "S1"}, changes=list(changes), **given)


def only_open(**more: Any) -> Invariants:
    """No appointment is moved to a slot that was not open when it was asked for."""
    when = "world.slots.exists(s, s.slot == args.slot && !s.open)"
    rule = {"id": "open-slot", "kind": "must_not", "at": {"tool": "move"}, "when": when, **more}
    return some_invariants(rule, allowed_writes=[{"tool": "move"}, {"tool": "tell"}])


def graded(*played: Played, invariants: Invariants, mode: Mode = Mode.WORLD, world: bool = True) -> TrialVerdict:
    case = a_case(an_envelope(), kind="positive", **({"world": "world.yaml"} if world else {}))
    loaded = replace(case, world=a_world()) if world else case
    return case_grader(loaded, invariants, POLICY).trial(a_transcript(*played), CutPoint(mode=mode))


def test_a_condition_sees_the_rows_as_they_stood_when_it_was_asked() -> None:
    assert graded(a_move(1, taken()), invariants=only_open()).outcome is Outcome.PASSED
    again = graded(a_move(1, taken()), a_move(2), invariants=only_open())
    assert ("open-slot", "#2") in [(judgement.id, judgement.place) for judgement in again.violations]


def test_what_one_turn_asks_for_sees_the_start_of_it() -> None:
    beside = graded(a_move(1, taken(), group=9), a_move(2, group=9), invariants=only_open())
    assert "open-slot" not in [judgement.id for judgement in beside.violations]


def test_the_output_sees_the_end() -> None:
    rule = {"id": "kept", "kind": "output", "holds": "!world.slots.exists(s, s.slot == 'S1' && s.open)"}
    invariants = some_invariants(rule, allowed_writes=[{"tool": "move"}])
    assert graded(a_move(1, taken()), invariants=invariants).outcome is Outcome.PASSED
    assert graded(a_move(1, taken()), a_move(2, taken(open_=True)), invariants=invariants).outcome is Outcome.FAILED


@pytest.mark.parametrize(
    ("table", "played"),
    [
        ("appointments", a_move(1)),  # open: rows that nobody recorded would be left out
        ("payments", a_move(1)),
        ("letters", a_write(3, "tell", seen={})),
    ],
)
def test_rows_that_nobody_knows_are_an_error_and_never_none(table: str, played: Played) -> None:
    rule = {"when": f"world.{table}.exists(r, true)", "on_missing": "satisfied"}
    before = a_write(1, "tell", seen={}, unsettled=["letters"])
    verdict = graded(before, a_move(2), played, invariants=only_open(**rule)) if table == "letters" else graded(
        played, invariants=only_open(**rule)
    )  # fmt: skip
    assert verdict.outcome is Outcome.ERROR
    assert f"nobody knows all rows of table {table} here" in str(verdict.error)


@pytest.mark.parametrize(("mode", "world"), [(Mode.FULL, True), (Mode.FULL, False)])
def test_where_no_world_answers_the_condition_says_what_it_means(mode: Mode, world: bool) -> None:  # noqa: FBT001
    lacking = graded(a_move(1), invariants=only_open(), mode=mode, world=world)
    assert lacking.outcome is Outcome.ERROR
    assert "on_missing" in str(lacking.error)
    told = graded(a_move(1), invariants=only_open(on_missing="satisfied"), mode=mode, world=world)
    assert told.outcome is Outcome.PASSED


@pytest.mark.parametrize("source", ["world == args", "size(world) > 0", "world[args.table].exists(r, true)"])
def test_a_table_is_named(source: str) -> None:
    with pytest.raises(InvariantError, match=r"i.yaml:3: .*without naming a table.*world\.TABLE"):
        Condition(source, where="i.yaml", line=3)


def test_a_field_called_world_is_no_world() -> None:
    Condition("world.slots.exists(s, s.slot == args.world && s.day == 'world')", where="i.yaml")


asked = st.one_of(
    st.tuples(
        st.just("move"), st.fixed_dictionaries({"id": st.sampled_from(["K1", "K2", "K9"]), "slot": st.sampled_from(["S1", "S2"])})
    ),
    st.tuples(st.just("tell"), st.fixed_dictionaries({"body": st.sampled_from(["a", "b"])})),
)  # fmt: skip


@given(st.lists(asked, max_size=8))
def test_the_rows_are_those_of_the_world_itself(calls: list[tuple[str, dict[str, Any]]]) -> None:
    world = a_world()
    running, played = world.started(), []
    for seq, (tool, args) in enumerate(calls, start=1):
        changes = running.answer(tool, args).changes
        played.append(a_write(seq, tool, seen=args, changes=list(changes)))
    steps = replayed_run(a_transcript(*played), POLICY).steps
    assert known_rows(world.file.tables, steps) == {name: running.tables.rows(name) for name in CLOSED}


def test_a_folded_key_finds_its_row_in_any_spelling() -> None:
    seeds = {"users": TableSeed(key=["mail"], fold=["mail"], closed=True, rows=[{"mail": "Ann@x", "paid": False}])}
    change = RowChange(
        table="users", row="users[0]", key={"mail": "ann@x"}, before={"mail": "Ann@x", "paid": False}, after={"mail": "ann@x", "paid": True}
    )  # fmt: skip
    (step,) = replayed_run(a_transcript(a_write(1, "tell", changes=[change])), POLICY).steps
    assert known_rows(seeds, [step]) == {"users": [{"mail": "ann@x", "paid": True}]}
