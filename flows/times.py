"""Instants, nights and windows as people write them on a command line or in a deployment. Light: it imports nothing of the pipeline."""

from datetime import UTC, date, datetime, timedelta
from typing import Self

from twiceshy.errors import InputError

DAY_NS = 86_400_000_000_000


class NoTime(InputError):
    """A date, an instant or a window that cannot be read."""

    @classmethod
    def written(cls, text: str, *, wanted: str) -> Self:
        """What was written, and what was wanted."""
        return cls(f"{text!r} is not {wanted}.")


def instant(text: str) -> datetime:
    """An instant, in UTC. Raises NoTime without a zone: a server and a person need not be in the same one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise NoTime.written(text, wanted="an instant with its zone, such as 2026-11-02T06:00+00:00")
    return found.astimezone(UTC)


def night(text: str) -> date:
    """A night, by its date. Raises NoTime."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise NoTime.written(text, wanted="a date, such as 2026-11-02") from None


def nights(last: date, count: int) -> list[date]:
    """So many nights that end with the last, oldest first."""
    return [last - timedelta(days=back) for back in reversed(range(count))]


def window(text: str) -> tuple[int | None, int | None]:
    """`2026-11-01/2026-11-08`: from the first day on, before the last; either side may be `..`. In ns since the epoch, days in UTC. Raises NoTime."""
    start, slash, end = text.partition("/")
    if not slash or start == end:
        raise NoTime.written(text, wanted="a window, such as 2026-11-01/2026-11-08 or 2026-11-01/..")
    return _start(start), _start(end)


def nanoseconds(when: datetime) -> int:
    """Nanoseconds since the epoch, to the microsecond."""
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def start_of(day: date) -> int:
    """The first instant of a day in UTC, in ns since the epoch."""
    return (day - date(1970, 1, 1)).days * DAY_NS


def _start(text: str) -> int | None:
    return None if text == ".." else start_of(night(text))
