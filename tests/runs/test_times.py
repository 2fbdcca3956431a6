from datetime import date

import pytest

from flows import times
from twiceshy.errors import InputError


def test_window_is_days_in_utc() -> None:
    assert times.window("1970-01-02/1970-01-03") == (times.DAY_NS, 2 * times.DAY_NS)
    assert times.window("1970-01-02/..") == (times.DAY_NS, None)


@pytest.mark.parametrize("text", ["2026-11-01", "2026-11-01/soon", "../..", "/"])
def test_unreadable_window_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        times.window(text)


@pytest.mark.parametrize("text", ["2026-11-01T06:00", "yesterday", "2026-13-01T00:00+00:00"])
def test_instant_needs_a_zone(text: str) -> None:
    with pytest.raises(InputError, match="zone"):
        times.instant(text)


def test_instant_in_nanoseconds() -> None:
    assert times.nanoseconds(times.instant("1970-01-01T01:00:00.000001+01:00")) == 1000


def test_nights_end_with_the_last() -> None:
    assert times.nights(date(2026, 11, 2), 3) == [date(2026, 10, 31), date(2026, 11, 1), date(2026, 11, 2)]
