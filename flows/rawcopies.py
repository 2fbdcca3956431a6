"""Looking at raw copies, which hold what no redaction has touched: listed without opening one, read only under a name and a reason."""

import getpass
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from flows import console
from flows.checkout import Checkout
from twiceshy.errors import InputError


def listed() -> list[str]:
    """A line a copy, by digest."""
    rows = [
        {"ref": kept.ref, "source": kept.source, "name": kept.name, "bytes": kept.bytes, "key": kept.key_id, "until": _day(kept.expires_at_ns)}
        for kept in _place().raw.labels()
    ]  # fmt: skip
    return console.lines(rows) or ["no raw copy is kept"]


def read(ref: str, why: str) -> bytes:
    """One copy, opened, once the reading is written down. Raises InputError without a reason; Unkept, KeyMissing, Unsealable."""
    if not why.strip():
        raise InputError("--why: say what the copy is read for; it is written to the log of readings.")
    place = _place()
    return place.raw.get(ref, place.keyring.key, reader=getpass.getuser(), why=why.strip(), at_ns=time.time_ns())


def readings() -> list[str]:
    """A line a reading, oldest first."""
    return list(_readings()) or ["no raw copy was read"]


def _readings() -> Iterator[str]:
    for reading in _place().raw.readings():
        yield f"{_instant(reading.at_ns)}  {reading.reader}  {reading.ref}  {' '.join(reading.why.split())}"


def _place() -> Checkout:
    return Checkout.at(".")


def _day(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC).date().isoformat()


def _instant(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC).isoformat()
