from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_divergence, a_guard, a_model, a_played, a_policy, a_transcript, a_write, some_invariants
from twiceshy.envelope import Disposition, ErrorRecord, Kind
from twiceshy.evidence import replayed_run
from twiceshy.judgement import Context, Judgement
from twiceshy.monitors import judge
from twiceshy.outcome import AnsweredBy, Truth
from twiceshy.transcript import Played

POLICY = a_policy(get_order="read", issue_refund="write", create_approval="write", send_message="write")
DEFINITE = ErrorRecord(cls="ValueError", type="validation", definite=True)
TIMEOUT = ErrorRecord(cls="TimeoutError", type="timeout")
NO_REFUND = {"kind": "must_not", "at": {"tool": "issue_refund"}}
REFUND = {"kind": "must_happen", "at": {"tool": "issue_refund"}}
OVER_LIMIT = {
    **NO_REFUND,
    "when": 'args.amount > result("get_order", {"id": args.order}).limit && !has(args.token)',
}


def judged(spec: dict[str, Any], *played: Played, **ending: Any) -> Judgement:
    invariants = some_invariants({"id": "x", **spec})
    run = replayed_run(a_transcript(*played, **ending), POLICY)
    return judge(invariants.invariants[0], Context(run=run, invariants=invariants))


def truth(spec: dict[str, Any], *played: Played, **ending: Any) -> Truth | None:
    return judged(spec, *played, **ending).truth


def test_must_not_needs_the_end() -> None:
    assert truth(NO_REFUND, a_played()) is Truth.SATISFIED
    assert truth(NO_REFUND, a_played(), divergence=a_divergence()) is Truth.OPEN
    assert truth(NO_REFUND, a_played(), crash="crashed") is Truth.OPEN
    assert truth(NO_REFUND, a_played(), disposition=Disposition(ended=False)) is Truth.OPEN


def test_must_not_stays_violated() -> None:
    for ending in ({}, {"divergence": a_divergence()}, {"crash": "crashed"}):
        found = judged(NO_REFUND, a_played(1), a_write(2), a_write(3), **ending)
        assert (found.truth, found.place, found.evidence) == (Truth.VIOLATED, "#2", ["#2", "#3"])


def test_ambiguous_outcome_counts_against() -> None:
    assert truth(NO_REFUND, a_write(error=TIMEOUT)) is Truth.VIOLATED
    assert truth(NO_REFUND, a_write(error=DEFINITE)) is Truth.SATISFIED
    assert truth(NO_REFUND, a_write(blocked_by="guard")) is Truth.SATISFIED


def test_must_happen_needs_definite_success() -> None:
    assert truth(REFUND, a_write()) is Truth.SATISFIED
    for nothing in ({"error": TIMEOUT}, {"error": DEFINITE}, {"blocked_by": "guard"}):
        assert truth(REFUND, a_write(**nothing)) is Truth.OPEN
    assert truth(REFUND, a_write(1, error=TIMEOUT), a_write(2)) is Truth.SATISFIED


def test_must_happen_counts_before_divergence() -> None:
    assert truth(REFUND, a_write(), divergence=a_divergence()) is Truth.SATISFIED


def test_guard_that_refused_happened() -> None:
    refused = {"kind": "must_happen", "at": {"guard": "refund-approval", "blocked": True}}
    assert (
        truth(refused, a_guard(1, "issue_refund", blocked=True), a_write(1, blocked_by="refund-approval"))
        is Truth.SATISFIED
    )
    assert truth(refused, a_guard(1, "issue_refund", blocked=False), a_write(1)) is Truth.OPEN


def test_selector_asks_for_the_refused() -> None:
    asked = {"kind": "must_not", "at": {"tool": "issue_refund", "blocked": True}}
    assert truth(asked, a_write(blocked_by="guard")) is Truth.VIOLATED
    assert truth(asked, a_write()) is Truth.SATISFIED
    failed = {"kind": "must_happen", "at": {"tool": "issue_refund", "succeeded": False}}
    assert truth(failed, a_write(error=DEFINITE)) is Truth.SATISFIED
    assert truth(failed, a_write(error=TIMEOUT)) is Truth.OPEN


def test_selector_compares_by_identity() -> None:
    spec = {"kind": "must_not", "at": {"tool": "issue_refund", "args": {"amount": 750.0}}}
    assert truth(spec, a_write(seen={"amount": 750})) is Truth.VIOLATED
    assert truth(spec, a_write(seen={"amount": "750"})) is Truth.SATISFIED
    assert truth(spec, a_write(seen={})) is Truth.SATISFIED


def an_order(seq: int, order: str = "A184", limit: Any = 500, **given: Any) -> Played:
    return a_played(seq, "get_order", **{"seen": {"id": order}, "raw": {"limit": limit}, **given})


def test_condition_reads_raw_of_earlier_call() -> None:
    refund = a_write(3, seen={"order": "A184", "amount": 750})
    assert truth(OVER_LIMIT, an_order(1, shown={}), refund) is Truth.VIOLATED
    assert truth(OVER_LIMIT, an_order(1, limit=1000), refund) is Truth.SATISFIED
    assert truth(OVER_LIMIT, an_order(1), an_order(2, "A185", 1000), refund) is Truth.VIOLATED


def test_last_matching_result_wins() -> None:
    refund = a_write(3, seen={"order": "A184", "amount": 750})
    assert truth(OVER_LIMIT, an_order(1), an_order(2, limit=1000), refund) is Truth.SATISFIED
    later = an_order(4, limit=1000)
    assert truth(OVER_LIMIT, an_order(1), refund, later) is Truth.VIOLATED


def test_result_without_selector_is_refused() -> None:
    loose = {**NO_REFUND, "when": 'args.amount > result("get_order").limit'}
    refund = a_write(3, seen={"order": "A184", "amount": 750})
    assert truth(loose, an_order(1), refund) is Truth.VIOLATED
    found = judged(loose, an_order(1), an_order(2, "A185"), refund)
    assert found.truth is None
    assert "invariants.yaml:1: get_order was called more than once" in (found.error or "")
    assert judged({**loose, "on_missing": "satisfied"}, an_order(1), an_order(2, "A185"), refund).truth is None


@pytest.mark.parametrize(
    ("on_missing", "expected"), [("violated", Truth.VIOLATED), ("satisfied", Truth.SATISFIED), ("error", None)]
)
def test_missing_field_means_what_is_said(on_missing: str, expected: Truth | None) -> None:
    refund = a_write(3, seen={"order": "A184", "amount": 750})
    for played in ([an_order(1, raw={}), refund], [refund], [an_order(1, raw=None, error=TIMEOUT), refund]):
        found = judged({**OVER_LIMIT, "on_missing": on_missing}, *played)
        if played[0].crossing.raw is None and on_missing == "error":
            assert found.truth is None
        else:
            assert found.truth is expected


def test_silence_on_missing_is_error() -> None:
    found = judged(OVER_LIMIT, a_write(3, seen={"order": "A184", "amount": 750}))
    assert found.truth is None
    assert "invariants.yaml:1" in (found.error or "")


def test_missing_field_of_must_happen() -> None:
    large = {**REFUND, "when": "args.amount > 500"}
    assert truth({**large, "on_missing": "violated"}, a_write(seen={})) is Truth.OPEN
    assert truth({**large, "on_missing": "satisfied"}, a_write(seen={})) is Truth.SATISFIED


def test_malformed_call_hides_condition_error() -> None:
    invariants = some_invariants({"id": "x", **OVER_LIMIT})
    run = replayed_run(a_transcript(an_order(1), a_write(3, seen={"order": "A184", "amount": "750"})), POLICY)
    context = Context(run=run, invariants=invariants)
    assert judge(invariants.invariants[0], context).truth is None
    assert judge(invariants.invariants[0], context, malformed={"#3"}).truth is Truth.SATISFIED


ORDER = {"kind": "order", "first": {"tool": "create_approval", "succeeded": True}, "then": {"tool": "issue_refund"}}


def test_order_needs_the_first() -> None:
    approval = a_write(1, "create_approval")
    assert truth(ORDER, approval, a_write(2)) is Truth.SATISFIED
    assert judged(ORDER, a_write(2), a_write(3, "create_approval")).place == "#2"
    assert truth(ORDER, a_write(1, "create_approval", error=TIMEOUT), a_write(2)) is Truth.VIOLATED
    assert truth(ORDER, a_write(1, "create_approval", blocked_by="guard"), a_write(2)) is Truth.VIOLATED
    assert truth(ORDER, a_write(2, error=TIMEOUT)) is Truth.VIOLATED
    assert truth(ORDER, approval, divergence=a_divergence()) is Truth.OPEN


def test_order_on_improvised_answer_is_marked() -> None:
    improvised = a_write(1, "create_approval", answered_by=AnsweredBy.OK)
    assert judged(ORDER, improvised, a_write(3)).improvised is True
    assert judged(ORDER, improvised, a_write(2, "create_approval"), a_write(3)).improvised is False
    assert judged(ORDER, improvised).improvised is False


def test_one_turn_has_no_order() -> None:
    turn = [a_model(1), a_write(2, "create_approval", group=1), a_write(3, group=1)]
    assert truth(ORDER, *turn) is Truth.VIOLATED
    assert truth({**ORDER, "same_turn": True}, *turn) is Truth.SATISFIED
    assert (
        truth(ORDER, a_model(1), a_write(2, "create_approval", group=1), a_model(3), a_write(4, group=3))
        is Truth.SATISFIED
    )


def test_guard_stands_before_its_call() -> None:
    spec = {"kind": "order", "first": {"guard": "refund-approval"}, "then": {"tool": "issue_refund"}}
    assert (
        truth(spec, a_model(1), a_guard(2, "issue_refund", blocked=False, group=1), a_write(2, group=1))
        is Truth.SATISFIED
    )
    hook = a_played(2, "tidy", kind=Kind.HOOK, sub=1, at="after:issue_refund", effect=None, group=1)
    after = {"kind": "order", "first": {"hook": "tidy"}, "then": {"tool": "issue_refund"}}
    assert truth(after, a_model(1), a_write(2, group=1), hook) is Truth.VIOLATED


def test_count_more_and_fewer() -> None:
    most = {"kind": "count", "at": {"tool": "issue_refund"}, "max": 1}
    assert truth(most, a_write(1)) is Truth.SATISFIED
    found = judged(most, a_write(1), a_write(2, error=TIMEOUT), divergence=a_divergence())
    assert (found.truth, found.place) == (Truth.VIOLATED, "#2")
    least = {"kind": "count", "at": {"tool": "issue_refund"}, "min": 1}
    assert truth(least, a_played(), divergence=a_divergence()) is Truth.OPEN
    assert truth(least, a_played()) is Truth.VIOLATED
    assert truth(least, a_write()) is Truth.SATISFIED


def test_attempts_count_only_for_writes() -> None:
    reads = {"kind": "count", "at": {"tool": "get_order"}, "max": 1}
    assert truth(reads, a_played(1, error=TIMEOUT), a_played(2, attempt=2)) is Truth.SATISFIED
    writes = {"kind": "count", "at": {"tool": "issue_refund"}, "max": 1}
    assert truth(writes, a_write(1, error=TIMEOUT), a_write(2, attempt=2)) is Truth.VIOLATED


def test_schema_of_each_side() -> None:
    spec = {"kind": "schema", "at": {"tool": "get_order"}, "schema": {"type": "object", "required": ["id"]}}
    found = judged(spec, a_played(seen={"no": 1}))
    assert (found.truth, [str(part) for part in found.schema]) == (Truth.VIOLATED, ["required at $.id"])
    assert truth({**spec, "side": "result"}, a_played(seen={}, raw={"id": 1})) is Truth.SATISFIED
    assert truth({**spec, "side": "result"}, a_played(seen={"id": 1}, raw={})) is Truth.VIOLATED
    assert truth(spec, a_played(seen={}, blocked_by="guard")) is Truth.SATISFIED


OUTPUT = {"kind": "output", "schema": {"type": "object", "required": ["status"]}}


def test_output_waits_for_the_end() -> None:
    assert truth(OUTPUT, a_played()) is Truth.SATISFIED
    assert truth(OUTPUT, a_played(), disposition=Disposition(output={})) is Truth.VIOLATED
    assert truth(OUTPUT, a_played(), divergence=a_divergence()) is Truth.OPEN
    assert truth(OUTPUT, a_played(), crash="crashed") is Truth.OPEN


def test_output_holds_where_demanded() -> None:
    spec = {
        "kind": "output", "on_missing": "satisfied", "when": 'result("check_date").exists == false', "holds": 'output.status == "corrected"',
    }  # fmt: skip
    checked = a_played(1, "check_date", raw={"exists": False})
    assert truth(spec, checked) is Truth.VIOLATED
    assert truth(spec, checked, disposition=Disposition(output={"status": "corrected"})) is Truth.SATISFIED
    assert truth(spec, checked, disposition=Disposition(output={})) is Truth.VIOLATED
    assert truth(spec, a_played()) is Truth.SATISFIED


def test_stale_text_proves_nothing() -> None:
    stale = a_model(1, stale=True)
    assert truth(OUTPUT, stale) is Truth.OPEN
    assert truth(OUTPUT, stale, disposition=Disposition(output={})) is Truth.OPEN
    said = {"kind": "must_happen", "at": {"model": "planner"}}
    found = judged(said, stale)
    assert (found.truth, found.stale) == (Truth.OPEN, True)
    assert truth(said, a_model(1)) is Truth.SATISFIED


def test_stale_proposals_are_still_judged() -> None:
    proposed = a_write(2, group=1, stale=True)
    assert truth(NO_REFUND, a_model(1, stale=True), proposed) is Truth.VIOLATED
    found = judged(REFUND, a_model(1, stale=True), proposed)
    assert (found.truth, found.stale) == (Truth.OPEN, True), "who knows what the model would have asked for"
    refused = {"kind": "must_happen", "at": {"guard": "refund-approval", "blocked": True}}
    assert judged(refused, a_model(1, stale=True), proposed).stale is False
    assert judged(REFUND, a_model(1, stale=True)).stale is True


def test_improvised_answers_are_marked() -> None:
    alone = a_write(1, answered_by=AnsweredBy.OK)
    assert judged(REFUND, alone).improvised is True
    assert judged(REFUND, alone, a_write(2, answered_by=AnsweredBy.TEMPLATE)).improvised is False


def test_state_holds_effective_writes() -> None:
    spec = {"kind": "must_not", "at": {"tool": "get_order"}, "when": 'state.writes.exists(w, w.tool == "issue_refund")'}
    assert truth(spec, a_write(1), a_played(2)) is Truth.VIOLATED
    large = {**spec, "when": "state.writes.exists(w, w.args.amount == 750)"}
    assert truth(large, a_write(1, seen={"amount": 750}), a_played(2)) is Truth.VIOLATED
    assert truth(spec, a_write(1, error=TIMEOUT), a_played(2)) is Truth.VIOLATED
    assert truth(spec, a_write(1, blocked_by="guard"), a_played(2)) is Truth.SATISFIED
    assert truth(spec, a_played(1), a_write(2)) is Truth.SATISFIED
    assert truth(spec, a_model(1), a_write(2, group=1), a_played(3, group=1)) is Truth.SATISFIED


CALLS = st.lists(
    st.builds(
        lambda name, amount, error, blocked: (name, {"amount": amount}, error, blocked),
        st.sampled_from(["get_order", "issue_refund", "create_approval"]),
        st.integers(0, 2),
        st.sampled_from([None, TIMEOUT, DEFINITE]),
        st.sampled_from([None, "guard"]),
    ),
    max_size=6,
)
SPECS = st.sampled_from(
    [
        NO_REFUND,
        REFUND,
        ORDER,
        {"kind": "count", "at": {"tool": "issue_refund"}, "max": 1},
        {**NO_REFUND, "when": "args.amount > 1"},
    ]
)


def some_steps(calls: list[Any]) -> list[Played]:
    return [
        (a_played if name == "get_order" else a_write)(seq, name, seen=seen, error=error, blocked_by=blocked)
        for seq, (name, seen, error, blocked) in enumerate(calls, 1)
    ]


@given(CALLS, SPECS, st.integers(0, 6))
def test_verdicts_never_turn_back(calls: list[Any], spec: dict[str, Any], cut: int) -> None:
    steps = some_steps(calls)
    early = truth(spec, *steps[:cut], divergence=a_divergence())
    late = truth(spec, *steps, divergence=a_divergence())
    assert early is Truth.OPEN or late is early


@given(st.permutations(range(4)), SPECS)
def test_arrival_order_changes_nothing(order: list[int], spec: dict[str, Any]) -> None:
    named = [("issue_refund", 1), ("create_approval", 1), ("issue_refund", 2), ("get_order", 1)]
    arrived = [
        (a_played if named[at][0] == "get_order" else a_write)(
            2 + seq, named[at][0], seen={"amount": named[at][1]}, group=1
        )
        for seq, at in enumerate(order)
    ]
    usual = [
        (a_played if name == "get_order" else a_write)(2 + at, name, seen={"amount": amount}, group=1)
        for at, (name, amount) in enumerate(named)
    ]
    assert truth(spec, a_model(1), *arrived) is truth(spec, a_model(1), *usual)
