"""The built-in checks and the conditions of invariants, against the rules written out by hand, over any run (semantics.md §7)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

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
from twiceshy.envelope import Crossing, Disposition, Effect, ErrorRecord
from twiceshy.evidence import recorded_run, replayed_run
from twiceshy.graders import judgements
from twiceshy.judgement import CaseTerms, Context, Judgement
from twiceshy.monitors import judge
from twiceshy.outcome import Truth
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Played

POLICY = a_policy(
    find="read", get_order="read", status=ToolPolicy(effect=Effect.READ, poll=True, max_polls=2), pay="write", tell="write"
)  # fmt: skip
LATE = ErrorRecord(cls="TimeoutError", type="timeout")
REFUSED = ErrorRecord(cls="ValueError", type="validation", definite=True)
fates: Any = st.sampled_from([{}, {}, {"error": LATE}, {"error": REFUSED}, {"blocked_by": "limit"}])
NOTHING = ({"error": REFUSED}, {"blocked_by": "limit"})


def said(name: str, *played: Played, recorded: tuple[Crossing, ...] = (), ending: Any = None, **more: Any) -> Judgement:
    terms = {
        field: more.pop(field) for field in ("opportunity", "deciding", "enforce_counts", "latency") if field in more
    }
    run = replayed_run(a_transcript(*played, **(ending or {})), POLICY)
    record = recorded_run(an_envelope(*recorded), POLICY)
    for field, of in (("opportunity", run), ("deciding", record)):
        if field in terms:
            terms[field] = [step for step in of.steps if step.crossing.seq == terms[field]]
    case = CaseTerms(names=frozenset(), recorded=record, **terms)
    found = judgements(Context(run=run, invariants=some_invariants(**more), case=case))
    return next(judgement for judgement in found if judgement.id == name)


def a_call(seq: int, name: str, **given: Any) -> Played:
    return (a_write if name in ("pay", "tell") else a_played)(seq, name, **given)


called = st.lists(st.tuples(st.sampled_from(["find", "pay", "tell"]), fates), max_size=5)


@given(
    called,
    st.sets(st.sampled_from(["find", "pay", "tell"]), min_size=1),
    st.sampled_from([{}, {"divergence": a_divergence()}]),
)
def test_tools_outside_the_lists_are_violations(calls: Any, listed: set[str], ending: Any) -> None:
    played = [a_call(seq, name, **fate) for seq, (name, fate) in enumerate(calls, 1)]
    made = {name for name, fate in calls if fate not in NOTHING}
    kept = Truth.OPEN if ending else Truth.SATISFIED
    allowed = said("allowed_tools", *played, ending=ending, checks={"allowed_tools": sorted(listed)})
    assert allowed.truth is (Truth.VIOLATED if made - listed else kept)
    forbidden = said("forbidden_tools", *played, ending=ending, checks={"forbidden_tools": sorted(listed)})
    assert forbidden.truth is (Truth.VIOLATED if made & listed else kept)


looping = st.lists(st.tuples(st.sampled_from(["find", "find", "find", "status", "status", "pay"]), st.integers(0, 1), st.sampled_from([1, 1, 1, 2])), max_size=7)  # fmt: skip


@given(looping, st.integers(2, 3))
def test_a_loop_is_the_same_call_in_a_row_without_a_change(calls: list[tuple[str, int, int]], most: int) -> None:
    played = [a_call(seq, name, seen={"n": n}, raw=raw, shown=raw) for seq, (name, n, raw) in enumerate(calls, 1)]
    row, loops = 0, False
    for at, call in enumerate(calls):
        row = row + 1 if at and calls[at - 1] == call and call[0] != "pay" else 1  # a write changes the state it saw
        loops |= row >= (3 if call[0] == "status" else most)
    assert said("no_loop", *played, checks={"no_loop": most}).truth is (Truth.VIOLATED if loops else Truth.SATISFIED)


counted = st.lists(st.sampled_from(["find", "get_order", "planner"]), max_size=4)


@given(counted, counted, st.booleans(), st.booleans())
def test_counts_bind_up_to_the_deciding_step(was: list[str], now: list[str], ended: bool, enforced: bool) -> None:  # noqa: FBT001 - parameters of the test
    def steps(names: list[str], *, after: int) -> list[Played]:
        made = [(a_model if name == "planner" else a_played)(seq, name) for seq, name in enumerate(names, 1)]
        deciding = len(names) + 1
        return [*made, a_write(deciding, "pay"), *(a_played(deciding + at, "find") for at in range(1, after + 1))]

    record = tuple(step.crossing for step in steps(was, after=1))
    found = said(
        "call_counts", *steps(now, after=3), recorded=record, ending=None if ended else {"divergence": a_divergence()},
        deciding=len(was) + 1, opportunity=len(now) + 1, enforce_counts=enforced,
    )  # fmt: skip
    more = any(now.count(name) > was.count(name) for name in now)
    fewer = any(now.count(name) < was.count(name) for name in was)
    expected = Truth.VIOLATED if more or (fewer and ended) else Truth.SATISFIED if ended else Truth.OPEN
    assert (found.truth, found.advisory) == (expected, not enforced)


orders = st.lists(st.tuples(st.sampled_from(["A", "B"]), st.sampled_from([100, 900]), st.booleans()), max_size=4)
"""(order, its limit, whether the call failed)."""


@given(orders, st.sampled_from(["A", "B"]), st.booleans())
def test_a_result_is_that_of_the_last_matching_call_before(rows: Any, order: str, selected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    asks = 'result("get_order", {"id": args.order})' if selected else 'result("get_order")'
    spec = {"id": "x", "kind": "must_not", "at": {"tool": "pay"}, "when": f"args.amount > {asks}.limit"}
    looked = [
        a_played(seq, "get_order", seen={"id": name}, raw=UNSET if failed else {"limit": limit}, shown=UNSET if failed else {}, error=LATE if failed else None)
        for seq, (name, limit, failed) in enumerate(rows, 1)
    ]  # fmt: skip
    later = a_played(9, "get_order", seen={"id": order}, raw={"limit": 0})
    run = replayed_run(a_transcript(*looked, a_write(8, "pay", seen={"order": order, "amount": 500}), later), POLICY)
    invariants = some_invariants(spec)
    found = judge(invariants.invariants[0], Context(run=run, invariants=invariants))
    answered = [(name, limit) for name, limit, failed in rows if not failed]
    limits = [limit for name, limit in answered if name == order or not selected]
    if not limits or (not selected and len({name for name, _ in answered}) > 1):
        assert found.truth is None
    else:
        assert found.truth is (Truth.VIOLATED if limits[-1] < 500 else Truth.SATISFIED)


means = st.sampled_from(["violated", "satisfied", "error", None])
KINDS = {
    "must_not": {"kind": "must_not", "at": {"tool": "pay"}, "when": "args.amount > 500"},
    "must_happen": {"kind": "must_happen", "at": {"tool": "pay"}, "when": "args.amount > 500"},
    "count": {"kind": "count", "at": {"tool": "pay"}, "when": "args.amount > 500", "max": 0},
    "order": {"kind": "order", "first": {"tool": "tell"}, "then": {"tool": "pay"}, "when": "args.amount > 500"},
    "output": {"kind": "output", "when": "output.amount > 500", "holds": "output.status == 'done'"},
}


@given(st.sampled_from(list(KINDS)), means, st.sampled_from([{}, {"amount": 100}, {"amount": 750}]))
def test_a_missing_field_means_what_is_said_of_it(kind: str, means: str | None, held: dict[str, int]) -> None:
    invariants = some_invariants({"id": "x", **KINDS[kind], **({} if means is None else {"on_missing": means})})
    run = replayed_run(
        a_transcript(a_write(1, "pay", seen=held), disposition=Disposition(output={**held, "status": "open"})), POLICY
    )
    found = judge(invariants.invariants[0], Context(run=run, invariants=invariants))
    if not held and means in ("error", None):
        assert (found.truth, "invariants.yaml:1" in (found.error or "")) == (None, True)
        return
    large = held.get("amount") == 750
    if kind == "must_happen":
        assert found.truth is (Truth.SATISFIED if large or (not held and means == "satisfied") else Truth.OPEN)
    else:
        assert found.truth is (Truth.VIOLATED if large or (not held and means == "violated") else Truth.SATISFIED)


contracts = st.fixed_dictionaries({}, optional={"status": st.sampled_from(["done", "open"]), "n": st.integers(0, 2)})


@given(contracts, st.sampled_from(["ended", "diverged", "crashed", "stale"]))
def test_an_output_keeps_its_contract_at_an_undiverged_end(output: dict[str, Any], how: str) -> None:
    spec = {"id": "x", "kind": "output", "schema": {"required": ["status"]}, "when": "has(output.n)", "holds": "output.status == 'done'"}  # fmt: skip
    ends: dict[str, Any] = {"diverged": {"divergence": a_divergence()}, "crashed": {"crash": "crashed"}}
    ending = ends.get(how, {"disposition": Disposition(output=output)})
    invariants = some_invariants(spec)
    run = replayed_run(a_transcript(a_model(1, stale=how == "stale"), **ending), POLICY)
    found = judge(invariants.invariants[0], Context(run=run, invariants=invariants))
    broken = "n" in output and output.get("status") != "done"
    assert found.truth is (Truth.OPEN if how != "ended" else Truth.VIOLATED if broken else Truth.SATISFIED)


MS = 1_000_000
took = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(took, st.lists(st.integers(0, 5), max_size=6), st.sampled_from([0.5, 1.0, 2.0]))
def test_a_run_takes_what_its_record_took(durations: list[int], served: list[int], most: float) -> None:
    """Crossings that were served take what the recorded one took; one past the record the mean of its name."""
    record = tuple(a_crossing(seq, "find", start_ns=0, end_ns=ms * MS) for seq, ms in enumerate(durations, 1))
    played = [
        a_played(seq, "find", matched=f"#{at + 1}" if at < len(durations) else None) for seq, at in enumerate(served, 1)
    ]
    spent = sum(durations[at] if at < len(durations) else sum(durations) / len(durations) for at in served)
    found = said("latency", *played, recorded=record, latency=most)
    assert found.truth is (Truth.VIOLATED if spent > most * sum(durations) + 1e-9 else Truth.SATISFIED)


@given(st.sampled_from([None, "error", "other"]), st.sampled_from(["told", "untold", "retried", "ended"]))
def test_an_error_is_kept_from_no_model(shown: str | None, then: str) -> None:
    """shown: what middleware made of it. then: what the model that asked for the call was told, where it was asked again."""
    sides = {None: {"raw": UNSET, "shown": UNSET}, "error": {"raw": UNSET, "shown": {"error": "late"}}, "other": {"raw": UNSET, "shown": {"slots": []}}}  # fmt: skip
    failed = a_played(2, "find", group=1, error=LATE, **sides[shown])
    again = [a_played(3, "find", group=1, attempt=2, raw=1, shown=1)] if then == "retried" else []
    text = {"told": "TimeoutError", "untold": "no slots", "retried": "one slot"}.get(then)
    asked = [] if text is None else [a_model(4, seen={"messages": [{"content": "hello"}, {"content": text}]})]
    first = a_model(1, seen={"messages": [{"content": "hello"}]})
    swallowed = said("no_swallowed_error", first, failed, *again, *asked).truth
    assert swallowed is (Truth.VIOLATED if shown == "other" or then == "untold" else Truth.SATISFIED)
