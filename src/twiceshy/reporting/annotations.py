"""GitHub annotations: a workflow command for what a person must look at, few enough that none is dropped (faces.md §4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.outcome import Outcome
from twiceshy.reporting import phrases
from twiceshy.reporting.escaping import command_data, command_property

if TYPE_CHECKING:
    from twiceshy.verdict import Result, Verdict

MOST = 9
"""Of about ten errors and ten warnings that a step may show."""

_LEVELS = {Outcome.FAILED: "error", Outcome.ERROR: "error", Outcome.DIVERGED: "warning"}


def render(verdict: Verdict) -> str:
    """At most nine commands a level and a last one that says how many were left out; what was accepted, or had no effect, comes first."""
    lines: list[str] = []
    for level in ("error", "warning"):
        found = [_command(level, result) for result in verdict.results if _LEVELS.get(result.outcome) == level]
        found = [*_remarks(verdict), *found] if level == "warning" else found
        lines += found[:MOST]
        if len(found) > MOST:
            lines.append(f"::{level}::and {len(found) - MOST} more")
    return "".join(f"{line}\n" for line in lines)


def _remarks(verdict: Verdict) -> list[str]:
    said = list(verdict.warnings)
    if verdict.policy.accept_unexercised:
        said.append(f"accepted unexercised: {', '.join(verdict.policy.accept_unexercised)}")
    return [f"::warning title=twiceshy::{command_data(text)}" for text in said]


def _command(level: str, result: Result) -> str:
    assertion = (
        result.violations[0].assertion_id
        if result.violations
        else (result.divergence.kind if result.divergence else result.outcome)
    )
    title = f"{result.name}::{assertion}"
    return f"::{level} file={command_property(result.case.path)},title={command_property(title)}::{command_data(phrases.why(result))}"
