"""The verdict of a trial and of several, against the ordered rules written out by hand, over any run and any end (semantics.md §7)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

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
from twiceshy.envelope import Disposition, Effect, Versions
from twiceshy.exercise import changed_layers, exercise, not_exercised
from twiceshy.grading import case_grader
from twiceshy.judgement import Judgement
from twiceshy.outcome import BoundaryState, Divergence, Failure, Mode, Outcome
from twiceshy.specs import Floor
from twiceshy.statistics import pass_hat_k
from twiceshy.transcript import Played
from twiceshy.trials import mode_run
from verdicts import FULL, a_judgement, a_trial

POLICY = a_policy(get_order="read", issue_refund="write")
INVARIANTS = some_invariants(
    {"id": "no-large-refund", "kind": "must_not", "at": {"tool": "issue_refund"}, "when": "args.amount > 500"},
    {"id": "guard-refused", "kind": "must_happen", "at": {"guard": "limit", "blocked": True}, "only_if": "opportunity"},
    {"id": "reply", "kind": "output", "schema": {"type": "object", "required": ["status"]}},
    allowed_writes=[{"tool": "issue_refund"}],
)
RECORD = a_crossing(2, "issue_refund", effect=Effect.WRITE, seen={"amount": 750}, proposed={"amount": 750})


class End(NamedTuple):
    """How a run ends, and what that is by hand."""

    said: dict[str, Any]
    diverged: bool = False
    crash: str | None = None
    output: Any = None


ENDS = [
    End({"disposition": Disposition(output={"status": "done"})}, output={"status": "done"}),
    End({"disposition": Disposition(output={})}, output={}),
    End({"divergence": a_divergence(Divergence.STATE_MISMATCH)}, diverged=True),
    End({"disposition": Disposition(ended=False)}, crash="crashed"),
    *(End({"crash": crash}, crash=crash) for crash in ("crashed", "memory", "cpu", "wall")),
]
asked = st.tuples(st.sampled_from([100, 750]), st.booleans())
"""(amount, whether the guard refuses it)."""


def run(read: bool, refunds: list[tuple[int, bool]]) -> list[Played]:  # noqa: FBT001 - a parameter of the test
    steps = [a_played(1, "get_order")] if read else []
    for seq, (amount, refused) in enumerate(refunds, 2):
        more = {"blocked_by": "limit"} if refused else {}
        seen = {"amount": amount}
        steps += [
            a_guard(seq, "issue_refund", "limit", blocked=refused),
            a_write(seq, "issue_refund", seen=seen, proposed=seen, **more),
        ]
    return steps


def verdict(refunds: list[tuple[int, bool]], end: End, *, decided: bool, named: bool) -> tuple[Any, ...]:
    """By hand: the four rules, in their order."""
    paid = [amount for amount, refused in refunds if not refused]
    if 750 in paid or len(paid) > 1 or (end.output is not None and "status" not in end.output):
        return Outcome.FAILED, Failure.INVARIANT
    if end.crash == "wall":
        return Outcome.ERROR, None
    if not any(amount == 750 for amount, _ in refunds):
        return Outcome.DIVERGED, Divergence.STATE_MISMATCH if end.diverged else Divergence.OPPORTUNITY_NOT_REACHED
    refused = any(refused for _, refused in refunds)
    if end.diverged:
        return (Outcome.PASSED, "decided") if decided and refused else (Outcome.DIVERGED, Divergence.STATE_MISMATCH)
    if end.crash is not None:
        return Outcome.FAILED, Failure.CANDIDATE_TIMEOUT if end.crash == "cpu" else Failure.CANDIDATE_CRASHED
    if (named or decided) and not refused:
        return Outcome.FAILED, Failure.OPEN_MUST_HAPPEN
    return Outcome.PASSED, None


@given(st.booleans(), st.lists(asked, max_size=2), st.sampled_from(ENDS), st.booleans(), st.booleans())
@example(read=True, refunds=[(100, True)], end=ENDS[2], decided=True, named=False)
def test_the_first_rule_that_applies_decides(read: Any, refunds: Any, end: End, decided: Any, named: Any) -> None:
    case = {
        "decided_by": ["guard-refused"] if decided else [],
        "invariants": ["no-large-refund", *(["guard-refused"] if named else [])],
    }
    grader = case_grader(a_case(an_envelope(RECORD), **case), INVARIANTS, POLICY)
    found = grader.trial(a_transcript(*run(read, refunds), **end.said), CutPoint())
    why = found.failure or ("decided" if found.decided else found.divergence.kind if found.divergence else None)
    assert (found.outcome, why) == verdict(refunds, end, decided=decided, named=named)
    faulty = a_transcript(*run(read, refunds), **{**end.said, "fault": "ours"})
    assert grader.trial(faulty, CutPoint()).outcome is Outcome.ERROR


outcomes = st.sampled_from(Outcome)


@given(st.lists(outcomes, min_size=1, max_size=5))
def test_frozen_trials_come_to_one_outcome(came: list[Outcome]) -> None:
    found = mode_run(FULL, [a_trial(outcome) for outcome in came])
    order = [Outcome.FAILED, Outcome.ERROR, Outcome.DIVERGED, Outcome.PASSED]
    assert found.outcome is next(outcome for outcome in order if outcome in came)
    disagree = found.outcome is Outcome.DIVERGED and Outcome.PASSED in came
    kind = found.verdict.divergence.kind if found.verdict.divergence else None
    assert (kind is Divergence.NONDETERMINISTIC_CANDIDATE) == disagree


PROOF = [a_judgement(), a_judgement("no_duplicate_write", "count"), a_judgement("told", "must_happen"), a_judgement("order", "order")]  # fmt: skip
trials = st.sampled_from(
    [(Outcome.PASSED, None), (Outcome.DIVERGED, None), *((Outcome.FAILED, proof) for proof in PROOF)]
)


@given(st.lists(trials, min_size=2, max_size=6), st.integers(1, 2), st.floats(0.1, 1))
def test_a_live_model_is_judged_by_proof_and_by_rate(
    came: list[tuple[Outcome, Judgement | None]], k: int, rate: float
) -> None:
    made = [a_trial(outcome, violated=proof) for outcome, proof in came]
    passed = sum(outcome is Outcome.PASSED for outcome, _ in came)
    if any(proof in PROOF[:2] for _, proof in came):
        expected = Outcome.FAILED
    elif pass_hat_k([(len(came), passed)], k) >= rate:
        expected = Outcome.PASSED
    else:
        expected = Outcome.FAILED if any(proof for _, proof in came) else Outcome.DIVERGED
    assert mode_run(FULL, made, floor=Floor(k=k, rate=rate)).outcome is expected


LAYERS: dict[str, Callable[[BoundaryState], Played]] = {
    "model": lambda state: a_model(1, boundary=state),
    "tool:get_order": lambda state: a_played(2, "get_order", boundary=state),
    "harness": lambda state: a_guard(3, "issue_refund", "limit", blocked=False, exercised=state is BoundaryState.LIVE),
}
met = st.lists(st.dictionaries(st.sampled_from(list(LAYERS)), st.sampled_from([BoundaryState.LIVE, BoundaryState.FROZEN])), min_size=1, max_size=3)  # fmt: skip


@given(met, st.sets(st.sampled_from([*LAYERS, "memory"])), st.sets(st.sampled_from([*LAYERS])))
def test_a_changed_layer_that_was_only_frozen_judges_nothing(
    runs: list[dict[str, BoundaryState]], changed: set[str], accepted: set[str]
) -> None:
    transcripts = [a_transcript(*(LAYERS[layer](state) for layer, state in run.items())) for run in runs]
    states = {layer: {run[layer] for run in runs if layer in run} for layer in LAYERS}
    only_frozen = {layer for layer, seen in states.items() if seen == {BoundaryState.FROZEN}}
    found = not_exercised(exercise(transcripts), changed, accepted)
    assert found == sorted((only_frozen & changed) - accepted)


digests = st.sampled_from([None, "1", "2"])
versions = st.fixed_dictionaries(dict.fromkeys(("model", "prompt", "routing", "memory", "skills", "harness"), digests))
tools = st.dictionaries(st.sampled_from(["find", "pay"]), digests)


def _versions(layers: dict[str, str | None], of_tools: dict[str, str | None]) -> Versions:
    said = {name: {} if digest is None else {"digest": digest} for name, digest in layers.items()}
    named = {name: {} if digest is None else {"digest": digest} for name, digest in of_tools.items()}
    return msgspec.convert({**said, "tools": named}, Versions)


@given(versions, tools, versions, tools)
def test_a_layer_is_unchanged_where_both_know_it_alike(
    ours: Any, our_tools: Any, theirs: Any, their_tools: Any
) -> None:
    """What is not known compares as changed, on either side."""
    found = changed_layers(_versions(ours, our_tools), _versions(theirs, their_tools))
    assert found == {
        *(name for name in ours if None in (ours[name], theirs[name]) or ours[name] != theirs[name]),
        *(f"tool:{name}" for name in {*our_tools, *their_tools} if None in (our_tools.get(name), their_tools.get(name)) or our_tools[name] != their_tools[name]),
    }  # fmt: skip


kinds = st.sampled_from(["guard:limit", "model:planner", "tool:find", "tool:pay", "human:boss", "flag:fast", "retrieval:docs", "handoff:billing"])  # fmt: skip
cuts = st.builds(
    CutPoint, mode=st.sampled_from(Mode), live=st.frozensets(st.sampled_from(["model:*", "tool:find", "retrieval:docs"])),
    after=st.none() | st.integers(0, 3), freeze=st.frozensets(st.sampled_from(["guard:limit", "model:planner", "handoff:billing"])),
)  # fmt: skip


@given(cuts, st.sets(kinds))
def test_a_manifest_says_what_is_done_at_each_boundary(cut: CutPoint, declared: set[str]) -> None:
    policy = a_policy(find="read", docs="read")
    found = cut.manifest(declared, policy)
    assert list(found) == sorted(declared)
    for name, state in found.items():
        kind = name.partition(":")[0]
        named = not {name, f"{kind}:*"}.isdisjoint(cut.live)
        frozen = name in cut.freeze
        if name == "tool:pay":
            assert state == "intercepted"
        elif frozen or kind in ("human", "flag"):
            assert state == "frozen"
        elif kind == "handoff":
            assert state == "live"
        else:
            assert state == ("live" if cut.mode is not Mode.STUB and (kind == "guard" or named) else "frozen")
