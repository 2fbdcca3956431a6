from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    a_case,
    a_divergence,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)
from twiceshy.casefile import Expect
from twiceshy.conditions import Condition
from twiceshy.cutpoint import CutPoint
from twiceshy.dimensions import GOAL, Measures, Score, annotated, called, scores
from twiceshy.envelope import Disposition, ErrorRecord, RunInput
from twiceshy.evidence import Run, replayed_run
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.judgement import Judgement
from twiceshy.outcome import DimensionName, Divergence, Failure, Outcome, Truth
from twiceshy.policy import ToolPolicy
from twiceshy.specs import ExpectedCall
from twiceshy.transcript import Played
from twiceshy.verdict import CallRef

POLICY = a_policy(
    find="read", get_order="read", issue_refund="write", send_message=ToolPolicy(closing=True), wait=ToolPolicy(poll=True, effect="read", max_polls=2),
    pay=ToolPolicy(volatile=("request_id",)),
)  # fmt: skip
SELECTION, EXTRACTION, UTILIZATION, RECOVERY, COHERENCE, COMPLETION = DimensionName


def a_run(*played: Played, output: Any = None, **ending: Any) -> Run:
    given = ending or {"disposition": Disposition(output=output)}
    return replayed_run(a_transcript(*played, **given), POLICY)


def measured(
    name: DimensionName, run: Run, *, found: tuple[Judgement, ...] = (), names: tuple[str, ...] = (), **measures: Any
) -> tuple[int, int]:
    made = {score.name: score for score in scores(run, found, Measures(**measures), names=names)}
    assert list(made) == list(DimensionName)
    return made[name].hits, made[name].n


def calls(*names: str) -> list[Played]:
    return [a_played(seq, name, seen={"n": seq}) for seq, name in enumerate(names, 1)]


def expected(*names: str) -> list[CallRef]:
    return [CallRef(tool=name) for name in names]


@pytest.mark.parametrize(
    ("made", "wanted", "share"),
    [
        (("a", "b", "c"), ("a", "b", "c"), (3, 3)),
        (("a", "c"), ("a", "b", "c"), (2, 3)),
        (("a", "b", "x", "c"), ("a", "b", "c"), (3, 4)),
        (("a", "x", "c"), ("a", "b", "c"), (2, 3)),
        (("b", "a"), ("a", "b"), (0, 2)),
        ((), ("a",), (0, 1)),
        ((), (), (0, 0)),
    ],
    ids=str,
)
def test_tool_selection_is_edit_distance(
    made: tuple[str, ...], wanted: tuple[str, ...], share: tuple[int, int]
) -> None:
    assert measured(SELECTION, a_run(*calls(*made)), expected=expected(*wanted)) == share


names = st.lists(st.sampled_from("abc"), max_size=6)


@given(names, names)
def test_tool_selection_is_symmetric_and_bounded(made: list[str], wanted: list[str]) -> None:
    hits, n = measured(SELECTION, a_run(*calls(*made)), expected=expected(*wanted))
    assert (hits, n) == measured(SELECTION, a_run(*calls(*wanted)), expected=expected(*made))
    assert 0 <= hits <= n == max(len(made), len(wanted))
    assert (hits == n) == (made == wanted)


def test_retries_are_one_selected_call() -> None:
    error = ErrorRecord(cls="TimeoutError")
    run = a_run(a_played(1, "a", error=error), a_played(2, "a", attempt=2))
    assert measured(SELECTION, run, expected=expected("a")) == (1, 1)


def test_nothing_expected_measures_nothing() -> None:
    run = a_run(*calls("a"))
    assert measured(SELECTION, run) == measured(EXTRACTION, run) == (0, 0)


def test_arguments_equal_by_identity() -> None:
    wanted = [
        annotated("find", {"amount": 750.0, "day": "Thu", "filter.open": True}),
        annotated("find", {"day": "Fri"}),
    ]
    run = a_run(
        a_played(1, "find", seen={"day": "Fri", "amount": 1}),
        a_played(2, "find", seen={"amount": 750, "day": "thu", "filter": {"open": True}}),
    )
    assert measured(EXTRACTION, run, expected=wanted) == (3, 4)
    assert measured(EXTRACTION, a_run(), expected=wanted) == (0, 4)


def test_one_call_answers_for_one_expected() -> None:
    wanted = [annotated("find", {"day": "Thu"})] * 2
    assert measured(EXTRACTION, a_run(a_played(1, "find", seen={"day": "Thu"})), expected=wanted) == (1, 2)


def test_volatile_arguments_are_not_extracted() -> None:
    ours = a_run(a_write(1, "pay", seen={"request_id": "x1", "to": {"ids": ["a", "b"]}}))
    theirs = called(a_run(a_write(1, "pay", seen={"request_id": "x2", "to": {"ids": ["a", "c"]}})))
    assert list(theirs[0].args) == ["to.ids[0]", "to.ids[1]"]
    assert measured(EXTRACTION, ours, expected=theirs) == (1, 2)


@given(st.lists(st.dictionaries(st.sampled_from("xy"), st.integers(), max_size=2), max_size=4))
def test_a_run_is_what_it_expects(asked: list[dict[str, int]]) -> None:
    run = a_run(*(a_played(seq, "find", seen=args) for seq, args in enumerate(asked, 1)))
    for name in (SELECTION, EXTRACTION):
        hits, n = measured(name, run, expected=called(run))
        assert hits == n


def test_pinned_calls_hold_no_values() -> None:
    (call,) = called(a_run(a_played(1, "find", seen={"email": "jane@example.org"})))
    assert call.tool == "find"
    assert "jane" not in call.args["email"]


def test_results_are_used_where_facts_are_grounded() -> None:
    found = a_played(1, "get_order", seen={"order_id": "A184"}, shown={"limit": 500, "mail": "j@x.org"})
    paid = a_write(2, "issue_refund", seen={"order_id": "A184", "amount": 999, "note": "as agreed"})
    run = a_run(found, paid, output={"message": "£500 for A184", "code": "R-77", "done": True})
    # grounded: the id twice and the text; not: the amount, the code.
    assert measured(UTILIZATION, run, given="refund A184") == (3, 5)


def test_later_results_ground_nothing() -> None:
    paid = a_write(1, "issue_refund", seen={"amount": 500})
    run = a_run(paid, a_played(2, "get_order", shown={"limit": 500}), output="500")
    assert measured(UTILIZATION, run) == (1, 2)
    assert measured(UTILIZATION, a_run(output="see A184"), given="A184") == (1, 1)


FAILED = {"error": ErrorRecord(cls="shop.OrderMissing", type="not_found", message="no such order"), "seen": {"id": 1}}


@pytest.mark.parametrize(
    ("later", "output", "share"),
    [
        ((), {"status": "done"}, (0, 1)),
        (({"seen": {"id": 1}, "attempt": 2},), {"status": "done"}, (0, 1)),
        (({"seen": {"id": 2}},), {"status": "done"}, (1, 1)),
        (({"name": "find", "seen": {"id": 1}},), {"status": "done"}, (1, 1)),
        ((), {"message": "OrderMissing"}, (1, 1)),
        ((), {"message": "I could not look it up"}, (1, 1)),
    ],
    ids=["nothing", "unchanged", "changed", "another", "named", "told"],
)
def test_error_recovery(later: tuple[dict[str, Any], ...], output: Any, share: tuple[int, int]) -> None:
    after = [a_played(seq, **{"name": "get_order", **given}) for seq, given in enumerate(later, 2)]
    assert measured(RECOVERY, a_run(a_played(1, **FAILED), *after, output=output)) == share


def test_calls_of_one_turn_recover_nothing() -> None:
    run = a_run(a_model(1), a_played(2, group=1, **FAILED), a_played(3, "find", group=1), output="done")
    assert measured(RECOVERY, run) == (0, 1)
    assert measured(RECOVERY, a_run(a_played(1))) == (0, 0)


def test_plan_wastes_repeats_without_change() -> None:
    look = {"name": "find", "shown": 1, "raw": 1}
    assert measured(COHERENCE, a_run(a_played(1, **look), a_played(2, **look), a_played(3, **look))) == (1, 3)
    between = a_run(a_played(1, **look), a_write(2), a_played(3, **look))
    assert measured(COHERENCE, between) == (3, 3)
    other = a_run(a_played(1, **look), a_played(2, **{**look, "raw": 2}), a_played(3, scope="sub[0]", **look))
    assert measured(COHERENCE, other) == (3, 3)
    assert measured(COHERENCE, a_run()) == (0, 0)


def test_polls_are_wasted_past_their_limit() -> None:
    assert measured(COHERENCE, a_run(*(a_played(seq, "wait") for seq in range(1, 5)))) == (2, 4)


def test_calls_after_done_are_wasted() -> None:
    done = Condition("state.writes.exists(w, w.tool == 'issue_refund')", where="tools.yaml")
    run = a_run(a_write(1, "issue_refund"), a_played(2, "find"), a_write(3, "send_message"))
    assert measured(COHERENCE, run, done=done) == (2, 3)


def test_done_without_a_value_is_error_where_it_counts() -> None:
    done = Condition("args.nothing == 1", where="tools.yaml")
    for thresholds, error in (({}, False), ({COHERENCE: 0.5}, True)):
        made = scores(a_run(a_played(1)), [], Measures(done=done, thresholds=thresholds))
        score = next(one for one in made if one.name is COHERENCE)
        assert (score.n, score.error is not None, score.threshold is not None) == (0, True, error)


def test_task_completion_counts_what_had_to_be() -> None:
    found = (
        Judgement(id="told", kind="must_happen", truth=Truth.SATISFIED),
        Judgement(id="reply", kind="output", truth=Truth.OPEN),
        Judgement(id="no-refund", kind="must_not", truth=Truth.SATISFIED),
        Judgement(id="order", kind="order", truth=Truth.SATISFIED),
        Judgement(id=GOAL, kind="must_not", truth=Truth.VIOLATED),
        Judgement(id="nice", kind="output", truth=Truth.VIOLATED, advisory=True),
    )
    assert measured(COMPLETION, a_run(), found=found) == (1, 3)
    assert measured(COMPLETION, a_run(), found=found, names=("no-refund",)) == (2, 4)
    assert measured(COMPLETION, a_run()) == (0, 0)


@pytest.mark.parametrize(
    "run",
    [a_run(*calls("find"), divergence=a_divergence()), a_run(*calls("find"), crash="crashed"), a_run(a_model(1, stale=True), *calls("find"))],
    ids=["diverged", "crashed", "stale"],
)  # fmt: skip
def test_unfinished_runs_are_not_measured(run: Run) -> None:
    made = scores(run, [Judgement(id="told", kind="must_happen")], Measures(expected=expected("find")))
    assert {score.n for score in made} == {0}
    assert {score.value for score in made} == {None}


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0, 1))
def test_passed_is_at_least_the_threshold(hits: int, more: int, threshold: float) -> None:
    score = Score(name=SELECTION, hits=hits, n=hits + more, threshold=threshold)
    if hits + more:
        assert score.value is not None
        assert 0 <= score.value <= 1
        assert score.passed is (score.value >= threshold)
    else:
        assert score.value is score.passed is None


def judged(*played: Played, case: dict[str, Any] | None = None, champion: Any = None, **file: Any) -> TrialVerdict:
    envelope = an_envelope(*(one.crossing for one in calls("find", "get_order")), input=RunInput(user="look"))
    loaded = a_case(envelope, kind="positive", **(case or {}))
    grader = case_grader(loaded, some_invariants(**file), POLICY, champion=champion)
    return grader.trial(a_transcript(*played), CutPoint())


def test_below_its_threshold_is_failed() -> None:
    made = {"case": {"expect": Expect(calls=[ExpectedCall(tool="find"), ExpectedCall(tool="get_order")])}}
    verdict = judged(*calls("find"), **made, dimensions={"tool_selection": 0.6})
    assert (verdict.outcome, verdict.failure) == (Outcome.FAILED, Failure.DIMENSION)
    assert [(score.name, score.hits, score.n) for score in verdict.missed] == [(SELECTION, 1, 2)]
    assert judged(*calls("find"), **made, dimensions={"tool_selection": 0.5}).outcome is Outcome.PASSED
    assert judged(*calls("find"), **made).outcome is Outcome.PASSED
    assert judged(*calls("find"), dimensions={"tool_selection": 1}).outcome is Outcome.PASSED


def test_case_threshold_comes_before_the_workflow() -> None:
    expect = {"expect": Expect(calls=[ExpectedCall(tool="find"), ExpectedCall(tool="get_order")])}
    case = {**expect, "dimensions": {SELECTION: 0.5}}
    assert judged(*calls("find"), case=case, dimensions={"tool_selection": 1}).outcome is Outcome.PASSED
    case = {**expect, "dimensions": {COHERENCE: 0.5}}
    assert judged(*calls("find"), case=case, dimensions={"tool_selection": 1}).outcome is Outcome.FAILED


def test_each_dimension_stands_alone() -> None:
    verdict = judged(
        *calls("find"),
        champion={"full": expected("find", "x", "y")},
        dimensions={"tool_selection": 0.5, "plan_coherence": 1},
    )
    assert [score.name for score in verdict.missed] == [SELECTION]


def test_champion_is_expected_where_nothing_is_annotated() -> None:
    champion = {"full": expected("find", "get_order"), "cut-point": expected("x")}
    verdict = judged(*calls("find"), champion=champion)
    assert [(score.hits, score.n) for score in verdict.dimensions[:1]] == [(1, 2)]
    annotation = {"expect": Expect(calls=[ExpectedCall(tool="find")])}
    assert judged(*calls("find"), champion=champion, case=annotation).dimensions[0].value == 1.0


def test_error_of_done_is_ours() -> None:
    policy = a_policy(find="read")
    loaded = a_case(an_envelope(calls("find")[0].crossing), kind="positive")
    for file, outcome in (({}, Outcome.PASSED), ({"dimensions": {"plan_coherence": 0.1}}, Outcome.ERROR)):
        grader = case_grader(loaded, some_invariants(**file), _done(policy))
        assert grader.trial(a_transcript(*calls("find")), CutPoint()).outcome is outcome


def _done(policy: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(policy, done="args.nothing == 1")


def test_divergence_comes_with_no_dimension() -> None:
    loaded = a_case(an_envelope(*(one.crossing for one in calls("find"))), kind="positive")
    grader = case_grader(
        loaded, some_invariants(dimensions={"tool_selection": 1}), POLICY, champion={"full": expected("x")}
    )
    verdict = grader.trial(a_transcript(*calls("find"), divergence=a_divergence(Divergence.EXHAUSTED)), CutPoint())
    assert (verdict.outcome, verdict.missed) == (Outcome.DIVERGED, [])
