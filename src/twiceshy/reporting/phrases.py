"""How one result is put into words: the same words in every rendering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy.outcome import Failure, Outcome

if TYPE_CHECKING:
    from twiceshy.verdict import Divergence, ModeResult, Rate, Result, Summary, Verdict, Violation


def tally(summary: Summary) -> str:
    """The counts in one line, what matters most first."""
    counts = summary.counts
    named = (
        (counts.regressed, "regressed"), (counts.new, "failed (new)"), (counts.known, "failed (known)"), (counts.diverged, "diverged"),
        (counts.error, "error"), (counts.not_run, "not run"),
    )  # fmt: skip
    said = [f"{count} {word}" for count, word in named if count]
    return " · ".join([*said, f"{counts.passed} passed"])


def where(violation: Violation) -> str:
    """`#4 issue_refund[intercepted]`; `end` where it shows at the end of the run."""
    if violation.place is None:
        return "end"
    name = (violation.boundary or "").partition(":")[2] or "?"
    state = f"[{violation.boundary_state}]" if violation.boundary_state else ""
    return f"{violation.place} {name}{state}"


def asked(divergence: Divergence) -> str:
    """`#2 list_open_slots[frozen]`: where a run diverged."""
    name = divergence.boundary.partition(":")[2] or divergence.boundary
    state = f"[{divergence.boundary_state}]" if divergence.boundary_state else ""
    return f"{divergence.place} {name}{state}"


def nearest(divergence: Divergence) -> list[str]:
    """The nearest recordings with the reason each was refused: `#2 other arguments: day`."""
    return [
        f"{near.place} {near.reason}" + (f": {', '.join(near.paths)}" if near.paths else "")
        for near in divergence.nearest
    ]


def rows(violation: Violation) -> list[str]:
    """What became of each row of the world that is not as it must be: `appointments[1] updated (date, window), invented`."""
    return [
        f"{row.row} {row.change}" + (f" ({', '.join(row.paths)})" if row.paths else "") + (", invented" if row.invented else "")
        for row in violation.rows
    ]  # fmt: skip


def why(result: Result) -> str:
    """Why a case did not pass, in one clause."""
    if result.violations:
        return result.violations[0].message + (
            f" ({result.violations[0].detail})" if result.violations[0].detail else ""
        )
    if result.divergence is not None and result.outcome is Outcome.DIVERGED:
        return result.divergence.kind.meaning + (f": {result.divergence.detail}" if result.divergence.detail else "")
    if result.failure is Failure.DIMENSION:
        return "; ".join(missed(result))
    if result.failure is not None:
        return result.failure.value.replace("_", " ")
    return result.error or result.outcome.meaning


def rate_of(rate: Rate, mode: ModeResult) -> str:
    """`pass^2 0.300 (3 of 5 trials passed), floor 0.500`."""
    return f"pass^{rate.k} {rate.value:.3f} ({mode.passed} of {mode.trials} trials passed), floor {rate.floor:.3f}"


def missed(result: Result) -> list[str]:
    """The dimensions that are below their thresholds: `tool_selection 0.50 of 4, at least 0.80`."""
    return [
        f"{one.name} {one.value:.2f} of {one.n}, at least {one.threshold:.2f}"
        for one in result.dimensions
        if one.passed is False and one.value is not None
    ]


def remarks(verdict: Verdict) -> list[str]:
    """What every rendering has to say besides the results: what had no effect, what was accepted unexercised, which graders judged."""
    said = [f"warning: {text}" for text in verdict.warnings]
    if verdict.policy.accept_unexercised:
        said.append(f"accepted unexercised: {', '.join(verdict.policy.accept_unexercised)}")
    if verdict.run.graders:
        said.append("graders: " + ", ".join(f"{grader.id} v{grader.version}" for grader in verdict.run.graders))
    if verdict.run.judge is not None:
        judge = verdict.run.judge
        said.append(f"judge: {judge.model} {judge.version}, temperature {judge.temperature:g}, {judge.samples} samples")
    for result in verdict.results:
        said += [
            f"{result.name} [{mode.mode}]: {rate_of(mode.rate, mode)}" for mode in result.modes if mode.rate is not None
        ]
    if verdict.summary.live is not None:
        said.append(f"against the champion, live models: {verdict.summary.live.text}")
    if verdict.policy.exit_zero and verdict.summary.exit_code:
        said.append(f"--exit-zero: the true exit code is {verdict.summary.exit_code}")
    return said
