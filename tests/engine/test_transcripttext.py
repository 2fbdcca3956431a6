from typing import Any

from builders import (
    a_case,
    a_crossing,
    a_divergence,
    a_guard,
    a_model,
    a_played,
    a_policy,
    a_transcript,
    a_write,
    an_envelope,
    some_invariants,
)
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Crossing, Disposition, Effect, ErrorRecord, Kind
from twiceshy.grading import case_grader
from twiceshy.outcome import AnsweredBy, Divergence
from twiceshy.reporting import colours
from twiceshy.reporting.transcripttext import Options, render
from twiceshy.transcript import Diverged, FieldDiff, Near, Played

POLICY = a_policy(get_order="read", issue_refund="write", send_message="write")
NO_LARGE = {
    "id": "no-large-refund",
    "kind": "must_not",
    "at": {"tool": "issue_refund"},
    "when": "args.amount > 500",
    "message": "too large",
}
ORDER = {"limit": 500, "item": "desk"}
RECORD = (
    a_crossing(1, "planner", kind=Kind.MODEL, effect=None),
    a_crossing(2, "get_order", raw=ORDER, shown={"item": "desk"}),
    a_crossing(3, "planner", kind=Kind.MODEL, effect=None),
    a_crossing(4, "issue_refund", effect=Effect.WRITE, seen={"amount": 750}),
    a_crossing(5, "send_message", effect=Effect.WRITE),
)


def shown(*played: Played, record: tuple[Crossing, ...] = RECORD, options: Options | None = None, **ending: Any) -> str:
    envelope = an_envelope(*record)
    transcript = a_transcript(*played, **ending)
    verdict = case_grader(a_case(envelope), some_invariants(NO_LARGE), POLICY).trial(transcript, CutPoint())
    return render(envelope, transcript, verdict, options)


def alike(*, shown_order: Any = None) -> list[Played]:
    order = a_played(2, "get_order", raw=ORDER, shown=shown_order or {"item": "desk"}, answered_by=AnsweredBy.RECORDED)
    return [a_model(1), order, a_model(3), a_write(4, "issue_refund", seen={"amount": 750})]


def test_violation_stands_at_its_step() -> None:
    lines = shown(*alike(), a_write(5, "send_message")).splitlines()
    assert lines[0].endswith("FAILED (invariant), see #4")
    at = next(number for number, line in enumerate(lines) if ">#4 tool issue_refund [intercepted]" in line)
    assert "no-large-refund (hard): too large" in lines[at + 1]


def test_badges_name_what_the_replay_did() -> None:
    guarded = [
        *alike()[:3],
        a_guard(4, "issue_refund", blocked=True),
        a_write(4, "issue_refund", seen={"amount": 750}, blocked_by="refund-approval"),
    ]
    text = shown(*guarded, options=Options(whole=True))
    assert "#2 tool get_order [frozen] by recorded" in text
    assert "#4.1 guard refund-approval [live]" in text
    assert "#4 tool issue_refund [intercepted], blocked by refund-approval" in text


def test_middleware_shows_both_sides() -> None:
    text = shown(*alike())
    assert "raw to shown limit: removed" in text
    fixed = shown(*alike(shown_order=ORDER))
    assert "shown limit: added" in fixed
    assert "raw to shown" not in fixed


def test_values_are_shown_only_on_request() -> None:
    changed = [*alike()[:3], a_write(4, "issue_refund", seen={"amount": 751})]
    assert "750" not in shown(*changed)
    assert "seen amount: 750 -> 751" in shown(*changed, options=Options(payloads=True))


def test_divergence_names_the_nearest() -> None:
    near = Near(place="#2", reason="other arguments", fields=[FieldDiff(path="day", recorded="Thu", got="Fri")])
    diverged = Diverged(
        kind=Divergence.ARGS_MISMATCH, place="#5", boundary="tool:get_order", nearest=[near], asked={"day": "Fri"}
    )
    text = shown(*alike()[:3], divergence=diverged)
    assert "#5 tool get_order [unanswered]" in text
    assert "diverged at #5 tool:get_order: args_mismatch, the name was recorded, but not with these arguments" in text
    assert "nearest #2: other arguments" in text
    assert "day: changed" in text
    assert "Fri" not in text
    assert "day: 'Thu' -> 'Fri'" in shown(*alike()[:3], divergence=diverged, options=Options(payloads=True))


def test_unreached_steps_are_named() -> None:
    text = shown(*alike()[:2])
    assert "- " in text
    assert "#5 tool send_message [not reached]" in text
    assert "opportunity_not_reached" in text


def test_identical_beginning_is_one_line() -> None:
    record = (
        *(a_crossing(seq, "get_order", seen={"n": seq}) for seq in range(1, 6)),
        a_crossing(6, "issue_refund", effect=Effect.WRITE, seen={"amount": 750}),
    )
    played = [
        *(a_played(seq, "get_order", seen={"n": seq}) for seq in range(1, 6)),
        a_write(6, "issue_refund", seen={"amount": 750}),
    ]
    text = shown(*played, record=record)
    assert "#1 to #5: 5 steps as recorded" in text
    assert "#3 tool get_order" not in text
    assert "#3 tool get_order" in shown(*played, record=record, options=Options(whole=True))


def test_a_crash_says_what_was_raised() -> None:
    paid = a_crossing(4, "issue_refund", effect=Effect.WRITE, seen={"amount": 75})
    record = (*RECORD[:3], paid)
    steps = [*alike()[:3], a_write(4, "issue_refund", seen={"amount": 75})]
    raised = Disposition(ended=False, error=ErrorRecord(cls="builtins.KeyError", type="KeyError", message="'order'"))
    told = shown(*steps, record=record, disposition=raised, options=Options(payloads=True))
    assert told.splitlines()[0].endswith("FAILED (candidate_crashed)")
    assert "! the agent raised builtins.KeyError: 'order'" in told
    assert "'order'" not in shown(*steps, record=record, disposition=raised)
    assert "! its process ended before the agent returned" in shown(*steps, record=record, crash="crashed")
    assert "! its process" not in shown(*steps, record=record)


def test_hostile_names_are_harmless() -> None:
    hostile = "\x1b[31mx\u202ey\n::error::z"
    text = shown(a_played(1, hostile), divergence=a_divergence(boundary=f"tool:{hostile}"))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]


def test_deciding_step_stands_out() -> None:
    assert [line for line in shown(*alike()).splitlines() if ">#" in line] == [
        "- >#4 tool issue_refund [intercepted]".replace("-", " ", 1)
    ]


def test_refusal_for_writes_names_them() -> None:
    near = Near(place="#5", reason="other writes came before it")
    diverged = Diverged(kind=Divergence.STATE_MISMATCH, place="#5", boundary="tool:send_message", nearest=[near])
    played = [*alike()[:3], a_write(4, "issue_refund", seen={"amount": 750}, blocked_by="limit")]
    text = shown(*played, divergence=diverged)
    assert "#5 was recorded after issue_refund #4; here it comes after no write" in text


def test_difference_on_both_sides_is_told_once() -> None:
    order = a_played(2, "get_order", raw={"limit": 500, "item": "lamp"}, shown={"item": "lamp"})
    text = shown(a_model(1), order, options=Options(payloads=True))
    assert text.count("'desk' -> 'lamp'") == 1
    assert "raw and shown item: 'desk' -> 'lamp'" in text


def test_texts_differ_line_by_line() -> None:
    record = (a_crossing(1, "get_order", seen={"text": "one\ntwo\nthree"}),)
    text = shown(
        a_played(1, "get_order", seen={"text": "one\n2\nthree"}), record=record, options=Options(payloads=True)
    )
    assert "- two" in text
    assert "+ 2" in text
    assert "- one" not in text


def test_long_values_are_shown_where_they_differ() -> None:
    record = (a_crossing(1, "get_order", seen={"text": "x" * 300 + "left" + "y" * 300}),)
    text = shown(
        a_played(1, "get_order", seen={"text": "x" * 300 + "right" + "y" * 300}), record=record, options=Options(payloads=True)
    )  # fmt: skip
    assert "left" in text
    assert "right" in text
    assert max(map(len, text.splitlines())) < 250


def test_colour_only_where_it_is_wanted() -> None:
    text = shown(*alike())
    assert "\x1b" not in text
    assert colours.painted(text).replace("\x1b[0m", "").count("\x1b") >= 2
    assert colours.wanted({}, terminal=True)
    assert not colours.wanted({}, terminal=False)
    assert not colours.wanted({"NO_COLOR": "1"}, terminal=True)
    assert not colours.wanted({"TERM": "dumb"}, terminal=True)
