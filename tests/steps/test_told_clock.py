from datetime import UTC, datetime

import pytest

from tasks.sources import clock


def ns(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1_000_000_000  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "told", "instant", "zone"),
    [
        ("The current time is 2024-05-15 15:00:00 EST.", "2024-05-15 15:00:00 EST", ns(2024, 5, 15, 20), "Etc/GMT+5"),
        ("Now: Tuesday 2026-11-03 09:14 GMT.", "Tuesday 2026-11-03 09:14 GMT", ns(2026, 11, 3, 9, 14), "UTC"),
        ("Today is July 02, 2025.", "July 02, 2025", ns(2025, 7, 2), "UTC"),
        (
            "Current date and time: 2026-11-03T09:14:22+01:00",
            "2026-11-03T09:14:22+01:00",
            ns(2026, 11, 3, 8, 14, 22),
            "Etc/GMT-1",
        ),
        (
            "current date: 2026-07-03 09:14 (Europe/London)",
            "2026-07-03 09:14 (Europe/London)",
            ns(2026, 7, 3, 8, 14),
            "Europe/London",
        ),
    ],
)
def test_told_clock_is_read(text: str, told: str, instant: int, zone: str) -> None:
    found = clock.told(text)
    assert found is not None
    assert (found.text, clock.instant_ns(*found), clock.zone_name(found.tz)) == (told, instant, zone)


def test_date_without_zone_says_so() -> None:
    found = clock.told("Today is July 02, 2025.")
    assert found is not None
    assert found.tz is None


def test_other_dates_are_no_clock() -> None:
    assert clock.told("Please book for 2024-05-20, or July 3, 2025.") is None


@pytest.mark.parametrize(
    "text",
    [
        'For "last 7 days": if today is 2025-08-23 then from 2025-08-16.', "Suppose the current date is 2025-08-23.", "E.g. when now is 2025-08-23 09:00 UTC, say so.",
        "The current time is 2024-05-15 15:00:00 EST. Today is 2024-05-16.",
    ],
    ids=["if", "suppose", "example", "two days"],
)  # fmt: skip
def test_what_a_text_supposes_or_contradicts_is_no_clock(text: str) -> None:
    assert clock.told(text) is None


def test_clock_told_twice_is_the_one_with_the_time() -> None:
    found = clock.told("If you can, be brief. Today is May 15, 2024. The current time is 2024-05-15 15:00:00 EST.")
    assert found is not None
    assert found.text == "2024-05-15 15:00:00 EST"


def test_impossible_date_is_no_instant() -> None:
    found = clock.told("Today is July 32, 2025.")
    assert found is not None
    assert clock.instant_ns(*found) is None


def test_nanoseconds_are_exact() -> None:
    assert clock.instant_ns("now 2026-11-03T09:14:22.123456789Z") == ns(2026, 11, 3, 9, 14, 22) + 123_456_789
