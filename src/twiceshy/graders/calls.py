"""Checks on calls: their schemas, which tools may be called, loops."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import UNSET

from twiceshy.evidence import Fate, Run, Step, marked, states
from twiceshy.invariants import Sort
from twiceshy.judgement import Judgement
from twiceshy.schemas import breaks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from twiceshy.judgement import Context
    from twiceshy.schemas import SchemaBreak


def malformed(context: Context) -> Iterator[tuple[Step, list[SchemaBreak]]]:
    """Every call whose arguments violate its tool's schema in tools.yaml; one that a guard stopped never became a call."""
    for step in context.run.calls():
        schema = context.run.policy.of(step.crossing.name).schema
        if schema is None or step.refused() or step.args is UNSET:
            continue
        found = breaks(schema, step.args)
        if found:
            yield step, found


def call_schemas(context: Context) -> Judgement:
    """Violated at the first call whose arguments violate its tool's schema, even if the tool refused it."""
    blank = Judgement(
        id="call_schemas",
        kind=Sort.SCHEMA.value,
        effect="wrong_args",
        message="the arguments of a call must match its tool's schema",
    )
    for step, found in malformed(context):
        return blank.at(step, schema=found, detail=str(found[0]))
    return blank.kept(context.run)


def allowed_tools(context: Context) -> Judgement:
    """Violated at the first call of a tool that is not listed as allowed."""
    blank = Judgement(
        id="allowed_tools", kind=Sort.MUST_NOT.value, effect="extra", message="only the listed tools may be called"
    )
    allowed = context.invariants.file.checks.allowed_tools or []
    return _none(blank, context.run, lambda name: name not in allowed)


def forbidden_tools(context: Context) -> Judgement:
    """Violated at the first call of a tool that is listed as forbidden."""
    blank = Judgement(
        id="forbidden_tools", kind=Sort.MUST_NOT.value, effect="extra", message="this tool may not be called"
    )
    forbidden = context.invariants.file.checks.forbidden_tools
    return _none(blank, context.run, lambda name: name in forbidden)


def no_loop(context: Context) -> Judgement:
    """REPEAT(n) of signatures.md §7: n equal calls in a row of one agent, under one state, with one result. Tools marked `poll` only fail past their `max_polls`."""
    blank = Judgement(
        id="no_loop", kind=Sort.COUNT.value, effect="loop", message="the same call is repeated though nothing changes"
    )
    most = context.invariants.file.checks.no_loop or 0
    rows: dict[str, list[Step]] = defaultdict(list)
    last: dict[str, str] = {}
    for call, state in states(context.run):
        scope = call.crossing.scope
        mark = marked(call, state)
        rows[scope] = [*rows[scope], call] if last.get(scope) == mark else [call]
        last[scope] = mark
        limit = _limit(context.run, call, most)
        if limit is not None and len(rows[scope]) >= limit:
            return blank.at(*rows[scope], detail=f"{len(rows[scope])} times in a row")
    return blank.kept(context.run)


def _limit(run: Run, call: Step, most: int) -> int | None:
    policy = run.policy.of(call.crossing.name)
    if not policy.poll:
        return most
    return None if policy.max_polls is None else policy.max_polls + 1


def _none(blank: Judgement, run: Run, wrong: Callable[[str], bool]) -> Judgement:
    found = [step for step in run.calls() if step.fate is not Fate.NOTHING and wrong(step.crossing.name)]
    return blank.at(*found) if found else blank.kept(run)
