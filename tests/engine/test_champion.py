import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import some_invariants
from twiceshy.champion import (
    Champion,
    Pin,
    compared,
    differences,
    harness_state,
    idle_waivers,
    load,
    pinned,
    save,
    waivers_path,
)
from twiceshy.envelope import Versions
from twiceshy.errors import ConfigurationError, FormatError, InputError
from twiceshy.outcome import Outcome
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.verdict import CallRef, Result, Waiver
from verdicts import a_mode, a_result, a_verdict

VIOLATED = "refund-over-limit-missing-approval"


def a_pin(outcome: Outcome = Outcome.FAILED, **given: Any) -> Pin:
    violated = [VIOLATED] if outcome is Outcome.FAILED else []
    usual = {
        "case": "refund-over-limit",
        "case_digest": "c" * 64,
        "harness": "h1",
        "mode": "full",
        "outcome": outcome,
        "violated": violated,
    }
    return Pin(**{**usual, **given})


def a_waiver(**given: Any) -> Waiver:
    usual = {
        "id": "w1",
        "case": "refund-over-limit",
        "assertions": [VIOLATED],
        "by": "@ann",
        "date": "2026-06-01",
        "why": "fix is on its way",
    }
    return Waiver(**{**usual, **given})


def against(result: Result, *pins: Pin, waivers: tuple[Waiver, ...] = (), today: str = "2026-06-02") -> Result:
    champion = Champion(workflow="refund", ref="examples.refund:guarded", pins=list(pins), waivers=list(waivers))
    return compared(result, champion, harness="h1", today=today)


FAILED = a_result(Outcome.FAILED)


def test_change_names_what_the_champion_did() -> None:
    assert against(FAILED).change == "new"
    assert against(FAILED, a_pin()).change == "known"
    assert against(FAILED, a_pin(Outcome.PASSED)).change == "regressed"
    assert against(FAILED, a_pin(Outcome.DIVERGED)).change == "regressed"
    assert against(FAILED, a_pin(violated=["another"])).change == "regressed"
    assert against(a_result(), a_pin()).change is None
    assert compared(FAILED, None, harness="h1", today="2026-06-02").change == "new"


def test_pins_hold_for_exactly_this() -> None:
    for other in ({"case_digest": "d" * 64}, {"harness": "h2"}, {"mode": "cut-point"}):
        assert against(FAILED, a_pin(**other)).change == "new"


def test_known_failure_needs_a_waiver() -> None:
    assert against(FAILED, a_pin()).red
    assert not against(FAILED, a_pin(), waivers=(a_waiver(),)).red
    assert against(FAILED, a_pin(Outcome.PASSED), waivers=(a_waiver(),)).red
    assert against(FAILED, waivers=(a_waiver(),)).red


@pytest.mark.parametrize(
    "wrong",
    [{"case": "another"}, {"assertions": ["another"]}, {"date": "2026-06-03"}, {"until": "2026-06-01"}],
    ids=str,
)
def test_waiver_covers_only_what_it_says(wrong: dict[str, Any]) -> None:
    assert against(FAILED, a_pin(), waivers=(a_waiver(**wrong),)).red


def test_waiver_holds_to_its_last_day() -> None:
    assert not against(FAILED, a_pin(), waivers=(a_waiver(until="2026-06-02"),)).red


def test_every_failed_mode_must_be_known() -> None:
    both = a_result(
        Outcome.FAILED, modes=[a_mode(Outcome.FAILED), a_mode(Outcome.FAILED, "cut-point", violated=["other"])]
    )
    cut = a_pin(mode="cut-point", violated=["other"])
    assert against(both, a_pin()).change == "regressed"
    assert against(both, a_pin(), cut).change == "known"
    assert against(both, a_pin(), cut, waivers=(a_waiver(),)).red
    assert not against(both, a_pin(), cut, waivers=(a_waiver(assertions=[VIOLATED, "other"]),)).red


@pytest.mark.parametrize("other", list(Outcome))
def test_waiver_needs_every_mode_judged(other: Outcome) -> None:
    both = a_result(Outcome.FAILED, modes=[a_mode(Outcome.FAILED), a_mode(other, "cut-point")])
    found = against(both, a_pin(), a_pin(other, mode="cut-point"), waivers=(a_waiver(),))
    assert found.change == "known"
    assert found.red == (other in (Outcome.ERROR, Outcome.DIVERGED))


@pytest.mark.parametrize("other", list(Outcome))
def test_champion_came_to_the_worst_of_its_modes(other: Outcome) -> None:
    both = a_result(modes=[a_mode(), a_mode(mode="cut-point")])
    assert against(both, a_pin(Outcome.PASSED), a_pin(other, mode="cut-point")).previous_outcome is other
    assert against(both, a_pin(other, mode="cut-point")).previous_outcome is other
    assert against(both, a_pin(other, mode="world")).previous_outcome is None


def test_crash_is_not_a_known_violation() -> None:
    crashed = a_result(Outcome.FAILED, modes=[a_mode(Outcome.FAILED, violated=["candidate_crashed"])])
    assert against(crashed, a_pin()).change == "regressed"


def test_lost_pass_is_seen_in_any_mode() -> None:
    diverged = a_result(Outcome.DIVERGED)
    assert against(diverged, a_pin(Outcome.PASSED)).lost
    assert not against(diverged, a_pin(Outcome.DIVERGED)).lost
    assert not against(diverged).lost
    mixed = a_result(Outcome.FAILED, modes=[a_mode(Outcome.FAILED), a_mode(Outcome.DIVERGED, "cut-point")])
    assert against(mixed, a_pin(), a_pin(Outcome.PASSED, mode="cut-point")).lost


def test_pinning_and_comparing_agree(tmp_path: Path) -> None:
    path = tmp_path / "champion" / "refund.json"
    verdict = a_verdict(FAILED, a_result(Outcome.ERROR))
    champion = pinned(verdict, Versions(), waivers=[a_waiver()])
    save(path, champion)
    save(path, champion)
    read = load(path)
    assert read == msgspec.structs.replace(champion, waivers=[])
    assert [pin.outcome for pin in read.pins] == [Outcome.FAILED]
    assert compared(FAILED, read, harness="h1", today="2026-06-02").change == "known"
    assert [file.name for file in path.parent.iterdir()] == ["refund.json"]


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"", FormatError, "refund.json: "),
        (b'{"format": "twiceshy/champion/9"}', FormatError, "Pin the champion again"),
        (
            b'{"format": "twiceshy/champion/1", "workflow": "refund", "ref": "x", "pin": []}',
            FormatError,
            "unknown field `pin`",
        ),
    ],
    ids=["empty", "format", "field"],
)
def test_bad_file_is_one_line(tmp_path: Path, content: bytes, error: type[InputError], says: str) -> None:
    path = tmp_path / "refund.json"
    path.write_bytes(content)
    with pytest.raises(error, match=says) as raised:
        load(path)
    assert "\n" not in str(raised.value)


def waived(path: Path, *waivers: dict[str, Any], workflow: str = "refund") -> Path:
    """A champion with waivers beside it."""
    save(path, Champion(workflow="refund", ref="x"))
    waivers_path(path).write_text(json.dumps({"workflow": workflow, "waivers": waivers}), encoding="utf-8")
    return path


def plain_waiver(**given: Any) -> dict[str, Any]:
    return msgspec.to_builtins(a_waiver(**given))  # type: ignore[no-any-return]


def test_waivers_are_read_from_beside(tmp_path: Path) -> None:
    path = waived(tmp_path / "refund.json", plain_waiver(), plain_waiver(id="w2"))
    assert load(path).waivers == [a_waiver(), a_waiver(id="w2")]
    before = waivers_path(path).read_bytes()
    save(path, load(path))
    assert waivers_path(path).read_bytes() == before
    assert load(path).waivers == [a_waiver(), a_waiver(id="w2")]


@pytest.mark.parametrize(
    ("given", "today", "why"),
    [
        ({}, "2026-06-02", None),
        ({"until": "2026-06-02"}, "2026-06-02", None),
        ({"until": "2026-06-02"}, "2026-06-03", "it was valid until 2026-06-02, and today is 2026-06-03"),
        ({}, "2026-05-31", "it is dated 2026-06-01, and today is 2026-05-31"),
        (
            {"case": "refund-over-limt"},
            "2026-06-02",
            "holds no case 'refund-over-limt'. Did you mean 'refund-over-limit'?",
        ),
    ],
)
def test_waiver_that_excuses_nothing_is_named(given: dict[str, Any], today: str, why: str | None) -> None:
    said = idle_waivers([a_waiver(**given)], ["refund-over-limit"], today)
    assert ["waiver 'w1' excuses nothing" in line and str(why) in line for line in said] == ([True] if why else [])
    assert against(FAILED, a_pin(), waivers=(a_waiver(**given),), today=today).red is bool(said)


def test_waiver_needs_no_quotes_round_its_date(tmp_path: Path) -> None:
    path = waived(tmp_path / "refund.json")
    text = "workflow: refund\nwaivers:\n- {id: w1, case: a, assertions: [b], by: '@ann', date: 2026-06-01, why: soon}\n"
    waivers_path(path).write_text(text)
    assert load(path).waivers[0].date == "2026-06-01"


@pytest.mark.parametrize(
    ("waivers", "workflow", "says"),
    [
        ([plain_waiver(), plain_waiver()], "refund", "the waiver id 'w1' stands twice"),
        ([plain_waiver()], "scheduling", "waivers of 'scheduling'"),
        ([{**plain_waiver(), "untill": "2026-06-02"}], "refund", "unknown key 'untill'.*Did you mean 'until'"),
    ],
)
def test_waivers_that_cannot_be_meant(tmp_path: Path, waivers: list[Any], workflow: str, says: str) -> None:
    path = waived(tmp_path / "refund.json", *waivers, workflow=workflow)
    with pytest.raises(ConfigurationError, match=says) as raised:
        load(path)
    assert "refund.waivers.yaml:1" in str(raised.value)


def test_pinned_waiver_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "refund.json"
    path.write_bytes(msgspec.json.encode(Champion(workflow="refund", ref="x", waivers=[a_waiver()])))
    with pytest.raises(ConfigurationError, match=r"Move them to refund\.waivers\.yaml"):
        load(path)


@pytest.mark.parametrize(
    "wrong", [{"by": ""}, {"why": ""}, {"assertions": []}, {"date": "soon"}, {"until": "2026-13-01"}], ids=str
)
def test_bare_waiver_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    path = waived(tmp_path / "refund.json", plain_waiver(**wrong))
    with pytest.raises(ConfigurationError, match="waiver 'w1'"):
        load(path)


def test_missing_file_is_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="champion pin -c"):
        load(tmp_path / "refund.json")


def test_harness_state_follows_what_judges() -> None:
    policy = ToolsPolicy(workflow="refund")
    first = harness_state(some_invariants(), policy)
    assert first == harness_state(some_invariants(), policy)
    assert first != harness_state(some_invariants(checks={"no_loop": 3}), policy)
    assert first != harness_state(some_invariants(), ToolsPolicy(workflow="refund", tools={"a": ToolPolicy()}))


def test_calls_of_a_pass_are_pinned(tmp_path: Path) -> None:
    path = tmp_path / "refund.json"
    calls = [CallRef(tool="get_order", args={"order_id": "d" * 64})]
    passed = a_result(modes=[a_mode(calls=calls), a_mode(Outcome.DIVERGED, "cut-point", calls=calls)])
    save(path, pinned(a_verdict(passed), Versions()))
    assert load(path).calls("c" * 64, "h1") == {"full": calls}
    assert load(path).calls("c" * 64, "h2") == load(path).calls("d" * 64, "h1") == {}


def a_champion(*pins: Pin) -> Champion:
    return Champion(workflow="refund", ref="x", pins=list(pins))


def test_difference_names_what_changed() -> None:
    before = a_champion(a_pin(Outcome.PASSED), a_pin(mode="cut-point"), a_pin(case="gone", mode="full"))
    after = a_champion(a_pin(violated=["b"]), a_pin(mode="cut-point", trials=9), a_pin(case="new", mode="full"))
    found = differences(before, after)
    assert [(one.case, one.mode, one.before, one.after) for one in found] == [
        ("gone", "full", Outcome.FAILED, None),
        ("new", "full", None, Outcome.FAILED),
        ("refund-over-limit", "full", Outcome.PASSED, Outcome.FAILED),
    ]
    assert (found[2].violated_before, found[2].violated_after) == ([], ["b"])
    assert differences(before, before) == []


def test_difference_of_ids_alone_counts() -> None:
    assert len(differences(a_champion(a_pin()), a_champion(a_pin(violated=["other"])))) == 1


def test_result_of_another_case_is_no_result() -> None:
    """What a version came to on other content, or under other rules, says nothing of this: gone and new."""
    for other in ({"case_digest": "d" * 64}, {"harness": "h2"}):
        found = differences(a_champion(a_pin()), a_champion(a_pin(**other)))
        assert sorted((one.before is None, one.after is None) for one in found) == [(False, True), (True, False)]


def test_trials_of_a_pin_stand_beside_the_result() -> None:
    passed = a_result(modes=[a_mode(trials=4, passed=3)])
    champion = pinned(a_verdict(passed), Versions())
    (mode,) = compared(passed, champion, harness="h1", today="2026-06-02").modes
    assert (mode.previous, mode.previous_trials, mode.previous_passed) == (Outcome.PASSED, 4, 3)
