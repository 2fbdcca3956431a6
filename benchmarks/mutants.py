"""What a gate notices of small faults: every first-order mutant of the six guarded tools, and mutants of the agent around them.

Modes: `stub` (everything from the record), `full` and `cut_point` (the incident alone; in `cut_point` the last model turn is live), `cut_point_plus` (with positive and
boundary-value cases). A mutant is killed when the verdict on it differs from the one on the unmutated fix. `equivalent`: mutants that refuse, do and report the same as
the fix on every ask of their domain, each with the reason; they are counted in `total` and left out of `killed_share_of_reachable`. Survivors are printed one by one.
"""

import copy
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.incidents_agents.cases import CUT_POINT, beside, incidents
from benchmarks.incidents_agents.catalog import SCENARIOS
from benchmarks.incidents_agents.mutating import Mutant, mutants
from benchmarks.incidents_agents.peer import chronicle
from benchmarks.incidents_agents.replays import replayed
from benchmarks.incidents_agents.scenario import Record, Scenario
from twiceshy.casefile import Judge, LoadedCase
from twiceshy.outcome import Mode, Outcome

PEER_CUT_POINT = 0.266
"""Chronicle's own figure for its own 192 mutants (51 killed); 0 for the full stub."""

STUB, FULL = Judge(mode=Mode.STUB), Judge()
_WHY = {
    "guard": "in mode gated this operand is true either way",
    "benign test": "it runs, or still does not run, the benign change: another wording and an added field, which must pass",
    "benign": "the line runs in mode benign only",
}


class Tried(NamedTuple):
    """One mutant by its name, and the verdicts that differ from the fix's by mode. why: the reason where it is equivalent."""

    name: str
    killed: Mapping[str, Outcome]
    why: str | None = None


class Suite(NamedTuple):
    """The cases of one mode and what the unmutated fix comes to in each."""

    cases: Sequence[LoadedCase]
    judge: Judge
    fix: Sequence[Outcome]


def suite(cases: Sequence[LoadedCase], judge: Judge) -> Suite:
    """The cases with the verdicts of the fix; what is no stub must pass them all."""
    fix = [replayed(loaded, judge, mode="gated").verdict.outcome for loaded in cases]
    assert judge.mode is Mode.STUB or set(fix) == {Outcome.PASSED}, fix
    return Suite(cases, judge, fix)


def changed(cases: Suite, *, breaks: Sequence[str] = (), **agent: Any) -> tuple[Outcome | None, bool]:
    """A verdict that differs from the fix's (FAILED where any is), and whether the breaks applied in any case; where they did not, its verdict proves nothing."""
    applied = not breaks
    first: Outcome | None = None
    for loaded, fix in zip(cases.cases, cases.fix, strict=True):
        ran = replayed(loaded, cases.judge, breaks=breaks, **{"mode": "gated", **agent})
        if breaks and not ran.applied:
            continue
        applied = True
        if ran.verdict.outcome is not fix:
            first = Outcome.FAILED if Outcome.FAILED in (first, ran.verdict.outcome) else ran.verdict.outcome
            if first is Outcome.FAILED:
                break
    return first, applied


def tried(scenario: Scenario, mutant: Mutant, suites: Mapping[str, Suite]) -> Tried:
    """One mutant of a guarded tool, in every mode."""
    killed = {}
    for mode, cases in suites.items():
        outcome, _ = changed(cases, guarded={scenario.name: mutant.function})
        if outcome is not None:
            killed[mode] = outcome
    return Tried(
        f"[{scenario.name}] {mutant.operator} ({mutant.region}): {mutant.change}", killed, _equivalent(scenario, mutant)
    )


def _equivalent(scenario: Scenario, mutant: Mutant) -> str | None:
    """Why a mutant is equivalent to the fix; None where an ask of the domain tells them apart, or its place explains nothing."""
    if mutant.region not in _WHY or any(_told_apart(scenario, mutant, *ask) for ask in scenario.domain):
        return None
    return (
        f"{_WHY[mutant.region]}; the same refusals, acts and contract on all {len(scenario.domain)} asks of the domain"
    )


def _told_apart(scenario: Scenario, mutant: Mutant, facts: Record, asked: Record) -> bool:
    fixed, (result, acts) = _ran(scenario.guarded, facts, asked), _ran(mutant.function, facts, asked)
    if result is None or fixed[0] is None or acts != fixed[1] or not isinstance(result.get("message"), str):
        return True
    return any(name not in result or result[name] != value for name, value in fixed[0].items() if name != "message")


def _ran(tool: Callable[..., Record], facts: Record, asked: Record) -> tuple[Record | None, list[Record]]:
    acts: list[Record] = []
    try:
        return tool(lambda **done: acts.append(done), "gated", copy.deepcopy(facts), **copy.deepcopy(asked)), acts
    except Exception:  # noqa: BLE001 - whatever a mutant raises, it is told apart
        return None, acts


SLIPS: dict[str, Callable[[Scenario], Record]] = {
    "fewer calls": lambda scenario: {"breaks": [f"call.drop:{scenario.reads}"]},
    "extra call": lambda _: {"slip": "extra"},
    "swapped calls": lambda scenario: {"breaks": [f"order.swap:{scenario.reads},{scenario.writes}"]},
    "changed argument": lambda scenario: {
        "breaks": [f"args.set:{scenario.writes}.{next(iter(scenario.dangerous.asked))}=other"]
    },
    "duplicate write": lambda scenario: {"breaks": [f"call.duplicate:{scenario.writes}"]},
    "skipped approval": lambda _: {"mode": "ungated"},
    "swallowed miss": lambda _: {"slip": "swallowed_miss"},
    "stripped hook field": lambda scenario: {
        "breaks": [f"hook.strip:{scenario.reads}.{list(scenario.dangerous.facts)[-1]}"]
    },
}
"""What an agent's loop does wrong, one at a time."""


def slipped(scenario: Scenario, slip: str, cases: Suite) -> Tried:
    """One mutant of the agent; one that changed nothing anywhere would prove nothing."""
    outcome, applied = changed(cases, **SLIPS[slip](scenario))
    assert applied, f"{slip} applied nowhere in {scenario.name}"
    return Tried(f"[{scenario.name}] {slip}", {} if outcome is None else {"agent_level": outcome})


def counted(found: Sequence[Tried], mode: str) -> Record:
    """The figures of one mode."""
    total, killed = len(found), sum(mode in one.killed for one in found)
    equal = [{"mutant": one.name, "reason": one.why} for one in found if one.why is not None]
    return {
        "total": total, "killed": killed, "equivalent": equal, "killed_share": round(killed / total, 3),
        "killed_share_of_reachable": round(killed / (total - len(equal)), 3),
    }  # fmt: skip


def told(found: Sequence[Tried], mode: str) -> None:
    """How the mutants of a mode were killed, and each survivor that is not equivalent."""
    by = Counter(str(one.killed[mode]) for one in found if mode in one.killed)
    print(f"{mode}: killed {dict(by)}")
    for one in found:
        if mode not in one.killed and one.why is None:
            print(f"  survived {one.name}")
        assert mode not in one.killed or one.why is None, f"{one.name} is called equivalent, and {mode} killed it"


def main() -> int:
    """Run every mutant in every mode, and report."""
    found: list[Tried] = []
    slips: list[Tried] = []
    with tempfile.TemporaryDirectory() as folder:
        failures, others = incidents(Path(folder)), beside(Path(folder))
        suites: dict[str, Suite] = {}
        for name, scenario in SCENARIOS.items():
            alone, plus = [failures[name]], suite([failures[name], *others[name]], CUT_POINT)
            suites = {
                "stub": suite(alone, STUB),
                "full": suite(alone, FULL),
                "cut_point": suite(alone, CUT_POINT),
                "cut_point_plus": plus,
            }
            found += [tried(scenario, mutant, suites) for mutant in mutants(scenario.guarded)]
            slips += [slipped(scenario, slip, plus) for slip in SLIPS]
    figures = {mode: counted(found, mode) for mode in suites} | {"agent_level": counted(slips, "agent_level")}
    for mode in suites:
        told(found, mode)
    told(slips, "agent_level")
    holds = (
        figures["cut_point"]["killed_share"] > PEER_CUT_POINT
        and figures["full"]["killed"] > 0
        and figures["cut_point_plus"]["killed_share_of_reachable"] == 1
        and figures["agent_level"]["killed_share"] == 1
    )
    peer = {
        "published": {"cut_point_killed_share": PEER_CUT_POINT, "stub_killed": 0, "total": 192},
        **chronicle("--mutants"),
    }
    sys.stdout.flush()
    return report("mutants", figures, holds=holds, peers={"agent-chronicle": peer})


if __name__ == "__main__":
    sys.exit(main())
