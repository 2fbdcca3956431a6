from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_transcript, an_envelope
from tables import DIGEST, some_rows
from tasks.contracts import validated
from tasks.publish.proof import proof
from tasks.publish.schema import Coverage
from tasks.publish.step import Terms, coverage
from tasks.replay.schema import BREAK_STATES, Replays
from tasks.store import Limits
from tasks.stratify.schema import Strata
from twiceshy.breakage import BreakRun, BrokenCase, score
from twiceshy.casefile import Case, Judge, LoadedCase
from twiceshy.grading import TrialVerdict
from twiceshy.outcome import Outcome
from twiceshy.trials import Trial

BREAKS = ["guard.off:a", "guard.off:b"]
PASSED = TrialVerdict(outcome=Outcome.PASSED)
FAILURE = Case(id="f", kind="failure", workflow="refund", trace_id="1" * 32, tool="pay", breaks=BREAKS[:1])
POSITIVE = Case(id="p", kind="positive", workflow="refund", trace_id="2" * 32, tool="pay")


@pytest.fixture(scope="module")
def terms(tmp_path_factory: pytest.TempPathFactory) -> Terms:
    return Terms({}, 10**18, Limits(spill=tmp_path_factory.mktemp("spill")), "h")


def a_replay(number: int, case: str, **columns: Any) -> dict[str, Any]:
    usual = {"replay_id": f"{number:064x}", "run_id": "now", "case_id": case, "workflow": "refund", "live": ""}
    return usual | {"outcome": "passed", "transcript_digest": DIGEST} | columns


def a_break(number: int, case: str, state: str, text: str = BREAKS[0], **columns: Any) -> dict[str, Any]:
    red = {"outcome": "failed", "failure": "invariant"} if state == "killed" else {}
    return a_replay(number, case, broken_by=text, break_state=state, **red, **columns)


def found(
    terms: Terms,
    rows: list[dict[str, Any]],
    *,
    cases: tuple[Case, ...] = (FAILURE, POSITIVE),
    strata: pl.DataFrame | None = None,
    digests: dict[str, str] | None = None,
) -> pl.DataFrame:
    replays = some_rows(Replays, *rows) if rows else Replays.no_rows()
    stated = {case.id: DIGEST for case in cases} if digests is None else digests
    held = Strata.no_rows() if strata is None else strata
    return proof(cases, held, replays, runs=["now"], digests=stated, limits=terms.limits)


def test_proven_case_is_vouched_for(terms: Terms) -> None:
    rows = [a_replay(1, "f"), a_break(2, "f", "killed"), a_replay(3, "p")]
    assert found(terms, rows).select("case_id", "proven", "vouches", "vouched").rows() == [
        ("f", True, [], True),
        ("p", False, ["-", "pay"], True),
    ]


NOT_COUNTED: list[dict[str, Any]] = [
    {"isolation": "weak"},
    {"isolation": "clock-unsealed"},
    {"isolation": None},
    {"simulated": True},
    {"case_digest": "b" * 64},
]


@pytest.mark.parametrize("columns", NOT_COUNTED, ids=lambda columns: " ".join(map(str, *columns.items())))
def test_trial_that_no_gate_accepts_proves_nothing(terms: Terms, columns: dict[str, Any]) -> None:
    plain, broken, positive = a_replay(1, "f"), a_break(2, "f", "killed"), a_replay(3, "p")
    assert found(terms, [plain, broken, positive])["proven"].to_list() == [True, False]
    for rows in ([plain | columns, broken, positive], [plain, broken | columns, positive]):
        assert not found(terms, rows).filter(case_id="f")["proven"].item()
    again = a_replay(4, "f", trial=2) | columns
    assert not found(terms, [plain, again, broken, positive]).filter(case_id="f")["proven"].item()
    assert found(terms, [plain, broken, positive | columns])["vouched"].to_list() == [False, False]


def test_case_without_a_digest_is_not_proven(terms: Terms) -> None:
    rows = [a_replay(1, "f"), a_break(2, "f", "killed"), a_replay(3, "p")]
    assert found(terms, rows, digests={"p": DIGEST})["proven"].to_list() == [False, False]


@pytest.mark.parametrize(("workflow", "vouched"), [("refund", True), ("other", False)])
def test_failure_without_a_tool_is_vouched_for_by_any_positive(terms: Terms, workflow: str, *, vouched: bool) -> None:
    toolless = Case(id="f", kind="failure", workflow=workflow, trace_id="1" * 32, breaks=BREAKS[:1])
    rows = [a_replay(1, "f"), a_replay(3, "p")]
    assert found(terms, rows, cases=(toolless, POSITIVE)).filter(case_id="f")["vouched"].item() is vouched


def test_alive_break_of_a_positive_spoils_its_cell(terms: Terms) -> None:
    guarded = Case(id="p", kind="positive", workflow="refund", trace_id="2" * 32, tool="pay", breaks=BREAKS[1:])
    rows = [a_replay(1, "f"), a_break(2, "f", "killed"), a_replay(3, "p"), a_break(4, "p", "survived", BREAKS[1])]
    for state, cell in (("survived", "unproven"), ("error", "unproven"), ("killed", "covered")):
        rows[3] = a_break(4, "p", state, BREAKS[1])
        cells = coverage(Strata.no_rows(), found(terms, rows, cases=(FAILURE, guarded)), terms=terms)
        assert cells["state"].to_list() == [cell]


GRID = [(text, mode) for text in BREAKS for mode in ("full", "cut-point")]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(BREAK_STATES), st.booleans()), min_size=len(GRID), max_size=len(GRID)))
def test_score_is_that_of_the_break_command(terms: Terms, shown: list[tuple[Any, bool]]) -> None:
    """shown: of each break under each mode what it came to, and whether the run was the unbroken one."""
    case = msgspec.structs.replace(FAILURE, breaks=BREAKS)
    rows = [
        a_replay(at, "f", mode=mode, trial=trial)
        for at, (mode, trial) in enumerate(product(("full", "cut-point"), (1, 2)))
    ]
    runs = []
    for at, ((text, mode), (state, same)) in enumerate(zip(GRID, shown, strict=True), len(rows)):
        rows.append(a_break(at, "f", state, text, mode=mode, transcript_digest=DIGEST if same else "c" * 64))
        equivalent = state == "survived" and same
        runs.append(
            BreakRun(case="f", text=text, mode=mode, state=state, equivalent=equivalent, judge=Judge(), trial=Trial(a_transcript(), PASSED))
        )  # fmt: skip
    told = score(
        [
            BrokenCase(
                loaded=LoadedCase(case=case, envelope=an_envelope(), path=Path()),
                isolation="hermetic",
                unbroken=[],
                runs=runs,
            )
        ]
    )
    row = found(terms, rows, cases=(case, POSITIVE)).row(0, named=True)
    assert (row["killed"], row["wanted"], row["applied"], row["equivalent"]) == told


A_TRIAL = st.fixed_dictionaries(
    {
        "case_id": st.sampled_from(["f", "g", "p"]),
        "outcome": st.sampled_from(["passed", "passed", "passed", "failed", "diverged"]),
        "broken_by": st.sampled_from([None, *BREAKS]),
        "break_state": st.sampled_from(BREAK_STATES),
        "isolation": st.sampled_from(["hermetic", "hermetic", "hermetic", "weak"]),
        "case_digest": st.sampled_from([DIGEST, DIGEST, DIGEST, "b" * 64]),
    }
)
CASES = st.tuples(
    *(
        st.builds(
            Case, id=st.just(name), kind=st.sampled_from(kinds), workflow=st.just("refund"), trace_id=st.sampled_from(["1" * 32, "2" * 32, "3" * 32]),
            tool=st.sampled_from([None, "pay", "look"]), breaks=st.sampled_from([[], BREAKS[:1], BREAKS]),
        )
        for name, kinds in (("f", ["failure"]), ("g", ["failure", "positive"]), ("p", ["positive"]))
    )
)  # fmt: skip
REASONS = {"failed": {"failure": "invariant"}, "diverged": {"divergence": "exhausted"}}
STRATUM = st.fixed_dictionaries(
    {
        "trace_id": st.sampled_from(["1" * 32, "2" * 32]),
        "tool": st.sampled_from(["pay", "look"]),
        "error_code": st.sampled_from(["ok", "denied"]),
        "bucket": st.sampled_from(["typical", "zero"]),
    }
)


@settings(max_examples=60, deadline=None)
@given(
    trials=st.lists(A_TRIAL, max_size=8),
    cases=CASES,
    strata=st.lists(STRATUM, max_size=4, unique_by=lambda row: tuple(row.values())),
)
def test_covered_cell_keeps_its_contract_and_its_word(
    terms: Terms, trials: list[dict[str, Any]], cases: tuple[Case, ...], strata: list[dict[str, Any]]
) -> None:
    rows = [
        a_replay(at, "") | trial | REASONS.get(trial["outcome"], {}) | ({} if trial["broken_by"] else {"break_state": None})
        for at, trial in enumerate(trials)
    ]  # fmt: skip
    held = some_rows(Strata, *({"workflow": "refund", **row} for row in strata)) if strata else Strata.no_rows()
    proven = found(terms, rows, cases=cases, strata=held)
    cells = coverage(held, proven, terms=terms)
    assert not validated(cells, Coverage).set_aside.height
    if "covered" in cells["state"]:
        assert proven.filter(case_kind="failure")["proven"].any()
        assert proven.filter(case_kind="positive")["passed"].any()


def test_a_cell_names_the_modes_that_its_cases_are_proven_in(terms: Terms) -> None:
    def cell(rows: list[dict[str, Any]], *more: Case) -> tuple[str, list[str]]:
        proven = found(terms, rows, cases=(FAILURE, POSITIVE, *more))
        (row,) = coverage(Strata.no_rows(), proven, terms=terms).filter(tool="pay").iter_rows(named=True)
        return row["state"], row["covered_in"]

    live = {"mode": "cut-point", "live": "model:*"}
    full = [a_replay(1, "f"), a_break(2, "f", "killed"), a_replay(3, "p")]
    both = [*full, a_replay(4, "f", **live), a_break(5, "f", "killed", **live)]
    assert cell(full) == ("covered", ["full"])
    assert cell(both) == ("covered", ["cut-point live model:*", "full"])
    assert cell(both[:-1]) == ("covered", ["full"])
    assert cell(full[:2]) == ("unproven", [])
    other = msgspec.structs.replace(FAILURE, id="o")
    there = [a_replay(6, "o", **live), a_break(7, "o", "killed", **live)]
    assert cell([*both, *there], other) == ("covered", ["cut-point live model:*"])
    assert cell([*full, *there], other) == ("covered", []), "each is proven, in a mode of its own"
