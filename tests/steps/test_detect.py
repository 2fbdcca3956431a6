from pathlib import Path

import polars as pl
import pytest

from builders import a_crossing, an_envelope
from examples.refund import T_1042
from examples.research import ONE_PAPER, TWO_PAPERS
from examples.scheduling import TO_JULY_32, TO_THURSDAY
from frames import frames
from sample_workflows import WORKFLOWS, a_trace
from tables import some_rows
from tasks.detect.schema import Findings
from tasks.detect.step import detect
from tasks.normalize.schema import Scores
from tasks.workflows import Workflow
from twiceshy import invariants
from twiceshy.envelope import Effect, Envelope
from twiceshy.identity import canonical
from twiceshy.policy import ToolsPolicy

NO_SCORES = Scores.no_rows()


def detected(*envelopes: Envelope, **workflows: Workflow) -> pl.DataFrame:
    known = WORKFLOWS | workflows
    result = detect(*frames(envelopes), NO_SCORES, workflows=known, harness_state="h")
    assert result.set_aside.is_empty()
    return result.findings


@pytest.mark.parametrize(
    ("spec", "user", "failures"),
    [
        ("refund:buggy", T_1042, ["refund-over-limit-missing-approval"]),
        ("refund:hook_fixed_and_guarded", T_1042, []),
        ("scheduling:buggy", TO_THURSDAY, ["confirmation-before-reschedule"]),
        ("scheduling:fixed", TO_THURSDAY, []),
        ("scheduling:confirms_first", TO_THURSDAY, ["confirmation-before-reschedule"]),
        ("scheduling:july32_swallowed", TO_JULY_32, ["impossible-date-corrected"]),
        ("research:looping", ONE_PAPER, ["no_loop"]),
        ("research:misreads_total", TWO_PAPERS, ["brief-hides-its-hits"]),
        ("research:no_done_condition", TWO_PAPERS, ["search-after-done"]),
        ("research:fixed", TWO_PAPERS, []),
    ],
)
def test_sample_run_fails_as_named(spec: str, user: dict[str, str], failures: list[str]) -> None:
    assert detected(a_trace(spec, user)).filter(level="failure")["invariant_id"].to_list() == failures


def test_detector_at_a_violation_is_its_evidence() -> None:
    rows = detected(a_trace("research:looping", ONE_PAPER)).select("invariant_id", "level").rows()
    assert set(rows) == {("no_loop", "failure"), ("repeat", "signal")}


def test_invariant_is_found_in_recorded_run() -> None:
    row = detected(a_trace("refund:buggy", T_1042)).row(0, named=True)
    assert (row["invariant_id"], row["level"], row["tool"]) == (
        "refund-over-limit-missing-approval",
        "failure",
        "issue_refund",
    )
    assert row["boundary"] == "tool:issue_refund"
    assert row["reads"] == ["args.amount_gbp", "result(get_order).policy_limit_gbp"]
    assert (row["effect"], row["severity"]) == ("extra", "high")


def test_no_workflow_no_verdict() -> None:
    unheard = an_envelope(*(a_crossing(seq) for seq in (1, 2, 3)), workflow="unheard")
    assert detected(unheard).select("invariant_id", "level").rows() == [("repeat", "failure")]


def test_order_of_rows_changes_nothing() -> None:
    traces, crossings = frames([a_trace("refund:buggy", T_1042), an_envelope(*(a_crossing(seq) for seq in (1, 2, 3)))])
    workflows = WORKFLOWS
    plain = detect(traces, crossings, NO_SCORES, workflows=workflows, harness_state="h").findings
    turned = detect(traces.reverse(), crossings.reverse(), NO_SCORES, workflows=workflows, harness_state="h").findings
    assert plain.equals(turned)
    assert plain.schema == Findings.dtypes()


def test_expected_actions_show_effects() -> None:
    run = an_envelope(
        a_crossing(1, "pay", effect=Effect.WRITE, seen={"amount": 7}), a_crossing(2, "book", effect=Effect.WRITE)
    )
    wanted = [{"name": "pay", "arguments": {"amount": 8}}, {"name": "tell", "arguments": {}}]
    scores = some_rows(
        Scores, {"trace_id": run.trace_id, "name": "expected_actions", "text": canonical(wanted).decode()}
    )
    rows = detect(*frames([run]), scores, workflows={}, harness_state="h").findings.filter(invariant_id="state_effect")
    assert sorted(rows.select("effect", "tool", "evidence").rows()) == [
        ("extra", "book", '{"detail":"","places":["#2"]}'),
        ("missing", "tell", '{"detail":"","places":[]}'),
        ("wrong_args", "pay", '{"detail":"amount","places":["#1"]}'),
    ]


def test_condition_without_value_is_unjudged(tmp_path: Path) -> None:
    path = tmp_path / "invariants.yaml"
    path.write_text(
        "workflow: refund\ninvariants:\n- {id: i, kind: must_not, at: {tool: get_order}, when: args.amount > 1}\n"
    )
    workflow = Workflow(policy=ToolsPolicy(workflow="refund"), invariants=invariants.load(path))
    (row,) = detected(an_envelope(a_crossing()), refund=workflow).iter_rows(named=True)
    assert (row["level"], row["invariant_id"]) == ("unjudged", "invariants")
    assert row["message"].startswith("invariants.yaml:3: ")
