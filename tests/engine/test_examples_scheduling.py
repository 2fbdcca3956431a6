"""Each version of the scheduling agent does live what its name says; against the failed run its planner is judged live."""

import pytest

from examples.scheduling import TO_JULY_32, TO_THURSDAY, TO_WEDNESDAY
from examples.scheduling.diary import Diary
from sample_runs import a_run, replayed, status, tools
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Envelope, Kind
from twiceshy.outcome import Divergence, Mode

PLANNER_LIVE = CutPoint(mode=Mode.CUT_POINT, live=frozenset({"model:planner"}))


def days(envelope: Envelope) -> list[str]:
    asked = (crossing.seen for crossing in envelope.crossings if crossing.kind is Kind.TOOL)
    return [arguments["day"] for arguments in asked if "day" in arguments]


def test_buggy_confirms_a_full_day() -> None:
    diary = Diary()
    failed = a_run("scheduling:buggy", TO_THURSDAY, diary)
    assert tools(failed) == ["get_appointment", "list_open_slots", "send_confirmation"]
    assert days(failed) == ["Thursday"]
    assert "Thursday" in diary.confirmations[0]["body"]
    assert diary.get_appointment(appointment_id="K2207")["date"] == "2026-11-18"


@pytest.mark.parametrize("version", ["fixed", "july32_swallowed", "july32_corrected"])
def test_repaired_prompt_takes_friday(version: str) -> None:
    diary = Diary()
    moved = a_run(f"scheduling:{version}", TO_THURSDAY, diary)
    assert days(moved) == ["Thursday", "Friday"]
    assert tools(moved)[-2:] == ["reschedule", "send_confirmation"]
    assert diary.get_appointment(appointment_id="K2207")["date"] == "2026-11-13"
    assert "Friday 2026-11-13" in diary.confirmations[0]["body"]


def test_confirms_first_confirms_then_moves() -> None:
    names = tools(a_run("scheduling:confirms_first", TO_THURSDAY))
    assert names.index("send_confirmation") < names.index("reschedule")


@pytest.mark.parametrize("version", ["buggy", "fixed", "july32_corrected"])
def test_open_day_is_simply_taken(version: str) -> None:
    diary = Diary()
    assert tools(a_run(f"scheduling:{version}", TO_WEDNESDAY, diary))[2:] == ["reschedule", "send_confirmation"]
    assert diary.get_appointment(appointment_id="K2391")["date"] == "2026-11-11"


def test_july_32_is_swallowed_or_corrected() -> None:
    swallowed, corrected = (
        a_run("scheduling:july32_swallowed", TO_JULY_32),
        a_run("scheduling:july32_corrected", TO_JULY_32),
    )
    assert swallowed.disposition.output["status"] == "apologised"
    assert "31" not in swallowed.disposition.output["message"]
    assert corrected.disposition.output == {
        "status": "needs_correction",
        "message": "July 32 does not exist: July has 31 days. Did you mean July 31 or August 1?",
    }


@pytest.mark.parametrize(
    ("message", "ends"),
    [
        ("When do you come? K2207", "answered"),
        ("Move me to Friday.", "needs_information"),
        ("Please move K9999 to Friday.", "not_found"),
        ("Please move K2207 to 2026-11-14.", "moved"),
        ("Please move K2207 to December 31.", "moved"),
    ],
)
def test_other_requests_end_sensibly(message: str, ends: str) -> None:
    assert status(a_run("scheduling:fixed", {"message": message})) == ends


def test_same_clock_gives_same_bytes() -> None:
    assert a_run("scheduling:fixed", TO_THURSDAY).digest == a_run("scheduling:fixed", TO_THURSDAY).digest


def test_fixed_asks_for_unrecorded_friday() -> None:
    run_again = replayed("scheduling:fixed", a_run("scheduling:buggy", TO_THURSDAY), PLANNER_LIVE)
    assert run_again.divergence is not None
    assert run_again.divergence.kind is Divergence.ARGS_MISMATCH
    assert (run_again.divergence.boundary, run_again.divergence.asked) == ("tool:list_open_slots", {"day": "Friday"})


@pytest.mark.parametrize("version", ["buggy", "confirms_first"])
def test_replayed_confirmation_comes_unmoved(version: str) -> None:
    names = [
        played.crossing.name
        for played in replayed(f"scheduling:{version}", a_run("scheduling:buggy", TO_THURSDAY), PLANNER_LIVE).played
    ]
    assert "send_confirmation" in names
    assert "reschedule" not in names


def test_corrected_version_replays_to_its_end() -> None:
    run_again = replayed("scheduling:july32_corrected", a_run("scheduling:july32_swallowed", TO_JULY_32), PLANNER_LIVE)
    assert run_again.divergence is None
    assert run_again.disposition is not None
    assert run_again.disposition.output["status"] == "needs_correction"
