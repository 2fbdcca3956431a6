import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from dashboards.comparing import SHOWN_CHARS, Comparison, Passage, compare
from dashboards.escaping import visible
from examples.refund import T_1042
from examples.scheduling import TO_THURSDAY
from sample_runs import a_run, replayed
from tables import a_row
from tasks.replay.aligned import step_rows
from tasks.replay.schema import Steps
from twiceshy.aligning import align
from twiceshy.cutpoint import CutPoint
from twiceshy.outcome import Mode

TRIAL = {"replay_id": "a" * 64, "run_id": "r", "case_id": "c", "harness_state": "h"}


def a_step(position: int = 0, **columns: Any) -> dict[str, Any]:
    place = f"#{position + 1}"
    held = {"position": position, "kind": "tool", "recorded_place": place, "replayed_place": place, "diffs": "[]", **columns}  # fmt: skip
    return a_row(Steps, **held)


def compared(
    recorded: str, message: dict[str, str], candidate: str, *, live: bool = False, **violated: list[str]
) -> Comparison:
    cut = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"})) if live else None
    envelope = a_run(recorded, message)
    places = {f"#{name.removeprefix('at_')}": ids for name, ids in violated.items()}
    return compare(step_rows(align(envelope.crossings, replayed(candidate, envelope, cut)), trial=TRIAL, violated=places))  # fmt: skip


def folds(found: Comparison) -> list[tuple[str | None, int]]:
    return [(stretch.folded, len(stretch.steps)) for stretch in found.stretches]


def test_fixed_hook_is_first_difference() -> None:
    found = compared("refund:buggy", T_1042, "refund:hook_fixed")
    assert found.first is not None
    assert (found.first.place, found.first.row["name"]) == ("#2", "get_order")
    assert [(diff.sides, diff.path, diff.recorded) for diff in found.first.diffs] == [(("shown",), "policy_limit_gbp", None)]  # fmt: skip


def test_middleware_is_told_for_both_runs() -> None:
    found = compared("refund:buggy", T_1042, "refund:hook_fixed")
    assert found.first is not None
    ((way, recorded, replayed_way),) = found.first.middleware
    assert way == "raw → shown"
    assert recorded is not None
    assert replayed_way is not None
    assert ("removed", "policy_limit_gbp") in recorded.edits
    assert ("removed", "policy_limit_gbp") not in replayed_way.edits


def test_identical_beginning_is_folded() -> None:
    found = compared("refund:buggy", T_1042, "refund:hook_fixed")
    assert found.stretches[0].folded == "beginning"
    assert [step.place for step in found.stretches[0].steps] == ["#0.1", "#1"]


def test_violated_step_is_never_folded() -> None:
    found = compared("refund:buggy", T_1042, "refund:buggy", at_4=["limit"])
    assert found.first is None
    assert [step.anchor for step in found.violated] == ["step-4"]
    assert folds(found) == [("beginning", 5), (None, 1), ("same", 3)]


def test_unreached_steps_are_folded_as_such() -> None:
    found = compared("scheduling:buggy", TO_THURSDAY, "scheduling:fixed", live=True)
    assert found.diverged is not None
    assert found.diverged.row["name"] == "list_open_slots"
    assert found.stretches[-1].folded == "unreached"
    assert {step.row["status"] for step in found.stretches[-1].steps} == {"only_recorded"}


def test_repeated_request_is_a_consequence() -> None:
    found = compared("refund:buggy", T_1042, "refund:hook_fixed")
    consequences = {step.place for step in found.steps if step.consequence}
    assert consequences == {step.place for step in found.steps if step.row["kind"] == "model" and step.remarkable}
    assert consequences


def test_anchors_differ_on_a_page() -> None:
    rows = [a_step(0), a_step(1, status="only_recorded", replayed_place=None), a_step(2, status="only_replayed", recorded_place=None, replayed_place="#2")]  # fmt: skip
    anchors = [step.anchor for prefix in ("", "trial1-") for step in compare(rows, prefix=prefix).steps]
    assert anchors == ["step-1", "recorded-2", "step-2", "trial1-step-1", "trial1-recorded-2", "trial1-step-2"]


JSON = st.recursive(st.none() | st.integers() | st.text(max_size=40), lambda inner: st.lists(inner, max_size=3))


@given(JSON, JSON)
def test_parts_put_together_are_the_leaf(recorded: object, replayed: object) -> None:
    if recorded == replayed:
        return
    diffs = json.dumps([{"side": "seen", "path": "p", "recorded": recorded, "replayed": replayed}])
    (diff,) = compare([a_step(status="changed", diffs=diffs)]).steps[0].diffs
    for leaf, value in ((diff.recorded, recorded), (diff.replayed, replayed)):
        assert leaf is not None
        text = json.dumps(value, ensure_ascii=False)
        assert leaf.part in text
        assert text.startswith(leaf.before) or leaf.before.startswith("…")
        assert text.endswith(leaf.after) or leaf.after.endswith("…")


def test_equal_difference_on_both_sides_is_one_row() -> None:
    diffs = json.dumps([{"side": side, "path": "p", "recorded": 1, "replayed": 2} for side in ("raw", "shown")])
    (diff,) = compare([a_step(status="changed", diffs=diffs)]).steps[0].diffs
    assert diff.sides == ("raw", "shown")


def test_long_payload_is_folded_not_lost() -> None:
    text = json.dumps("x" * 3 * SHOWN_CHARS)
    (side,) = compare([a_step(recorded_seen=text, replayed_seen=text)]).steps[0].sides
    assert side.recorded is not None
    assert len(side.recorded.shown) == SHOWN_CHARS
    assert side.recorded.shown + side.recorded.rest == text
    assert side.both


def test_cut_payload_is_shown_as_it_is() -> None:
    step = compare([a_step(recorded_raw='{"a":"x', recorded_shown="{}", cut=["recorded_raw"])]).steps[0]
    assert step.sides[0].recorded is not None
    assert (step.sides[0].recorded.shown, step.sides[0].recorded.cut) == ('{"a":"x', True)
    assert step.middleware == [("raw → shown", Passage("cut", []), Passage("unknown", []))]


def test_repeated_side_is_named_not_repeated() -> None:
    sides = {f"{run}_{side}": '{"n":1}' for run in ("recorded", "replayed") for side in ("proposed", "seen")}
    assert [(side.side, side.like) for side in compare([a_step(**sides)]).steps[0].sides] == [
        ("proposed", None), ("seen", "proposed"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 👩‍🚀\n", "plain ünïcode 👩‍🚀\n"),
        ("\x1b[31mred\r", "⟨U+001B⟩[31mred⟨U+000D⟩"),
        ("pay \u202e10\u2066", "pay ⟨U+202E⟩10⟨U+2066⟩"),
        ("a\u200bb\ufeff\ud800", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+D800⟩"),
    ],
)
def test_hidden_characters_are_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_markup_of_ours_stays() -> None:
    assert visible(Markup("<b>\u202e</b>")) == "<b>\u202e</b>"
    assert visible(3) == 3


def test_clock_noted_by_one_run_is_no_difference() -> None:
    rows = [
        a_step(0, kind="clock", status="only_replayed", recorded_place=None),
        a_step(1),
        a_step(2, status="changed", diffs='[{"path":"p","recorded":1,"replayed":2,"side":"seen"}]'),
    ]
    found = compare(rows)
    assert found.first is found.steps[2]
    assert folds(found) == [("beginning", 2), (None, 1)]


def test_no_error_is_not_there() -> None:
    diffs = '[{"path":"class","recorded":null,"replayed":"KeyError","side":"error"}]'
    (diff,) = compare([a_step(status="changed", diffs=diffs)]).steps[0].diffs
    assert diff.recorded is None
    assert diff.replayed is not None
