"""Converts a case to a world: what would change in its folder, as a diff for a person to accept. Nothing is written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from twiceshy import casefile, documents
from twiceshy.casefile import Judge, Opportunity
from twiceshy.envelope import Effect, Kind
from twiceshy.errors import CaseError
from twiceshy.outcome import Mode
from twiceshy.paths import leaves
from twiceshy.worlds import loading, seeding
from twiceshy.worlds.goals import Goal, how, touched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.casefile import Case, LoadedCase
    from twiceshy.policy import ToolsPolicy
    from twiceshy.transcript import RowChange

_HEAD = """\
# Proposed from what the case recorded. {invented} Rows that you add go under `invented`, and every report names them.
# A table answers "none" for a missing row only once it is `closed: true`. What a write changes is for you to say: put it in the place of `unsettle`.
"""
_NOTHING, _SIMULATED = "Nothing here is invented.", "Rows under `invented` rest on answers that nobody recorded."
_PROSE_WORDS = 4
"""A text of more words is prose: another version of the agent words it otherwise."""


class Conversion(NamedTuple):
    """The proposal: both files as they would be, and what a person should look at."""

    case: Case
    case_text: str
    world_text: str
    notes: list[str]


def to_world(loaded: LoadedCase, policy: ToolsPolicy) -> Conversion:
    """The case judged in a world that is seeded from its recorded reads.

    A positive case gets the rows that its recorded writes change as its goal. Raises CaseError for a case that has a world.
    """
    if loaded.world is not None:
        raise CaseError.at(loaded.path, "the case has a world already.")
    seeded = seeding.seeded(loaded.envelope, policy)
    if not seeded.world["tools"]:
        raise CaseError.at(loaded.path, "the record holds no call that a world could answer.")
    case = loaded.case
    judges = {judge.cut.label: judge for judge in map(_in_world, case.judges())}
    changed: dict[str, Any] = {
        "world": casefile.WORLD, "judge": list(judges.values()), "opportunity": _opportunity(loaded), "misses": UNSET,
        "review": casefile.Review(),
    }  # fmt: skip
    if case.kind == "positive":
        goals = list(_goals(loaded, policy, seeded.world))
        changed["expect"] = msgspec.structs.replace(case.expect, goal=goals)
    case = msgspec.structs.replace(case, **changed)
    invented = any("invented" in table for table in seeded.world["tables"].values())
    head = _HEAD.format(invented=_SIMULATED if invented else _NOTHING)
    return Conversion(case, casefile.case_text(case), head + _yaml(seeded.world), seeded.notes)


def diff(loaded: LoadedCase, made: Conversion, root: Path) -> str:
    """The proposal as a diff that `git apply` takes in the folder `root`."""
    path = loaded.path.resolve()
    here = (path.relative_to(root.resolve()) if path.is_relative_to(root.resolve()) else loaded.path).as_posix()
    before = (loaded.path / "case.yaml").read_text(encoding="utf-8")
    parts = [
        documents.patch(f"{here}/case.yaml", before, made.case_text),
        documents.patch(f"{here}/{casefile.WORLD}", None, made.world_text),
    ]
    return "".join(parts)


def _in_world(judge: Judge) -> Judge:
    """A prefix would be the record's; in a world every step has a chance to be another."""
    return Judge(mode=Mode.WORLD, live=judge.live, freeze=judge.freeze)


def _opportunity(loaded: LoadedCase) -> Opportunity | None:
    """The tool that is called there: in a world a run comes to it by ways of its own."""
    stated = loaded.case.opportunity
    if stated is None or stated.seq is None:
        return stated
    step = loaded.envelope.at(stated.seq)
    return Opportunity(tool=step.name) if step is not None and step.kind is Kind.TOOL else stated


def _goals(loaded: LoadedCase, policy: ToolsPolicy, written: dict[str, Any]) -> Iterator[Goal]:
    """The rows that the recorded writes change in the proposed world."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / casefile.WORLD
        path.write_text(_yaml(written), encoding="utf-8")
        running = loading.load(path, policy).started()
    for crossing in loaded.envelope.crossings:
        wrote = crossing.kind is Kind.TOOL and policy.effect_of(crossing) is Effect.WRITE
        if wrote and crossing.blocked_by is None and crossing.error is None and running.knows(crossing.name):
            yield from map(_goal, running.answer(crossing.name, crossing.asked).changes)


def _goal(change: RowChange) -> Goal:
    row = {} if change.after is UNSET else change.after
    paths = touched(change) or None
    meant = {path: value for path, value in leaves(row) if paths is None or path in paths}
    fields = {path: value for path, value in meant.items() if "[" not in path and not _prose(value)}
    may = sorted({path.partition("[")[0] for path in paths or () if path not in fields})
    kind = how(change)
    return Goal(table=change.table, change=kind, key=None if kind == "inserted" else change.key, fields=fields, may=may)


def _prose(value: object) -> bool:
    return isinstance(value, str) and len(value.split()) > _PROSE_WORDS


def _yaml(written: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=120))
