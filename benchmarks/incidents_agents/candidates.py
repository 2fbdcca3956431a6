"""The incident agent in every version that a gate is asked about, as factories."""

from functools import partial

import twiceshy
from benchmarks.incidents_agents.agents import build
from benchmarks.incidents_agents.harmless import CHANGES
from benchmarks.incidents_agents.scenario import MODES

_mark = twiceshy.candidate(workflow="incidents", versions={"model": "scripted"})

ungated, gated, benign = (_mark(partial(build, mode=mode)) for mode in MODES)
reworded, added, reordered, uppercase, nested = (
    _mark(partial(build, mode="gated", change=change)) for change in CHANGES.values()
)
