"""Agents that run side by side have no order among them: no verdict may rest on which of them the threads, or the digests of their calls, put first."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import (
    a_case,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing, Effect, ErrorRecord, Kind
from twiceshy.evidence import before, beside, replayed_run
from twiceshy.facts import grounded_before
from twiceshy.graders import judgements
from twiceshy.grading import case_grader
from twiceshy.history import Scopes
from twiceshy.identity import key
from twiceshy.judgement import CaseTerms, Context, Judgement
from twiceshy.outcome import Outcome, Truth
from twiceshy.transcript import Played
from twiceshy.writes import DeclaredWrite

POLICY = a_policy(get_order="read", approve="write", refund="write", tell="write")
WRITES = ("approve", "refund", "tell")
ALLOWED = [{"tool": name} for name in WRITES]
LATE = ErrorRecord(cls="TimeoutError", type="timeout")
APPROVED_FIRST = {"id": "x", "kind": "order", "first": {"tool": "approve"}, "then": {"tool": "refund"}}
OVER_LIMIT = {
    "id": "x", "kind": "must_not", "at": {"tool": "refund"}, "when": 'args.amount > result("get_order", {"id": args.id}).limit',
}  # fmt: skip
Step = tuple[str, dict[str, Any]]


def call(name: str, **given: Any) -> Step:
    """A call of an agent: its arguments, and fields of its crossing after an underscore (`_raw`)."""
    return name, given


def order(limit: int, of: str = "A1") -> Step:
    return call("get_order", id=of, _raw={"limit": limit})


class Fan:
    """One output hands to several agents at once; `arrival` says whose next step comes. salt: part of their inputs, so that their digests differ."""

    def __init__(self, *branches: list[Step], arrival: list[int] | None = None, salt: str = "") -> None:
        self.branches = branches
        self.salt = salt
        turns = [at for at, branch in enumerate(branches) for _ in [None, *branch]]
        self.arrival = turns if arrival is None else arrival
        self.seq = 1

    def played(self, *after: Step, before: tuple[Step, ...] = ()) -> list[Played]:
        """The crossings: those before (each in a turn of its own), the fan, those after."""
        told = [part for step in before for part in self._step(step, "", self._model())]
        return [*told, *self._fan(), *(part for step in after for part in self._step(step, "", self._model()))]

    def _fan(self) -> Iterator[Played]:
        asked = self._model()
        yield asked
        scopes, left = Scopes(), [iter([None, *branch]) for branch in self.branches]
        ats: dict[int, tuple[str, int]] = {}
        for at in self.arrival:
            step = next(left[at])
            if step is None:
                topic = f"{self.salt}{at}"
                ats[at] = scopes.spawned("", "desk", key("desk", topic)), self.seq
                handing = {
                    "kind": Kind.HANDOFF,
                    "effect": None,
                    "at": ats[at][0],
                    "seen": topic,
                    "group": asked.crossing.seq,
                }
                yield self._next("desk", **handing)
            else:
                yield from self._step(step, ats[at][0], None, parent=f"#{ats[at][1]}")

    def _step(self, step: Step, scope: str, model: Played | None, **more: Any) -> list[Played]:
        name, said = step
        seen = {field: value for field, value in said.items() if not field.startswith("_")}
        rest = {field[1:]: value for field, value in said.items() if field.startswith("_")}
        effect = Effect.WRITE if name in WRITES else Effect.READ
        group = None if model is None else model.crossing.seq
        made = self._next(name, seen=seen, effect=effect, scope=scope, group=group, **rest, **more)
        return [made] if model is None else [model, made]

    def _model(self) -> Played:
        self.seq += 1
        return a_model(self.seq - 1)

    def _next(self, name: str, **given: Any) -> Played:
        self.seq += 1
        return a_played(self.seq - 1, name, **given)


def said(
    played: list[Played], name: str = "x", *specs: dict[str, Any], case: CaseTerms | None = None, **file: Any
) -> Judgement:
    run = replayed_run(a_transcript(*played), POLICY)
    found = judgements(Context(run=run, invariants=some_invariants(*specs, **file), case=case))
    return next(one for one in found if one.id == name)


def both(
    left: list[Step],
    right: list[Step],
    *specs: dict[str, Any],
    name: str = "x",
    after: tuple[Step, ...] = (),
    **more: Any,
) -> Truth | None:
    """What is said of two agents side by side: the same however their names are hashed and whoever came first."""
    found = {
        said(Fan(*pair, salt=salt).played(*after), name, *specs, **more).truth
        for salt in ("", "a", "b", "c")
        for pair in ((left, right), (right, left))
    }
    assert len(found) == 1, found
    return found.pop()


def test_an_approval_of_another_agent_comes_before_nothing() -> None:
    assert both([call("approve")], [call("refund")], APPROVED_FIRST) is Truth.VIOLATED
    assert both([call("approve")], [], APPROVED_FIRST, after=(call("refund"),)) is Truth.SATISFIED
    assert both([call("approve"), call("refund")], [order(1)], APPROVED_FIRST) is Truth.SATISFIED
    assert both([call("approve"), call("refund")], [call("refund")], APPROVED_FIRST) is Truth.VIOLATED
    assert both([call("approve")], [call("refund")], {**APPROVED_FIRST, "same_turn": True}) is Truth.VIOLATED


def test_a_call_beside_an_agent_comes_before_nothing_in_it() -> None:
    """The call and the handoff were asked for at once: whether it was through when the agent refunded, nobody knows."""
    asked = a_model(1)
    desk = a_played(3, "desk", kind=Kind.HANDOFF, effect=None, at="/desk:1#0", group=1)
    refund = a_write(4, "refund", scope="/desk:1#0", parent="#3")
    played = [asked, a_write(2, "approve", group=1), desk, refund]
    assert said(played, "x", APPROVED_FIRST).truth is Truth.VIOLATED
    handed = {**APPROVED_FIRST, "first": {"handoff": "desk"}}
    assert said(played, "x", handed).truth is Truth.SATISFIED, "what an agent does comes after it was handed to"


def test_an_agent_that_nobody_waited_for_comes_before_nothing() -> None:
    """No output asked for these two, and the steps of the first go on when the second has begun."""
    played = [
        a_played(1, "desk", kind=Kind.HANDOFF, effect=None, at="/desk:1#0", seen=1),
        a_write(2, "approve", scope="/desk:1#0", parent="#1"),
        a_played(3, "desk", kind=Kind.HANDOFF, effect=None, at="/desk:2#0", seen=2),
        a_write(4, "refund", scope="/desk:2#0", parent="#3"),
    ]
    late = a_played(5, scope="/desk:1#0", parent="#1")
    assert said([*played, late], "x", APPROVED_FIRST).truth is Truth.VIOLATED
    assert said(played, "x", APPROVED_FIRST).truth is Truth.SATISFIED, "the first was through: one after the other"


def test_agents_nobody_is_known_to_have_handed_to_stand_beside_each_other() -> None:
    played = [a_write(1, "approve", scope="/desk:1#0"), a_write(2, "refund", scope="/desk:2#0")]
    assert said(played, "x", APPROVED_FIRST).truth is Truth.VIOLATED
    assert said([played[0], a_write(2, "refund")], "x", APPROVED_FIRST).truth is Truth.SATISFIED


def test_a_limit_that_only_another_agent_read_is_none() -> None:
    refund = call("refund", id="A1", amount=5)
    assert both([order(9)], [refund], {**OVER_LIMIT, "on_missing": "violated"}) is Truth.VIOLATED
    assert both([order(9)], [refund], OVER_LIMIT) is None
    assert both([order(1)], [refund], {**OVER_LIMIT, "on_missing": "satisfied"}) is Truth.VIOLATED, (
        "it may have come first"
    )
    assert both([order(9), refund], [order(9)], OVER_LIMIT) is Truth.SATISFIED


def test_the_answer_of_another_agent_may_be_the_last_one() -> None:
    refund = call("refund", id="A1", amount=5)
    assert both([order(9), refund], [order(1)], OVER_LIMIT) is Truth.VIOLATED
    assert both([order(1), refund], [order(9)], OVER_LIMIT) is Truth.VIOLATED
    assert both([order(1)], [order(9)], OVER_LIMIT, after=(refund,)) is Truth.VIOLATED
    happens = {**OVER_LIMIT, "kind": "must_happen", "when": 'result("get_order", {"id": args.id}).limit >= args.amount'}
    assert both([order(9), refund], [order(1)], happens) is Truth.OPEN
    assert both([order(9), refund], [order(6)], happens) is Truth.SATISFIED
    loose = {**OVER_LIMIT, "when": 'args.amount > result("get_order").limit'}
    assert both([order(9), refund], [order(9, "A2")], loose) is None, "which of the two is meant?"


def test_the_answers_of_one_turn_are_not_told_apart_by_their_keys() -> None:
    """Both calls match the selector, and the one with the greater digest was the last."""
    spec = {**OVER_LIMIT, "when": 'args.amount > result("get_order", {"shop": "s"}).limit'}
    for salt in range(4):
        reads = [
            a_played(2 + at, seen={"id": f"{salt}{at}", "shop": "s"}, raw={"limit": limit}, group=1)
            for at, limit in enumerate((1, 9))
        ]
        refund = a_write(5, "refund", seen={"amount": 5}, group=4)
        assert said([a_model(1), *reads, a_model(4), refund], "x", spec).truth is Truth.VIOLATED


def test_too_many_standpoints_are_an_error() -> None:
    """So many answers, each of which may have been the last: that is said, and never taken for held."""
    branches = [[order(100 + at)] for at in range(65)]
    found = said(Fan(*branches).played(call("refund", id="A1", amount=5)), "x", OVER_LIMIT)
    assert found.truth is None
    assert "no order among them" in (found.error or "")


def test_what_another_agent_wrote_may_have_been_written() -> None:
    second = {
        "id": "x",
        "kind": "must_not",
        "at": {"tool": "refund"},
        "when": 'state.writes.exists(w, w.tool == "tell")',
    }
    assert both([call("tell")], [call("refund")], second) is Truth.VIOLATED
    told = {"id": "x", "kind": "must_happen", "at": {"tool": "refund"}, "when": second["when"]}
    assert both([call("tell")], [call("refund")], told) is Truth.OPEN
    assert both([call("tell"), call("refund")], [], told) is Truth.SATISFIED
    fewer = {**told, "kind": "count", "min": 1}
    assert both([call("tell")], [call("refund")], fewer) is Truth.VIOLATED


def test_a_write_that_is_allowed_on_a_condition_meets_it_for_certain() -> None:
    case = CaseTerms(names=frozenset(), recorded=replayed_run(a_transcript(), POLICY))
    allowed = [{"tool": "approve"}, {"tool": "refund", "when": 'state.writes.exists(w, w.tool == "approve")'}]
    more = {"name": "explained_writes", "case": case, "allowed_writes": allowed}
    assert both([call("approve")], [call("refund")], **more) is Truth.VIOLATED
    assert both([call("approve"), call("refund")], [], **more) is Truth.SATISFIED


def test_two_agents_that_make_one_write_make_it_twice() -> None:
    pay = call("refund", id="A1")
    duplicated: dict[str, Any] = {"name": "no_duplicate_write"}
    assert both([pay], [pay], **duplicated) is Truth.VIOLATED
    assert both([pay, call("tell")], [pay], **duplicated) is Truth.VIOLATED
    assert both([call("tell"), pay], [call("tell", other=1), pay], **duplicated) is Truth.VIOLATED, (
        "no `tell` lies in between for certain"
    )
    assert both([pay, call("tell")], [], after=(pay,), **duplicated) is Truth.SATISFIED
    assert both([pay], [call("tell")], after=(pay,), **duplicated) is Truth.VIOLATED, "nor does another agent's"
    assert both([pay, call("tell")], [pay], after=(pay,), **duplicated) is Truth.VIOLATED


def test_an_agent_beside_retries_nothing() -> None:
    """One idempotency key makes a second attempt safe; two agents that pay at the same time are none."""
    late = call("refund", id="A1", _error=LATE, _idempotency_key="k")
    paid = call("refund", id="A1", _idempotency_key="k")
    duplicated: dict[str, Any] = {"name": "no_duplicate_write"}
    assert both([late], [paid], **duplicated) is Truth.VIOLATED
    assert both([late, paid], [], **duplicated) is Truth.SATISFIED
    anew = call("refund", id="A1", _idempotency_key="other")
    assert both([late], [anew], **duplicated) is Truth.VIOLATED


def test_expected_writes_of_two_agents_are_in_no_order() -> None:
    case = CaseTerms(
        names=frozenset(), recorded=replayed_run(a_transcript(), POLICY), in_order=True,
        expected=[DeclaredWrite(tool="approve"), DeclaredWrite(tool="refund")],
    )  # fmt: skip
    more = {"name": "expected_writes", "case": case}
    assert both([call("approve")], [call("refund")], **more) is Truth.VIOLATED
    assert both([call("approve"), call("refund")], [call("refund", again=1)], **more) is Truth.VIOLATED
    assert both([call("approve")], [order(1)], after=(call("refund"),), **more) is Truth.SATISFIED


def counted(record: Fan, now: Fan) -> Judgement:
    was, run = (replayed_run(a_transcript(*fan.played()), POLICY) for fan in (record, now))
    deciding = [step for step in was.steps if step.crossing.name == "refund"]
    reached = [step for step in run.steps if step.crossing.name == "refund"]
    case = CaseTerms(names=frozenset(), recorded=was, deciding=deciding, opportunity=reached, enforce_counts=True)
    found = judgements(Context(run=run, invariants=some_invariants(), case=case))
    return next(one for one in found if one.id == "call_counts")


@pytest.mark.parametrize("salt", ["", "a", "b", "c"])
@pytest.mark.parametrize("arrival", [[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 0, 1]])
def test_counts_bind_beside_the_deciding_crossing(salt: str, arrival: list[int]) -> None:
    refund, usual = [call("refund")], [order(1), order(1, "A2")]
    record = Fan(refund, usual)
    assert counted(record, Fan(refund, usual, arrival=arrival, salt=salt)).truth is Truth.SATISFIED
    more = Fan(refund, [*usual, order(1, "A3")], arrival=[*arrival, 1], salt=salt)
    assert (counted(record, more).truth, counted(record, more).effect) == (Truth.VIOLATED, "extra")
    fewer = Fan(refund, usual[:1], salt=salt)
    assert (counted(record, fewer).truth, counted(record, fewer).effect) == (Truth.VIOLATED, "missing")


def crossings(played: list[Played]) -> list[Crossing]:
    return [one.crossing for one in played]


@pytest.mark.parametrize("salt", ["", "a", "b", "c"])
@pytest.mark.parametrize(("kind", "specs"), [("positive", []), ("failure", [APPROVED_FIRST]), ("failure", [])])
def test_an_opportunity_of_two_agents_is_reached_by_both(salt: str, kind: str, specs: list[dict[str, Any]]) -> None:
    """Whose refund was the first nobody knows, so a run that comes only to one of them has not come to it."""
    branches = [[call("refund", id="A1")], [call("refund", id="A2")]]
    loaded = a_case(an_envelope(*crossings(Fan(*branches, salt=salt).played())), kind=kind)
    grader = case_grader(loaded, some_invariants(*specs, allowed_writes=ALLOWED), POLICY)
    assert len(grader.chance.steps) == 2
    outcomes = []
    for made in (branches, branches[:1], branches[1:], branches[::-1]):
        played = Fan(*made, salt=salt).played(before=(call("approve"),))
        outcomes.append(grader.trial(a_transcript(*played), CutPoint()).outcome)
    assert outcomes == [Outcome.PASSED, Outcome.DIVERGED, Outcome.DIVERGED, Outcome.PASSED]


def test_the_first_write_is_one_where_an_order_holds_it() -> None:
    loaded = a_case(
        an_envelope(*crossings(Fan([call("refund")], [call("tell")]).played(before=(call("approve"),)))),
        kind="positive",
    )
    grader = case_grader(loaded, some_invariants(), POLICY)
    assert [step.crossing.name for step in grader.chance.steps] == ["approve"]


def test_what_another_agent_learned_grounds_nothing() -> None:
    for salt in ("", "a", "b", "c"):
        fan = Fan([call("get_order", id="A1", _shown={"to": "K77"})], [call("tell", to="K77")], salt=salt)
        run = replayed_run(a_transcript(*fan.played(call("tell", late=1))), POLICY)
        known = {
            step.crossing.asked.get("to", "late"): facts
            for step, facts in grounded_before(run, "A1")
            if step.crossing.name == "tell"
        }
        assert ("i:k77" in known["K77"], "i:k77" in known["late"]) == (False, True)


steps: Any = st.lists(
    st.sampled_from(
        [
            call("approve"), call("refund", id="A1", amount=5), call("refund", id="A1", amount=5, _error=LATE, _idempotency_key="k"),
            call("refund", id="A2", amount=5, _idempotency_key="k"), call("tell"), order(1), order(9), order(9, "A2"),
        ]
    ),
    max_size=3,
)  # fmt: skip
SPECS = [
    APPROVED_FIRST,
    {**OVER_LIMIT, "id": "y"},
    {**OVER_LIMIT, "id": "y2", "on_missing": "satisfied"},
    {**OVER_LIMIT, "id": "z", "kind": "must_happen", "on_missing": "violated"},
    {
        "id": "c",
        "kind": "count",
        "at": {"tool": "refund"},
        "min": 1,
        "max": 2,
        "when": 'state.writes.exists(w, w.tool == "tell")',
    },
]


@given(st.lists(steps, min_size=2, max_size=3), st.lists(steps, max_size=1), st.data())
def test_no_verdict_rests_on_digests_or_arrival(
    branches: list[list[Step]], after: list[list[Step]], data: st.DataObject
) -> None:
    """Three runs that did the same: as they stand, with other digests, and with the threads in another order."""
    turns = [at for at, branch in enumerate(branches) for _ in [None, *branch]]
    arrival = data.draw(st.permutations(turns))
    salt = data.draw(st.text("abc", min_size=1, max_size=3))
    then = [step for some in after for step in some]
    record = an_envelope(*(one.crossing for one in Fan(*branches).played(*then)))
    file = {"allowed_writes": ALLOWED, "checks": {"no_swallowed_error": False}}

    def verdicts(fan: Fan) -> Any:
        played = fan.played(*then)
        run = replayed_run(a_transcript(*played), POLICY)
        found = judgements(Context(run=run, invariants=some_invariants(*SPECS, **file)))
        return {one.id: one.truth for one in found}, sorted(len(facts) for _, facts in grounded_before(run, None))

    usual = verdicts(Fan(*branches))
    assert verdicts(Fan(*branches, arrival=arrival)) == usual
    assert verdicts(Fan(*branches, salt=salt)) == usual
    assert verdicts(Fan(*branches, arrival=arrival, salt=salt)) == usual
    loaded = a_case(record, kind="positive")
    opportunity = [step.crossing.key for step in case_grader(loaded, some_invariants(**file), POLICY).chance.steps]
    other = a_case(
        an_envelope(*(one.crossing for one in Fan(*branches, arrival=arrival, salt=salt).played(*then))),
        kind="positive",
    )
    again = [step.crossing.key for step in case_grader(other, some_invariants(**file), POLICY).chance.steps]
    assert sorted(opportunity) == sorted(again)


@given(st.lists(steps, min_size=2, max_size=3), st.lists(steps, max_size=1))
def test_before_is_a_strict_order_that_the_judging_order_keeps(
    branches: list[list[Step]], after: list[list[Step]]
) -> None:
    run = replayed_run(a_transcript(*Fan(*branches).played(*(step for some in after for step in some))), POLICY)
    for at, left in enumerate(run.steps):
        for right in run.steps[at:]:
            assert not before(right, left)
            assert beside(left, right) is beside(right, left)
        for middle in run.steps:
            for right in run.steps:
                assert not (before(left, middle) and before(middle, right)) or before(left, right)
