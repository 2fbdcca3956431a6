"""The same guarded tools under agent-chronicle 0.5.0, run by the interpreter of its own environment; prints one JSON object.

Each incident is recorded ungated, then replayed as its documentation says: the agent and the lookup stubbed, the guarded tool and the last model turn live.
A test passes when the tool refused (`blocked`) and the agent reports no deed. `live_writes`: acts that were really done during replays.
"""

import importlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.incidents_agents.catalog import SCENARIOS
from benchmarks.incidents_agents.harmless import CHANGES
from benchmarks.incidents_agents.mutating import mutants
from benchmarks.incidents_agents.scenario import Record, Scenario

_boundary: Callable[..., Callable[[Callable[..., Record]], Callable[..., Record]]] = importlib.import_module(
    "chronicle"
).boundary
_plan: Any = importlib.import_module("chronicle.replay.plan").ReplayPlan
_reset: Any = importlib.import_module("chronicle.session").reset_session
Guarded = Callable[..., Record]


class Incident:
    """One scenario, decorated for Chronicle; what its act really did is counted."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.done = 0
        self.trace = folder / scenario.name
        session = _reset()
        session.begin_trace(scenario.name)
        self._agent("ungated", scenario.guarded, dict)()
        session.export_trace(self.trace)

    def passes(
        self, mode: str, guarded: Guarded, change: Callable[[Record], Record] = dict, *, stub: bool = False
    ) -> bool:
        """Whether the test of the incident passes; a crash is a failing test."""
        scenario = self.scenario
        session = _reset()
        session.load_trace(self.trace)
        session.enable_replay(
            _plan() if stub else _plan().stub("agent", 1).stub("agent", 2).live(scenario.tool, 1).live("agent", 3)
        )
        try:
            result = self._agent(mode, guarded, change)()
        except Exception:  # noqa: BLE001 - whatever a mutant raises
            return False
        held = (
            session.fixture_graph.envelope(scenario.tool, 1).output.value
            if stub
            else session.captured_result(scenario.tool, 1)
        )
        return bool((held or {}).get("blocked")) and result.get("done") is False

    def _agent(self, mode: str, guarded: Guarded, change: Callable[[Record], Record]) -> Callable[[], Record]:
        scenario = self.scenario
        facts, asked = scenario.dangerous

        def act(**_: Any) -> Record:
            self.done += 1
            return {"ok": True}

        @_boundary("agent", kind="llm")
        def think(state: Record) -> Record:
            return {**state, "completion": "", "finish_reason": "tool_calls"}

        @_boundary("agent", kind="llm")
        def finish(state: Record, told: Record) -> Record:
            text = told["message"] if told["blocked"] else f"Done. {told['message']}"
            return {**state, "completion": text, "finish_reason": "stop", "done": told["status"] == "done"}

        @_boundary(scenario.reads, kind="tool")
        def look_up(_: str) -> Record:
            return dict(facts)

        @_boundary(scenario.tool, kind="tool")
        def tool(shown: Record, wish: Record) -> Record:
            return change(guarded(act, mode, shown, **wish))

        def agent() -> Record:
            state: Record = {"messages": [{"role": "user", "content": scenario.name}], "done": False}
            state = think(state)
            shown = look_up(facts["id"])
            state = think(state)
            return dict(finish(state, tool(shown, asked)))

        return agent


def main() -> None:
    """Every scenario in every mode, every harmless change, and every mutant of the guarded tool."""
    with tempfile.TemporaryDirectory() as folder:
        incidents = [Incident(scenario, Path(folder)) for scenario in SCENARIOS.values()]
        for incident in incidents:
            incident.done = 0
        own = [(incident, incident.scenario.guarded) for incident in incidents]
        detection = sum(not incident.passes("ungated", tool) for incident, tool in own)
        specificity = sum(incident.passes("gated", tool) and incident.passes("benign", tool) for incident, tool in own)
        tolerance = sum(incident.passes("gated", tool, change) for incident, tool in own for change in CHANGES.values())
        live_writes = sum(incident.done for incident in incidents)
        figures: Record = {
            "detection": detection,
            "specificity": specificity,
            "tolerance": tolerance,
            "live_writes": live_writes,
        }
        if "--mutants" in sys.argv:
            figures |= _killed(incidents)
    print(json.dumps(figures))


def _killed(incidents: list[Incident]) -> Record:
    total, cut_point, stub = 0, 0, 0
    for incident in incidents:
        fixed = {kind: incident.passes("gated", incident.scenario.guarded, stub=kind) for kind in (False, True)}
        for mutant in mutants(incident.scenario.guarded):
            total += 1
            cut_point += incident.passes("gated", mutant.function) is not fixed[False]
            stub += incident.passes("gated", mutant.function, stub=True) is not fixed[True]
    return {
        "total": total, "cut_point_killed": cut_point, "cut_point_killed_share": round(cut_point / total, 3), "stub_killed": stub,
    }  # fmt: skip


if __name__ == "__main__":
    main()
