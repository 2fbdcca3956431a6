import msgspec
import polars as pl

from examples.refund import T_1042
from sample_runs import a_run, replayed
from tables import DIGEST
from tasks.contracts import validated
from tasks.replay.aligned import DIFFS, LEAF_CHARS, step_rows
from tasks.replay.schema import SIDE_BYTES, Steps
from twiceshy.aligning import align
from twiceshy.envelope import Crossing, Disposition, Kind
from twiceshy.outcome import BoundaryState
from twiceshy.transcript import Played, Transcript

TRIAL = {"replay_id": DIGEST, "run_id": "r", "case_id": "c", "harness_state": "h"}


def rows_of(recorded: list[Crossing], transcript: Transcript, **violated: list[str]) -> pl.DataFrame:
    places = {f"#{name.removeprefix('at_')}": ids for name, ids in violated.items()}
    rows = step_rows(align(recorded, transcript), trial=TRIAL, violated=places)
    kept = validated(pl.DataFrame(rows, schema=Steps.dtypes()), Steps)
    assert kept.set_aside.is_empty(), kept.set_aside["set_aside_for"].to_list()
    return kept.good


def one_changed(before: object, after: object) -> dict[str, object]:
    one, other = (Crossing(seq=1, kind=Kind.TOOL, name="pay", seen=value) for value in (before, after))
    played = Played(crossing=other, boundary=BoundaryState.LIVE)
    (row,) = rows_of([one], Transcript(played=[played], disposition=Disposition())).rows(named=True)
    return row


def test_real_replay_keeps_the_contract() -> None:
    recorded = a_run("refund:buggy", T_1042)
    transcript = replayed("refund:hook_fixed_and_guarded", recorded)
    steps = rows_of(list(recorded.crossings), transcript, at_4=["z", "a"])
    pay = steps.row(by_predicate=pl.col("name") == "issue_refund", named=True)
    assert (pay["status"], pay["boundary"], pay["replayed_blocked_by"]) == ("changed", "intercepted", "refund-approval")
    assert pay["violated"] == ["a", "z"]
    assert steps["diverged"].sum() == 1


def test_unknown_side_is_null_not_json_null() -> None:
    row = one_changed(None, {"n": 1})
    assert (row["recorded_seen"], row["recorded_raw"]) == ("null", None)


def test_long_side_is_cut_and_said_so() -> None:
    row = one_changed({"text": "é" * SIDE_BYTES}, {"text": "short"})
    assert len(str(row["recorded_seen"]).encode()) <= SIDE_BYTES
    assert row["cut"] == ["recorded_seen"]


def test_difference_in_long_text_is_kept() -> None:
    same = "Look the order up. " * 1000
    (diff,) = msgspec.json.decode(str(one_changed(f"{same}old", f"{same}new")["diffs"]))
    assert (diff["recorded"][-3:], diff["replayed"][-3:]) == ("old", "new")
    assert len(diff["recorded"]) <= LEAF_CHARS + 2


def test_leaf_that_is_not_there_has_no_key() -> None:
    (diff,) = msgspec.json.decode(str(one_changed({"a": 1, "b": None}, {"a": 1})["diffs"]))
    assert diff == {"side": "seen", "path": "b", "recorded": None}


def test_left_out_leaves_are_counted() -> None:
    row = one_changed(dict.fromkeys(map(str, range(DIFFS + 5)), 0), dict.fromkeys(map(str, range(DIFFS + 5)), 1))
    assert (len(msgspec.json.decode(str(row["diffs"]))), row["diffs_left_out"]) == (DIFFS, 5)
