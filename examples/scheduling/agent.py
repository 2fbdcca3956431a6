"""The scheduling agent's own code, and the prompts of its versions: they differ in nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from examples.loop import Offer, arguments, as_told, converse
from examples.scheduling.diary import check_date
from examples.scheduling.planner import plan
from twiceshy.envelope import Effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.scheduling.diary import Diary
    from twiceshy import Boundary

    Record = dict[str, Any]

PROMPT_NAME = "scheduling-agent"
_TASK = "You move appointments. Look up the appointment and the open slots. End with JSON: status, message.\n"
_QUICK = "- Be quick: confirm the day they ask for.\n"
_LOOK_ON = "- If that day is full, look at the next working day.\n"
_CONFIRM_FIRST = "- Confirm to the customer first; then reschedule.\n"
_CONFIRM_AFTER = "- Reschedule first; only then confirm.\n"
_APOLOGISE = "- If something is wrong, apologise and close.\n"
_SAY_SO = "- If a date does not exist, say so and name the nearest that do.\n"

PROMPTS = {
    "3": _TASK + _QUICK,
    "4": _TASK + _CONFIRM_FIRST + _LOOK_ON,
    "5": _TASK + _LOOK_ON + _CONFIRM_AFTER + _SAY_SO,
    "6": _TASK + _LOOK_ON + _CONFIRM_AFTER + _APOLOGISE,
    "7": _TASK + _LOOK_ON + _CONFIRM_AFTER + _SAY_SO,
}
"""The prompt by its version."""

SCHEMAS: dict[str, Record] = {
    "get_appointment": arguments(appointment_id={"type": "string", "pattern": "^K[0-9]{4}$"}),
    "check_date": arguments(date={"type": "string"}),
    "list_open_slots": arguments(day={"type": "string"}),
    "reschedule": arguments(appointment_id={"type": "string"}, slot_id={"type": "string"}),
    "send_confirmation": arguments(appointment_id={"type": "string"}, to={"type": "string"}, body={"type": "string"}),
}
EFFECTS = {"get_appointment": Effect.READ, "list_open_slots": Effect.READ, "check_date": Effect.NONE}


def build(boundary: Boundary, diary: Diary, prompt: str) -> Callable[[Record], Record]:
    """The agent: {"message": text} in, {"status", "message"} out."""
    functions = {name: check_date if name == "check_date" else getattr(diary, name) for name in SCHEMAS}
    tools = {
        name: boundary.tool(name, fn, effect=EFFECTS.get(name, Effect.WRITE), schema=SCHEMAS[name])
        for name, fn in functions.items()
    }
    offers = {name: Offer(tools[name], schema) for name, schema in SCHEMAS.items()}
    planner = boundary.model("planner", plan, prompt=prompt)

    def agent(user: Record) -> Record:
        system = f"{prompt}Now: {as_told(boundary.now())}."
        return converse(planner, offers, system=system, user=user["message"])

    return agent
