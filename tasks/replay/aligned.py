"""Aligned steps as rows of `steps`: the one place where what a trial did becomes text, cut to what a page can carry."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from tasks.contracts import SIDES
from tasks.replay.schema import SIDE_BYTES
from twiceshy import identity
from twiceshy.aligning import AlignedStep, SideDiff
from twiceshy.envelope import Crossing

DIFFS = 60
"""Leaves listed a step; a changed prompt differs in a few, a replaced result in as many as it has."""

LEAF_CHARS = 2000
_BEFORE = 120
"""Characters of common text kept before the place where two long texts part."""


def step_rows(
    steps: Iterable[AlignedStep], *, trial: Mapping[str, str], violated: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """A row of `Steps` for each step. trial: its `replay_id`, `run_id`, `case_id` and `harness_state`; violated: place in the replay -> invariant ids."""
    return [{**trial, **_row(step, violated)} for step in steps]


def _row(step: AlignedStep, violated: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    crossing = step.recorded or step.replayed
    replayed = None if step.replayed is None else step.replayed.place
    sides = {**_sides("recorded", step.recorded), **_sides("replayed", step.replayed)}
    texts = {column: _cut(text) for column, text in sides.items()}
    return {
        "position": step.position,
        "kind": step.kind,
        "name": step.name,
        "at": crossing.at if crossing else None,
        "scope": crossing.scope if crossing else "",
        "effect": crossing.effect if crossing else None,
        "status": step.status,
        "recorded_place": None if step.recorded is None else step.recorded.place,
        "replayed_place": replayed,
        **_played(step),
        "diverged": step.diverged,
        "violated": sorted(violated.get(replayed, ())) if replayed else [],
        "diffs": identity.canonical([_diff(diff) for diff in step.diffs[:DIFFS]]).decode(),
        "diffs_left_out": max(0, len(step.diffs) - DIFFS),
        "recorded_blocked_by": None if step.recorded is None else step.recorded.blocked_by,
        "replayed_blocked_by": None if step.replayed is None else step.replayed.blocked_by,
        **texts,
        "cut": sorted(column for column, text in texts.items() if text != sides[column]),
    }


def _played(step: AlignedStep) -> dict[str, Any]:
    played = step.played
    if played is None:
        return {"boundary": None, "answered_by": None, "matched": None, "stale": False, "drift": None}
    return {
        "boundary": played.boundary,
        "answered_by": played.answered_by,
        "matched": played.matched,
        "stale": played.stale,
        "drift": played.drift,
    }


def _sides(run: str, crossing: Crossing | None) -> dict[str, str | None]:
    known = {side: UNSET if crossing is None else getattr(crossing, side) for side in SIDES}
    texts = {f"{run}_{side}": _text(value) for side, value in known.items()}
    error = None if crossing is None else crossing.error
    told = None if error is None else _text({"class": error.cls, "message": error.message, "definite": error.definite})
    return {**texts, f"{run}_error": told}


def _text(value: Any) -> str | None:
    return None if value is UNSET else identity.canonical(value).decode()


def _cut(text: str | None) -> str | None:
    """The text itself, or its beginning up to a whole character."""
    content = None if text is None else text.encode()
    return text if content is None or len(content) <= SIDE_BYTES else content[:SIDE_BYTES].decode(errors="ignore")


def _diff(diff: SideDiff) -> dict[str, Any]:
    recorded, replayed = _windows(diff.recorded, diff.replayed)
    leaves = {"recorded": recorded, "replayed": replayed}
    return {
        "side": diff.side,
        "path": diff.path,
        **{run: leaf for run, leaf in leaves.items() if leaf is not UNSET},
    }


def _windows(recorded: Any, replayed: Any) -> tuple[Any, Any]:
    """Both leaves; long texts from shortly before they part, so that the difference is among what is kept."""
    start = 0
    if isinstance(recorded, str) and isinstance(replayed, str):
        pairs = enumerate(zip(recorded, replayed, strict=False))
        apart = next((at for at, (a, b) in pairs if a != b), min(len(recorded), len(replayed)))
        start = max(0, apart - _BEFORE) if max(len(recorded), len(replayed)) > LEAF_CHARS else 0
    return _window(recorded, start), _window(replayed, start)


def _window(leaf: Any, start: int) -> Any:
    if not isinstance(leaf, str):
        return leaf
    end = start + LEAF_CHARS
    return ("…" if start else "") + leaf[start:end] + ("…" if len(leaf) > end else "")
