from pathlib import Path
from typing import Any

import pytest

from dashboards.coverage import grids
from dashboards.published import NEEDED, OPTIONAL, QUERIES, Queries
from tables import some_rows
from tasks.store import Limits, connect

MODELS = {model.named(): model for model in (*NEEDED, *OPTIONAL)}


def asked(
    name: str, tmp_path: Path, tables: dict[str, list[dict[str, Any]]], **parameters: object
) -> list[dict[str, Any]]:
    views = {
        table: some_rows(model, *tables[table]) if tables.get(table) else model.no_rows()
        for table, model in MODELS.items()
    }
    with connect(views, limits=Limits(spill=tmp_path)) as connection:
        return Queries(connection).rows(name, **parameters)


def ids(letter: str) -> str:
    return letter * 64


RUNS = [
    {"run_id": "a1", "workflow": "a", "night": "2026-11-01"},
    {"run_id": "a2", "workflow": "a", "night": "2026-11-02"},
    {"run_id": "a3", "workflow": "a", "night": "2026-11-02"},
    {"run_id": "b1", "workflow": "b", "night": "2026-11-01", "verdict": "failed", "exit_code": 1},
    {"run_id": "c1", "workflow": "c", "night": "2026-11-02"},
]


@pytest.mark.parametrize(("latest", "newest"), [("a2", "a2"), ("x", "a3")])
def test_current_takes_newest_run(tmp_path: Path, latest: str, newest: str) -> None:
    found = asked("current", tmp_path, {"runs": RUNS}, latest=latest)
    assert [run["run_id"] for run in found] == ["b1", newest, "c1"]


def test_nights_takes_one_run_a_night(tmp_path: Path) -> None:
    found = asked("nights", tmp_path, {"runs": RUNS}, latest="a2")
    assert [run["run_id"] for run in found] == ["a2", "c1", "a1", "b1"]


def test_results_tell_first_violation(tmp_path: Path) -> None:
    told = {"replay_id": ids("a"), "truth": "violated", "message": "m"}
    tables = {
        "results": [{"case_id": "c1", "replay_id": ids("a"), "run_id": "r"}, {"case_id": "c2", "run_id": "r"}, {"case_id": "c3", "run_id": "s"}],
        "violations": [
            {**told, "invariant_id": "later", "tier": "trajectory"},
            {**told, "invariant_id": "advice", "tier": "hard", "advisory": True},
            {**told, "invariant_id": "held", "tier": "hard", "truth": "satisfied"},
            {**told, "invariant_id": "first", "tier": "hard"},
        ],
        "replays": [{"replay_id": ids("a"), "outcome": "failed", "failure": "invariant"}],
    }  # fmt: skip
    found = asked("results", tmp_path, tables, runs=["r"])
    assert [(row["case_id"], row["invariant_id"], row["violated"], row["failure"]) for row in found] == [
        ("c1", "first", 2, "invariant"), ("c2", None, None, None),
    ]  # fmt: skip


def test_conversations_that_did_not_pass_come_first(tmp_path: Path) -> None:
    rows = [
        {"run_id": "r", "conversation_id": name, "outcome": outcome}
        for name, outcome in zip("abcd", ("passed", "diverged", "error", "failed"), strict=True)
    ]
    found = asked("conversations", tmp_path, {"conversations": [*rows, {"run_id": "s", "conversation_id": "e"}]}, runs=["r"])  # fmt: skip
    assert [row["conversation_id"] for row in found] == ["d", "c", "b", "a"]


def test_signatures_name_first_suspect(tmp_path: Path) -> None:
    one, two = {"signature": "sig_000000000001", "slug": "a@tool"}, {"signature": "sig_000000000002", "slug": "b@tool"}
    tables = {
        "signatures": [{**two, "state": "retired"}, {**one, "case_trace_id": "b" * 32}],
        "attributions": [{"layer": "model", "rank": 2}, {"layer": "harness.tool", "rank": 1}],
    }
    found = asked("signatures", tmp_path, tables)
    assert [(row["slug"], row["layer"], row["verdict"]) for row in found] == [("a@tool", "harness.tool", "suggested")]


KILLED = {"cases": 1, "positives": 1, "breaks_applied": 2, "breaks_killed": 2, "state": "covered"}
UNPROVEN = {"cases": 1, "breaks_applied": 2, "breaks_killed": 1, "state": "unproven"}
GAP = {"runs": 4, "state": "gap"}
UNSEEN = {"state": "not_seen"}


@pytest.mark.parametrize(
    ("buckets", "state", "gaps"),
    [
        ([UNSEEN, UNSEEN], "not_seen", None),
        ([UNSEEN, GAP], "gap", ["1"]),
        ([KILLED, GAP], "covered", ["1"]),
        ([KILLED, UNPROVEN], "unproven", None),
        ([KILLED, KILLED], "covered", None),
    ],
)
def test_cell_takes_first_state_that_fits(tmp_path: Path, buckets: list[dict[str, Any]], state: str, gaps: Any) -> None:
    cells = [{**bucket, "bucket": str(number)} for number, bucket in enumerate(buckets)]
    (cell,) = asked("coverage", tmp_path, {"coverage": cells})
    assert (cell["state"], cell["gaps"]) == (state, gaps)
    assert cell["cases"] == sum(bucket.get("cases", 0) for bucket in buckets)
    assert cell["positives"] == max(bucket.get("positives", 0) for bucket in buckets)


def test_cell_names_the_modes_of_its_buckets(tmp_path: Path) -> None:
    modes = [["full"], ["cut-point live model:*", "full"], []]
    cells = [{**KILLED, "bucket": str(number), "covered_in": found} for number, found in enumerate(modes)]
    (cell,) = asked("coverage", tmp_path, {"coverage": cells})
    assert cell["covered_in"] == ["cut-point live model:*", "full"]
    ((_, (shown,)),) = grids([cell])[0].rows
    assert "proven in cut-point live model:*, full" in shown["tip"]


def test_happy_path_comes_first(tmp_path: Path) -> None:
    cells = [{"error_code": code, "state": "not_seen"} for code in ("denied", "ok", "timeout")]
    assert [cell["error_code"] for cell in asked("coverage", tmp_path, {"coverage": cells})] == [
        "ok",
        "denied",
        "timeout",
    ]


ADMISSIONS = [
    {"trace_id": "1" * 32, "decision": "hold", "reasons": ["r4_missing", "flag:truncated"]},
    {"trace_id": "2" * 32, "decision": "hold", "reasons": ["r4_missing"]},
    {"trace_id": "3" * 32, "decision": "discard", "reasons": ["duplicate"]},
    {"trace_id": "4" * 32, "decision": "member", "reasons": [], "signature": "sig_0a1b2c3d4e5f", "case_id": "c", "redacted": True},
]  # fmt: skip


def test_admissions_count_each_reason(tmp_path: Path) -> None:
    found = asked("admissions", tmp_path, {"admissions": ADMISSIONS})
    assert [(row["reason"], row["decision"], row["traces"]) for row in found] == [
        ("r4_missing", "hold", 2), ("duplicate", "discard", 1), ("flag:truncated", "hold", 1),
    ]  # fmt: skip


def test_decisions_add_up(tmp_path: Path) -> None:
    (row,) = asked("decisions", tmp_path, {"admissions": ADMISSIONS})
    assert (row["considered"], row["promoted"], row["members"], row["held"], row["discarded"]) == (4, 0, 1, 2, 1)


def test_trials_come_plain_then_broken(tmp_path: Path) -> None:
    trial = {"run_id": "r", "case_id": "c"}
    tables = {
        "replays": [
            {**trial, "replay_id": ids("a"), "broken_by": "guard.off:g"},
            {**trial, "replay_id": ids("b"), "trial": 2},
            {**trial, "replay_id": ids("c"), "trial": 1},
            {**trial, "replay_id": ids("d"), "case_id": "other"},
        ],
        "violations": [{"replay_id": ids("a"), "truth": "violated", "invariant_id": name} for name in ("z", "y")],
    }
    found = asked("trials", tmp_path, tables, runs=["r"], cases=["c"])
    assert [(row["replay_id"][0], row["violated"]) for row in found] == [("c", None), ("b", None), ("a", ["y", "z"])]


@pytest.mark.parametrize(("name", "order"), [("steps", "position"), ("intents", "seq")])
def test_rows_of_a_case_come_in_order(tmp_path: Path, name: str, order: str) -> None:
    mine = {"run_id": "r", "case_id": "c"}
    rows = [{**mine, order: number} for number in (3, 1, 2)]
    found = asked(name, tmp_path, {name: [*rows, {**mine, "run_id": "s", order: 4}]}, runs=["r"], cases=["c"])
    assert [row[order] for row in found] == [1, 2, 3]


def test_violations_leave_out_advice(tmp_path: Path) -> None:
    mine = {"run_id": "r", "case_id": "c", "truth": "violated"}
    rows = [
        {**mine, "invariant_id": "b", "tier": "trajectory"},
        {**mine, "invariant_id": "a", "tier": "hard"},
        {**mine, "invariant_id": "advice", "advisory": True},
        {**mine, "invariant_id": "open", "truth": "open"},
    ]
    found = asked("violations", tmp_path, {"violations": rows}, runs=["r"], cases=["c"])
    assert [row["invariant_id"] for row in found] == ["a", "b"]


def test_every_query_opens_with_its_grain() -> None:
    assert all(path.read_text(encoding="utf-8").startswith("-- One row a") for path in QUERIES.glob("*.sql"))
