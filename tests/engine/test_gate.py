import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy.cli.gating import gate as gate_command
from twiceshy.errors import ConfigurationError
from twiceshy.gate import PRECEDENCE, Budget, exit_code, summary
from twiceshy.outcome import DimensionName, Outcome
from twiceshy.statistics import wilson
from twiceshy.verdict import Conversation, Dimension, Policy, Rate, Result, TurnResult, Verdict, Waiver, schema
from verdicts import a_mode, a_result, a_verdict, a_violation

P, F, D, E = Outcome.PASSED, Outcome.FAILED, Outcome.DIVERGED, Outcome.ERROR
WAIVER = Waiver(id="w1", case="refund-over-limit", assertions=["x"], by="@ann", date="2026-06-01", why="known")
WAIVED = a_result(F, change="known", waiver=WAIVER)
LOST = a_result(D, modes=[a_mode(D, previous=P)], previous_outcome=P)
ANY = Policy(max_diverged="99")


def code(*results: Result, policy: Policy | None = None, not_run: int = 0) -> int:
    return summary(results, policy or Policy(), not_run=not_run).exit_code


def test_one_code_for_each_outcome() -> None:
    assert code(a_result()) == 0
    assert code(a_result(), a_result(F)) == 1
    assert code(a_result(), a_result(D)) == 3
    assert code(a_result(), a_result(E)) == 4
    assert code() == 5


@pytest.mark.parametrize("order", [1, -1])
def test_precedence_over_the_finished_set(order: int) -> None:
    everything = [a_result(), a_result(D), a_result(E), a_result(F)][::order]
    assert code(*everything) == 1
    assert code(*(result for result in everything if result.outcome is not F)) == 4
    assert code(*(result for result in everything if result.outcome not in (F, E))) == 3
    assert code(a_result(D), policy=Policy(max_diverged="1")) == 5


def test_only_known_and_waived_is_excused() -> None:
    assert code(WAIVED) == 0
    assert code(a_result(F, change="known")) == 1
    assert code(a_result(F, change="regressed", waiver=WAIVER)) == 1
    assert code(a_result(F, change="new", waiver=WAIVER)) == 1


def test_diverged_budget_by_count() -> None:
    two = [a_result(), a_result(D), a_result(D)]
    assert code(*two, policy=Policy(max_diverged="1")) == 3
    assert code(*two, policy=Policy(max_diverged="2")) == 0


def test_diverged_budget_by_wilson_bound() -> None:
    few = [*(a_result(D) for _ in range(3)), *(a_result() for _ in range(27))]
    # 3 of 30 is 10 %; its Wilson lower bound is 3.5 %.
    assert code(*few, policy=Policy(max_diverged="5%")) == 0
    assert code(*few, policy=Policy(max_diverged="3%")) == 3
    assert code(a_result(), a_result(D), policy=Policy(max_diverged="0%")) == 3
    assert code(a_result(), policy=Policy(max_diverged="0%")) == 0


def test_lost_pass_breaks_any_budget() -> None:
    assert code(a_result(), LOST, policy=ANY) == 3
    assert code(a_result(), a_result(D), policy=ANY) == 0


def test_nothing_judged_is_never_green() -> None:
    assert code(a_result(D), a_result(D), policy=ANY) == 5
    assert code(a_result(), policy=Policy(min_cases=2)) == 5
    assert code(a_result(), a_result(), policy=Policy(min_cases=2)) == 0
    assert code(policy=Policy(min_cases=0)) == 5


def test_fail_on_leaves_out_but_never_errors() -> None:
    assert code(a_result(), a_result(D), policy=Policy(fail_on=(F, E))) == 0
    assert code(a_result(), a_result(F), policy=Policy(fail_on=(D, E))) == 0
    assert code(a_result(), a_result(E), policy=Policy(fail_on=(F,))) == 4


def test_unfinished_run_is_infrastructure() -> None:
    assert code(a_result(), not_run=1) == 4
    assert code(a_result(F), not_run=1) == 1


@pytest.mark.parametrize("words", ["", ",", "passed", "failed,passed", "fialed"])
def test_fail_on_names_what_can_be_red(words: str) -> None:
    with pytest.raises(ConfigurationError, match=r"write some of failed,diverged,error\."):
        gate_command("nobody", fail_on=words)


def test_weak_isolation_is_never_accepted() -> None:
    weak = a_result(isolation="weak")
    assert code(a_result(), weak) == 4
    assert code(a_result(), weak, policy=Policy(fail_on=())) == 4
    assert code(a_result(E, isolation="weak"), a_result(F)) == 1


def test_exit_zero_keeps_the_true_code() -> None:
    verdict = a_verdict(a_result(F), policy=Policy(exit_zero=True))
    assert (exit_code(verdict), verdict.summary.exit_code) == (0, 1)
    assert exit_code(a_verdict(a_result(F))) == 1


@pytest.mark.parametrize("wrong", ["", "many", "-1", "1.5", "5 %%", "%"])
def test_budget_is_number_or_percentage(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="--max-diverged"):
        Budget.parse(wrong)


def test_counts_add_up() -> None:
    now = a_result(P, previous_outcome=F)
    counts = a_verdict(now, LOST, WAIVED, a_result(F, change="new"), a_result(E), not_run=2).summary.counts
    assert (counts.passed, counts.failed, counts.diverged, counts.error, counts.not_run) == (1, 2, 1, 1, 2)
    assert (counts.newly_covered, counts.newly_lost, counts.known, counts.new, counts.waived) == (1, 1, 1, 1, 1)


def a_dimension(name: DimensionName, hits: int, n: int, threshold: float | None = None) -> Dimension:
    value = hits / n if n else None
    passed = None if value is None or threshold is None else value >= threshold
    return Dimension(name=name, value=value, threshold=threshold, n=n, ci_low=None, ci_high=None, passed=passed)


def test_dimensions_add_up_each_for_itself() -> None:
    selection, coherence = DimensionName.TOOL_SELECTION, DimensionName.PLAN_COHERENCE
    one = a_result(dimensions=[a_dimension(selection, 1, 1, 0.5), a_dimension(coherence, 3, 4)])
    two = a_result(F, dimensions=[a_dimension(selection, 1, 4, 0.5), a_dimension(coherence, 4, 4, 0.9)])
    none = a_result(dimensions=[a_dimension(selection, 0, 0, 0.5)])
    first, second = a_verdict(one, two, none).summary.by_dimension
    assert (first.name, first.value, first.n, first.threshold, first.passed) == (selection, 0.4, 5, 0.5, False)
    assert (second.name, second.value, second.n, second.threshold, second.passed) == (coherence, 0.875, 8, None, True)
    assert first.ci_low is not None
    assert (first.ci_low, first.ci_high) == wilson(2, 5)
    assert a_verdict(none).summary.by_dimension[0].value is None
    assert a_verdict(a_result()).summary.by_dimension == []


def a_live(passed: int, before: int, *, trials: int = 4, pinned: int = 4, previous: Outcome | None = P) -> Result:
    """A case judged on a live model: so many of its trials passed, so many did on the champion."""
    rate = Rate(k=1, value=passed / trials, floor=0.25)
    mode = a_mode(
        trials=trials, passed=passed, rate=rate, previous=previous, previous_trials=pinned, previous_passed=before
    )
    return a_result(modes=[mode], previous_outcome=previous)


def test_live_cases_are_compared_in_pairs() -> None:
    live = summary([a_live(3, 4), a_live(4, 4), a_live(4, 3), a_live(1, 4)], Policy()).live
    assert live is not None
    assert (live.pairs, live.regressions, live.improvements) == (4, 2, 1)
    assert (live.p, live.worse) == (pytest.approx(0.5), False)
    assert "2 regressions and 1 improvements in 4 pairs, exact McNemar p = 0.500; inconclusive: need" in live.text
    assert summary([a_result()], Policy()).live is None


def test_trials_that_cannot_be_paired_are_never_green() -> None:
    found = summary([a_live(4, 8, pinned=8), a_live(4, 4)], Policy())
    assert (found.exit_code, found.not_comparable) == (3, ["refund-over-limit"])
    assert found.live is not None
    assert found.live.pairs == 1
    assert (
        "1 case not comparable with the champion (its live trials are 8 a mode; run as many (--trials)"
        in found.reasons[0]
    )
    assert summary([a_live(4, 8, pinned=8)], Policy(fail_on=(F, E))).exit_code == 0
    both = (
        a_live(4, 4).modes[0],
        msgspec.structs.replace(a_live(4, 4, previous=None).modes[0], mode="full --live tool:x"),
    )
    assert code(msgspec.structs.replace(a_live(4, 4), modes=list(both))) == 3


def test_case_that_no_champion_judged_live_stands_on_its_own() -> None:
    found = summary([a_live(3, 4, previous=None)], Policy())
    assert (found.exit_code, found.not_comparable, found.live) == (0, [], None)


@pytest.mark.parametrize(("regressions", "improvements", "expected"), [(5, 0, 1), (4, 0, 0), (5, 1, 0), (7, 1, 1)])
def test_five_regressions_are_red(regressions: int, improvements: int, expected: int) -> None:
    # signatures.md §10.3: with no improvements 5 regressions reach p = .031 one-sided; fewer cannot block.
    results = [a_live(3, 4)] * regressions + [a_live(4, 3)] * improvements + [a_live(4, 4)] * 30
    assert code(*results) == expected
    assert code(*results, policy=Policy(fail_on=(D, E))) == 0
    assert summary(results, Policy()).live == summary(results[::-1], Policy()).live


def test_need_says_how_many_pairs_would_decide() -> None:
    undecided = summary([a_live(3, 4)] * 2 + [a_live(4, 4)] * 3, Policy()).live
    assert undecided is not None
    assert undecided.need == 15
    even = summary([a_live(3, 4), a_live(4, 3)], Policy()).live
    assert even is not None
    assert (even.need, "inconclusive" in even.text) == (None, False)


def test_conversation_may_fail_where_every_case_passed() -> None:
    turns = [TurnResult(turn=0, outcome=P, case="a"), TurnResult(turn=1, outcome=P, case="b")]
    together = Conversation(id="c1", outcome=F, turns=turns, violations=[a_violation("one-refund")])
    found = summary([a_result()], Policy(), conversations=[together])
    assert (found.exit_code, found.reasons) == (1, ["1 conversation failed as a whole: c1 (one-refund)"])
    assert summary([a_result()], Policy(fail_on=(D, E)), conversations=[together]).exit_code == 0
    held = Conversation(id="c1", outcome=P, turns=turns)
    assert summary([a_result()], Policy(), conversations=[held]).exit_code == 0


def test_conversation_that_could_not_be_judged_is_our_fault() -> None:
    together = Conversation(id="c1", outcome=E, turns=[], error="x: invariants.yaml:1: no such field")
    found = summary([a_result()], Policy(fail_on=(F,)), conversations=[together])
    assert found.exit_code == 4
    (reason,) = found.reasons
    assert reason.startswith("1 conversation could not be judged as a whole by our own fault: c1 (x: invariants.yaml:1")
    failed = msgspec.structs.replace(together, outcome=F, violations=[a_violation()])
    assert summary([a_result()], Policy(), conversations=[failed]).exit_code == 1


RESULTS = st.lists(st.sampled_from([a_result(), a_result(F), a_result(D), a_result(E), WAIVED, LOST]), max_size=6)
POLICIES = st.builds(
    Policy,
    fail_on=st.sets(st.sampled_from([F, D, E])).map(tuple),
    max_diverged=st.sampled_from(["0", "1", "99", "20%"]),
    min_cases=st.integers(0, 3),
)


@given(RESULTS, POLICIES, st.integers(0, 1), st.randoms(use_true_random=False))
def test_order_of_results_changes_nothing(results: list[Result], policy: Policy, not_run: int, chance: object) -> None:
    shuffled = list(results)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    first, second = summary(results, policy, not_run=not_run), summary(shuffled, policy, not_run=not_run)
    assert (first.exit_code, first.counts) == (second.exit_code, second.counts)
    assert first.exit_code in PRECEDENCE


@given(RESULTS)
def test_green_means_judged_and_passed(results: list[Result]) -> None:
    if code(*results) == 0:
        assert results
        assert all(result.outcome is P or result.waiver is not None for result in results)


def test_schema_is_closed_and_valid() -> None:
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema())
    validator = jsonschema.Draft202012Validator(schema())
    verdict = a_verdict(a_result(), a_result(F), LOST, a_result(E), WAIVED)
    validator.validate(msgspec.json.decode(msgspec.json.encode(verdict)))
    objects = [shape for shape in schema()["$defs"].values() if shape.get("type") == "object"]
    assert all(shape["additionalProperties"] is False for shape in objects)
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
