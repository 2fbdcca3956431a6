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


def test_impossible_date_is_no_instant() -> None:
    found = clock.told("Today is July 32, 2025.")
    assert found is not None
    assert clock.instant_ns(*found) is None


def test_nanoseconds_are_exact() -> None:
    assert clock.instant_ns("now 2026-11-03T09:14:22.123456789Z") == ns(2026, 11, 3, 9, 14, 22) + 123_456_789
