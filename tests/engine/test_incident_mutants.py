"""The mutator and the incident agents that the benchmarks rest on: every mutant is one change, and the fix stands where its limits say."""

import inspect
from pathlib import Path

import pytest

from benchmarks.incidents_agents.cases import CUT_POINT, beside, incidents
from benchmarks.incidents_agents.catalog import SCENARIOS
from benchmarks.incidents_agents.harmless import CHANGES
from benchmarks.incidents_agents.mutating import mutants
from benchmarks.incidents_agents.replays import replayed
from benchmarks.mutants import SLIPS, counted, slipped, suite, tried
from twiceshy.outcome import Outcome


def checked(kind: str, amount: int) -> str:
    """A docstring is no code."""
    if kind in ("a", "b") and amount > 10:
        return f"too {'much'}"
    return "ok"


def test_every_mutant_is_one_change() -> None:
    found = mutants(checked)
    changes = [mutant.change for mutant in found]
    assert len(set(changes)) == len(changes) == 1 + 2 + 1 + 1 + 5 + 2 + 2 + 1
    assert [mutant.operator for mutant in found].count("relational") == 6
    assert "amount > 10 -> amount >= 10" in changes
    assert "'ok' -> 'XXokXX'" in changes
    assert not any("docstring" in change or "much" in change for change in changes)


def test_a_mutant_behaves_as_it_says() -> None:
    by_change = {mutant.change: mutant.function for mutant in mutants(checked)}
    assert (checked("a", 10), by_change["amount > 10 -> amount >= 10"]("a", 10)) == ("ok", "too much")
    assert checked.__doc__ == "A docstring is no code."


@pytest.mark.parametrize("name", SCENARIOS)
def test_only_what_is_out_of_bounds_is_refused(name: str, tmp_path: Path) -> None:
    loaded = incidents(tmp_path)[name]
    modes = {mode: replayed(loaded, CUT_POINT, mode=mode).verdict.outcome for mode in ("ungated", "gated", "benign")}
    assert modes == {"ungated": Outcome.FAILED, "gated": Outcome.PASSED, "benign": Outcome.PASSED}
    for change in CHANGES.values():
        assert replayed(loaded, CUT_POINT, mode="gated", change=change).verdict.outcome is Outcome.PASSED


def test_a_mutant_dies_or_is_explained(tmp_path: Path) -> None:
    scenario = SCENARIOS["refund"]
    cases = suite([incidents(tmp_path)["refund"], *beside(tmp_path)["refund"]], CUT_POINT)
    found = [tried(scenario, mutant, {"plus": cases}) for mutant in mutants(scenario.guarded)]
    assert all(bool(one.killed) != bool(one.why) for one in found)
    assert counted(found, "plus")["killed_share_of_reachable"] == 1
    slips = [slipped(scenario, slip, cases) for slip in SLIPS]
    assert all(one.killed for one in slips)


def test_scenarios_import_nothing_of_ours() -> None:
    for scenario in SCENARIOS.values():
        assert "twiceshy" not in inspect.getsource(inspect.getmodule(scenario.guarded))  # type: ignore[arg-type] # it has a module
