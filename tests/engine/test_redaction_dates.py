from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy.redaction import dates

SPELLINGS = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%B %d, %Y",
    "%d %B %Y",
    "%b %d %Y",
    "%B %d",
    "%Y-%m-%dT09:00:00Z",
]


@given(
    day=st.dates(date(1980, 1, 1), date(2035, 12, 31)),
    spelling=st.sampled_from(SPELLINGS),
    weeks=st.integers(-52, 52).filter(bool),
)
def test_shift_keeps_spelling_and_weekday(day: date, spelling: str, weeks: int) -> None:
    text = f"on {day.strftime(spelling)} please"
    found = dates.find(text)
    assert len(found) == 1
    moved = dates.shifted(found[0], 7 * weeks, day.year)
    new = day + timedelta(weeks=weeks)
    assert new.weekday() == day.weekday()
    assert moved is not None
    again = dates.find(moved)[0]
    assert (again.month, again.day) == (new.month, new.day)
    assert again.year in {None, new.year}


@pytest.mark.parametrize("text", ["July 32", "2024-02-30", "31/04/2024 or so", "February 30th, 2024", "2023-02-29"])
def test_impossible_date_is_kept(text: str) -> None:
    (found,) = dates.find(text)
    assert dates.shifted(found, 14, 2024) is None


@pytest.mark.parametrize(
    "text",
    [
        "hosted-eu-20260812-09",
        "gpt-4o-2024-08-06",
        "report-2024-05-15.json",
        "03:00:00+1",
        "v1.2.2024x",
        "1715800000",
        "550e8400-e29b-41d4-a716-446655440000",
        "May 20244",
        "10-15-8",
    ],
)
def test_machine_text_holds_no_date(text: str) -> None:
    assert dates.find(text) == []


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("May 20th", "June 3rd"),
        ("MAY 7", "MAY 21"),
        ("Sept. 5th", "Sep. 19th"),
        ("5/20/24", "6/3/24"),
        ("May 20-22", "June 3-5"),
        ("May 14 to 16, 2024", "May 28 to 30, 2024"),
        ("May 16-18", "May 30-June 1"),
        ("20th of May", "3rd of June"),
    ],
)
def test_spellings_survive(text: str, moved: str) -> None:
    (found,) = dates.find(text)
    assert dates.shifted(found, 14, 2024) == moved


def test_ambiguous_reading_follows_region() -> None:
    (american,) = dates.find("05/06/2024", month_first=True)
    (british,) = dates.find("05/06/2024", month_first=False)
    assert (american.month, british.month) == (5, 6)
    assert american.ambiguous
    assert british.ambiguous
    (clear,) = dates.find("25/12/2024", month_first=True)
    assert (clear.month, clear.ambiguous) == (12, False)


def test_instants_move_in_wall_time() -> None:
    summer = datetime(2024, 7, 1, 12, tzinfo=UTC)
    moved = dates.shifted_instant(int(summer.timestamp()) * 10**9, -7 * 20, "Europe/London")
    assert datetime.fromtimestamp(moved / 10**9, UTC) == datetime(2024, 2, 12, 13, tzinfo=UTC)
    in_utc = dates.shifted_instant(int(summer.timestamp()) * 10**9 + 5, -7 * 20, "UTC")
    assert in_utc == int(datetime(2024, 2, 12, 12, tzinfo=UTC).timestamp()) * 10**9 + 5


def test_moment_moves_like_its_instant() -> None:
    summer = datetime(2024, 7, 1, 12, 0, 0, 5, tzinfo=UTC)
    moved = dates.shifted_moment(summer, -7 * 20, "Europe/London")
    assert moved == datetime(2024, 2, 12, 13, 0, 0, 5, tzinfo=UTC)


def test_unknown_zone_counts_as_utc() -> None:
    assert dates.shifted_instant(5, 7, "Not/AZone") == 5 + 7 * dates.DAY_NS


@given(st.integers(0, 103))
def test_shift_is_whole_weeks(drawn: int) -> None:
    days = dates.days_of(lambda below: drawn % below)
    assert days % 7 == 0
    assert 0 < abs(days) <= 364
