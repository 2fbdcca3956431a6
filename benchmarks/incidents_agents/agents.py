"""The incident agents as twiceshy's candidates: one agent that handles all six, its guarded tools standing where a mode, a change or a mutant puts them.

Steps of a run: #1 planner, #2 the lookup, #3 planner, the guarded tool (a router of the agent's own code), behind it the act, the finalizer, notify.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from benchmarks.incidents_agents.catalog import SCENARIOS
from benchmarks.incidents_agents.scenario import Record, Scenario
from benchmarks.incidents_agents.systems import reached
from twiceshy import Boundary
from twiceshy.identity import digest

Agent = Callable[[Record], Record]
Guarded = Mapping[str, Callable[..., Record]]
_TEXT = {"type": "string"}
NO_FACTS: Record = {}


def build(
    boundary: Boundary, *, mode: str, guarded: Guarded | None = None, change: Callable[[Record], Record] = dict, facts: Record = NO_FACTS,
    slip: str | None = None,
) -> Agent:  # fmt: skip
    """The agent: {"incident", "wish"} in, {"message", "result"} out.

    guarded: tools that stand in place of a scenario's own, by its name. facts: what a lookup finds when it is live. slip: how the agent's loop errs.
    """
    tools = {name: (guarded or {}).get(name, scenario.guarded) for name, scenario in SCENARIOS.items()}
    parts = {name: _part(boundary, SCENARIOS[name], tools[name], mode, change, facts) for name in SCENARIOS}
    notify = boundary.tool("notify", partial(_done, "notify"), effect="write", schema=_arguments(to=_TEXT, body=_TEXT))
    planner = boundary.model("planner", plan)
    finalizer = boundary.model("finalizer", finalize)

    def agent(user: Record) -> Record:
        look_up, tool = parts[user["incident"]]
        messages: list[Record] = [{"role": "user", "parts": [{"type": "text", "content": json.dumps(user)}]}]
        shown = look_up(**_call(planner({"messages": list(messages)})))
        messages.append({"role": "tool", "parts": [{"type": "tool_call_response", "response": shown}]})
        asked = _call(planner({"messages": list(messages)}))
        if slip == "swallowed_miss":
            _swallowed(look_up)
        result = tool({"facts": shown, "asked": asked})
        messages.append({"role": "tool", "parts": [{"type": "tool_call_response", "response": result}]})
        text = finalizer({"messages": list(messages)})["parts"][0]["content"]
        notify(to=shown["owner"], body=text)
        if slip == "extra":
            notify(to="press@example.net", body=text)
        return {"message": text, "result": result}

    return agent


def plan(request: Record) -> Record:
    """The planner, scripted: first it asks for the lookup, then for the wish as it (mis)understood it."""
    user = json.loads(request["messages"][0]["parts"][0]["content"])
    scenario = SCENARIOS[user["incident"]]
    if len(request["messages"]) == 1:
        return _proposal(scenario.reads, {"id": user["id"]})
    return _proposal(scenario.tool, user["wish"])


def finalize(request: Record) -> Record:
    """The finalizer, scripted: it tells what the guarded tool told it."""
    result = request["messages"][-1]["parts"][0]["response"]
    text = result["message"] if result["blocked"] else f"Done. {result['message']}"
    return {"parts": [{"type": "text", "content": text}], "finish_reason": "stop"}


def _part(
    boundary: Boundary, scenario: Scenario, guarded: Callable[..., Record], mode: str, change: Callable[[Record], Record], facts: Record,
) -> tuple[Callable[..., Any], Callable[..., Any]]:  # fmt: skip
    def find(id: str) -> Record:  # noqa: A002, ARG001 - it has a name
        found: Record = reached(scenario.reads, dict(facts))
        return found

    look_up = boundary.tool(scenario.reads, find, effect="read", schema=_arguments(id=_TEXT))
    act = boundary.tool(scenario.writes, partial(_done, scenario.writes), effect="write")

    def run(value: Record) -> Record:
        return change(guarded(partial(act), mode, value["facts"], **value["asked"]))

    return look_up, boundary.router(scenario.tool, run)


def _call(output: Record) -> Record:
    arguments: Record = output["parts"][0]["arguments"]
    return arguments


def _proposal(name: str, arguments: Record) -> Record:
    return {"parts": [{"type": "tool_call", "id": "call", "name": name, "arguments": arguments}]}


def _arguments(**properties: Record) -> Record:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _done(tool: str, /, **asked: Any) -> Record:
    """The act itself, which acknowledges."""
    told: Record = reached(tool, {"ok": True, "id": digest(asked)[:8]})
    return told


def _swallowed(look_up: Callable[..., Any]) -> None:
    """It looks for something nobody recorded, and goes on whatever comes of it."""
    with suppress(Exception):
        look_up(id="another")
