import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from examples.refund import T_1042
from examples.scheduling import TO_THURSDAY
from sample_runs import a_run, replayed
from twiceshy.aligning import AlignedStep, Alignment, align
from twiceshy.cutpoint import CutPoint
from twiceshy.encoding import record_line, record_of
from twiceshy.envelope import Crossing, Disposition, ErrorRecord, Kind
from twiceshy.outcome import BoundaryState, Divergence, Mode
from twiceshy.transcript import Diverged, Played, Transcript

PLANNER_LIVE = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))


def calls(*names: str) -> list[Crossing]:
    return [
        Crossing(seq=seq, kind=Kind.TOOL, name=name, seen={}, raw=None, shown=None) for seq, name in enumerate(names, 1)
    ]


def a_transcript(crossings: list[Crossing], *, divergence: Diverged | None = None, ended: bool = True) -> Transcript:
    played = [Played(crossing=crossing, boundary=BoundaryState.FROZEN) for crossing in crossings]
    return Transcript(played=played, divergence=divergence, disposition=Disposition() if ended else None)


def read(steps: list[AlignedStep]) -> list[tuple[str | None, str | None, str]]:
    return [
        (
            None if step.recorded is None else f"{step.recorded.place} {step.name}",
            None if step.replayed is None else f"{step.replayed.place} {step.name}",
            step.status,
        )
        for step in steps
    ]


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")), st.booleans())
def test_no_step_is_lost_or_moved(left: str, right: str, ended: bool) -> None:  # noqa: FBT001 - drawn
    recorded, taken = calls(*left), calls(*right)
    steps = align(recorded, a_transcript(taken, ended=ended))
    assert [step.recorded for step in steps if step.recorded] == recorded
    assert [step.replayed for step in steps if step.replayed] == taken
    assert [step.position for step in steps] == list(range(len(steps)))
    assert all((step.recorded is None) == (step.status is Alignment.ONLY_REPLAYED) for step in steps)
    assert all((step.replayed is None) == (step.status is Alignment.ONLY_RECORDED) for step in steps)


@given(st.lists(st.sampled_from("abc")))
def test_run_aligns_with_itself(names: str) -> None:
    steps = align(calls(*names), a_transcript(calls(*names)))
    assert [step.status for step in steps] == [Alignment.SAME] * len(names)


def test_common_end_is_kept_together() -> None:
    steps = align(calls("a", "b", "b", "c"), a_transcript(calls("a", "b", "c")))
    assert read(steps) == [
        ("#1 a", "#1 a", "same"), ("#2 b", "#2 b", "same"), ("#3 b", None, "only_recorded"), ("#4 c", "#3 c", "same"),
    ]  # fmt: skip


def test_cut_short_run_has_no_common_end() -> None:
    steps = align(calls("a", "b", "a", "c", "b"), a_transcript(calls("a", "b"), ended=False))
    assert read(steps)[:2] == [("#1 a", "#1 a", "same"), ("#2 b", "#2 b", "same")]
    assert {step.status for step in steps[2:]} == {Alignment.ONLY_RECORDED}
    crossed = align(calls("a", "b", "c", "b"), a_transcript(calls("a", "c", "b"), ended=False))
    assert read(crossed)[-1] == ("#4 b", "#3 b", "same")


def test_hooks_stand_around_their_call() -> None:
    run = [
        Crossing(seq=1, kind=Kind.TOOL, name="pay"),
        Crossing(seq=1, sub=1, kind=Kind.GUARD, name="limit", at="before:pay"),
        Crossing(seq=1, sub=2, kind=Kind.HOOK, name="mask", at="after:pay"),
    ]
    assert [step.name for step in align(run, a_transcript(run))] == ["limit", "pay", "mask"]


def test_same_name_of_other_kind_differs() -> None:
    model = [Crossing(seq=1, kind=Kind.MODEL, name="a")]
    assert [step.status for step in align(calls("a"), a_transcript(model))] == ["only_recorded", "only_replayed"]


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        ({"seen": {"n": 750}}, {"seen": {"n": 750.0}}, []),
        ({"seen": {"n": 1}}, {"seen": {"n": 2}}, [("seen", "n")]),
        ({"shown": {"n": 1}}, {"shown": {}}, [("shown", ""), ("shown", "n")]),
        ({"raw": None}, {"raw": {}}, [("raw", "")]),
        ({"raw": UNSET}, {"raw": {"n": 1}}, []),
        ({}, {"error": ErrorRecord(cls="TimeoutError")}, [("error", "class"), ("error", "message")]),
        ({}, {"blocked_by": "limit"}, [("blocked_by", "")]),
    ],
)
def test_sides_differ_leaf_by_leaf(
    before: dict[str, object], after: dict[str, object], differs: list[tuple[str, str]]
) -> None:
    (crossing,) = calls("pay")
    one, other = (msgspec.structs.replace(crossing, **changed) for changed in (before, after))
    (step,) = align([one], a_transcript([other]))
    assert sorted((diff.side, diff.path) for diff in step.diffs) == differs
    assert step.status == ("changed" if differs else "same")


def test_unanswered_call_is_a_step() -> None:
    divergence = Diverged(kind=Divergence.STATE_MISMATCH, place="#2", boundary="tool:b", asked={})
    steps = align(calls("a", "b", "c"), a_transcript(calls("a"), divergence=divergence, ended=False))
    assert read(steps) == [
        ("#1 a", "#1 a", "same"),
        ("#2 b", "#2 b", "changed"),
        ("#3 c", None, "only_recorded"),
    ]
    assert [step.diverged for step in steps] == [False, True, False]
    assert steps[1].played is None


def test_answered_divergence_is_no_second_step() -> None:
    divergence = Diverged(kind=Divergence.WRITE_UNANSWERABLE, place="#2", boundary="tool:b")
    steps = align(calls("a", "b"), a_transcript(calls("a", "b"), divergence=divergence))
    assert [(step.status, step.diverged) for step in steps] == [("same", False), ("changed", True)]


def test_fixed_hook_changes_what_is_shown() -> None:
    recorded = a_run("refund:buggy", T_1042)
    steps = align(recorded.crossings, replayed("refund:hook_fixed", recorded))
    first = next(step for step in steps if step.status is not Alignment.SAME)
    assert (first.name, [(diff.side, diff.path, diff.replayed) for diff in first.diffs]) == (
        "get_order", [("shown", "policy_limit_gbp", 500)],
    )  # fmt: skip


def test_unreached_steps_follow_the_divergence() -> None:
    recorded = a_run("scheduling:buggy", TO_THURSDAY)
    steps = align(recorded.crossings, replayed("scheduling:fixed", recorded, PLANNER_LIVE))
    assert read(steps)[-3:] == [
        (None, "#5 list_open_slots", "only_replayed"),
        ("#5 send_confirmation", None, "only_recorded"),
        ("#6 planner", None, "only_recorded"),
    ]
    assert steps[-3].diverged


def test_steps_survive_the_wire() -> None:
    recorded = a_run("refund:buggy", T_1042)
    steps = align(recorded.crossings, replayed("refund:hook_fixed_and_guarded", recorded))
    assert [record_of(record_line(step), AlignedStep) for step in steps] == steps
