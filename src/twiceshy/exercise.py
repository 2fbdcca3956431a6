"""What was not exercised was not judged (semantics.md §6.2): which layers of a candidate really ran, and which of the changed ones never did."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from twiceshy.envelope import EVERY_TOOL, Kind
from twiceshy.outcome import BoundaryState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from twiceshy.envelope import LayerVersion, Versions
    from twiceshy.transcript import Played, Transcript

LAYERS = ("model", "prompt", "routing", "memory", "skills", "harness")
"""Layers with one version each; a tool is the layer `tool:NAME`."""


class Exercise(NamedTuple):
    """The layers of which something ran live in a run, and those of which it met something only frozen: one of two models, one of two guards."""

    live: frozenset[str]
    frozen: frozenset[str]


def exercise(transcripts: Iterable[Transcript]) -> Exercise:
    """What these runs exercised between them. The loop itself always runs; a layer that no crossing speaks for is neither live nor frozen."""
    live: set[tuple[str, str]] = set()
    met: set[tuple[str, str]] = set()
    for transcript in transcripts:
        for played in transcript.played:
            for layer, ran in _layers(played):
                boundary = layer, f"{played.crossing.kind}:{played.crossing.name}"
                met.add(boundary)
                if ran:
                    live.add(boundary)
    return Exercise(frozenset(layer for layer, _ in live), frozenset(layer for layer, _ in met - live))


def changed_layers(candidate: Versions, champion: Versions, tools: Collection[str] = ()) -> frozenset[str]:
    """The layers whose versions differ, or are not known on either side: unknown compares as changed.

    tools: the tools that were recorded, which a command declares nowhere; one that neither side speaks of is unknown.
    """
    single = {name for name in LAYERS if _changed(getattr(candidate, name), getattr(champion, name))}
    names = {*candidate.tools, *champion.tools, *tools} - {EVERY_TOOL}
    return frozenset(
        single | {f"tool:{name}" for name in names if _changed(tool_layer(candidate, name), tool_layer(champion, name))}
    )


def not_exercised(seen: Exercise, changed: Collection[str], accepted: Collection[str] = ()) -> list[str]:
    """The changed layers that every run met frozen, less those a person accepts unexercised; sorted."""
    return sorted(layer for layer in changed if layer in seen.frozen and layer not in accepted)


def _layers(played: Played) -> Iterator[tuple[str, bool]]:
    crossing = played.crossing
    match crossing.kind:
        case Kind.MODEL:
            ran = played.boundary is BoundaryState.LIVE
            yield from (("model", ran), ("prompt", ran))
        case Kind.TOOL:
            # An intercepted write is checked against the candidate's own schema, which is the version of a tool.
            yield f"tool:{crossing.name}", played.boundary is not BoundaryState.FROZEN
        case Kind.MEMORY:
            yield "memory", played.boundary is not BoundaryState.FROZEN
        case Kind.ROUTER:
            yield "routing", played.exercised
        case Kind.HOOK | Kind.GUARD:
            yield "harness", played.exercised
        case _:
            return


def tool_layer(versions: Versions, name: str) -> LayerVersion | None:
    """The version of a tool: its own, else that of every tool; None where neither is known."""
    return versions.tools.get(name, versions.tools.get(EVERY_TOOL))


def _changed(ours: LayerVersion | None, theirs: LayerVersion | None) -> bool:
    if ours is None or theirs is None:
        return True
    unknown = (ours.digest, ours.version) == (None, None)
    return unknown or (ours.digest, ours.version) != (theirs.digest, theirs.version)
