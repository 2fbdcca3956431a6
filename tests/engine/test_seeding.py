"""A world proposed from a record: every row recorded, every recorded read answered as it was, nothing written (semantics.md §6.5)."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from builders import a_crossing, a_policy, an_envelope
from small_worlds import a_world, world_of
from twiceshy import casefile, converting
from twiceshy.casefile import Case, Judge, Layer, Opportunity
from twiceshy.envelope import Effect, Envelope, ErrorRecord
from twiceshy.errors import CaseError
from twiceshy.outcome import Mode
from twiceshy.policy import ToolPolicy
from twiceshy.worlds.proving import prove
from twiceshy.worlds.seeding import seeded
from twiceshy.worlds.tables import WorldMiss

GIT = shutil.which("git") or "git"
POLICY = a_policy(
    find=ToolPolicy(effect=Effect.READ, reads=("people",), fold=("name",)), count=ToolPolicy(effect=Effect.READ, reads=("sums",)),
    pay=ToolPolicy(answer={"paid": True}), tell=ToolPolicy(touches=("letters",)),
)  # fmt: skip
GONE = ErrorRecord(cls="builtins.LookupError", type="LookupError", message="nobody is called Eve", definite=True)
SLOW = ErrorRecord(cls="builtins.TimeoutError", type="timeout", message="slow")


def a_read(seq: int, name: str, seen: Any, raw: Any = None, **more: Any) -> Any:
    return a_crossing(seq, name, seen=seen, raw=raw, shown=raw, **more)


def failed(seq: int, name: str, seen: Any, error: ErrorRecord) -> Any:
    from msgspec import UNSET

    return a_crossing(seq, name, seen=seen, raw=UNSET, shown=UNSET, error=error)


def proposed(*crossings: Any) -> Any:
    return seeded(an_envelope(*crossings), POLICY)


def test_object_that_repeats_its_arguments_is_a_row() -> None:
    world = proposed(a_read(1, "find", {"name": "Ann"}, {"name": "Ann", "age": 5})).world
    assert world["tables"]["people"] == {"key": ["name"], "fold": ["name"], "rows": [{"name": "Ann", "age": 5}]}
    running = a_world(world, POLICY).started()
    assert running.answer("find", {"name": " ann"}).value == {"name": "Ann", "age": 5}


def test_other_answers_stand_by_their_arguments() -> None:
    world = proposed(a_read(1, "count", {"of": [1, 2]}, 3)).world
    assert world["tables"]["count"]["rows"] == [{"args": {"of": [1, 2]}, "result": 3}]
    assert a_world(world, POLICY).started().answer("count", {"of": [1, 2]}).value == 3


def test_recorded_absence_is_known_and_no_more() -> None:
    world = proposed(failed(1, "find", {"name": "Eve"}, GONE)).world
    running = a_world(world, POLICY).started()
    answer = running.answer("find", {"name": "Eve"})
    assert answer.error is not None
    assert answer.error.message == "nobody is called Eve"
    with pytest.raises(WorldMiss, match="is not closed"):
        running.answer("find", {"name": "Adam"})


def test_failure_in_passing_is_left_out_and_told() -> None:
    found = proposed(failed(1, "find", {"name": "Ann"}, SLOW), a_read(2, "find", {"name": "Ann"}, {"name": "Ann"}))
    assert found.world["transient"] == ["#1"]
    assert "find at #1 failed in passing" in found.notes[0]


def test_two_answers_to_one_question_are_told() -> None:
    found = proposed(a_read(1, "count", {}, 3), a_read(2, "count", {}, 4))
    assert found.world["transient"] == ["#2"]
    assert "answered otherwise than at #1" in found.notes[0]


def test_write_leaves_unknown_what_it_touches() -> None:
    found = proposed(
        a_read(1, "find", {"name": "Ann"}, {"name": "Ann"}),
        a_crossing(2, "pay", seen={"to": "Ann", "sum": 5}, raw={"sum": 5, "to": "Ann"}, effect=Effect.WRITE),
    )
    running = a_world(found.world, POLICY).started()
    answer = running.answer("pay", {"to": "Bob", "sum": 7})
    assert (answer.value, [change.table for change in answer.changes]) == ({"sum": 7, "to": "Bob"}, ["pay"])
    with pytest.raises(WorldMiss, match="a write changed table people"):
        running.answer("find", {"name": "Ann"})
    assert "what pay changes in people is not recorded" in found.notes[0]


def test_write_without_a_known_answer_is_left_out() -> None:
    refused = failed(2, "tell", {"body": "x"}, GONE)
    found = proposed(a_read(1, "count", {}, 3), refused)
    assert "tell" not in found.world["tools"]
    assert "tell has no known answer" in found.notes[0]


_NAMES = st.sampled_from(["Ann", "ANN", "Bob", "Eve"])
_ANSWERS = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.lists(st.booleans(), max_size=2),
    st.dictionaries(_NAMES, st.text(max_size=3), max_size=2),
)
_READS = st.one_of(
    st.builds(lambda name, age: ("find", {"name": name}, {"name": name, "age": age}), _NAMES, st.integers(0, 1)),
    st.builds(lambda seen, raw: ("count", seen, raw), st.dictionaries(_NAMES, st.integers(0, 2), max_size=2), _ANSWERS),
    st.builds(lambda name: ("find", {"name": name}, GONE), _NAMES), st.builds(lambda name: ("find", {"name": name}, SLOW), _NAMES),
)  # fmt: skip


@given(st.lists(_READS, max_size=6))
def test_every_proposed_world_is_proved_by_its_record(reads: list[Any]) -> None:
    crossings = [
        failed(at, name, seen, raw) if isinstance(raw, ErrorRecord) else a_read(at, name, seen, raw)
        for at, (name, seen, raw) in enumerate(reads, start=1)
    ]
    envelope = an_envelope(*crossings)
    world = seeded(envelope, POLICY).world
    text = yaml.safe_dump(world, sort_keys=False, allow_unicode=True)
    assert prove(world_of(text, POLICY), envelope, POLICY, alone=True) + len(world.get("transient", [])) == len(reads)


# the diff


def a_saved_case(folder: Path, **more: Any) -> casefile.LoadedCase:
    envelope: Envelope = an_envelope(
        a_read(1, "find", {"name": "Ann"}, {"name": "Ann"}),
        a_crossing(2, "pay", seen={"to": "Ann", "sum": 5}, raw={"ok": True}, effect=Effect.WRITE),
    )
    usual = {"id": "a", "kind": "positive", "workflow": "refund", "trace_id": envelope.trace_id, **more}
    casefile.save(folder / "cases" / "a", Case(**usual), envelope)
    return casefile.load(folder / "cases" / "a")


def test_conversion_is_a_diff_and_writes_nothing(tmp_path: Path) -> None:
    loaded = a_saved_case(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    made = converting.to_world(loaded, POLICY)
    diff = converting.diff(loaded, made, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    subprocess.run([GIT, "apply"], cwd=tmp_path, input=diff, text=True, check=True)
    accepted = casefile.load(loaded.path)
    assert accepted.world is not None
    assert accepted.case == casefile.load(loaded.path).case
    assert [judge.cut.label for judge in accepted.case.judges()] == ["world"]
    assert yaml.safe_load((loaded.path / "world.yaml").read_text()) == yaml.safe_load(made.world_text)


def test_positive_gets_its_own_writes_as_goal(tmp_path: Path) -> None:
    made = converting.to_world(a_saved_case(tmp_path), POLICY)
    (goal,) = made.case.expect.goal
    assert (goal.table, goal.change, goal.fields) == ("pay", "inserted", {"args.to": "Ann", "args.sum": 5})


def test_failure_gets_no_goal_and_its_opportunity_by_tool(tmp_path: Path) -> None:
    loaded = a_saved_case(
        tmp_path, kind="failure", opportunity=Opportunity(seq=2), layer=Layer(name="model"), judge=[Judge(mode=Mode.CUT_POINT, live=["model:*"], after=1)]
    )  # fmt: skip
    case = converting.to_world(loaded, POLICY).case
    assert case.opportunity == Opportunity(tool="pay")
    assert not case.expect.goal
    assert [judge.cut.label for judge in case.judges()] == ["world --live model:*"]
    assert case.review.status == "proposed"


def test_world_must_be_named_and_rows_need_one(tmp_path: Path) -> None:
    loaded = a_saved_case(tmp_path)
    stated = (loaded.path / "case.yaml").read_text()
    (loaded.path / "world.yaml").write_text(json.dumps({"format": "twiceshy/world/1"}))
    with pytest.raises(CaseError, match="is not named"):
        casefile.load(loaded.path)
    (loaded.path / "world.yaml").unlink()
    for said, problem in (
        ("misses: world\n", "the case has none"),
        ("expect: {nothing_else: true}\n", "needs a world, and the case has none"),
        ("world: world.yaml\nexpect: {goal: [{table: x, key: {id: 1}, fields: {'a[0]': 1}}]}\n", "is no path"),
    ):
        (loaded.path / "case.yaml").write_text(stated + said)
        with pytest.raises(CaseError, match=problem):
            casefile.load(loaded.path)


def test_world_is_part_of_what_a_pin_is_bound_to(tmp_path: Path) -> None:
    loaded = a_saved_case(tmp_path)
    subprocess.run(
        [GIT, "apply"], cwd=tmp_path, text=True, check=True,
        input=converting.diff(loaded, converting.to_world(loaded, POLICY), tmp_path),
    )  # fmt: skip
    first = casefile.load(loaded.path)
    world = loaded.path / "world.yaml"
    world.write_text(world.read_text().replace("name: Ann", "name: Anna"))
    assert casefile.load(loaded.path).digest != first.digest
    assert casefile.load(loaded.path).case.digest == first.case.digest
