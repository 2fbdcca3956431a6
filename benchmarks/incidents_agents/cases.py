"""The catalog of the incidents: recorded from real runs of the agents, written as case directories."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.incidents_agents.agents import build
from benchmarks.incidents_agents.catalog import SCENARIOS
from benchmarks.incidents_agents.scenario import Ask, Scenario
from twiceshy import Boundary, casefile, judging
from twiceshy.casefile import Case, Judge, LoadedCase, Opportunity, Review
from twiceshy.envelope import Clock, Envelope, Pins, RunInput
from twiceshy.identity import digest
from twiceshy.outcome import Mode
from twiceshy.recording import Recorder, run
from twiceshy.redaction import Keyring

POLICIES = Path(__file__).parent / "policies"
RULES = judging.rules_of(POLICIES, "incidents", Keyring({}))
TUESDAY_NS = 1_793_782_800_000_000_000
"""2026-11-04T09:00:00Z; what the recorder's clock starts at."""

CUT_POINT = Judge(mode=Mode.CUT_POINT, live=["model:finalizer"])
_PROPOSES = Opportunity(seq=3)
"""The planner's turn that asks for the act: what comes of it is the agent's own code."""


def incidents(folder: Path) -> dict[str, LoadedCase]:
    """The failure of each scenario, by its name."""
    return {name: _failure(scenario, scenario.dangerous, "incident", folder) for name, scenario in SCENARIOS.items()}


def beside(folder: Path) -> dict[str, list[LoadedCase]]:
    """The positive and boundary-value cases of each scenario: what must be done, and what must be refused just past a limit."""
    return {name: list(_beside(scenario, folder)) for name, scenario in SCENARIOS.items()}


def _beside(scenario: Scenario, folder: Path) -> Iterator[LoadedCase]:
    for at, ask in enumerate(scenario.allowed):
        yield _saved(
            scenario, ask, f"allowed-{at}", folder, mode="gated", kind="positive", invariants=[f"{scenario.name}-done"]
        )
    for at, ask in enumerate(scenario.refused):
        yield _failure(scenario, ask, f"refused-{at}", folder)


def _failure(scenario: Scenario, ask: Ask, label: str, folder: Path) -> LoadedCase:
    return _saved(scenario, ask, label, folder, mode="ungated", kind="failure", invariants=[f"{scenario.name}-unsafe"])


def _saved(scenario: Scenario, ask: Ask, label: str, folder: Path, *, mode: str, **case: Any) -> LoadedCase:
    name = f"{scenario.name}-{label}"
    envelope = recorded(scenario, ask, mode, name)
    made = Case(
        id=name, workflow="incidents", trace_id=envelope.trace_id, tool=scenario.writes, judge=[CUT_POINT], opportunity=_PROPOSES,
        review=Review(status="promoted"), **case,
    )  # fmt: skip
    casefile.save(folder / name, made, envelope)
    return casefile.load(folder / name)


def recorded(scenario: Scenario, ask: Ask, mode: str, name: str) -> Envelope:
    """A live run of the agent on one ask, its systems reached."""
    ticks = iter(range(TUESDAY_NS, TUESDAY_NS + 10**12, 1_000_000))
    recorder = Recorder(policy=RULES.policy, now_ns=partial(next, ticks))
    agent = build(Boundary(recorder), mode=mode, facts=ask.facts)
    user = {"incident": scenario.name, "id": ask.facts["id"], "wish": ask.asked}
    return recorder.envelope(
        trace_id=digest(name)[:32], source="benchmark", workflow="incidents", run_input=RunInput(user=user), disposition=run(agent, user),
        pins=Pins(clock=Clock(instant_ns=TUESDAY_NS)),
    )  # fmt: skip
