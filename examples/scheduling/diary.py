"""A small in-memory diary of installation appointments: what the scheduling agent's tools work on when a run is live."""

from __future__ import annotations

import calendar
import copy
import re
from datetime import date, timedelta
from typing import Any

MONTHS = tuple(calendar.month_name)[1:]
WEEKDAYS = tuple(calendar.day_name)
_MONTH_DAY = re.compile(rf"({'|'.join(MONTHS)}) (\d{{1,2}})")

_A_LEAP_AND_A_COMMON_YEAR = (2028, 2027)

# The Tuesday of the failed run.
TODAY = date(2026, 11, 10)

# Invented people. The addresses are in domains reserved for examples; a local number never starts with 0, so these are nobody's.
APPOINTMENTS: dict[str, dict[str, Any]] = {
    "K2207": {
        "appointment_id": "K2207", "job": "solar panel installation", "date": "2026-11-18", "window": "09:00-12:00",
        "address": "27 Larch Road, Stirling",
        "customer": {"name": "Aled Pritchard", "email": "aled.pritchard@example.com", "phone": "+44 117 010 0208"},
    },
    "K2391": {
        "appointment_id": "K2391", "job": "heat pump installation", "date": "2026-11-16", "window": "13:00-16:00",
        "address": "5 Quay Parade, Whitby",
        "customer": {"name": "Ines Carvalho", "email": "ines.c@example.net", "phone": "+44 117 010 0773"},
    },
}  # fmt: skip

# Open slots by weekday, for any week. Thursday is full.
SLOTS: dict[str, list[dict[str, str]]] = {
    "Monday": [{"slot_id": "S102", "window": "09:00-12:00"}],
    "Tuesday": [{"slot_id": "S205", "window": "13:00-16:00"}],
    "Wednesday": [{"slot_id": "S311", "window": "09:00-12:00"}, {"slot_id": "S312", "window": "13:00-16:00"}],
    "Thursday": [],
    "Friday": [{"slot_id": "S517", "window": "13:00-16:00"}],
}


class Diary:
    """Appointments, open slots and sent confirmations of one run. Every answer is a copy."""

    def __init__(
        self,
        *,
        today: date = TODAY,
        appointments: dict[str, dict[str, Any]] = APPOINTMENTS,
        slots: dict[str, list[dict[str, str]]] = SLOTS,
    ) -> None:
        self._today = today
        self._appointments = copy.deepcopy(appointments)
        self._slots = slots
        self._listed: dict[str, tuple[date, str]] = {}
        self.confirmations: list[dict[str, Any]] = []

    def get_appointment(self, *, appointment_id: str) -> dict[str, Any]:
        """The appointment with its customer. Raises LookupError for an unknown id."""
        return copy.deepcopy(self._found(appointment_id))

    def list_open_slots(self, *, day: str) -> dict[str, Any]:
        """The open slots of a weekday (the next one), of a month and day ("July 3"), or of an ISO date. Raises ValueError for a day that does not exist."""
        wanted = _next(day, self._today)
        slots = copy.deepcopy(self._slots.get(WEEKDAYS[wanted.weekday()], []))
        self._listed |= {slot["slot_id"]: (wanted, slot["window"]) for slot in slots}
        return {"day": WEEKDAYS[wanted.weekday()], "date": wanted.isoformat(), "slots": slots}

    def reschedule(self, *, appointment_id: str, slot_id: str) -> dict[str, Any]:
        """Move an appointment into a slot that was listed. Raises LookupError for an unknown one."""
        appointment = self._found(appointment_id)
        if slot_id not in self._listed:
            raise LookupError(f"slot {slot_id} is not open")
        moved_to, window = self._listed.pop(slot_id)
        appointment.update(date=moved_to.isoformat(), window=window)
        return {"appointment_id": appointment_id, "slot_id": slot_id, "status": "moved"}

    def send_confirmation(self, *, appointment_id: str, to: str, body: str) -> dict[str, Any]:
        """Write to a customer about their appointment."""
        self.confirmations.append({"appointment_id": appointment_id, "to": to, "body": body})
        return {"confirmation_id": f"F-{len(self.confirmations):03}", "queued": True}

    def _found(self, appointment_id: str) -> dict[str, Any]:
        if appointment_id not in self._appointments:
            raise LookupError(f"appointment {appointment_id} not found")
        return self._appointments[appointment_id]


def check_date(*, date: str) -> dict[str, Any]:
    """Whether a month and a day ("July 3") exist in some year, and if not, how many days the month has: a pure tool."""
    named = _MONTH_DAY.fullmatch(date)
    if named is None:
        return {"exists": False}
    month = named[1]
    days = max(calendar.monthrange(year, MONTHS.index(month) + 1)[1] for year in _A_LEAP_AND_A_COMMON_YEAR)
    return {"exists": True} if 1 <= int(named[2]) <= days else {"exists": False, "month": month, "days": days}


def _next(day: str, today: date) -> date:
    """The first such day after today."""
    if day in WEEKDAYS:
        return today + timedelta(days=(WEEKDAYS.index(day) - today.weekday() - 1) % 7 + 1)
    named = _MONTH_DAY.fullmatch(day)
    if named is None:
        return date.fromisoformat(day)
    month, number = MONTHS.index(named[1]) + 1, int(named[2])
    year = today.year if (month, number) > (today.month, today.day) else today.year + 1
    length = calendar.monthrange(year, month)[1]
    if not 1 <= number <= length:
        raise ValueError(f"{day} does not exist: {named[1]} has {length} days")
    return date(year, month, number)
