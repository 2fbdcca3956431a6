from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from msgspec import UNSET

from admitting import a_corpus, admitted, decisions
from builders import a_crossing, an_envelope
from examples.refund import BELOW_LIMIT, T_1042
from examples.research import ONE_PAPER, TWO_PAPERS
from examples.scheduling import TO_JULY_32, TO_THURSDAY
from sample_workflows import WORKFLOWS, a_trace
from tables import some_rows
from tasks.admit.proposing import propose, with_reproduced
from tasks.admit.step import Unbalanced, admit
from tasks.replay.schema import Replays
from tasks.sign.step import Standing
from tasks.workflows import Workflow
from twiceshy import casefile
from twiceshy.encoding import sealed
from twiceshy.envelope import Envelope, Kind
from twiceshy.invariants import Invariant, Selector, Sort, Spec

ONE, TWO, THREE = ("1" * 32, "2" * 32, "3" * 32)


def refunded(trace: str = ONE) -> Envelope:
    return a_trace("refund:buggy", T_1042, trace)


def happy(trace: str = THREE) -> Envelope:
    return a_trace("refund:hook_fixed_and_guarded", BELOW_LIMIT, trace)


def one(tmp_path: Path, run: Envelope, **columns: Any) -> tuple[str, list[str]]:
    """Decision and reasons of one flagged run."""
    return decisions(admitted(a_corpus([run], scratch=tmp_path, **columns), tmp_path))[run.trace_id[0]]


def test_failure_is_promoted(tmp_path: Path) -> None:
    found = admitted(a_corpus([refunded()], [happy()], scratch=tmp_path), tmp_path)
    row = found.admissions.row(0, named=True)
    assert (row["decision"], row["severity"], row["completeness"]) == ("promote", "high", "complete")
    case = found.proposals[0].case
    assert found.proposals[0].folder == Path("refund/refund-over-limit-missing-approval@post-tool-hook-strip")
    assert (case.id, case.tool, case.signature_id) == ("refund-111111111111", "issue_refund", row["signature"])
    assert (case.layer.name, case.layer.verdict) == ("harness.tool", "suggested")
    assert case.opportunity is not None
    assert case.opportunity.seq == 4
    assert case.invariants == ["refund-over-limit-missing-approval"]
    assert case.decided_by == ["guard-refused-refund"]
    assert case.breaks == ["guard.off:refund-approval"]
    assert [judge.cut.label for judge in case.judge] == ["full", "cut-point --after 3"]
    assert case.review.status == "proposed"


def test_strip_is_the_break_without_guard(tmp_path: Path) -> None:
    found = admitted(a_corpus([refunded()], scratch=tmp_path), tmp_path)
    assert found.proposals[0].case.breaks == ["hook.strip:get_order.policy_limit_gbp"]


def test_further_traces_are_members(tmp_path: Path) -> None:
    found = admitted(a_corpus([refunded(ONE), refunded(TWO)], scratch=tmp_path), tmp_path)
    assert sorted(decision for decision, _ in decisions(found).values()) == ["member", "promote"]
    assert found.admissions["case_id"].n_unique() == 1


def test_case_is_sticky(tmp_path: Path) -> None:
    runs = [refunded(ONE), refunded(TWO)]
    first = a_corpus(runs, scratch=tmp_path)
    promoted = admitted(first, tmp_path).proposals[0].case
    other = TWO if promoted.trace_id == ONE else ONE
    signature = first.tables.signatures["signature"][0]
    again = a_corpus(runs, scratch=tmp_path, catalog={signature: Standing("kept", other)})
    assert admitted(again, tmp_path).proposals[0].case.trace_id == other


def test_signature_with_case_takes_members(tmp_path: Path) -> None:
    signature = a_corpus([refunded()], scratch=tmp_path).tables.signatures["signature"][0]
    corpus = a_corpus([refunded()], scratch=tmp_path, catalog={signature: Standing("kept", THREE)})
    found = admitted(corpus, tmp_path)
    assert found.admissions.select("decision", "case_id").rows() == [("member", "kept")]
    assert found.proposals == ()


@pytest.mark.parametrize(
    ("spec", "user", "slug", "layer"),
    [
        ("scheduling:buggy", TO_THURSDAY, "confirmation-before-reschedule@tool", "model"),
        ("scheduling:july32_swallowed", TO_JULY_32, "impossible-date-corrected@final", "model"),
        ("research:looping", ONE_PAPER, "no_loop-search_papers@tool", "harness.workflow"),
        ("research:no_done_condition", TWO_PAPERS, "search-after-done@tool", "harness.prompt"),
        ("research:misreads_total", TWO_PAPERS, "brief-hides-its-hits@pre-tool-hook-add", "environment"),
    ],
)
def test_sample_failures_are_promoted(tmp_path: Path, spec: str, user: dict[str, str], slug: str, layer: str) -> None:
    found = admitted(a_corpus([a_trace(spec, user)], scratch=tmp_path), tmp_path)
    assert decisions(found) == {"1": ("promote", [])}
    case = found.proposals[0].case
    assert (case.signature, case.layer.name) == (slug, layer)


def test_run_past_its_end_is_reached_at_its_end(tmp_path: Path) -> None:
    run = a_trace("research:no_done_condition", TWO_PAPERS)
    case = admitted(a_corpus([run], scratch=tmp_path), tmp_path).proposals[0].case
    assert case.opportunity is not None
    at = run.at(case.opportunity.seq or 0)
    assert at is not None
    assert at.name == "save_brief"


@pytest.mark.parametrize(
    ("spec", "user", "breaks"),
    [
        # The model turn that asked for the violating call, and for a violated output the last one.
        ("scheduling:buggy", TO_THURSDAY, ["proposal.replace:4"]),
        ("research:no_done_condition", TWO_PAPERS, ["proposal.replace:8"]),
        ("scheduling:july32_swallowed", TO_JULY_32, ["proposal.replace:4"]),
        # What the hook made of the argument.
        ("research:misreads_total", TWO_PAPERS, ["args.set:save_brief.hits=0"]),
    ],
)
def test_break_brings_the_failure_back(tmp_path: Path, spec: str, user: dict[str, str], breaks: list[str]) -> None:
    fixed = a_trace(f"{spec.partition(':')[0]}:fixed", user, THREE)
    found = admitted(a_corpus([a_trace(spec, user)], [fixed], scratch=tmp_path), tmp_path)
    case = next(proposal.case for proposal in found.proposals if proposal.case.kind == "failure")
    assert case.breaks == breaks


def test_positive_is_protected_from_its_write_made_twice(tmp_path: Path) -> None:
    case = admitted(a_corpus([], [happy()], scratch=tmp_path), tmp_path).proposals[0].case
    assert (case.invariants, case.breaks) == (["no_duplicate_write"], [f"call.duplicate:{case.tool}"])


def test_positive_for_each_write_tool(tmp_path: Path) -> None:
    runs = [happy(ONE), happy(TWO), a_trace("refund:hook_fixed_and_guarded", T_1042, THREE)]
    found = admitted(a_corpus([], runs, scratch=tmp_path), tmp_path)
    assert sorted(str(proposal.folder) for proposal in found.proposals) == [
        "refund/positive-create_approval",
        "refund/positive-issue_refund",
        "refund/positive-send_message",
    ]
    assert {proposal.case.kind for proposal in found.proposals} == {"positive"}


def test_unflagged_are_counted(tmp_path: Path) -> None:
    runs = [happy(f"{digit}" * 32) for digit in "45678"]
    balance = admitted(a_corpus([refunded()], runs, scratch=tmp_path), tmp_path).balance
    assert (balance.traces, balance.promoted, balance.unflagged) == (6, 3, 3)


def test_unflagged_failure_is_considered(tmp_path: Path) -> None:
    found = admitted(a_corpus([], [refunded()], scratch=tmp_path), tmp_path)
    assert decisions(found) == {"1": ("promote", [])}


@pytest.mark.parametrize(
    ("columns", "reasons"),
    [
        ({"r4": "missing"}, ["r4_missing"]),
        ({"r1": "missing", "r9": "missing"}, ["r1_missing", "r9_missing"]),
        ({"marks": ["truncated", "tz_missing"]}, ["flag:truncated"]),
        ({"holds": ["unknown_field"]}, ["hold:unknown_field"]),
        ({"policy_digest": None, "key_id": None}, ["not_redacted"]),
        ({"key_id": "unclaimed", "holds": ["unknown_field"]}, ["waits_for:refund/redaction.yaml"]),
        ({"key_id": "unclaimed", "workflow": "unheard"}, ["waits_for:unheard/tools.yaml"]),
        ({"key_id": "unclaimed", "workflow": None}, ["no_workflow"]),
        ({"workflow": None}, ["no_workflow", "unexplained"]),
        ({"workflow": "unheard"}, ["no_policy", "unexplained"]),
        ({"pins": "{}"}, ["version_unknown:harness.tool"]),
    ],
)
def test_reasons_to_hold(tmp_path: Path, columns: dict[str, Any], reasons: list[str]) -> None:
    assert one(tmp_path, refunded(), **columns) == ("hold", reasons)


def test_derived_grades_are_enough(tmp_path: Path) -> None:
    assert one(tmp_path, refunded(), r2="derived", r8="missing", r5="missing") == ("promote", [])


def test_flag_without_finding_is_unexplained(tmp_path: Path) -> None:
    assert one(tmp_path, happy(ONE)) == ("hold", ["unexplained"])


def test_detector_alone_cannot_be_judged(tmp_path: Path) -> None:
    failed = an_envelope(*(a_crossing(seq, proposed={}) for seq in (1, 2, 3)), trace_id=ONE, workflow="bare")
    workflows = {
        **WORKFLOWS,
        "bare": Workflow(policy=msgspec.structs.replace(WORKFLOWS["refund"].policy, workflow="bare")),
    }
    corpus = a_corpus([failed], scratch=tmp_path, workflows=workflows)
    assert decisions(admitted(corpus, tmp_path, workflows=workflows)) == {
        "1": ("hold", ["no_invariant", "version_unknown:harness.workflow", "waits_for:bare/invariants.yaml"])
    }


def test_unknown_side_holds(tmp_path: Path) -> None:
    run = a_trace("scheduling:july32_swallowed", TO_JULY_32)
    hidden = tuple(msgspec.structs.replace(crossing, shown=UNSET) for crossing in run.crossings)
    assert one(tmp_path, sealed(msgspec.structs.replace(run, crossings=hidden))) == (
        "hold",
        ["unattributed:sides_unknown"],
    )


def test_empty_call_is_discarded(tmp_path: Path) -> None:
    run = refunded()
    empty = a_crossing(99, "get_order", seen=UNSET, raw=UNSET, shown=UNSET)
    assert one(tmp_path, sealed(msgspec.structs.replace(run, crossings=(*run.crossings, empty)))) == (
        "discard",
        ["call_without_content"],
    )


def test_nothing_run_is_discarded(tmp_path: Path) -> None:
    assert one(tmp_path, an_envelope(trace_id=ONE)) == ("discard", ["not_a_run"])


def test_record_that_diverges_is_held(tmp_path: Path) -> None:
    run = a_trace("scheduling:buggy", TO_THURSDAY)
    twice = [crossing for crossing in run.crossings if crossing.name == "list_open_slots"]
    other = [msgspec.structs.replace(crossing, raw=UNSET, shown=UNSET) for crossing in twice]
    crossings = tuple(other[0] if crossing is twice[0] else crossing for crossing in run.crossings)
    found = one(tmp_path, sealed(msgspec.structs.replace(run, crossings=crossings)))
    assert found == ("hold", ["not_self_consistent:side_unknown"])


@pytest.mark.parametrize(("hits", "reason"), [(["mail"], "hold:leak_hit"), (None, "hold:scanner_error")])
def test_leak_keeps_case_out(tmp_path: Path, hits: list[str] | None, reason: str) -> None:
    def scan(trace_id: str, data: bytes) -> list[str]:
        assert trace_id == ONE
        return list(hits)  # type: ignore[arg-type] # None breaks it, as a scanner may

    found = admitted(a_corpus([refunded()], scratch=tmp_path), tmp_path, scan=scan)
    assert decisions(found) == {"1": ("hold", [reason])}
    assert found.proposals == ()


def test_scan_sees_every_file(tmp_path: Path) -> None:
    seen: list[bytes] = []
    admitted(a_corpus([refunded()], scratch=tmp_path), tmp_path, scan=lambda _, data: seen.append(data) or ())
    assert any(b"kind: failure" in data for data in seen)
    assert any(b"issue_refund" in data and data.startswith(b"{") for data in seen)


def test_nothing_stays_in_scratch(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    admitted(a_corpus([refunded()], scratch=tmp_path), scratch)
    assert list(scratch.iterdir()) == []


def test_rows_in_any_order(tmp_path: Path) -> None:
    corpus = a_corpus([refunded(ONE), refunded(TWO)], [happy()], scratch=tmp_path)
    turned = corpus._replace(tables=type(corpus.tables)(*(table.reverse() for table in corpus.tables)))
    plain, other = admitted(corpus, tmp_path), admitted(turned, tmp_path)
    assert plain.admissions.equals(other.admissions)
    assert [proposal.case for proposal in plain.proposals] == [proposal.case for proposal in other.proposals]


def tree(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_proposals_are_written_alike(tmp_path: Path) -> None:
    found = admitted(a_corpus([refunded()], [happy()], scratch=tmp_path), tmp_path)
    root = tmp_path / "proposed"
    written = propose(found.proposals, root)
    first = tree(root)
    assert casefile.load(root / found.proposals[0].folder).case == found.proposals[0].case
    assert propose(found.proposals, root) == written
    assert tree(root) == first


def test_withdrawn_proposal_goes(tmp_path: Path) -> None:
    found = admitted(a_corpus([refunded()], [happy()], scratch=tmp_path), tmp_path)
    root = tmp_path / "proposed"
    propose(found.proposals, root)
    assert propose(found.proposals[:1], root) == list(casefile.find(root))


def test_red_replay_reproduces(tmp_path: Path) -> None:
    admissions = admitted(a_corpus([refunded()], [happy()], scratch=tmp_path), tmp_path).admissions
    case = admissions.filter(case_kind="failure")["case_id"][0]
    passed = {"case_id": case, "outcome": "passed", "replay_id": "a" * 64}
    red = {"case_id": case, "outcome": "failed", "failure": "invariant", "replay_id": "b" * 64}
    marked = with_reproduced(admissions, some_rows(Replays, passed, red))
    assert dict(marked.select("case_kind", "reproduced").iter_rows()) == {"failure": True, "positive": None}
    assert with_reproduced(admissions, some_rows(Replays, passed)).filter(case_kind="failure")[
        "reproduced"
    ].to_list() == [False]


def test_hook_that_was_not_recorded_blocks(tmp_path: Path) -> None:
    stated = WORKFLOWS["refund"].invariants
    assert stated is not None
    spec = Spec(id="strip-never-runs", kind=Sort.MUST_NOT, at=Selector(hook="strip_internal_fields"), message="x")
    added = replace(stated, invariants=(Invariant(spec=spec, where="here"),))
    workflows = {"refund": replace(WORKFLOWS["refund"], invariants=added)}
    for grade, found in (("recorded", ("promote", [])), ("missing", ("hold", ["r10_missing"]))):
        corpus = a_corpus([refunded()], scratch=tmp_path, workflows=workflows, r10=grade)
        assert decisions(admitted(corpus, tmp_path, workflows=workflows)) == {"1": found}


def test_positive_comes_from_the_draw(tmp_path: Path) -> None:
    corpus = a_corpus([], [happy()], scratch=tmp_path)
    undrawn = corpus.tables._replace(strata=corpus.tables.strata.with_columns(sampled=pl.lit(value=False)))
    assert admitted(corpus._replace(tables=undrawn), tmp_path).proposals == ()


def test_unended_run_is_no_positive(tmp_path: Path) -> None:
    run = happy()
    unended = sealed(msgspec.structs.replace(run, disposition=msgspec.structs.replace(run.disposition, ended=False)))
    assert admitted(a_corpus([], [unended], scratch=tmp_path), tmp_path).proposals == ()


def test_unfit_run_is_no_positive(tmp_path: Path) -> None:
    found = admitted(a_corpus([], [happy()], scratch=tmp_path, holds=["unknown_field"]), tmp_path)
    assert (found.proposals, found.balance.unflagged) == ((), 1)


def test_shorter_run_is_the_better_case(tmp_path: Path) -> None:
    long = refunded(ONE)
    extra = a_crossing(99, "get_order", kind=Kind.MODEL, effect=None)
    longer = sealed(msgspec.structs.replace(long, crossings=(*long.crossings, extra)))
    assert admitted(a_corpus([longer, refunded(TWO)], scratch=tmp_path), tmp_path).proposals[0].case.trace_id == TWO


def test_vanished_trace_is_noticed(tmp_path: Path) -> None:
    corpus = a_corpus([refunded()], scratch=tmp_path)
    unknown = corpus.tables._replace(
        traces=corpus.tables.traces.with_columns(flagged=pl.lit(None, pl.Boolean)),
        memberships=corpus.tables.memberships.clear(),
    )
    with pytest.raises(Unbalanced, match="1 traces came in, and 0 are accounted for"):
        admitted(corpus._replace(tables=unknown), tmp_path)


def test_doubled_trace_is_set_aside(tmp_path: Path) -> None:
    corpus = a_corpus([refunded()], scratch=tmp_path)
    twice = corpus.tables._replace(traces=pl.concat([corpus.tables.traces] * 2))
    found = admit(twice, workflows=WORKFLOWS, scan=lambda *_: (), scratch=tmp_path, harness_state="h")
    assert (found.balance.traces, found.balance.quarantined, found.proposals) == (2, 2, ())
