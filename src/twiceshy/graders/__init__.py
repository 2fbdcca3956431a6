"""Everything that judges a run: the built-in checks, the invariants of the workflow, and graders of third parties.

A third party's grader is named in `graders:` of invariants.yaml and provided by an entry point of the group `twiceshy.graders`: an object as `Grader` describes it.
A grader that raises is ERROR with its traceback, never a verdict.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Protocol

from twiceshy.conditions import ConditionError
from twiceshy.graders import calls, counts, drift, duplicates, expected, explained, latency, rows, swallowed
from twiceshy.invariants import Sort, Tier
from twiceshy.judgement import Judgement
from twiceshy.monitors import binds, judge
from twiceshy.registry import PluginError, Registry
from twiceshy.verdict import GraderRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from twiceshy.invariants import Checks, Invariants
    from twiceshy.judgement import Context

GROUP = "twiceshy.graders"


class Grader(Protocol):
    """A grader: `id` and `version` name its judgements, and a call judges one run.

    It sees one context and returns one judgement (`Judgement(id=..., kind=..., truth=...)`); it keeps nothing between calls.
    """

    id: str
    version: int

    def __call__(self, context: Context, /) -> Judgement:
        """What this grader says of the run."""
        ...


def installed() -> Registry:
    """The graders that third parties provide."""
    return Registry("grader", built_in={}, group=GROUP)


def loaded(invariants: Invariants) -> list[GraderRef]:
    """Every check and grader that takes part in judging a workflow, with its version; third parties are imported. Raises PluginError."""
    built_in = [GraderRef(id=name, version=1) for name, _ in _checks(invariants.file.checks)]
    return [*built_in, *(_reference(name) for name in invariants.file.graders)]


def _reference(name: str) -> GraderRef:
    grader: Grader = installed().load(name)
    lacking = [said for said in ("id", "version") if not hasattr(grader, said)]
    if lacking:
        raise PluginError.shapeless("grader", name, lacking)
    return GraderRef(id=grader.id, version=grader.version)


def judgements(context: Context) -> list[Judgement]:
    """What every check, invariant and grader of the workflow says of the run: hard before trajectory, in the order they are written."""
    file = context.invariants.file
    checks = [*_checks(file.checks), *rows.checks(context), *_asked(context)]
    found = [_guarded(name, check, context) for name, check in checks]
    found += [*_invariants(context), *(_plugged(name, context) for name in file.graders)]
    return sorted(found, key=lambda judgement: list(Tier).index(judgement.tier))


def together(context: Context) -> list[Judgement]:
    """What the invariants, and no duplicate write, say of the turns of a conversation as one run.

    Checks that ask for one record (counts, explained writes) and loops, which a user may ask for, are judged by turn.
    """
    wanted = [found for found in _checks(context.invariants.file.checks) if found[0] == "no_duplicate_write"]
    return [*_invariants(context), *(_guarded(name, check, context) for name, check in wanted)]


def _invariants(context: Context) -> Iterator[Judgement]:
    # Where no check turns a malformed call red, a condition that trips over it must not be taken for false.
    checked = context.invariants.file.checks.call_schemas
    malformed = frozenset(step.crossing.place for step, _ in calls.malformed(context) if checked)
    for invariant in context.invariants.invariants:
        if invariant.spec.tier is not Tier.SEMANTIC and binds(invariant, context):
            yield judge(invariant, context, malformed=malformed)


def _checks(checks: Checks) -> Iterator[tuple[str, Callable[[Context], Judgement]]]:
    wanted: Iterable[tuple[bool, str, Callable[[Context], Judgement]]] = (
        (checks.call_schemas, "call_schemas", calls.call_schemas),
        (checks.explained_writes, "explained_writes", explained.explained_writes),
        (checks.no_duplicate_write, "no_duplicate_write", duplicates.no_duplicate_write),
        (checks.allowed_tools is not None, "allowed_tools", calls.allowed_tools),
        (bool(checks.forbidden_tools), "forbidden_tools", calls.forbidden_tools),
        (checks.no_loop is not None, "no_loop", calls.no_loop),
        (checks.call_counts, "call_counts", counts.call_counts),
        (checks.no_swallowed_error is not False, "no_swallowed_error", swallowed.no_swallowed_error),
    )
    return ((name, check) for on, name, check in wanted if on)


def _asked(context: Context) -> Iterator[tuple[str, Callable[[Context], Judgement]]]:
    """The checks that a case asks for, and that of a conversation."""
    if context.invariants.file.checks.context_drift is not False and len(drift.turns(context.run)) > 1:
        yield "context_drift", drift.context_drift
    case = context.case
    if case is None:
        return
    if case.in_order or any(write.times is not None for write in case.expected):
        yield "expected_writes", expected.expected_writes
    if case.latency is not None:
        yield "latency", latency.latency


def _plugged(name: str, context: Context) -> Judgement:
    grader: Grader = installed().load(name)
    return _guarded(name, grader, context)


def _guarded(name: str, grader: Callable[[Context], Judgement], context: Context) -> Judgement:
    try:
        return grader(context)
    except ConditionError as broken:
        return Judgement(id=name, kind=Sort.MUST_NOT.value, truth=None, error=str(broken))
    except Exception as raised:  # noqa: BLE001 - whatever a grader raises is our fault, not the candidate's
        return Judgement(id=name, kind=Sort.MUST_NOT.value, truth=None, error=_told(raised))


def _told(raised: Exception) -> str:
    """Where it raised and what, without its text: that may hold recorded values."""
    frames = traceback.extract_tb(raised.__traceback__)
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join([*places, type(raised).__qualname__])
