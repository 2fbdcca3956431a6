"""What a broken trial proves, the mutation score, and when a case covers its signature."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_case, a_crossing, a_played, a_transcript, a_write, an_envelope
from twiceshy.breakage import BreakRun, BrokenCase, Score, _state, score, uncovered
from twiceshy.breaking import parse
from twiceshy.breaking.nowhere import applied_nowhere
from twiceshy.casefile import Judge
from twiceshy.envelope import Kind
from twiceshy.grading import TrialVerdict
from twiceshy.judgement import Judgement
from twiceshy.outcome import Failure, Outcome, Truth
from twiceshy.trials import Trial

OWN, OTHER = "refund-over-limit", "reply-has-status"
PASSED = TrialVerdict(outcome=Outcome.PASSED)
STATES = ["killed", "survived", "inconclusive", "error"]


def failed(name: str) -> TrialVerdict:
    return TrialVerdict(
        outcome=Outcome.FAILED, failure=Failure.INVARIANT, judgements=[Judgement(id=name, kind="must_not", truth=Truth.VIOLATED)]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "before", "applied", "state"),
    [
        (failed(OWN), PASSED, True, "killed"),
        (failed(OTHER), PASSED, True, "inconclusive"),
        (failed(OWN), failed(OWN), True, "inconclusive"),
        (failed(OWN), PASSED, False, "error"),
        (PASSED, PASSED, True, "survived"),
        (PASSED, PASSED, False, "error"),
        (TrialVerdict(outcome=Outcome.DIVERGED), PASSED, True, "inconclusive"),
        (TrialVerdict(outcome=Outcome.ERROR, error="x"), PASSED, True, "error"),
        (TrialVerdict(outcome=Outcome.FAILED, failure=Failure.CANDIDATE_CRASHED), PASSED, True, "inconclusive"),
    ],
)
def test_only_red_on_its_own_ids_is_a_kill(verdict: Any, before: Any, applied: Any, state: str) -> None:
    loaded = a_case(an_envelope(), invariants=[OWN])
    assert _state(loaded, verdict, before, applied=applied)[0] == state


def test_red_on_what_decides_the_case_is_a_kill() -> None:
    loaded = a_case(an_envelope(), decided_by=["guard-refused"])
    open_ = TrialVerdict(
        outcome=Outcome.FAILED, failure=Failure.OPEN_MUST_HAPPEN,
        judgements=[Judgement(id="guard-refused", kind="must_happen", truth=Truth.OPEN)],
    )  # fmt: skip
    assert _state(loaded, open_, PASSED, applied=True)[0] == "killed"


DECLARED = ["guard:limit", "guard:hours", "hook:strip", "model:planner", "tool:find", "tool:pay", "tool:refund"]
RECORD = an_envelope(
    a_crossing(1, "planner", kind=Kind.MODEL, raw={"parts": []}), a_crossing(2, "find"), a_crossing(3, "pay")
)
MET = [
    a_played(2, "find", raw={"order": {"id": "A1", "lines": [{"sku": "x"}]}, "limit": 5}),
    a_played(2, "hours", sub=1, kind=Kind.GUARD, effect=None),
    a_write(3, "pay", seen={"amount": 5}),
]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("guard.off:limits", "it declares no guard 'limits'. Did you mean 'limit'?"),
        ("guard.off:strip", "it declares no guard 'strip'. Known: hours, limit."),
        ("guard.off:limit", "guard 'limit' was never reached; reached were: hours"),
        ("guard.off:hours", "'hours' was met, and only in what comes from the record"),
        ("hook.off:strip", "hook 'strip' was never reached; reached were: none"),
        ("hook.strip:fnd.limit", "it declares no tool 'fnd'. Did you mean 'find'?"),
        ("hook.strip:find.order.idd", "no result of 'find' has 'order.idd'. Did you mean 'order.id'?"),
        ("hook.strip:find.zzz", "no result of 'find' has 'zzz'. Known: limit, order, order.id, order.lines[], order.lines[].sku."),
        ("args.set:pay.amount=5", "every call of 'pay' asked for this value already"),
        ("call.drop:find", "nobody recorded what 'find' says to what it was asked"),
        ("call.duplicate:refund", "tool 'refund' was never reached; reached were: find, pay"),
        ("order.swap:find,pay", "no call of 'pay' came after one of 'find' that can be answered early"),
        ("order.swap:find,py", "it declares no tool 'py'. Did you mean 'pay'?"),
        ("error.swallow:pay", "no call of 'pay' raised or returned an error"),
        ("proposal.replace:2", "the record has no output of a model at #2; it has #1"),
        ("proposal.replace:1", "'planner' gave the recorded output at #1 anyway; it is replaced only where the model runs live (--live model:planner)"),
    ],
)  # fmt: skip
def test_a_break_that_applied_nowhere_names_what_it_looked_for_and_what_there_is(text: str, says: str) -> None:
    assert applied_nowhere(parse(text), MET, declared=DECLARED, record=RECORD) == says


def test_of_a_command_what_it_came_to_is_named() -> None:
    """It declares nothing, so only its run says what it has."""
    said = applied_nowhere(parse("call.drop:payy"), MET, declared=[], record=RECORD)
    assert said == "it came to no tool 'payy'. Did you mean 'pay'?"


def a_run(text: str, state: Any, *, equivalent: bool = False) -> BreakRun:
    return BreakRun(
        case="a", text=text, mode="full", state=state, equivalent=equivalent, judge=Judge(), trial=Trial(a_transcript(), PASSED)
    )  # fmt: skip


def test_a_failure_that_is_not_the_cases_own_is_named() -> None:
    state, why = _state(a_case(an_envelope(), invariants=[OWN]), failed(OTHER), PASSED, applied=True)
    assert (state, why) == ("inconclusive", f"it FAILED on {OTHER}, which `invariants` of the case does not name")


def broken_case(
    *runs: BreakRun, passed: bool = True, calls: Any = (), isolation: str = "hermetic", **case: Any
) -> BrokenCase:
    verdict = PASSED if passed else failed(OWN)
    loaded = a_case(an_envelope(*calls), **{"tool": "pay", **case})
    return BrokenCase(loaded=loaded, isolation=isolation, unbroken=[Trial(a_transcript(), verdict)], runs=runs)


POSITIVE = broken_case(kind="positive", id="good")


def test_a_case_is_red_where_one_of_its_modes_is() -> None:
    case = broken_case(a_run("x", "error"), a_run("x", "killed"), a_run("y", "inconclusive"), a_run("y", "survived"))
    assert case.states == {"x": "killed", "y": "survived"}


def test_both_denominators_are_told() -> None:
    runs = [a_run("a", "killed"), a_run("b", "survived", equivalent=True), a_run("c", "survived"), a_run("d", "error")]
    found = score([broken_case(*runs), broken_case()])
    assert found == Score(killed=1, declared=4, applied=3, equivalent=1)
    assert (found.of_all, found.of_reachable) == (1 / 4, 1 / 3)


def test_without_breaks_there_is_no_score() -> None:
    assert score([broken_case()]).of_all is None
    assert score([broken_case(a_run("b", "survived", equivalent=True))]).of_reachable is None


def test_a_break_is_equivalent_only_where_every_mode_says_so() -> None:
    both = broken_case(a_run("b", "survived", equivalent=True), a_run("b", "survived"))
    nowhere_else = broken_case(a_run("b", "survived", equivalent=True), a_run("b", "error"))
    assert (both.equivalent, nowhere_else.equivalent) == ([], ["b"])


@given(st.lists(st.lists(st.sampled_from(STATES), max_size=4), max_size=4))
def test_no_score_counts_more_than_it_has(states: list[list[str]]) -> None:
    found = score([broken_case(*[a_run(str(at), state) for at, state in enumerate(row)]) for row in states])
    assert 0 <= found.killed <= found.applied <= found.declared
    assert (found.of_all == 1) == (found.declared > 0 and all(state == "killed" for row in states for state in row))


@pytest.mark.parametrize(
    ("case", "others", "why"),
    [
        (broken_case(a_run("a", "killed")), [POSITIVE], None),
        (broken_case(a_run("a", "killed")), [], "no positive case of its tool passed"),
        (broken_case(a_run("a", "killed")), [broken_case(kind="positive", passed=False)], "no positive case of its tool passed"),
        (broken_case(a_run("a", "killed")), [broken_case(kind="positive", tool="tell")], "no positive case of its tool passed"),
        (broken_case(a_run("a", "killed"), tool=None), [broken_case(kind="positive", tool="tell")], None),
        (broken_case(a_run("a", "killed"), tool="find"), [broken_case(kind="positive", calls=[a_crossing(name="find")])], None),
        (
            broken_case(a_run("a", "killed"), tool="find"),
            [broken_case(kind="positive", calls=[a_crossing(name="find", blocked_by="limit")])],
            "no positive case of its tool passed",
        ),
        (broken_case(a_run("a", "killed"), a_run("b", "error")), [POSITIVE], "not killed: b"),
        (broken_case(a_run("a", "killed"), passed=False), [POSITIVE], "the unbroken candidate does not pass it"),
        (broken_case(), [POSITIVE], "it declares no break"),
        (broken_case(a_run("a", "killed"), kind="positive"), [], None),
        (broken_case(a_run("a", "killed"), isolation="weak"), [POSITIVE], "its isolation was weak, and nothing that ran so proves anything"),
        (broken_case(a_run("a", "killed")), [broken_case(kind="positive", isolation="clock-unsealed")], "no positive case of its tool passed"),
    ],
)  # fmt: skip
def test_no_coverage_without_a_kill_and_a_positive(case: BrokenCase, others: list[BrokenCase], why: str | None) -> None:
    assert uncovered(case, [case, *others]) == why
