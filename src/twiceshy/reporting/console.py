"""The verdict as plain lines: one a case that did not pass or passed only as decided, then what it comes to (faces.md §4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.outcome import Outcome
from twiceshy.reporting import phrases
from twiceshy.reporting.escaping import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.verdict import Divergence, Result, Verdict


def render(verdict: Verdict, *, verbose: bool = False) -> str:
    """The lines of a gate run, a newline after each. verbose: a line for passed cases too."""
    return "".join(f"{line}\n" for line in _lines(verdict, verbose=verbose))


def line(result: Result) -> str:
    """One result in one line: what, which trace, why, where and whether that was frozen, live or intercepted, in which mode, and the case."""
    said = [result.outcome.value.upper(), plain(result.name), _pair("trace", result.trace_id)]
    said += [_pair(name, value) for name, value in _reason(result)]
    said += [_pair("mode", result.mode)]
    said += [_pair("change", result.change)] if result.change else []
    said += [_pair("waiver", result.waiver.id)] if result.waiver else []
    said += [_pair("invented", ",".join(result.world.invented))] if result.world and result.world.invented else []
    said += [_pair("previous", result.previous_outcome)] if result.previous_outcome and not result.change else []
    said += [_pair("turns", ",".join(turn.outcome for turn in result.turns))] if result.turns else []
    return " ".join([*said, _pair("case", result.case.path)])


def _lines(verdict: Verdict, *, verbose: bool) -> Iterator[str]:
    for result in verdict.results:
        if verbose or result.decided or result.outcome is not Outcome.PASSED:
            yield line(result)
    for remark in phrases.remarks(verdict):
        yield plain(remark)
    yield f"{plain(verdict.run.candidate.ref)}: {phrases.tally(verdict.summary)}"
    for reason in verdict.summary.reasons:
        yield f"  {plain(reason)}"
    yield f"exit {verdict.summary.exit_code}: {verdict.summary.verdict.replace('_', ' ')}"


def _reason(result: Result) -> Iterator[tuple[str, object]]:
    if result.violations:
        first, *rest = result.violations
        yield "assertion", first.assertion_id
        yield "at", phrases.where(first)
        changed = [text for violation in result.violations for text in phrases.rows(violation)]
        if changed:
            yield "rows", "; ".join(dict.fromkeys(changed))
        if rest:
            yield "also", ",".join(violation.assertion_id for violation in rest)
    elif result.failure is not None:
        yield "failure", result.failure
        if missed := phrases.missed(result):
            yield "because", "; ".join(missed)
    if result.divergence is not None:
        yield from _diverged(result, result.divergence)
    if result.error is not None:
        yield "error", result.error.splitlines()[0] if result.error else "unknown"


def _diverged(result: Result, divergence: Divergence) -> Iterator[tuple[str, object]]:
    yield "decided" if result.decided else "divergence", divergence.kind
    yield "at", phrases.asked(divergence)
    if result.decided and result.open:
        yield "open", ",".join(result.open)
    near = phrases.nearest(divergence)
    if near:
        yield "nearest", "; ".join(near)
    if divergence.detail:
        yield "because", divergence.detail


def _pair(name: str, value: object) -> str:
    """`name=value`; only `at` goes unquoted where it holds a space, as people read it."""
    text = plain(value)
    quoted = " " in text and name != "at"
    return f'{name}="{text}"' if quoted else f"{name}={text}"
