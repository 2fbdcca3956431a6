from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboards.published import Queries
from tables import DIGEST, some_rows
from tasks.admit.schema import Admissions
from tasks.attribute.schema import Attributions
from tasks.contracts import Quarantine
from tasks.detect.schema import Findings
from tasks.normalize.schema import Traces
from tasks.publish.expectations import EXPECTED, unmet
from tasks.publish.judged import Judging
from tasks.publish.proof import proof
from tasks.publish.schema import Coverage, Quality
from tasks.publish.step import Corpus, Measured, Terms, coverage, divergence, measure, publish, quality
from tasks.publish.universe import reachable, universe
from tasks.pull.schema import Pulls
from tasks.replay.schema import Replays
from tasks.sign.schema import Signatures
from tasks.store import Limits, Published, connect
from tasks.stratify.schema import Strata
from tasks.workflows import Workflow
from twiceshy.casefile import Case
from twiceshy.champion import Champion, Pin
from twiceshy.envelope import Effect
from twiceshy.outcome import Outcome
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.statistics import wilson
from twiceshy.verdict import Waiver
from verdicts import a_mode, a_result

ONE, TWO, THREE = ("1" * 32, "2" * 32, "3" * 32)
PAY = ToolPolicy(
    effect=Effect.WRITE,
    definite_errors=("denied",),
    schema={
        "type": "object",
        "required": ["amount"],
        "additionalProperties": False,
        "properties": {"amount": {"type": "number", "minimum": 1}},
    },
)
WORKFLOWS = {
    "refund": Workflow(
        policy=ToolsPolicy(workflow="refund", tools={"pay": PAY, "look": ToolPolicy(effect=Effect.READ)})
    )
}
FAILURE = Case(id="f", kind="failure", workflow="refund", trace_id=ONE, tool="pay", breaks=["guard.off:g"])
POSITIVE = Case(id="p", kind="positive", workflow="refund", trace_id=TWO, tool="pay")
NIGHT = "2026-11-10"


@pytest.fixture(scope="module")
def terms(tmp_path_factory: pytest.TempPathFactory) -> Terms:
    return Terms(WORKFLOWS, 10**18, Limits(spill=tmp_path_factory.mktemp("spill")), "h")


def a_stratum(trace: str = ONE, **columns: Any) -> dict[str, Any]:
    return {"trace_id": trace, "workflow": "refund", "tool": "pay", "bucket": "typical", "error_code": "ok"} | columns


def a_replay(number: int, case: str = "f", **columns: Any) -> dict[str, Any]:
    own = {
        "replay_id": f"{number:064x}",
        "run_id": "r",
        "case_id": case,
        "workflow": "refund",
        "night": NIGHT,
        "trial": 1,
    }
    return own | {"live": "", "outcome": "passed", "transcript_digest": "a" * 64} | columns


def a_break(number: int, state: str, case: str = "f", text: str = "guard.off:g") -> dict[str, Any]:
    red = {"outcome": "failed", "failure": "invariant"} if state == "killed" else {}
    return a_replay(number, case, broken_by=text, break_state=state, **red)


PROVEN = [a_replay(1), a_break(2, "killed"), a_replay(3, "p")]


def proven(
    terms: Terms, strata: pl.DataFrame, replays: list[dict[str, Any]], cases: Sequence[Case] = ()
) -> pl.DataFrame:
    rows = some_rows(Replays, *replays) if replays else Replays.no_rows()
    return proof(cases, strata, rows, runs=["r"], digests={case.id: DIGEST for case in cases}, limits=terms.limits)


def cell(
    terms: Terms, replays: list[dict[str, Any]], *, cases: tuple[Case, ...] = (FAILURE, POSITIVE), **where: str
) -> dict[str, Any]:
    strata = some_rows(Strata, a_stratum(ONE), a_stratum(TWO), a_stratum(THREE, bucket="zero", error_code="denied"))
    found = coverage(strata, proven(terms, strata, replays, cases), terms=terms)
    wanted = {"tool": "pay", "error_code": "ok", "bucket": "typical"} | where
    (row,) = found.filter(**wanted).iter_rows(named=True)
    return row


def test_proven_cell_is_covered(terms: Terms) -> None:
    row = cell(terms, PROVEN)
    assert (row["state"], row["runs"], row["cases"], row["positives"]) == ("covered", 2, 2, 1)
    assert (row["breaks_applied"], row["breaks_killed"]) == (1, 1)


@pytest.mark.parametrize(
    "replays",
    [
        [a_replay(1), a_replay(3, "p")],
        [a_replay(1), a_break(2, "survived"), a_replay(3, "p")],
        [a_replay(1), a_break(2, "killed"), a_break(4, "inconclusive", text="hook.off:h"), a_replay(3, "p")],
        [a_replay(1, outcome="failed", failure="invariant"), a_break(2, "killed"), a_replay(3, "p")],
        [a_replay(1), a_break(2, "killed")],
        [a_replay(1), a_break(2, "killed"), a_replay(3, "p", outcome="diverged", divergence="exhausted")],
        [
            a_replay(1),
            a_replay(5, outcome="diverged", divergence="exhausted", trial=2),
            a_break(2, "killed"),
            a_replay(3, "p"),
        ],
        [row | {"run_id": "older"} for row in PROVEN],
    ],
    ids=[
        "no break",
        "survived",
        "one of two",
        "failed",
        "no positive",
        "positive diverged",
        "one trial",
        "another run",
    ],
)
def test_unproven_cell_says_so(terms: Terms, replays: list[dict[str, Any]]) -> None:
    assert cell(terms, replays)["state"] == "unproven"


def test_cell_without_case_is_a_gap(terms: Terms) -> None:
    assert cell(terms, PROVEN, error_code="denied", bucket="zero")["state"] == "gap"


def test_cell_nobody_met_is_not_seen(terms: Terms) -> None:
    row = cell(terms, PROVEN, tool="look")
    assert (row["state"], row["runs"], row["cases"]) == ("not_seen", 0, 0)


def test_case_without_trace_keeps_its_tool(terms: Terms) -> None:
    gone = msgspec.structs.replace(FAILURE, trace_id="9" * 32)
    assert cell(terms, PROVEN, cases=(gone, POSITIVE))["state"] == "covered"


def test_one_unproven_case_spoils_the_cell(terms: Terms) -> None:
    other = msgspec.structs.replace(FAILURE, id="g")
    assert cell(terms, [*PROVEN, a_replay(7, "g")], cases=(FAILURE, POSITIVE, other))["state"] == "unproven"


def test_universe_comes_from_schemas() -> None:
    cells = universe(WORKFLOWS)
    assert set(cells.filter(tool="pay")["error_code"]) == {"ok", "denied"}
    assert reachable(PAY) == {
        "typical", "missing_required", "unknown_field", "wrong_type", "below_min", "at_min", "negative", "zero",
    }  # fmt: skip
    assert cells.filter(tool="look").rows() == [("refund", "look", "ok", "typical")]


def test_rates_have_wilson_bounds(terms: Terms) -> None:
    rows = [a_replay(at, f"c{at}", case_digest=f"{at:064x}") for at in range(3)]
    rows += [
        a_replay(3, "d", outcome="diverged", divergence="exhausted"),
        a_replay(4, "e", outcome="error", reason="ours"),
    ]
    (row,) = divergence(some_rows(Replays, *rows, a_break(9, "killed")), terms=terms).iter_rows(named=True)
    assert (row["replays"], row["diverged"]) == (4, 1)
    assert (row["wilson_low"], row["wilson_high"]) == pytest.approx(wilson(1, 4))


def a_corpus(**tables: pl.DataFrame) -> Corpus:
    usual = {
        "pulls": some_rows(Pulls, {"spans_in": 10, "spans_out": 9, "quarantined": 1, "distinct": 9, "newest_ns": 10**18 - 5}),
        "traces": some_rows(Traces, *({"trace_id": trace, "workflow": "refund", "spans": 3, "end_ns": 10**18 + 7} for trace in (ONE, TWO))),
        "strata": some_rows(Strata, a_stratum(ONE), a_stratum(TWO)), "findings": some_rows(Findings), "signatures": some_rows(Signatures),
        "attributions": some_rows(Attributions), "admissions": some_rows(Admissions), "quarantine": Quarantine.no_rows(),
    }  # fmt: skip
    return Corpus(**usual | tables)


def the_metrics(terms: Terms, corpus: Corpus | None = None, *, last: pl.DataFrame | None = None) -> pl.DataFrame:
    held = proven(terms, Strata.no_rows(), PROVEN, (FAILURE, POSITIVE))
    cells = coverage(Strata.no_rows(), held, terms=terms)
    views = {
        **(corpus or a_corpus())._asdict(),
        "replays": some_rows(Replays, *PROVEN),
        "coverage": cells,
        "proof": held,
    }
    return quality(views, runs=["r"], last=last, terms=terms)


def test_metrics_are_measured(terms: Terms) -> None:
    found = dict(the_metrics(terms).filter(scope="all").select("metric", "value").iter_rows())
    assert found["traces"] == 2
    assert found["spans_quarantined"] == pytest.approx(0.1)
    assert found["age_of_newest_trace"] == 5
    assert (found["breaks_killed_of_all"], found["breaks_killed_of_reachable"]) == (1, 1)
    assert found["replays_in_error"] == 0
    assert "traces_against_last" not in found


def test_mutation_score_has_both_denominators(terms: Terms) -> None:
    held = proven(terms, Strata.no_rows(), PROVEN, (FAILURE,)).with_columns(wanted=4, killed=2, equivalent=1)
    views = {**a_corpus()._asdict(), "replays": Replays.no_rows(), "coverage": Coverage.no_rows(), "proof": held}
    found = dict(quality(views, runs=["r"], last=None, terms=terms).select("metric", "value").iter_rows())
    assert found["breaks_killed_of_all"] == 1 / 2
    assert found["breaks_killed_of_reachable"] == pytest.approx(2 / 3)


def a_cell(drawn: dict[str, Any]) -> dict[str, Any]:
    covered = drawn.pop("covered")
    state = ("covered" if covered else "unproven") if drawn["cases"] else ("gap" if drawn["runs"] else "not_seen")
    return drawn | {"state": state}


CELL = st.fixed_dictionaries(
    {
        "tool": st.sampled_from(["pay", "look"]), "error_code": st.sampled_from(["ok", "denied"]), "bucket": st.sampled_from("abc"),
        "runs": st.integers(0, 2), "cases": st.integers(0, 2), "covered": st.booleans(),
    }
).map(a_cell)  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(st.lists(CELL, min_size=1, unique_by=lambda row: (row["tool"], row["error_code"], row["bucket"])))
def test_quality_counts_the_cells_that_the_site_shows(terms: Terms, rows: list[dict[str, Any]]) -> None:
    cells = some_rows(Coverage, *rows)
    nothing = proven(terms, Strata.no_rows(), [])
    views = {**a_corpus()._asdict(), "replays": Replays.no_rows(), "coverage": cells, "proof": nothing}
    counted = dict(quality(views, runs=[], last=None, terms=terms).select("metric", "value").iter_rows())
    with connect({"coverage": cells}, limits=terms.limits) as con:
        shown = [cell["state"] for cell in Queries(con).rows("coverage")]
    assert counted["cells_covered"] == pytest.approx(shown.count("covered") / len(shown))
    assert counted["cells_gap"] == shown.count("gap")


def test_bounds_stand_beside_metrics(terms: Terms) -> None:
    (row,) = the_metrics(terms).filter(scope="all", metric="spans_quarantined").iter_rows(named=True)
    assert (row["high"], row["met"]) == (0.2, True)
    assert the_metrics(terms).filter(scope="all", metric="leaks_held")["met"].to_list() == [None]


def test_shrunk_corpus_is_noticed(terms: Terms) -> None:
    last = some_rows(Quality, {"scope": "all", "metric": "traces", "value": 4.0})
    (row,) = the_metrics(terms, last=last).filter(metric="traces_against_last").iter_rows(named=True)
    assert (row["value"], row["met"]) == (0.5, False)


def test_every_expected_metric_exists(terms: Terms) -> None:
    last = some_rows(Quality, {"scope": "all", "metric": "traces", "value": 2.0})
    assert set(EXPECTED) <= set(the_metrics(terms, last=last).filter(scope="all")["metric"])


@pytest.mark.slow
def test_failed_suite_publishes_nothing(terms: Terms, tmp_path: Path) -> None:
    published = Published(tmp_path)
    good = the_metrics(terms)
    assert publish(published, "night-1", generation="g", tables={}, quality=good).unmet == []
    bad = the_metrics(
        terms, a_corpus(pulls=some_rows(Pulls, {"spans_in": 10, "spans_out": 4, "quarantined": 6, "distinct": 4}))
    )
    kept = publish(published, "night-2", generation="g", tables={}, quality=bad)
    assert kept.publication is None
    assert kept.unmet == ["spans_quarantined is 0.6, expected at most 0.2"]
    latest = published.latest()
    assert latest is not None
    assert latest.run_id == "night-1"
    assert latest.frame("quality").height == good.height


@pytest.mark.slow
def test_suite_says_what_the_rows_say(terms: Terms) -> None:
    rows = [{"scope": "all", "metric": name, "value": 1.0} for name in EXPECTED]
    named = {text.partition(" ")[0] for text in unmet(some_rows(Quality, *rows))}
    assert named == {
        "orphan_spans",
        "spans_quarantined",
        "spans_unaccounted",
        "invariants_unjudged",
        "promoted_inconsistent",
        "replays_in_error",
    }


def a_judging(*outcomes: Outcome, pinned: Champion | None = None, **more: Any) -> Judging:
    results = [
        a_result(outcome, case=msgspec.structs.replace(a_result().case, id=f"c{at}", digest=f"{at:064x}"))
        for at, outcome in enumerate(outcomes)
    ]
    usual = {
        "run_id": "r",
        "night": NIGHT,
        "workflow": "refund",
        "candidate": "refund",
        "candidate_digest": "d",
        "harness": "h",
    }
    return Judging(**{**usual, "results": results, "champion": pinned, **more})


def measured(terms: Terms, *judgings: Judging, replays: list[dict[str, Any]] | None = None) -> Measured:
    rows = some_rows(Replays, *replays) if replays else Replays.no_rows()
    found = measure(a_corpus(), rows, judgings, proven=proven(terms, Strata.no_rows(), []), current=["r"], terms=terms)
    assert found.set_aside == {}
    return found


def pinned(*outcomes: Outcome) -> Champion:
    pins = [
        Pin(
            case=f"c{at}",
            case_digest=f"{at:064x}",
            harness="h",
            mode="full",
            outcome=outcome,
            violated=a_mode(outcome).violated,
        )
        for at, outcome in enumerate(outcomes)
    ]
    waiver = Waiver(id="w", case="c2", assertions=a_mode(Outcome.FAILED).violated, by="@a", date="2026-11-01", why="x")
    return Champion(workflow="refund", ref="v1", pins=pins, waivers=[waiver])


def test_run_has_the_gates_verdict(terms: Terms) -> None:
    (row,) = measured(terms, a_judging(Outcome.PASSED, Outcome.FAILED, Outcome.DIVERGED)).runs.iter_rows(named=True)
    assert (row["verdict"], row["exit_code"]) == ("failed", 1)
    assert (row["passed"], row["failed"], row["diverged"], row["error"]) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (Outcome.PASSED, Outcome.FAILED, "regressed"),
        (Outcome.FAILED, Outcome.FAILED, "known"),
        (Outcome.FAILED, Outcome.PASSED, "fixed"),
        (Outcome.DIVERGED, Outcome.PASSED, "recovered"),
        (Outcome.PASSED, Outcome.DIVERGED, "diverged"),
        (Outcome.PASSED, Outcome.ERROR, "unjudged"),
        (Outcome.PASSED, Outcome.PASSED, None),
    ],
)
def test_change_against_champion(terms: Terms, before: Outcome, now: Outcome, change: str | None) -> None:
    found = measured(terms, a_judging(now, pinned=pinned(before)))
    assert found.results["change"].to_list() == [change]
    assert found.champion_diff["change"].to_list() == ([] if change in (None, "known") else [change])


def test_new_case_has_no_champion(terms: Terms) -> None:
    found = measured(terms, a_judging(Outcome.FAILED))
    assert found.results.select("change", "champion_outcome").rows() == [("new", None)]
    assert found.champion_diff["change"].to_list() == ["new"]


def test_waiver_stands_beside_known_failure(terms: Terms) -> None:
    failed = (Outcome.FAILED,) * 3
    assert measured(terms, a_judging(*failed, pinned=pinned(*failed))).results["waiver"].to_list() == [None, None, "w"]


def test_result_names_its_deciding_trial(terms: Terms) -> None:
    red = {"outcome": "failed", "failure": "invariant"}
    replays = [
        a_replay(1, "c0"),
        a_replay(2, "c0", trial=2, **red),
        a_replay(3, "c0", mode="cut-point", after=3),
        a_break(4, "killed", "c0"),
    ]
    found = measured(terms, a_judging(Outcome.FAILED), replays=replays)
    assert found.results["replay_id"].to_list() == [f"{2:064x}"]


def test_modes_are_told_apart(terms: Terms) -> None:
    modes = [a_mode(Outcome.PASSED), a_mode(Outcome.FAILED, "cut-point --live model:planner --after 3")]
    judging = a_judging(Outcome.FAILED, results=[a_result(Outcome.FAILED, modes=modes, mode=modes[1].mode)])
    found = measured(terms, judging).champion_diff
    assert found.select("mode", "live", "candidate_outcome").sort("mode").rows() == [
        ("cut-point", "model:planner", "failed"),
        ("full", "", "passed"),
    ]


def test_empty_night_is_measured(terms: Terms) -> None:
    found = measured(terms, a_judging())
    assert found.runs["verdict"].to_list() == ["nothing_judged"]
    assert found.divergence.is_empty()
