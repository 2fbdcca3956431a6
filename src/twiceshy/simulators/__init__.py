"""Simulators answer what a record misses, for exploration only (semantics.md §4.5): every answer and the run are labelled `simulated`, and no gate accepts them.

A simulator runs in the parent. The candidate's process ends at a miss; the parent asks for an answer and runs the trial again with it, so nothing in the seal talks
to anybody. Third parties provide one in the entry-point group `twiceshy.simulators`: a class as `Simulator` describes it, built from its `Settings`.
"""

from twiceshy.simulators.protocol import Asked, CannotSimulate, Example, Settings, Simulator, simulator

__all__ = ["Asked", "CannotSimulate", "Example", "Settings", "Simulator", "simulator"]
