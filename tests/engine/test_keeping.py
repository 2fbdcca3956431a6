"""What is kept of a run: its crossings, and a mark on every answer that nobody recorded."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_case, a_crossing, a_played, an_envelope, replayed
from kept_runs import HOW, ONCE, explored, of_played
from small_worlds import POLICY, build_with
from twiceshy import casefile, keeping
from twiceshy.acceptance import answer_digest
from twiceshy.envelope import Effect, Kind
from twiceshy.errors import DigestMismatch, FormatError, InputError
from twiceshy.grading import TrialVerdict
from twiceshy.keeping import ANOTHER, Kept
from twiceshy.outcome import AnsweredBy, Outcome
from twiceshy.transcript import Played


def test_a_simulated_answer_stays_marked_in_a_kept_run() -> None:
    kept = explored("thu", "fri")
    assert [crossing.simulated for crossing in kept.envelope.crossings] == [False, True]
    (one,) = kept.run.simulated
    assert (one.place, one.boundary, one.by) == ("#2", "tool:slots", "nearest v1")
    assert one.digest == answer_digest(kept.envelope.crossings[1])


@given(st.lists(st.sampled_from(["thu", "fri", "sat"]), min_size=1, max_size=4))
def test_every_simulated_answer_and_no_other_is_marked(days: list[str]) -> None:
    kept = explored(*days)
    assert [crossing.simulated for crossing in kept.envelope.crossings] == [day != "thu" for day in days]
    assert [one.place for one in kept.run.simulated] == [f"#{at}" for at, day in enumerate(days, 1) if day != "thu"]


@pytest.mark.parametrize("by", [by for by in AnsweredBy if by not in ("recorded", "repeated", "live", "guard")])
def test_whatever_nobody_recorded_is_marked(by: AnsweredBy) -> None:
    kept = of_played(a_played(1, "tell", effect=Effect.WRITE, raw=True, answered_by=by))
    assert [one.by for one in kept.run.simulated] == [by.value]


def test_what_the_candidate_itself_did_is_a_record() -> None:
    kept = of_played(
        a_played(1, "look", answered_by=AnsweredBy.LIVE),
        a_played(2, "tell", answered_by=AnsweredBy.GUARD, blocked_by="g"),
        a_played(3, "planner", kind=Kind.MODEL, answered_by=AnsweredBy.LIVE),
    )
    assert kept.run.simulated == []


@pytest.mark.parametrize(
    ("asked", "how", "by"),
    [("hello", {}, None), ("hello", {"stale": True}, ANOTHER), ("hello", {"drift": "template"}, ANOTHER), ("good bye", {}, ANOTHER)],
)  # fmt: skip
def test_a_frozen_output_of_another_request_is_no_record_of_this_one(asked: str, how: Any, by: str | None) -> None:
    model = a_played(1, "planner", kind=Kind.MODEL, effect=None, seen={"messages": ["hello"]}, raw="go").crossing
    now = msgspec.structs.replace(model, seen={"messages": [asked]})
    played = Played(crossing=now, boundary="frozen", answered_by=AnsweredBy.RECORDED, matched="#1", **how)  # type: ignore[arg-type]
    kept = of_played(played, record=an_envelope(model))
    assert [one.by for one in kept.run.simulated] == ([] if by is None else [by])


def test_a_request_that_nobody_recorded_is_not_made_up() -> None:
    model = a_crossing(1, "planner", kind=Kind.MODEL, effect=None, seen=msgspec.UNSET, raw="go")
    now = msgspec.structs.replace(model, seen={"messages": ["hello"]})
    played = Played(crossing=now, boundary="frozen", answered_by=AnsweredBy.RECORDED, matched="#1")  # type: ignore[arg-type]
    assert [one.by for one in of_played(played, record=an_envelope(model)).run.simulated] == [ANOTHER]


def test_an_accepted_answer_is_marked_in_the_run_that_it_answers() -> None:
    derived = explored("thu", "fri").envelope
    told = replayed(build_with(lambda slots, **_: [slots(day="thu"), slots(day="fri")]), derived, policy=POLICY)
    kept = keeping.of_replay(a_case(derived), told, TrialVerdict(outcome=Outcome.PASSED), HOW)
    assert [(one.place, one.by) for one in kept.run.simulated] == [("#2", "simulated")]


def test_a_kept_run_comes_back_as_it_was(tmp_path: Path) -> None:
    kept = explored("thu", "fri")
    keeping.save(tmp_path / "runs/full", kept)
    assert keeping.load(tmp_path / "runs/full") == kept
    assert keeping.load(tmp_path / "runs") == kept
    with pytest.raises(InputError, match="exists already"):
        keeping.save(tmp_path / "runs/full", kept)


def rewritten(path: Path, **changes: Any) -> None:
    run = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**run, **changes}))


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"format": "twiceshy/run/9"}, FormatError, "format 'twiceshy/run/9' is not 'twiceshy/run/1'"),
        ({"outcome": "passed"}, DigestMismatch, "is not the digest of its content"),
        ({"simulated": []}, DigestMismatch, "is not the digest of its content"),
        ({"else": 1}, FormatError, "unknown field `else`"),
    ],
)
def test_a_run_that_was_changed_is_refused(tmp_path: Path, changes: Any, error: type[Exception], told: str) -> None:
    keeping.save(tmp_path / "run", explored("fri"))
    rewritten(tmp_path / "run", **changes)
    with pytest.raises(error, match=told):
        keeping.load(tmp_path / "run")


def test_marks_of_a_run_must_be_those_of_its_envelope(tmp_path: Path) -> None:
    kept = explored("fri")
    hidden = msgspec.structs.replace(kept.run, simulated=[])
    # Sealed anew, as whoever hides a simulated answer would.
    keeping.save(tmp_path / "run", Kept(keeping._sealed(hidden), kept.envelope))
    with pytest.raises(FormatError, match="does not name the answers"):
        keeping.load(tmp_path / "run")


def test_an_envelope_of_another_run_is_refused(tmp_path: Path) -> None:
    keeping.save(tmp_path / "run", explored("fri"))
    casefile.save_envelope(tmp_path / "run/envelope.jsonl", ONCE)
    with pytest.raises(DigestMismatch):
        keeping.load(tmp_path / "run")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such kept run"):
        keeping.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"run\.json: no such file"):
        keeping.load(tmp_path)
    for name in ("full", "world"):
        keeping.save(tmp_path / name, explored("fri"))
    with pytest.raises(InputError, match="holds 2 runs: name one of full, world"):
        keeping.load(tmp_path)
    (tmp_path / "full/run.json").write_text("{")
    with pytest.raises(FormatError, match="not JSON"):
        keeping.load(tmp_path / "full")
