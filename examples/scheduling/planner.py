"""The scheduling agent's model, as a scripted policy: what it does next follows from the prompt, the user and the results it is shown."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from examples.conversation import Conversation, final
from examples.scheduling.diary import MONTHS, WEEKDAYS

if TYPE_CHECKING:
    from examples.conversation import Result

MODEL = "scheduling-planner-1"

APPOINTMENT = re.compile(r"\bK\d{4}\b")
DAY = re.compile(rf"\b(?:{'|'.join(WEEKDAYS)}|(?:{'|'.join(MONTHS)}) \d{{1,2}}|\d{{4}}-\d{{2}}-\d{{2}})\b")
LOOK_ON = "look at the next working day"
CONFIRM_FIRST = "Confirm to the customer first"
SAY_SO = "If a date does not exist, say so"


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """The next output: a proposal or a final answer."""
    talk = Conversation.read(request)
    asked = DAY.search(talk.user)
    known = talk.last("get_appointment")
    if known is None:
        return _look_up(talk, asked and asked.group())
    if not known.ok:
        return final(
            "not_found", f"I cannot find appointment {known.arguments['appointment_id']}. Is the number right?"
        )
    if asked is None:
        window = f"{known.response['date']}, {known.response['window']}"
        return final("answered", f"Your {known.response['job']} is planned for {window}.")
    return _move(talk, known.response, asked.group())


def _look_up(talk: Conversation, asked: str | None) -> dict[str, Any]:
    """The appointment, and in the same turn the slots of the day asked for; a month and day are checked first."""
    number = APPOINTMENT.search(talk.user)
    if number is None:
        return final("needs_information", "Which appointment is it about? Please send me its number.")
    calls = [("get_appointment", {"appointment_id": number.group()})]
    if asked is not None:
        calls.append(("check_date", {"date": asked}) if _is_month_day(asked) else ("list_open_slots", {"day": asked}))
    return talk.propose(*calls)


def _move(talk: Conversation, appointment: dict[str, Any], asked: str) -> dict[str, Any]:
    checked = talk.value("check_date")
    if checked is not None and not checked["exists"]:
        return _impossible(talk, asked, checked)
    listed = talk.all("list_open_slots")
    if not listed:
        return talk.propose(("list_open_slots", {"day": asked}))
    if not listed[-1].ok:
        return _impossible(talk, asked, {})
    if not listed[-1].response["slots"]:
        return _full(talk, appointment, asked, listed)
    slot = {**listed[-1].response, **listed[-1].response["slots"][0]}
    return _take(talk, appointment, slot)


def _is_month_day(asked: str) -> bool:
    return asked.split(maxsplit=1)[0] in MONTHS


def _impossible(talk: Conversation, asked: str, checked: dict[str, Any]) -> dict[str, Any]:
    """An impossible day: corrected where the prompt says so, otherwise swallowed with an apology."""
    if SAY_SO not in talk.system:
        return final("apologised", "Sorry, something went wrong on our side. We have noted your wish.")
    if "days" not in checked:
        return final("needs_correction", f"{asked} does not exist. Which day did you mean?")
    month, days = checked["month"], checked["days"]
    after = MONTHS[MONTHS.index(month) + 1 - len(MONTHS)]
    text = f"{asked} does not exist: {month} has {days} days. Did you mean {month} {days} or {after} 1?"
    return final("needs_correction", text)


def _full(talk: Conversation, appointment: dict[str, Any], asked: str, listed: list[Result]) -> dict[str, Any]:
    """No open slot on the day asked for. Without the rule to look on, the customer's wish is simply confirmed."""
    if LOOK_ON not in talk.system:
        return _confirm(talk, appointment, asked)
    if CONFIRM_FIRST in talk.system and talk.last("send_confirmation") is None:
        return _confirm(talk, appointment, asked)
    if len(listed) > 1:
        return final("no_slot", "Neither that day nor the next working day has an open slot; we will call you.")
    return talk.propose(("list_open_slots", {"day": _next_working_day(asked, listed[-1].response["date"])}))


def _take(talk: Conversation, appointment: dict[str, Any], slot: dict[str, Any]) -> dict[str, Any]:
    day = f"{slot['day']} {slot['date']}, {slot['window']}"
    if CONFIRM_FIRST in talk.system and talk.last("send_confirmation") is None:
        return _confirm(talk, appointment, day)
    moved = talk.last("reschedule")
    if moved is None:
        arguments = {"appointment_id": appointment["appointment_id"], "slot_id": slot["slot_id"]}
        return talk.propose(("reschedule", arguments))
    if not moved.ok:
        return final("not_moved", "I could not move your appointment; a colleague will call you today.")
    return _confirm(talk, appointment, day)


def _confirm(talk: Conversation, appointment: dict[str, Any], day: str) -> dict[str, Any]:
    customer = appointment["customer"]
    text = f"Dear {customer['name'].split()[0]}, your {appointment['job']} is now on {day}. See you then!"
    if talk.last("send_confirmation") is None:
        arguments = {"appointment_id": appointment["appointment_id"], "to": customer["email"], "body": text}
        return talk.propose(("send_confirmation", arguments))
    return final("moved", text)


def _next_working_day(asked: str, on: str) -> str:
    """In the way the day was asked for: a weekday after a weekday, else an ISO date."""
    day = date.fromisoformat(on) + timedelta(days=1)
    while day.weekday() > WEEKDAYS.index("Friday"):
        day += timedelta(days=1)
    return WEEKDAYS[day.weekday()] if asked in WEEKDAYS else day.isoformat()
