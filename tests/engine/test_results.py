from typing import Any

import msgspec

from builders import (
    a_case,
    a_crossing,
    a_divergence,
    a_guard,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Effect
from twiceshy.grading import case_grader
from twiceshy.identity import digest
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence, Failure, Mode, Outcome
from twiceshy.results import Candidacy, broken, case_result
from twiceshy.transcript import Diverged, FieldDiff, Near, Transcript
from twiceshy.trials import Trial, mode_run
from twiceshy.verdict import Result
from verdicts import FULL, a_trial

POLICY = a_policy(get_order="read", issue_refund="write")
LARGE = {"amount": 750, "to": "jane@example.org"}
NO_LARGE = {
    "id": "no-large-refund",
    "kind": "must_not",
    "at": {"tool": "issue_refund"},
    "when": "args.amount > 500",
    "message": "too large",
}
LOADED = a_case(
    an_envelope(a_crossing(1, "get_order"), a_crossing(2, "issue_refund", effect=Effect.WRITE, seen=LARGE)),
    signature="refund-over-limit@tool", related_trace_ids=["f" * 32], severity="high",
)  # fmt: skip
GRADER = case_grader(LOADED, some_invariants(NO_LARGE), POLICY)
REFUND = a_write(2, "issue_refund", seen=LARGE, answered_by=AnsweredBy.RECORDED, matched="#2", idempotency_key="k1")
REFUSED = (
    a_guard(2, "issue_refund", blocked=True),
    a_write(2, "issue_refund", seen=LARGE, blocked_by="refund-approval"),
)


def of(*transcripts: Transcript, cut: CutPoint = FULL, candidacy: Candidacy | None = None, more: Any = ()) -> Result:
    trials = [Trial(transcript, GRADER.trial(transcript, cut)) for transcript in transcripts]
    return case_result(
        GRADER, [mode_run(cut, trials), *more], candidacy=candidacy, isolation="hermetic", duration_ms=12
    )


def test_what_a_case_stands_for_is_named_first() -> None:
    rules = [{**NO_LARGE, "id": name} for name in ("a-rule", "its-own", "z-rule")]
    loaded = a_case(LOADED.envelope, invariants=["its-own"])
    grader = case_grader(loaded, some_invariants(*rules), POLICY)
    transcript = a_transcript(a_model(1), a_played(1), REFUND)
    found = case_result(
        grader,
        [mode_run(FULL, [Trial(transcript, grader.trial(transcript, FULL))])],
        isolation="hermetic",
        duration_ms=1,
    )
    assert [one.assertion_id for one in found.violations] == ["its-own", "a-rule", "z-rule"]


def test_result_names_what_people_need() -> None:
    result = of(a_transcript(a_model(1), a_played(1), REFUND))
    assert (result.outcome, result.signature, result.mode, result.failure) == (
        Outcome.FAILED,
        "refund-over-limit@tool",
        "full",
        Failure.INVARIANT,
    )
    assert (result.trace_id, result.related_trace_ids) == (LOADED.case.trace_id, ["f" * 32])
    (violation,) = result.violations
    assert (violation.assertion_id, violation.place, violation.boundary, violation.boundary_state) == (
        "no-large-refund", "#2", "tool:issue_refund", BoundaryState.INTERCEPTED,
    )  # fmt: skip
    assert [(bound.name, bound.state) for bound in result.boundaries][-1] == ("issue_refund", BoundaryState.INTERCEPTED)
    (intent,) = result.write_intents
    assert (intent.args_hash, intent.answered_by, intent.idempotency_key_hash) == (
        digest(LARGE),
        "recorded",
        digest("k1"),
    )
    assert result.modes[0].violated == ["no-large-refund"]
    assert (result.case.digest, result.case.envelope_digest) == (LOADED.case.digest, LOADED.envelope.digest)


def test_no_recorded_value_leaves() -> None:
    near = Near(
        place="#2", reason="other arguments", fields=[FieldDiff(path="to", recorded="jane@example.org", got="x")]
    )
    diverged = Diverged(
        kind=Divergence.ARGS_MISMATCH, place="#2", boundary="tool:get_order", asked=LARGE, nearest=[near]
    )
    result = of(a_transcript(a_played(1, seen=LARGE, raw=LARGE), *REFUSED, divergence=diverged))
    assert b"jane" not in msgspec.json.encode(result)
    assert result.divergence is not None
    assert (result.divergence.got_hash, result.divergence.nearest[0].paths) == (digest(LARGE), ["to"])


def test_quoting_detail_is_left_out() -> None:
    quoting = Diverged(
        kind=Divergence.CLOCK_NOT_IN_PROMPT, place="#1", boundary="model:planner", detail="says '2026-06-02'"
    )
    result = of(a_transcript(*REFUSED, divergence=quoting))
    assert result.divergence is not None
    assert result.divergence.detail == ""


def test_decided_pass_keeps_its_divergence() -> None:
    trial = a_trial(Outcome.PASSED, decided=True, divergence=a_divergence(), open=["no-large-refund"])
    result = case_result(GRADER, [mode_run(FULL, [trial])], isolation="hermetic")
    assert (result.outcome, result.decided, result.open) == (Outcome.PASSED, True, ["no-large-refund"])


def test_worst_mode_is_shown() -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, after=1)
    result = of(a_transcript(a_played(1), *REFUSED), more=[mode_run(cut, [a_trial(Outcome.DIVERGED)])])
    assert (result.outcome, result.mode) == (Outcome.DIVERGED, "cut-point --after 1")
    assert [mode.outcome for mode in result.modes] == [Outcome.PASSED, Outcome.DIVERGED]


def test_unexercised_change_diverges() -> None:
    run = a_transcript(a_model(1), a_played(1), *REFUSED)
    result = of(run, candidacy=Candidacy(changed={"prompt"}))
    assert result.outcome is Outcome.DIVERGED
    assert result.divergence is not None
    assert (result.divergence.kind, "prompt" in result.divergence.detail) == (Divergence.NOT_EXERCISED, True)
    assert "let it pass with --accept-unexercised" in result.divergence.detail
    assert of(run, candidacy=Candidacy(changed={"prompt"}, accepted={"prompt"})).outcome is Outcome.PASSED
    assert of(run, candidacy=Candidacy(changed={"harness"})).outcome is Outcome.PASSED
    assert of(run).outcome is Outcome.PASSED


def test_unexercised_change_excuses_no_failure() -> None:
    assert of(a_transcript(a_model(1), REFUND), candidacy=Candidacy(changed={"prompt"})).outcome is Outcome.FAILED


def test_crash_is_named_as_violated() -> None:
    result = of(a_transcript(*REFUSED, crash="cpu"))
    assert (result.failure, result.modes[0].violated) == (Failure.CANDIDATE_TIMEOUT, ["candidate_timeout"])


def test_open_must_happen_is_a_violation() -> None:
    told = {"id": "told", "kind": "must_happen", "at": {"tool": "send_message"}}
    transcript = a_transcript(a_played(1), *REFUSED)
    grader = case_grader(LOADED, some_invariants(NO_LARGE, told), POLICY)
    verdict = grader.trial(transcript, FULL)
    result = case_result(grader, [mode_run(FULL, [Trial(transcript, verdict)])], isolation="hermetic")
    assert broken(verdict) == ["told"]
    assert [(violation.assertion_id, violation.place) for violation in result.violations] == [("told", None)]


def test_diverged_call_has_a_state() -> None:
    for kind, boundary, state in (
        (Divergence.ARGS_MISMATCH, "tool:get_order", BoundaryState.FROZEN),
        (Divergence.STATE_MISMATCH, "tool:issue_refund", BoundaryState.INTERCEPTED),
        (Divergence.CLOCK_NOT_IN_PROMPT, "model:planner", BoundaryState.LIVE),
    ):
        diverged = Diverged(kind=kind, place="#9", boundary=boundary)
        found = of(a_transcript(*REFUSED, divergence=diverged)).divergence
        assert found is not None
        assert found.boundary_state is state
    assert of(a_transcript()).divergence.boundary_state is None  # type: ignore[union-attr]


def test_result_tells_the_dimensions_that_decide() -> None:
    grader = case_grader(
        LOADED, some_invariants(dimensions={"plan_coherence": 0.9, "error_recovery": 1}, allowed_writes=[{"tool": "issue_refund"}]), POLICY
    )  # fmt: skip
    transcript = a_transcript(a_played(1), a_played(3), a_played(4), REFUND)
    result = case_result(
        grader, [mode_run(FULL, [Trial(transcript, grader.trial(transcript, FULL))])], isolation="hermetic"
    )
    assert (result.outcome, result.failure) == (Outcome.FAILED, Failure.DIMENSION)
    assert result.modes[0].violated == ["dimension:plan_coherence"]
    held = {one.name.value: (one.value, one.threshold, one.n, one.passed) for one in result.dimensions}
    assert held["plan_coherence"] == (0.75, 0.9, 4, False)
    assert held["error_recovery"] == (None, 1, 0, None)
    assert "tool_selection" not in held


def test_only_a_whole_pass_tells_its_calls() -> None:
    passed = of(a_transcript(a_played(1, seen={"order_id": "A184"}), *REFUSED))
    assert [call.tool for call in passed.modes[0].calls] == ["get_order", "issue_refund"]
    assert passed.modes[0].calls[0].args == {"order_id": digest("A184")}
    assert of(a_transcript(a_played(1), REFUND)).modes[0].calls == []
    diverged = a_transcript(a_played(1), *REFUSED, divergence=a_divergence())
    assert of(diverged).modes[0].calls == []


def test_manifest_names_every_boundary() -> None:
    """Declared or met, whatever the trials came to; what was done stands before what the policy alone would say."""
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:writer"}))
    looked = a_played(4, "look", effect=Effect.READ)
    trials = [a_transcript(a_model(1), a_played(1)), a_transcript(REFUND, looked)]
    judged = [Trial(one, GRADER.trial(one, cut)) for one in trials]
    declared = ["model:writer", "tool:look", "tool:wipe", "guard:limit", "human:boss"]
    (mode,) = case_result(GRADER, [mode_run(cut, judged)], isolation="hermetic", declared=declared).modes
    assert (mode.seed, mode.manifest) == (
        LOADED.case.id,
        {
            "guard:limit": "live", "human:boss": "frozen", "model:planner": "frozen", "model:writer": "live", "tool:get_order": "frozen",
            "tool:issue_refund": "intercepted", "tool:look": "frozen", "tool:wipe": "intercepted",
        },
    )  # fmt: skip


def test_manifest_speaks_of_what_follows_a_prefix() -> None:
    cut = CutPoint(mode=Mode.CUT_POINT, after=3)
    frozen = a_guard(2, "issue_refund", blocked=False, boundary=BoundaryState.FROZEN)
    inside = a_played(5, "get_order", parent="#4", boundary=BoundaryState.LIVE)
    transcript = a_transcript(frozen, inside)
    run = mode_run(cut, [Trial(transcript, GRADER.trial(transcript, cut))])
    (mode,) = case_result(
        GRADER, [run], isolation="hermetic", declared=["guard:refund-approval", "tool:get_order"]
    ).modes
    assert mode.manifest == {"guard:refund-approval": "live", "tool:get_order": "frozen"}
