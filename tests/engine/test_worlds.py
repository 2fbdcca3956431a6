"""Worlds: what a seeded table answers, what an intent changes, and when a world may speak at all (semantics.md §4.5, §5.2, §6.5)."""

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_policy, an_envelope, recorded, replayed
from small_worlds import LIVE, POLICY, WORLD, a_world, build_with, changed, in_world, refusal
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing, Effect, Envelope, Kind
from twiceshy.errors import CaseError, FormatError, InputError
from twiceshy.identity import key
from twiceshy.outcome import AnsweredBy, Divergence, Mode
from twiceshy.policy import ToolPolicy
from twiceshy.transcript import Transcript
from twiceshy.worlds.authority import for_run
from twiceshy.worlds.proving import prove
from twiceshy.worlds.tables import Meeting

EMPTY = an_envelope()


def record(body: Any, policy: Any = POLICY) -> Envelope:
    return recorded(build_with(body), policy=policy)


def output(told: Transcript) -> Any:
    assert told.disposition is not None, told.divergence
    return told.disposition.output


def missed(told: Transcript) -> str:
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.WORLD_MISS
    return told.divergence.detail


def test_reads_see_what_intents_changed() -> None:
    def body(look: Any, move: Any, slots: Any, **_: Any) -> Any:
        return [slots(day="thu"), move(id="K1", slot="S1"), look(id="K1"), slots(day="thu")]

    told = in_world(body, EMPTY)
    assert output(told) == [
        {"day": "thu", "free": ["S1"], "count": 1},
        {"id": "K1", "status": "moved to thu"},
        {"id": "K1", "day": "thu"},
        {"day": "thu", "free": [], "count": 0},
    ]
    assert {played.answered_by for played in told.played} == {AnsweredBy.WORLD}


def test_intent_tells_rows_before_and_after() -> None:
    told = in_world(lambda move, **_: move(id="K2", slot="S1"), EMPTY)
    moved, taken = told.played[0].changes
    assert (moved.table, moved.row, moved.key, moved.invented) == (
        "appointments",
        "appointments[1]",
        {"id": "K2"},
        True,
    )
    assert (moved.before, moved.after) == ({"id": "K2", "day": "tue"}, {"id": "K2", "day": "thu"})
    assert (taken.row, taken.invented) == ("slots[0]", False)


def test_failed_call_changes_nothing() -> None:
    def body(look: Any, move: Any, **_: Any) -> Any:
        return [refusal(lambda: move(id="K1", slot="S2")), refusal(lambda: move(id="K9", slot="S1")), look(id="K1")]

    told = in_world(body, EMPTY)
    assert output(told) == ["slot S2 is not open", "no appointment K9", {"id": "K1", "day": "mon"}]
    assert not any(played.changes for played in told.played)
    errors = [played.crossing.error for played in told.played[:2]]
    assert all(error and error.definite and error.cls == "builtins.LookupError" for error in errors)


def test_open_table_misses_unknown_row() -> None:
    assert "appointments" in missed(in_world(lambda look, **_: refusal(lambda: look(id="K7")), EMPTY))


def test_closed_table_answers_none() -> None:
    closed = a_world(changed(WORLD, "tables", "appointments", "closed", to=True))
    assert output(in_world(lambda look, **_: refusal(lambda: look(id="K7")), EMPTY, closed)) == "no appointment K7"


def test_recorded_absence_is_known_in_an_open_table() -> None:
    assert output(in_world(lambda look, **_: refusal(lambda: look(id="K9")), EMPTY)) == "no appointment K9"


def test_invalid_write_never_reaches_the_world() -> None:
    def body(look: Any, move: Any, **_: Any) -> Any:
        with pytest.raises(ValueError, match="required"):
            move(id="K1")
        return look(id="K1")

    told = in_world(body, EMPTY)
    assert told.played[0].answered_by is AnsweredBy.VALIDATION
    assert output(told) == {"id": "K1", "day": "mon"}


def test_agent_cannot_reach_into_the_world() -> None:
    def body(look: Any, **_: Any) -> Any:
        look(id="K1")["day"] = "never"
        return look(id="K1")

    assert output(in_world(body, EMPTY)) == {"id": "K1", "day": "mon"}


def test_each_run_starts_anew() -> None:
    world = a_world()
    runs = [in_world(lambda move, **_: move(id="K1", slot="S1"), EMPTY, world) for _ in range(2)]
    assert runs[0].digest == runs[1].digest
    assert output(runs[1])["status"] == "moved to thu"


# one authority for each resource and run


def test_world_mode_never_asks_the_record() -> None:
    envelope = record(lambda look, **_: look(id="K5"))
    assert "appointments" in missed(in_world(lambda look, **_: look(id="K5"), envelope))


def test_record_answers_what_the_world_has_no_part_in() -> None:
    envelope = record(lambda weather, **_: weather())
    told = in_world(lambda weather, look, **_: [weather(), look(id="K1")["day"]], envelope)
    assert output(told) == ["rain", "mon"]
    assert [played.answered_by for played in told.played] == [AnsweredBy.RECORDED, AnsweredBy.WORLD]


def test_write_the_world_does_not_answer_leaves_what_it_touches_unknown() -> None:
    untold = changed(WORLD, "tools", to={name: WORLD["tools"][name] for name in ("look", "slots")})
    told = in_world(lambda move, look, **_: [move(id="K1", slot="S1"), look(id="K1")], EMPTY, a_world(untold))
    assert "does not answer touched" in missed(told)


def test_miss_policy_asks_the_record_first() -> None:
    envelope = record(lambda look, **_: look(id="K1"))
    told = in_world(lambda look, **_: [look(id="K1"), look(id="K2")], envelope, mode=Mode.FULL)
    assert [played.answered_by for played in told.played] == [AnsweredBy.RECORDED, AnsweredBy.WORLD]
    assert output(told) == [{"id": "K1", "day": "mon"}, {"id": "K2", "day": "tue"}]


def test_taken_over_resource_never_goes_back() -> None:
    envelope = record(lambda look, **_: look(id="K1"))
    told = in_world(lambda look, **_: [look(id="K2"), look(id="K1")], envelope, mode=Mode.FULL)
    assert [played.answered_by for played in told.played] == [AnsweredBy.WORLD, AnsweredBy.WORLD]


def test_world_keeps_out_where_the_record_said_otherwise() -> None:
    other = a_world(changed(WORLD, "tables", "appointments", "rows", to=[{"id": "K1", "day": "sun"}]))
    envelope = record(lambda look, **_: look(id="K1"))
    told = in_world(lambda look, **_: [look(id="K1"), look(id="K2")], envelope, other, mode=Mode.FULL)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.ARGS_MISMATCH


def test_recorded_write_is_applied_before_the_world_takes_over() -> None:
    def once(move: Any, **_: Any) -> Any:
        return move(id="K1", slot="S1")

    told = in_world(
        lambda move, look, **_: [once(move), look(id="K1")["day"]], record(once), mode=Mode.FULL
    )  # fmt: skip
    assert output(told)[1] == "thu"
    assert [played.answered_by for played in told.played] == [AnsweredBy.RECORDED, AnsweredBy.WORLD]
    assert [change.row for change in told.played[0].changes] == ["appointments[0]", "slots[0]"]


def test_prefix_comes_from_the_record() -> None:
    def once(move: Any, **_: Any) -> Any:
        return move(id="K1", slot="S1")

    cut = CutPoint(mode=Mode.WORLD, after=1)
    told = in_world(lambda move, look, **_: [once(move), look(id="K1")["day"]], record(once), cut=cut)
    assert [played.answered_by for played in told.played] == [AnsweredBy.RECORDED, AnsweredBy.WORLD]


# calls of one turn


def in_one_turn(*asked: tuple[str, dict[str, Any]]) -> Transcript:
    def body(planner: Any, tools: dict[str, Any]) -> Any:
        planner({"messages": []})
        return [tools[name](**args) for name, args in asked]

    def build(boundary: Any) -> Any:
        planner = boundary.model("planner", lambda _: {"parts": []})
        inner: dict[str, Any] = {}
        build_with(lambda **tools: inner.update(tools))(boundary)(None)
        return lambda _: body(planner, inner)

    cut = CutPoint(mode=Mode.WORLD, live=frozenset({"model:*"}))
    return replayed(build, EMPTY, policy=POLICY, cut=cut, world=for_run(a_world(), POLICY, first=True))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_calls_of_one_turn_may_not_meet_at_a_changed_row(order: tuple[int, int]) -> None:
    calls = [("move", {"id": "K1", "slot": "S1"}), ("look", {"id": "K1"})]
    assert "side by side" in missed(in_one_turn(*(calls[at] for at in order)))


def test_search_meets_every_changed_row() -> None:
    assert "side by side" in missed(in_one_turn(("slots", {"day": "fri"}), ("move", {"id": "K1", "slot": "S1"})))


def test_same_write_twice_in_one_turn_is_a_duplicate_and_no_miss() -> None:
    told = in_one_turn(("tell", {"body": "hello"}), ("tell", {"body": "hello"}))
    assert told.divergence is None
    assert sum(len(played.changes) for played in told.played) == 2


_CALLS = st.sampled_from(
    [("look", {"id": "K1"}), ("look", {"id": "K2"}), ("slots", {"day": "thu"}), ("move", {"id": "K1", "slot": "S1"}), ("tell", {"body": "a"}), ("tell", {"body": "b"})]
)  # fmt: skip


@given(st.lists(_CALLS, min_size=2, max_size=4, unique_by=str), st.randoms(use_true_random=False))
def test_no_order_within_a_turn_shows(calls: list[Any], dice: Any) -> None:
    shuffled = list(calls)
    dice.shuffle(shuffled)
    first, second = in_one_turn(*calls), in_one_turn(*shuffled)
    assert (first.divergence is None) == (second.divergence is None)
    if first.divergence is None:
        told = [{str((p.crossing.name, p.crossing.seen)): (p.crossing.raw, p.changes) for p in run.played if p.crossing.name != "planner"} for run in (first, second)]  # fmt: skip
        assert told[0] == told[1]


def asked(scope: str, group: int | None, name: str = "move", **seen: Any) -> Any:
    return scope, group, Crossing(seq=1, kind=Kind.TOOL, name=name, seen=seen, key=key(name, seen))


@pytest.mark.parametrize(
    ("first", "between", "then", "meet"),
    [
        (asked("a", None, id="K1", slot="S1"), None, asked("b", None, "look", id="K1"), True),
        (asked("a", None, id="K1", slot="S1"), ("", 2), asked("b", None, "look", id="K1"), False),
        (asked("a", None, id="K1", slot="S1"), None, asked("a", None, "look", id="K1"), False),
        (asked("a", None, id="K1", slot="S1"), ("a", 7), asked("b", None, "look", id="K1"), True),
        (asked("", 1, id="K1", slot="S1"), None, asked("a", None, "look", id="K1"), True),
        (asked("a/x", None, id="K1", slot="S1"), ("a", 7), asked("a/y", None, "look", id="K1"), False),
        (asked("a/x", None, id="K1", slot="S1"), None, asked("a/y", None, "look", id="K2"), False),
    ],
)
def test_agents_side_by_side_may_not_meet(first: Any, between: Any, then: Any, meet: bool) -> None:  # noqa: FBT001 - a parameter of the test
    authority = for_run(a_world(), POLICY, first=True)()
    authority.begin("", 1)
    authority.begin(*first[:2])
    authority.answer(first[2])
    if between:
        authority.begin(*between)
    authority.begin(*then[:2])
    with pytest.raises(Meeting, match="side by side") if meet else nullcontext():
        authority.answer(then[2])


@pytest.mark.parametrize("beside", [False, True])
def test_agents_that_are_handed_to_in_turn_may_meet_and_side_by_side_not(*, beside: bool) -> None:
    """The second handoff begins when the first is over, or while it runs: only then would the order of their calls decide."""

    def build(boundary: Boundary) -> Callable[[Any], Any]:
        def act(passages: Any, name: str, **asked: Any) -> Any:
            return passages.tool(name, LIVE[name], effect="read" if name == "look" else None)(**asked)

        def agent(_: Any) -> Any:
            first = boundary.handing("mover", 1)
            second = boundary.handing("looker", 2) if beside else None
            act(first.passages, "move", id="K1", slot="S1")
            first.close()
            second = second or boundary.handing("looker", 2)
            day = act(second.passages, "look", id="K1")["day"]
            second.close(day)
            return day

        return agent

    told = replayed(
        build, EMPTY, policy=POLICY, cut=CutPoint(mode=Mode.WORLD), world=for_run(a_world(), POLICY, first=True)
    )
    assert ("side by side" in missed(told)) if beside else (output(told) == "thu")


# loading proves


def test_world_that_answers_as_recorded_is_proved() -> None:
    envelope = record(lambda look, slots, **_: [look(id="K1"), slots(day="thu")])
    assert prove(a_world(), envelope, POLICY, alone=True) == 2


@pytest.mark.parametrize("alone", [True, False])
def test_world_that_answers_otherwise_is_refused(alone: bool) -> None:  # noqa: FBT001 - a parameter of the test
    other = a_world(changed(WORLD, "tables", "appointments", "rows", to=[{"id": "K1", "day": "sun"}]))
    with pytest.raises(CaseError, match=r"look at #1: the world answers it otherwise \(differs in day\)"):
        prove(other, record(lambda look, **_: look(id="K1")), POLICY, alone=alone)


def test_world_that_misses_a_recorded_read_is_refused() -> None:
    with pytest.raises(CaseError, match="cannot answer it: table appointments has no such row"):
        prove(a_world(), record(lambda look, **_: look(id="K4")), POLICY, alone=True)


def test_reads_after_a_write_are_not_proved() -> None:
    envelope = record(lambda look, move, **_: [move(id="K1", slot="S1"), look(id="K1")])
    assert prove(a_world(), envelope, POLICY, alone=True) == 0


def test_failure_that_passed_is_left_out_by_name() -> None:
    def raising(boundary: Any) -> Any:
        look = boundary.tool("look", _timeout, effect="read")
        return lambda _: _swallowed(look)

    envelope = recorded(raising, policy=POLICY)
    with pytest.raises(CaseError, match=r"builtins\.TimeoutError"):
        prove(a_world(), envelope, POLICY, alone=True)
    assert prove(a_world(changed(WORLD, "transient", to=["#1"])), envelope, POLICY, alone=True) == 0


def _timeout(id: str) -> Any:  # noqa: A002 - the tool's own argument
    raise TimeoutError("slow")


def _swallowed(look: Any) -> str:
    try:
        look(id="K1")
    except TimeoutError:
        return "slow"
    return "fast"


def test_no_recorded_tool_may_share_a_resource_with_the_world() -> None:
    wider = a_policy(**{**POLICY.tools, "weather": ToolPolicy(effect=Effect.READ)})
    with pytest.raises(CaseError, match=r"weather rests on what the world's \w+ rests on"):
        prove(a_world(), record(lambda weather, **_: weather(), wider), wider, alone=True)
    assert prove(a_world(), record(lambda weather, **_: weather()), POLICY, alone=True) == 0


@pytest.mark.parametrize(
    ("path", "to", "line", "said"),
    [
        (("tables", "appointments", "rows", 0), {"day": "mon"}, "{", "lacks 'id'"),
        (("tables", "appointments", "invented", 0), {"id": "K1"}, "{", "the key of an earlier one"),
        (("tools", "look", "rows", "found", "table"), "appointment", '"table": "appointment"', "Did you mean 'appointments'"),
        (("tools", "look", "result"), "${fuond}", "fuond", "unknown name 'fuond'.*Did you mean 'found'"),
        (("tools", "slots", "rows", "free", "table"), "appointments", "where", "is not closed, so a search"),
        (("tools", "slots", "rows", "free", "where"), "row.open &&", "where", "CEL error"),
        (("tools", "move", "changes", 0, "update"), "fond", "{", "no single row"),
        (("tools", "move", "changes", 0, "set"), {"id": "K3"}, '"set"', "is the key of the row"),
        (("tools", "look", "changes"), [], '"look"', "a read in tools.yaml and a write here"),
        (("tools", "move", "changes"), None, '"move"', "a write in tools.yaml and a read here"),
        (("tools", "lok"), {"result": 1}, '"lok"', "'lok' is not listed in tools.yaml.*Did you mean 'look'"),
        (("tools", "look", "row"), {}, '"row": {}', "unknown key 'row'"),
    ],
)  # fmt: skip
def test_fault_in_a_world_has_file_and_line(path: Any, to: Any, line: str, said: str) -> None:
    written = changed(WORLD, *path, to=to)
    with pytest.raises(InputError, match=said) as refused:
        a_world(written)
    place = re.match(r".*world\.yaml:(\d+): ", str(refused.value))
    assert place is not None
    assert line in json.dumps(written, indent=1).splitlines()[int(place[1]) - 1]


def test_world_of_another_format_is_refused() -> None:
    with pytest.raises(FormatError, match="twiceshy/world/9"):
        a_world(changed(WORLD, "format", to="twiceshy/world/9"))
