"""The verdict as GitHub Markdown: the summary of a step and the comment on a pull request (faces.md §4.3-§4.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.outcome import Outcome
from twiceshy.reporting import phrases
from twiceshy.reporting.escaping import code, markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.verdict import Result, Verdict

SUMMARY_BYTES = 900 * 1024
"""Of a step summary: GitHub rejects one over 1 MiB whole."""

COMMENT_BYTES = 60_000
"""Of a comment: GitHub takes 64 Ki characters."""

_HEADER = "| | signature | violated assertion | at boundary | state | trace_id | mode |\n|---|---|---|---|---|---|---|"
_ICONS = {Outcome.PASSED: "✅", Outcome.FAILED: "❌", Outcome.DIVERGED: "◐", Outcome.ERROR: "⚠️"}


def summary(verdict: Verdict, *, limit: int = SUMMARY_BYTES) -> str:
    """The summary table with its details. Over the limit (bytes) detail goes first, then rows; the verdict line and the exit code always stay."""
    shown = [result for result in verdict.results if result.outcome is not Outcome.PASSED]
    for details in (_details(verdict), ""):
        whole = _joined(_head(verdict), _table(shown), details, _foot(verdict))
        if len(whole.encode()) <= limit:
            return whole
    return _fewer_rows(verdict, shown, limit)


def comment(verdict: Verdict, *, limit: int = COMMENT_BYTES) -> str:
    """The sticky comment: the summary under a marker that finds it again."""
    marker = f"<!-- twiceshy:gate:{_word(verdict.run.workflow)} -->\n"
    return marker + summary(verdict, limit=limit - len(marker.encode()))


def _fewer_rows(verdict: Verdict, shown: Sequence[Result], limit: int) -> str:
    """As many rows as fit, and how many were left out. The longest row is measured, so that one pass is enough."""
    head, foot = _head(verdict), _foot(verdict)
    rows = [_row(result) for result in shown]
    left_out = f"… and {len(rows)} more rows, left out for length: the JSON result has them all."
    room = limit - len(_joined(head, _HEADER, left_out, foot).encode())
    kept: list[str] = []
    for row in rows:
        room -= len(row.encode()) + 1
        if room < 0:
            break
        kept.append(row)
    left_out = f"… and {len(rows) - len(kept)} more rows, left out for length: the JSON result has them all."
    return _joined(head, "\n".join([_HEADER, *kept]) if kept else "", left_out, foot)


def _head(verdict: Verdict) -> str:
    code_word = verdict.summary.exit_code
    icon = "✅" if code_word == 0 else "◐" if code_word == 3 else "❌"  # noqa: PLR2004 - the exit code of diverged
    champion = f" · champion {code(verdict.run.champion.ref)}" if verdict.run.champion else ""
    title = f"## {icon} Replay gate: {phrases.tally(verdict.summary)}"
    about = f"{code(verdict.run.candidate.ref)} · {markdown(verdict.run.workflow)} · catalog {code(verdict.run.catalog.version)}{champion}"
    return f"{title}\n{about} · exit code {code_word}"


def _table(results: Sequence[Result]) -> str:
    return "\n".join([_HEADER, *map(_row, results)]) if results else ""


def _row(result: Result) -> str:
    assertion, place, state = _cells(result)
    change = f" {result.change}" if result.change else ""
    cells = (
        f"{_ICONS[result.outcome]}{change}",
        _name(result),
        assertion,
        place,
        state,
        code(result.trace_id),
        markdown(result.mode),
    )
    return f"| {' | '.join(cells)} |"


def _name(result: Result) -> str:
    """The signature, linked to its report where that is a web address or a path beside this one."""
    url = result.report_url
    if url is None or not (url.startswith("https://") or _word(url) == url):
        return markdown(result.name)
    return f'<a href="{markdown(url)}">{markdown(result.name)}</a>'


def _cells(result: Result) -> tuple[str, str, str]:
    """Assertion, boundary and state: of the first violation, else of the divergence, else why there is no verdict."""
    if result.violations:
        first = result.violations[0]
        more = f" and {len(result.violations) - 1} more" if len(result.violations) > 1 else ""
        place = f"{markdown(first.place or 'end')} {code((first.boundary or 'run').partition(':')[2] or 'run')}"
        return f"{code(first.assertion_id)} ({first.tier}){more}", place, markdown(first.boundary_state or "")
    if result.divergence is not None and result.outcome is Outcome.DIVERGED:
        found = result.divergence
        name = found.boundary.partition(":")[2] or found.boundary
        return (
            markdown(phrases.why(result)),
            f"{markdown(found.place)} {code(name)}",
            markdown(found.boundary_state or ""),
        )
    return markdown(phrases.why(result)), "", ""


def _details(verdict: Verdict) -> str:
    parts = [
        _folded(
            "What ran live, frozen or intercepted", [_states(result) for result in verdict.results if result.boundaries]
        )
    ]
    near = [
        f"{_name(result)}: {markdown(text)}"
        for result in verdict.results
        if result.divergence
        for text in phrases.nearest(result.divergence)
    ]
    parts.append(_folded("Nearest recordings", near))
    parts.append(_folded("Rows of the world", [text for result in verdict.results for text in _rows(result)]))
    passed = [_passed(result) for result in verdict.results if result.outcome is Outcome.PASSED]
    counts = verdict.summary.counts
    title = f"{counts.passed} passed, {counts.newly_covered} newly covered, {counts.newly_lost} newly lost"
    return _joined(*parts, _folded(title, passed))


def _rows(result: Result) -> list[str]:
    """A line a row that is not as it must be, and one for the rows that a person added."""
    changed = [
        f"{_name(result)}: {code(violation.assertion_id)} {markdown(text)}"
        for violation in result.violations
        for text in phrases.rows(violation)
    ]
    invented = result.world.invented if result.world else []
    return [*changed, f"{_name(result)}: invented {', '.join(map(code, invented))}"] if invented else changed


def _passed(result: Result) -> str:
    """A passed case; one that was decided before it diverged says what stayed open."""
    if not result.decided or result.divergence is None:
        return _name(result)
    left = f"; open: {', '.join(code(name) for name in result.open)}" if result.open else ""
    return f"{_name(result)}, decided before {markdown(result.divergence.kind)} at {markdown(result.divergence.place)}{left}"


def _states(result: Result) -> str:
    by_state: dict[str, list[str]] = {}
    for bound in result.boundaries:
        by_state.setdefault(bound.state.value, []).append(f"{bound.kind}:{bound.name}")
    said = [
        f"{state} {', '.join(code(name) for name in dict.fromkeys(names))}" for state, names in sorted(by_state.items())
    ]
    return f"{_name(result)}: {'; '.join(said)}"


def _folded(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    body = "\n".join(f"- {line}" for line in lines)
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def _foot(verdict: Verdict) -> str:
    said = [markdown(text) for text in [*verdict.summary.reasons, *phrases.remarks(verdict)]]
    if verdict.summary.counts.diverged:
        said.append("Diverged is not a failure: the recording cannot judge this path.")
    return "\n".join(f"- {text}" for text in said)


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _word(text: str) -> str:
    return "".join(
        character for character in text if character.isascii() and (character.isalnum() or character in "-_./")
    )
