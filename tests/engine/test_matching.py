import sys
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from builders import a_crossing, a_policy, recorded, replayed
from twiceshy.boundary import Boundary
from twiceshy.envelope import Crossing, Effect, ErrorRecord, RunInput
from twiceshy.history import History
from twiceshy.matching import Hit, Matcher, Miss, differences, fresh, recordings
from twiceshy.outcome import AnsweredBy, Divergence
from twiceshy.paths import leaves

POLICY = a_policy(find="read", get="read", add="none")
START = History(POLICY).state("find")


def find(seq: int, day: str, raw: Any, **given: Any) -> Crossing:
    return a_crossing(seq, "find", seen={"day": day}, raw=raw, **given)


def pay(seq: int, amount: int = 1, **given: Any) -> Crossing:
    return a_crossing(seq, "pay", effect=Effect.WRITE, seen={"amount": amount}, raw={"ok": True}, **given)


def serve(matcher: Matcher, day: str, state: str = START) -> Hit | Miss:
    return matcher.serve("find", POLICY.key("find", {"day": day}), state)


def answer(matcher: Matcher, day: str, state: str = START) -> Any:
    served = serve(matcher, day, state)
    return served.recording.answer if isinstance(served, Hit) else served.kind


def test_each_call_gets_its_own_answer_in_any_order() -> None:
    matcher = Matcher([find(1, "thu", "none"), find(2, "fri", "ten")], POLICY)
    assert [answer(matcher, "fri"), answer(matcher, "thu")] == ["ten", "none"]


def test_recordings_of_one_call_are_served_in_order() -> None:
    matcher = Matcher([find(1, "thu", 1), find(2, "thu", 2)], POLICY)
    assert [answer(matcher, "thu"), answer(matcher, "thu")] == [1, 2]


def test_unequal_recordings_are_not_repeated() -> None:
    matcher = Matcher([find(1, "thu", 1), find(2, "thu", 2)], POLICY)
    serve(matcher, "thu"), serve(matcher, "thu")
    assert answer(matcher, "thu") is Divergence.EXHAUSTED


def test_an_equal_answer_is_given_again() -> None:
    matcher = Matcher([find(1, "thu", {"a": 1}), find(2, "thu", {"a": 1.0})], POLICY)
    served = [serve(matcher, "thu") for _ in range(3)]
    assert [hit.by for hit in served if isinstance(hit, Hit)] == [
        AnsweredBy.RECORDED,
        AnsweredBy.RECORDED,
        AnsweredBy.REPEATED,
    ]


def test_an_error_is_never_repeated() -> None:
    failed = find(1, "thu", None, error=ErrorRecord(cls="TimeoutError", type="timeout"))
    matcher = Matcher([failed], POLICY)
    assert isinstance(serve(matcher, "thu"), Hit)
    assert answer(matcher, "thu") is Divergence.EXHAUSTED


def test_a_read_before_a_write_is_not_the_read_after_it() -> None:
    matcher = Matcher([find(1, "thu", "before"), pay(2), find(3, "thu", "after")], POLICY)
    assert answer(matcher, "thu") == "before"
    after = [found.state for found in recordings([pay(1), find(2, "thu", 0)], POLICY)][-1]
    assert answer(matcher, "thu", after) == "after"


def test_other_writes_are_a_state_mismatch() -> None:
    matcher = Matcher([pay(1), find(2, "thu", "after")], POLICY)
    assert answer(matcher, "thu") is Divergence.STATE_MISMATCH


def test_misses_tell_name_from_arguments() -> None:
    matcher = Matcher([find(1, "thu", 1)], POLICY)
    assert answer(matcher, "fri") is Divergence.ARGS_MISMATCH
    assert matcher.serve("get", "c1:x", START) == Miss(Divergence.UNRECORDED_CALL)


def test_a_pure_tool_is_answered_whatever_was_written() -> None:
    matcher = Matcher([a_crossing(1, "add", effect=Effect.NONE, seen={"a": 1}, raw=2)], POLICY)
    assert isinstance(matcher.serve_pure("add", POLICY.key("add", {"a": 1})), Hit)
    assert matcher.serve_pure("add", POLICY.key("add", {"a": 2})) == Miss(Divergence.ARGS_MISMATCH)


def test_a_blocked_call_answers_nothing() -> None:
    matcher = Matcher(
        [find(1, "thu", None, blocked_by="guard", error=ErrorRecord(cls="twiceshy.Blocked", definite=True))], POLICY
    )
    assert answer(matcher, "thu") is Divergence.UNRECORDED_CALL


def test_only_what_was_shown_may_answer_where_raw_is_unknown() -> None:
    crossing = Crossing(
        seq=1, kind=a_crossing().kind, name="find", effect=Effect.READ, proposed={"day": "thu"}, shown="text"
    )
    assert answer(Matcher([crossing], POLICY), "thu") == "text"


def test_a_miss_names_the_nearest_and_why() -> None:
    matcher = Matcher([find(1, "thu", 1), pay(2), find(3, "fri", 2)], POLICY)
    serve(matcher, "thu")
    key = POLICY.key("find", {"day": "fri"})
    near = matcher.nearest("find", key, START, {"day": "fri"})
    assert [(row.place, row.reason) for row in near] == [
        ("#3", "other writes came before it"),
        ("#1", "other arguments"),
    ]
    assert [(diff.path, diff.recorded, diff.got) for diff in near[1].fields] == [("day", "thu", "fri")]


def test_served_recordings_say_so_on_a_miss() -> None:
    matcher = Matcher([find(1, "thu", 1), find(2, "thu", 2)], POLICY)
    serve(matcher, "thu"), serve(matcher, "thu")
    near = matcher.nearest("find", POLICY.key("find", {"day": "thu"}), START, {"day": "thu"})
    assert {row.reason for row in near} == {"already served"}


calls = st.lists(st.tuples(st.sampled_from(["read", "write"]), st.sampled_from("ab"), st.integers(0, 2)), max_size=12)


@given(calls)
def test_a_record_replays_itself(made: list[tuple[str, str, int]]) -> None:
    """Record -> replay is the identity: the run that was recorded gets every answer it got."""
    crossings = [find(at, day, raw) if kind == "read" else pay(at, raw) for at, (kind, day, raw) in enumerate(made, 1)]
    matcher = Matcher(crossings, POLICY)
    for recording in list(recordings(crossings, POLICY)):
        served = matcher.serve(recording.crossing.name, recording.key, recording.state)
        assert isinstance(served, Hit)
        assert served.recording.crossing.seq == recording.crossing.seq


json_values = st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1, max_size=1), inner, max_size=2), max_leaves=6)  # fmt: skip


@given(json_values, json_values)
def test_differences_are_empty_exactly_for_equal_leaves(left: Any, right: Any) -> None:
    assert (not differences(left, right)) == (dict(leaves(left)) == dict(leaves(right)))


@given(json_values)
def test_a_fresh_value_shares_no_container(value: Any) -> None:
    copy = fresh(value)
    assert copy == value
    if isinstance(copy, dict | list):
        copy.clear()
        assert copy == type(copy)()
        assert fresh(value) == value


def test_a_call_costs_the_same_however_long_the_record() -> None:
    """Counted in lines that are run, so that no clock decides: four times the record costs four times as much, and each call of it what it did."""

    def run(reads: int) -> int:
        def build(boundary: Boundary) -> Any:
            tool = boundary.tool("find", lambda n: {"n": n}, effect="read")
            pay, planner = boundary.tool("pay", lambda n: n), boundary.model("planner", lambda request: request)
            return lambda prompt: [(planner({"n": n, "prompt": prompt}), tool(n=n % 7), pay(n=n)) for n in range(reads)]

        envelope = msgspec.structs.replace(recorded(build, "old", policy=POLICY), input=RunInput(user="new"))
        counted = 0

        def heard(*_: object) -> Any:
            nonlocal counted
            counted += 1
            return heard

        sys.settrace(heard)
        try:
            told = replayed(build, envelope, policy=POLICY)
        finally:
            sys.settrace(None)
        assert (told.divergence, len(told.played)) == (None, 3 * reads)
        return counted

    run(10)  # what is loaded late
    assert run(160) < 4.2 * run(40)
