from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    a_crossing,
    a_divergence,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)
from twiceshy.envelope import Crossing, Effect, ErrorRecord
from twiceshy.evidence import Fate, recorded_run, replayed_run
from twiceshy.graders import judgements
from twiceshy.grading import judge_recorded
from twiceshy.judgement import CaseTerms, Context, Judgement
from twiceshy.outcome import BoundaryState, Truth
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Played
from twiceshy.writes import DeclaredWrite, unanswered

SCHEMA = {
    "type": "object",
    "required": ["order"],
    "additionalProperties": False,
    "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
}
POLICY = a_policy(
    get_order="read",
    poll_status=ToolPolicy(effect=Effect.READ, poll=True, max_polls=4),
    issue_refund=ToolPolicy(effect=Effect.WRITE, touches=("orders",), volatile=("key",), idempotency_key="key"),
    close_order=ToolPolicy(effect=Effect.WRITE, touches=("orders",)),
    send_message=ToolPolicy(effect=Effect.WRITE, touches=("mail",)),
    strict=ToolPolicy(effect=Effect.READ, schema=SCHEMA),
)
TIMEOUT = ErrorRecord(cls="TimeoutError", type="timeout")
DEFINITE = ErrorRecord(cls="ValueError", type="validation", definite=True)


def a_recorded_write(seq: int, name: str = "issue_refund", **given: Any) -> Crossing:
    return a_crossing(seq, name, effect=Effect.WRITE, **given)


def judged(
    name: str,
    *played: Played,
    recorded: tuple[Crossing, ...] = (),
    expected: tuple[DeclaredWrite, ...] = (),
    **more: Any,
) -> Judgement:
    terms = {field: more.pop(field) for field in ("opportunity", "deciding", "enforce_counts", "live") if field in more}
    ending = {field: more.pop(field) for field in ("divergence", "crash") if field in more}
    run = replayed_run(a_transcript(*played, **ending), POLICY)
    record = recorded_run(an_envelope(*recorded), POLICY)
    for field, of in (("opportunity", run), ("deciding", record)):
        if field in terms:
            terms[field] = [step for step in of.steps if step.crossing.seq == terms[field]]
    case = CaseTerms(names=frozenset(), recorded=record, expected=expected, **terms)
    found = judgements(Context(run=run, invariants=some_invariants(**more), case=case))
    return next(judgement for judgement in found if judgement.id == name)


def explained(*played: Played, **more: Any) -> Truth | None:
    return judged("explained_writes", *played, **more).truth


def keyed(seq: int, name: str = "issue_refund", *, seen: Any = None, **given: Any) -> Played:
    """A write with its key and idempotency key under the policy, as the engine sets them."""
    seen = seen or {}
    return a_write(
        seq, name, seen=seen, key=POLICY.key(name, seen), idempotency_key=POLICY.idempotency_key(name, seen), **given
    )


def test_invented_write_is_violated() -> None:
    assert explained(keyed(1)) is Truth.VIOLATED
    assert (
        explained(keyed(1, seen={"amount": 1}), recorded=(a_recorded_write(1, seen={"amount": 2}),)) is Truth.VIOLATED
    )
    assert explained(a_played()) is Truth.SATISFIED
    assert explained(a_played(), divergence=a_divergence()) is Truth.OPEN


def test_recorded_write_is_explained() -> None:
    assert (
        explained(keyed(1, seen={"amount": 1}), recorded=(a_recorded_write(9, seen={"amount": 1.0}),))
        is Truth.SATISFIED
    )


def test_recorded_refusal_explains_nothing() -> None:
    for nothing in ({"blocked_by": "guard"}, {"error": DEFINITE}):
        assert explained(keyed(1), recorded=(a_recorded_write(1, **nothing),)) is Truth.VIOLATED
    assert explained(keyed(1), recorded=(a_recorded_write(1, error=TIMEOUT),)) is Truth.SATISFIED


def test_unexecuted_intent_needs_no_explanation() -> None:
    assert explained(keyed(1, blocked_by="guard")) is Truth.SATISFIED
    assert explained(keyed(1, error=DEFINITE)) is Truth.SATISFIED
    assert explained(keyed(1, error=TIMEOUT)) is Truth.VIOLATED


def test_expected_and_allowed_writes() -> None:
    small = keyed(1, seen={"amount": 5})
    assert explained(small, expected=(DeclaredWrite(tool="issue_refund", args={"amount": 5}),)) is Truth.SATISFIED
    assert explained(small, expected=(DeclaredWrite(tool="issue_refund", args={"amount": 6}),)) is Truth.VIOLATED
    assert explained(small, allowed_writes=[{"tool": "issue_refund", "when": "args.amount < 10"}]) is Truth.SATISFIED
    assert explained(small, allowed_writes=[{"tool": "issue_refund", "when": "args.amount < 5"}]) is Truth.VIOLATED
    assert explained(small, allowed_writes=[{"tool": "close_order"}]) is Truth.VIOLATED


def test_allowed_write_without_its_field() -> None:
    allowed = {"tool": "issue_refund", "when": "args.amount < 10"}
    found = judged("explained_writes", keyed(1), allowed_writes=[allowed])
    assert (found.truth, "invariants.yaml:1" in (found.error or "")) == (None, True)
    assert explained(keyed(1), allowed_writes=[{**allowed, "on_missing": "violated"}]) is Truth.VIOLATED
    assert explained(keyed(1), allowed_writes=[{**allowed, "on_missing": "satisfied"}]) is Truth.SATISFIED


def test_check_is_off_only_when_said() -> None:
    run = replayed_run(a_transcript(keyed(1)), POLICY)
    case = CaseTerms(names=frozenset(), recorded=recorded_run(an_envelope(), POLICY))
    off = some_invariants(checks={"explained_writes": False})
    assert "explained_writes" not in {
        judgement.id for judgement in judgements(Context(run=run, invariants=off, case=case))
    }


def twice(*played: Played, **more: Any) -> Judgement:
    return judged("no_duplicate_write", *played, **more)


def test_same_call_again_is_duplicate() -> None:
    found = twice(keyed(1), keyed(2))
    assert (found.truth, found.place, found.evidence) == (Truth.VIOLATED, "#2", ["#2", "#1"])
    assert twice(keyed(1), keyed(2, seen={"amount": 2})).truth is Truth.SATISFIED
    assert twice(keyed(1), divergence=a_divergence()).truth is Truth.OPEN


def test_other_write_in_between() -> None:
    assert twice(keyed(1), keyed(2, "close_order"), keyed(3)).truth is Truth.SATISFIED
    assert twice(keyed(1), keyed(2, "send_message"), keyed(3)).truth is Truth.VIOLATED
    assert twice(keyed(1), keyed(2, "close_order", blocked_by="guard"), keyed(3)).truth is Truth.VIOLATED
    assert twice(keyed(1), keyed(2, "close_order", error=DEFINITE), keyed(3)).truth is Truth.VIOLATED


def test_ambiguous_write_counts_as_made() -> None:
    assert twice(keyed(1, error=TIMEOUT), keyed(2)).truth is Truth.VIOLATED
    assert twice(keyed(1, error=DEFINITE), keyed(2)).truth is Truth.SATISFIED
    assert twice(keyed(1, blocked_by="guard"), keyed(2)).truth is Truth.SATISFIED


def test_idempotency_key_rules() -> None:
    first = keyed(1, seen={"amount": 1, "key": "a"})
    assert twice(first, keyed(2, seen={"amount": 2, "key": "a"})).detail == "one idempotency key, other arguments"
    timed_out = keyed(1, seen={"amount": 1, "key": "a"}, error=TIMEOUT)
    assert (
        twice(timed_out, keyed(2, seen={"amount": 1, "key": "b"})).detail
        == "a new idempotency key after an ambiguous error"
    )
    assert twice(timed_out, keyed(2, seen={"amount": 1, "key": "a"})).truth is Truth.SATISFIED
    assert twice(first, keyed(2, seen={"amount": 1, "key": "a"})).truth is Truth.VIOLATED
    assert twice(timed_out, keyed(2, seen={"amount": 1})).detail == "the same call again"
    other = keyed(2, "close_order")
    assert twice(first, other, keyed(3, seen={"amount": 1, "key": "b"})).truth is Truth.SATISFIED
    assert twice(timed_out, other, keyed(3, seen={"amount": 1, "key": "b"})).truth is Truth.VIOLATED


def test_recorded_run_has_its_idempotency_keys() -> None:
    one_key = [a_recorded_write(seq, seen={"amount": seq, "key": "a"}) for seq in (1, 2)]
    found = judge_recorded(an_envelope(*one_key), some_invariants(), POLICY)
    assert [finding.judgement.detail for finding in found] == ["one idempotency key, other arguments"]


def test_error_listed_as_definite_is_nothing() -> None:
    listed = a_policy(issue_refund=ToolPolicy(effect=Effect.WRITE, definite_errors=("denied",)))
    denied = ErrorRecord(cls="PermissionError", type="denied")
    run = replayed_run(a_transcript(a_write(1, error=denied), a_write(2, error=TIMEOUT)), listed)
    assert [step.fate for step in run.steps] == [Fate.NOTHING, Fate.AMBIGUOUS]


def test_parallel_duplicates_are_found() -> None:
    assert twice(a_model(1), keyed(2, group=1), keyed(3, group=1)).truth is Truth.VIOLATED


def test_call_schema_before_conditions() -> None:
    found = judged("call_schemas", a_played(1, "strict", seen={"amount": "x", "more": 1}))
    assert found.truth is Truth.VIOLATED
    assert [str(part) for part in found.schema] == [
        "additionalProperties at $.more",
        "required at $.order",
        "type at $.amount",
    ]
    assert judged("call_schemas", a_played(1, "strict", seen={"order": "A"})).truth is Truth.SATISFIED
    assert judged("call_schemas", a_played(1, "strict", seen={}, error=DEFINITE)).truth is Truth.VIOLATED
    assert judged("call_schemas", a_played(1, "strict", seen={}, blocked_by="guard")).truth is Truth.SATISFIED


def test_unchecked_schema_excuses_no_condition() -> None:
    """Where no check finds the malformed call, the condition that trips over it is ERROR, never false."""
    spec = {"id": "x", "kind": "must_not", "at": {"tool": "strict"}, "when": "args.amount > 500"}
    run = replayed_run(a_transcript(a_played(1, "strict", seen={"order": "A", "amount": "750"})), POLICY)
    found = {}
    for on in (True, False):
        context = Context(run=run, invariants=some_invariants(spec, checks={"call_schemas": on}))
        found[on] = {judgement.id: judgement.truth for judgement in judgements(context)}
    assert (found[True]["call_schemas"], found[True]["x"]) == (Truth.VIOLATED, Truth.SATISFIED)
    assert found[False]["x"] is None


def test_tool_lists() -> None:
    allowed = {"checks": {"allowed_tools": ["get_order"]}}
    assert judged("allowed_tools", a_played(), **allowed).truth is Truth.SATISFIED
    assert judged("allowed_tools", a_played(1), a_played(2, "strict"), **allowed).place == "#2"
    forbidden = {"checks": {"forbidden_tools": ["strict"]}}
    assert judged("forbidden_tools", a_played(2, "strict"), **forbidden).truth is Truth.VIOLATED
    assert judged("forbidden_tools", a_played(2, "strict", blocked_by="guard"), **forbidden).truth is Truth.SATISFIED


LOOP = {"checks": {"no_loop": 3}}


def test_third_equal_call_is_loop() -> None:
    same = [a_played(seq) for seq in (1, 2, 3)]
    assert judged("no_loop", *same, **LOOP).place == "#1"
    assert judged("no_loop", *same[:2], **LOOP).truth is Truth.SATISFIED


@pytest.mark.parametrize(
    "between",
    [
        a_played(2, raw={"new": 1}),
        a_played(2, seen={"other": 1}),
        a_played(2, "strict", seen={"order": "A"}),
        keyed(2, "close_order"),
    ],
    ids=["result", "arguments", "tool", "state"],
)
def test_progress_is_no_loop(between: Played) -> None:
    steps = [a_played(1), between, a_played(3), a_played(4)]
    assert judged("no_loop", *steps, **LOOP).truth is Truth.SATISFIED


def test_polling_has_its_own_limit() -> None:
    assert judged("no_loop", *(a_played(seq, "poll_status") for seq in range(1, 5)), **LOOP).truth is Truth.SATISFIED
    assert judged("no_loop", *(a_played(seq, "poll_status") for seq in range(1, 6)), **LOOP).truth is Truth.VIOLATED


RECORDED = (a_crossing(1), a_crossing(2), a_recorded_write(3))


def counts(*played: Played, **more: Any) -> Judgement:
    return judged("call_counts", *played, recorded=RECORDED, **{"deciding": 3, "enforce_counts": True, **more})


def test_counts_bind_before_the_deciding_crossing() -> None:
    usual = [a_played(1), a_played(2), keyed(3), a_played(4), a_played(5)]
    assert counts(*usual, opportunity=3).truth is Truth.SATISFIED
    more = counts(a_played(1), a_played(2), a_played(3), keyed(4), opportunity=4)
    assert (more.truth, more.place) == (Truth.VIOLATED, "#3")


def test_fewer_is_open_until_the_end() -> None:
    assert counts(a_played(1), keyed(2), opportunity=2, divergence=a_divergence()).truth is Truth.OPEN
    assert counts(a_played(1), keyed(2), opportunity=2).truth is Truth.VIOLATED


def test_counts_are_advisory_unless_enforced() -> None:
    assert counts(a_played(1), keyed(2), opportunity=2, enforce_counts=False).advisory is True
    assert counts(a_played(1), keyed(2), opportunity=2).advisory is False


def test_live_boundaries_are_not_counted() -> None:
    live = a_played(1, boundary=BoundaryState.LIVE)
    assert counts(live, keyed(2), opportunity=2, live=frozenset({"tool:get_order"})).truth is Truth.SATISFIED
    assert counts(live, keyed(2), opportunity=2, live=frozenset({"tool:*"})).truth is Truth.SATISFIED


def test_attempts_are_one_call() -> None:
    retried = [a_played(1, error=TIMEOUT), a_played(2, attempt=2), a_played(3), keyed(4)]
    assert counts(*retried, opportunity=4).truth is Truth.SATISFIED


def test_unreached_decision_counts_nothing() -> None:
    assert counts(*(a_played(seq) for seq in range(1, 9))).truth is Truth.OPEN


@given(st.lists(st.sampled_from(["issue_refund", "close_order", "send_message"]), max_size=5))
def test_replaying_the_record_explains_itself(names: list[str]) -> None:
    recorded = tuple(a_recorded_write(seq, name, seen={"n": seq}) for seq, name in enumerate(names, 1))
    played = [keyed(seq, name, seen={"n": seq}) for seq, name in enumerate(names, 1)]
    assert explained(*played, recorded=recorded) is Truth.SATISFIED
    assert twice(*played, recorded=recorded).truth is Truth.SATISFIED


def at_the_divergence(seq: int, *, stale: bool = False) -> tuple[Played, ...]:
    """A write that was made, and the same again in a later turn, at which the run diverged."""
    again = keyed(seq, group=seq - 1)
    asked = msgspec.structs.replace(again, crossing=unanswered(again.crossing))
    return (keyed(2, group=1), a_model(seq - 1, stale=stale), asked)


def test_a_write_at_the_divergence_was_asked_for() -> None:
    found = judged("no_duplicate_write", *at_the_divergence(4), divergence=a_divergence(place="#4"))
    assert (found.truth, found.place) == (Truth.VIOLATED, "#4")


def test_what_a_stale_text_asks_for_at_the_divergence_is_no_news() -> None:
    found = judged("no_duplicate_write", *at_the_divergence(4, stale=True), divergence=a_divergence(place="#4"))
    assert found.truth is Truth.OPEN
