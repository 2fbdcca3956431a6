from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    a_case,
    a_crossing,
    a_divergence,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)
from twiceshy.conversations import turn_results, whole_conversations
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind, RunInput
from twiceshy.evidence import Run, replayed_run
from twiceshy.graders import judgements
from twiceshy.graders.drift import turns
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.invariants import Invariants
from twiceshy.judgement import Context, Judgement
from twiceshy.outcome import Outcome, Truth
from twiceshy.policy import ToolPolicy
from twiceshy.results import case_result
from twiceshy.transcript import Played, Transcript
from twiceshy.trials import Trial, mode_run
from twiceshy.verdict import Conversation
from verdicts import FULL

POLICY = a_policy(
    find="read", issue_refund="write", send_message="write", book=ToolPolicy(effect="read", volatile=("request_id",))
)
P, F, D, E = Outcome.PASSED, Outcome.FAILED, Outcome.DIVERGED, Outcome.ERROR


def says(seq: int, text: str) -> Played:
    """The user speaks again."""
    return a_played(seq, "customer", kind=Kind.USER, effect=None, raw=text, shown=text)


def a_run(*played: Played, asked: Any = "flights for A184", **ending: Any) -> Run:
    return replayed_run(a_transcript(*played, **ending), POLICY, given=asked)


def book(seq: int, **args: Any) -> Played:
    return a_played(seq, "book", seen=args)


def drift(
    *played: Played, asked: Any = "flights for A184", checks: dict[str, Any] | None = None, **ending: Any
) -> Judgement | None:
    found = judgements(
        Context(run=a_run(*played, asked=asked, **ending), invariants=some_invariants(checks=checks or {}))
    )
    return next((judgement for judgement in found if judgement.id == "context_drift"), None)


def test_lost_fact_is_context_drift() -> None:
    judgement = drift(book(1, order="A184"), says(2, "and a seat"), book(3, seat="window"), divergence=a_divergence())
    assert judgement is not None
    assert (judgement.truth, judgement.place, judgement.detail) == (Truth.VIOLATED, "#3", "book.order")
    assert judgement.effect == "drift"


@pytest.mark.parametrize(
    ("later", "truth"),
    [
        ({"order": "A184"}, Truth.SATISFIED),
        ({"order": "a184"}, Truth.SATISFIED),
        ({"order": "B222"}, Truth.SATISFIED),
        ({"order": "C333"}, Truth.SATISFIED),
        ({"order": "X999"}, Truth.VIOLATED),
        ({"order": None}, Truth.VIOLATED),
        ({"order": "mine"}, Truth.SATISFIED),
    ],
    ids=str,
)
def test_fact_may_change_where_somebody_gave_another(later: dict[str, Any], truth: Truth) -> None:
    found = a_played(2, "find", raw={"next": "C333"}, shown={"next": "C333"})
    judgement = drift(book(1, order="A184"), found, says(3, "no, B222"), book(4, **later))
    assert judgement is not None
    assert judgement.truth is truth


def test_drift_needs_a_later_turn() -> None:
    assert drift(book(1, order="A184"), book(2)) is None
    judgement = drift(says(1, "hello"), book(2, order="A184"), book(3))
    assert judgement is not None
    assert judgement.truth is Truth.SATISFIED


def test_own_facts_of_the_agent_are_no_context() -> None:
    judgement = drift(book(1, order="Z777", request_id="A184"), says(2, "and"), book(3))
    assert judgement is not None
    assert judgement.truth is Truth.SATISFIED


def test_drift_can_be_left_to_others() -> None:
    assert drift(book(1, order="A184"), says(2, "x"), book(3), checks={"context_drift": False}) is None


def test_open_until_the_end() -> None:
    judgement = drift(book(1, order="A184"), says(2, "x"), divergence=a_divergence())
    assert judgement is not None
    assert judgement.truth is Truth.OPEN


@given(st.lists(st.sampled_from(["book", "says", "find"]), max_size=8))
def test_turns_hold_every_step_once(kinds: list[str]) -> None:
    made = {
        "book": lambda seq: book(seq, order="A184"),
        "says": lambda seq: says(seq, "B222"),
        "find": lambda seq: a_played(seq, "find"),
    }
    run = a_run(*(made[kind](seq) for seq, kind in enumerate(kinds, 1)))
    spoken = turns(run)
    assert [step for turn in spoken for step in turn.steps] == list(run.steps)
    assert len(spoken) == 1 + kinds.count("says")


NO_LARGE = {"id": "no-large", "kind": "must_not", "at": {"tool": "issue_refund"}, "when": "args.amount > 500"}


def graded(*played: Played, **ending: Any) -> tuple[TrialVerdict, Run]:
    transcript = a_transcript(*played, **ending)
    loaded = a_case(an_envelope(a_crossing(1, "find")), kind="positive")
    file = {"allowed_writes": [{"tool": "issue_refund"}]}
    verdict = case_grader(loaded, some_invariants(NO_LARGE, **file), POLICY).trial(transcript, CutPoint())
    return verdict, replayed_run(transcript, POLICY)


def paid(seq: int, amount: int = 100, **given: Any) -> Played:
    return a_write(seq, "issue_refund", seen={"amount": amount}, **given)


def outcomes(*played: Played, **ending: Any) -> list[tuple[Outcome, list[str]]]:
    return [(turn.outcome, turn.violated) for turn in turn_results(*graded(*played, **ending))]


def test_each_turn_has_its_own_result() -> None:
    find, again = a_played(1, "find"), says(2, "more")
    assert outcomes(find, again, a_played(3, "find")) == [(P, []), (P, [])]
    assert outcomes(find, paid(2, 900), says(3, "more"), a_played(4, "find")) == [(F, ["no-large"]), (P, [])]
    assert outcomes(find, again, paid(3, 900), divergence=a_divergence()) == [(P, []), (F, ["no-large"])]
    assert outcomes(find, again, divergence=a_divergence()) == [(P, []), (D, [])]
    assert outcomes(find, again, crash="crashed") == [(P, []), (F, [])]
    assert outcomes(find) == []


ONE_REFUND = {"id": "one-refund", "kind": "count", "at": {"tool": "issue_refund"}, "max": 1}
TOLD = {"id": "told", "kind": "output", "holds": "output.status == 'done'"}
ALLOWED = [{"tool": "issue_refund"}]
INVARIANTS = some_invariants(NO_LARGE, ONE_REFUND, TOLD, allowed_writes=ALLOWED)


def a_turn(
    turn: int,
    *played: Played,
    conversation: str | None = "c1",
    asked: Any = "hello",
    case: str | None = None,
    invariants: Invariants = INVARIANTS,
    **ending: Any,
) -> Any:
    """A judged case that is one turn of a conversation."""
    envelope = an_envelope(a_crossing(1, "find"), conversation_id=conversation, turn=turn, input=RunInput(user=asked))
    grader = case_grader(a_case(envelope, id=case or f"turn-{turn}", kind="positive"), invariants, POLICY)
    transcript: Transcript = a_transcript(a_played(1, "find"), *played, **ending)
    modes = [mode_run(FULL, [Trial(transcript, grader.trial(transcript, FULL))])]
    return grader, modes, case_result(grader, modes, isolation="hermetic")


def tried(turn: int, *trials: list[Played]) -> Any:
    """One that was tried several times."""
    played = [a_turn(turn, *one) for one in trials]
    grader = played[0][0]
    modes = [mode_run(FULL, [trial for _, (mode,), _ in played for trial in mode.trials])]
    return grader, modes, case_result(grader, modes, isolation="hermetic")


def whole(*judged: Any, invariants: Invariants = INVARIANTS) -> Conversation:
    (one,) = whole_conversations(judged, invariants)
    assert whole_conversations(judged[::-1], invariants) == [one]
    return one


def test_turns_that_pass_may_fail_together() -> None:
    one = whole(a_turn(0, paid(2)), a_turn(1, paid(2, 50)))
    assert [(turn.case, turn.outcome) for turn in one.turns] == [("turn-0", P), ("turn-1", P)]
    assert (one.outcome, [found.assertion_id for found in one.violations]) == (F, ["one-refund"])
    assert one.violations[0].detail == "more than 1; at turn-1 #2"


def test_every_trial_of_the_turns_is_a_conversation() -> None:
    """The trials that show their cases did nothing: those after them refunded in both turns."""
    one = whole(tried(0, [], [paid(2)]), tried(1, [], [paid(2, 50)]))
    assert [turn.outcome for turn in one.turns] == [P, P]
    assert (one.outcome, [found.assertion_id for found in one.violations]) == (F, ["one-refund"])
    assert whole(tried(0, [], [paid(2)]), tried(1, [paid(2, 50)], [])).outcome is P
    shorter = whole(tried(0, [], [], [paid(2)]), tried(1, [], [paid(2, 50)]))
    assert shorter.outcome is F, "a turn with fewer trials takes its last one again"


def test_same_write_in_two_turns_is_a_duplicate() -> None:
    assert "no_duplicate_write" in {
        found.assertion_id for found in whole(a_turn(0, paid(2)), a_turn(1, paid(2))).violations
    }


def test_whole_is_judged_by_the_checks_that_are_on() -> None:
    twice = a_turn(0, paid(2)), a_turn(1, paid(2))
    lost = a_turn(0, book(2, order="A184"), asked="A184 please"), a_turn(1, book(2, order="X999"))
    off = some_invariants(allowed_writes=ALLOWED, checks={"no_duplicate_write": False, "context_drift": False})
    assert [found.assertion_id for found in whole(*twice).violations] == ["one-refund", "no_duplicate_write"]
    assert [found.assertion_id for found in whole(*lost).violations] == ["context_drift"]
    assert whole(*twice, invariants=off).violations == whole(*lost, invariants=off).violations == []


def test_what_one_case_lays_over_is_not_the_whole() -> None:
    """The first turn allows two refunds for itself; the workflow does not, and the conversation is the workflow's."""
    overlaid = some_invariants({**ONE_REFUND, "max": 9}, allowed_writes=ALLOWED)
    one = whole(a_turn(0, paid(2), invariants=overlaid), a_turn(1, paid(2, 50)))
    assert [found.assertion_id for found in one.violations] == ["one-refund"]


def test_whole_without_a_value_is_our_error() -> None:
    nothing = {"id": "x", "kind": "must_not", "at": {"tool": "issue_refund"}, "when": "args.nothing > 1"}
    one = whole(a_turn(0, paid(2)), a_turn(1), invariants=some_invariants(nothing))
    assert (one.outcome, one.violations) == (E, [])
    assert "invariants.yaml:1: the condition needs a field 'nothing'" in (one.error or "")
    both = whole(a_turn(0, paid(2)), a_turn(1, paid(2)), invariants=some_invariants(nothing))
    assert (both.outcome, both.error is None) == (F, False)


def test_fact_of_an_earlier_turn_is_lost() -> None:
    one = whole(
        a_turn(0, book(2, order="A184"), asked="A184 please"), a_turn(1, book(2, order="X999"), asked="now the seat")
    )
    assert [(found.assertion_id, found.detail) for found in one.violations] == [
        ("context_drift", "book.order at turn-1 #2")
    ]
    kept = whole(a_turn(0, book(2, order="A184"), asked="A184 please"), a_turn(1, book(2, order="A184")))
    assert (kept.outcome, kept.violations) == (P, [])


def test_whole_is_the_worst_of_its_turns() -> None:
    assert whole(a_turn(0), a_turn(1, divergence=a_divergence())).outcome is D
    failed = whole(a_turn(0, paid(2, 900)), a_turn(1))
    assert (failed.outcome, failed.turns[0].violated) == (F, ["no-large"])


def _given_and_lost(*numbers: int) -> tuple[Any, Any]:
    """A turn in which an order was named and used, and one that used another: the fact is lost only if the one comes after the other."""
    given = a_turn(numbers[0], book(2, order="A184"), asked="A184 please", case="first")
    return given, a_turn(numbers[1], book(2, order="X999"), asked="now the seat", case="second")


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_numbers_say_which_turn_came_first(numbers: tuple[int, int]) -> None:
    one = whole(*_given_and_lost(*numbers))
    assert (one.outcome, one.unordered) == (F if numbers == (0, 1) else P, [])


def test_what_only_one_order_of_equal_numbers_violates_is_not_judged() -> None:
    one = whole(*_given_and_lost(0, 0))
    assert (one.outcome, one.violations, one.unordered) == (D, [], ["first", "second"])


def test_what_every_order_of_equal_numbers_violates_is_violated() -> None:
    one = whole(a_turn(3, paid(2), case="first"), a_turn(3, paid(2, 50), case="second"))
    assert (one.outcome, [found.assertion_id for found in one.violations], one.unordered) == (F, ["one-refund"], [])


def test_equal_numbers_that_decide_nothing_are_judged() -> None:
    assert whole(a_turn(0, case="first"), a_turn(0, case="second")).outcome is P


def test_more_orders_than_can_be_tried_are_not_judged() -> None:
    one = whole(*(a_turn(0, case=f"turn-{at}") for at in range(5)))
    assert (one.outcome, len(one.unordered)) == (D, 5)


def test_single_turns_are_no_conversation() -> None:
    assert (
        whole_conversations([a_turn(0), a_turn(1, conversation="c2"), a_turn(2, conversation=None)], INVARIANTS) == []
    )


def test_unended_turn_leaves_the_whole_open() -> None:
    unended = whole(a_turn(0, paid(2)), a_turn(1, crash="crashed"))
    assert (unended.outcome, unended.violations) == (F, [])
    assert unended.turns[1].outcome is F
