"""Exploration: a trial whose misses a simulator answers, one after the other (semantics.md §6, mode `explore`). What it comes to is labelled, and no gate accepts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from twiceshy.envelope import Kind
from twiceshy.identity import digest, tagged
from twiceshy.matching import differences
from twiceshy.outcome import Divergence
from twiceshy.simulators import Asked, CannotSimulate, Example
from twiceshy.simulators.served import SimulatedAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from twiceshy.casefile import LoadedCase
    from twiceshy.envelope import Envelope
    from twiceshy.policy import ToolsPolicy
    from twiceshy.running import Played, Session, Task
    from twiceshy.simulators import Simulator
    from twiceshy.transcript import Diverged

MISSES = frozenset(
    {
        Divergence.UNRECORDED_CALL,
        Divergence.ARGS_MISMATCH,
        Divergence.STATE_MISMATCH,
        Divergence.EXHAUSTED,
        Divergence.WORLD_MISS,
    }
)
"""What a simulator may answer; any other divergence ends the exploration as it ends a run."""

_MOST = 50


class Told(NamedTuple):
    """A miss that was answered: where, which tool, by whom."""

    place: str
    tool: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The last trial of an exploration, what was simulated in it, and why it went no further; None where it came to an end of its own."""

    played: Played
    told: Sequence[Told]
    stopped: str | None = None


def explore(session: Session, task: Task, simulator: Simulator, corpus: Iterable[LoadedCase] = ()) -> Exploration:
    """Run a trial again and again, each time with one more simulated answer, until nothing misses.

    corpus: further cases of the workflow whose recordings serve as examples. The candidate must do the same on the same answers; where it does not, it stops.
    """
    records = [task.loaded.envelope, *(case.envelope for case in corpus if case.envelope != task.loaded.envelope)]
    answers: list[SimulatedAnswer] = []
    told: list[Told] = []
    while True:
        played = session.play(replace(task, simulated=answers))
        if played.transcript.simulated != len(answers):
            return Exploration(played=played, told=told, stopped="the candidate asks otherwise on the same answers")
        found = played.transcript.divergence
        if found is None or found.kind not in MISSES or not found.boundary.startswith(f"{Kind.TOOL}:"):
            return Exploration(played=played, told=told)
        try:
            made = _answer(found, records, task.policy, simulator)
        except CannotSimulate as cannot:
            return Exploration(played=played, told=told, stopped=str(cannot))
        if len(answers) == _MOST:
            return Exploration(played=played, told=told, stopped=f"{_MOST} answers were simulated")
        answers.append(made)
        told.append(Told(found.place, made.tool, f"{simulator.name} v{simulator.version}"))


def examples(tool: str, args: Any, records: Iterable[Envelope]) -> list[Example]:
    """The recorded calls of a tool that succeeded and that nobody simulated, the nearest to these arguments first; of equally near ones the first recorded."""
    held = [
        Example(crossing.asked, crossing.shown if crossing.raw is UNSET else crossing.raw)
        for envelope in records
        for crossing in envelope.crossings
        if (crossing.kind, crossing.name) == (Kind.TOOL, tool)
        and crossing.error is None
        and crossing.blocked_by is None
        and not crossing.simulated
    ]
    known = [example for example in held if example.args is not UNSET and example.answer is not UNSET]
    return sorted(known, key=lambda example: len(differences(example.args, args)))


def _answer(found: Diverged, records: Sequence[Envelope], policy: ToolsPolicy, simulator: Simulator) -> SimulatedAnswer:
    tool = found.boundary.partition(":")[2]
    if found.asked is UNSET:
        raise CannotSimulate(f"the arguments of {tool} are not known")
    asked = Asked(
        tool=tool, args=found.asked, examples=examples(tool, found.asked, records), schema=policy.of(tool).result_schema
    )
    return SimulatedAnswer(tool=tool, asked=digest(found.asked), value=tagged(simulator.answer(asked)))
