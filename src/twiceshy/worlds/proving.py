"""Loading proves a world: it answers every recorded read at its start state as recorded, and nothing recorded has two authorities (semantics.md §6.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from twiceshy import documents
from twiceshy.envelope import Effect, Kind
from twiceshy.errors import CaseError
from twiceshy.history import START
from twiceshy.matching import differences, recordings
from twiceshy.worlds.authority import overlapping, same_answer
from twiceshy.worlds.tables import WorldMiss

if TYPE_CHECKING:
    from twiceshy.envelope import Envelope
    from twiceshy.matching import Recording
    from twiceshy.policy import ToolsPolicy
    from twiceshy.worlds.bindings import WorldAnswer
    from twiceshy.worlds.loading import LoadedWorld


def prove(world: LoadedWorld, envelope: Envelope, policy: ToolsPolicy, *, alone: bool) -> int:
    """How many recorded reads the world answered as recorded.

    alone: the world has its resources from the start, so every recorded tool that shares one must be among its own. Raises CaseError with file and line
    for the first read that it answers otherwise, and for a resource with two authorities.
    """
    if alone:
        _one_authority(world, envelope, policy)
    proved = 0
    for recording in recordings(envelope.crossings, policy):
        crossing = recording.crossing
        if _at_start(world, recording, policy) and crossing.place not in world.file.transient:
            _prove(world, recording)
            proved += 1
    return proved


def _at_start(world: LoadedWorld, recording: Recording, policy: ToolsPolicy) -> bool:
    crossing = recording.crossing
    read = (
        policy.effect_of(crossing) is Effect.READ and not crossing.simulated
    )  # a row that rests on it is a person's to change
    return read and recording.state == START and crossing.name in world.effects


def _prove(world: LoadedWorld, recording: Recording) -> None:
    crossing = recording.crossing
    try:
        answer = world.started().answer(crossing.name, crossing.asked)
    except WorldMiss as miss:
        raise _refuted(world, recording, f"cannot answer it: {miss}") from None
    if not same_answer(answer, None if recording.answer is UNSET else recording.answer, crossing.error):
        raise _refuted(world, recording, f"answers it otherwise ({_how(answer, recording)})")


def _how(answer: WorldAnswer, recording: Recording) -> str:
    error = recording.crossing.error
    if answer.error is not None or error is not None:
        ours, theirs = (f"{held.cls}" if held else "a value" for held in (answer.error, error))
        return f"{ours} for {theirs}" if ours != theirs else "another text"
    paths = [diff.path or "the value" for diff in differences(recording.answer, answer.value)]
    return f"differs in {', '.join(paths)}"


def _refuted(world: LoadedWorld, recording: Recording, problem: str) -> CaseError:
    crossing = recording.crossing
    line = documents.Document(world.path).line(f"$.tools.{crossing.name}") if world.path.exists() else None
    hint = "Mend the world; a failure that passed (a timeout) goes under `transient`."
    return CaseError.at(
        world.path, f"the record's {crossing.name} at {crossing.place}: the world {problem}.", line=line, hint=hint
    )


def _one_authority(world: LoadedWorld, envelope: Envelope, policy: ToolsPolicy) -> None:
    ours = sorted(world.effects)
    asked = {crossing.name: crossing.effect for crossing in envelope.crossings if crossing.kind is Kind.TOOL}
    for name, effect in sorted(asked.items()):
        if name in world.effects or policy.effect(name, effect) is Effect.NONE:
            continue
        for other in ours:
            if overlapping(policy.of(name).resources, policy.of(other).resources):
                problem = f"{name} rests on what the world's {other} rests on, so it would have two authorities, the record and the world."
                raise CaseError.at(
                    world.path,
                    problem,
                    hint=f"Let the world answer {name} too, or narrow what they read and touch in tools.yaml.",
                )
