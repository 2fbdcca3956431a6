"""What a finished set of results comes to: counts, reasons and one exit code, decided once and never per case (faces.md §2.1)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Literal, NamedTuple

from twiceshy.errors import ConfigurationError
from twiceshy.outcome import DimensionName, Outcome
from twiceshy.statistics import mcnemar, wilson
from twiceshy.verdict import Comparison, Counts, Dimension, Policy, Summary, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.verdict import Conversation, ModeResult, Result, Run, Tool

Code = Literal[0, 1, 3, 4, 5]
Word = Literal["passed", "failed", "diverged", "error", "nothing_judged"]

PRECEDENCE: tuple[Code, ...] = (1, 4, 3, 5, 0)
"""A proven failure stays proven when the harness then dies; 2 never competes, since it precedes the run."""

_WORDS: dict[Code, Word] = {0: "passed", 1: "failed", 3: "diverged", 4: "error", 5: "nothing_judged"}
ALPHA = 0.05
"""The level of the one-sided exact McNemar test (signatures.md §10.3)."""

_HERMETIC = "hermetic"
_UNHELD = "without hermetic isolation"
_ISOLATIONS = {"clock-unsealed": "by the machine's clock (libfaketime is not installed, or does not reach the command)"}
_BUDGET = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<percent>%?)")


class Budget(NamedTuple):
    """How many diverged cases are allowed: a count, or a share (ratio 0-1) that the Wilson lower bound may not exceed."""

    most: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """The budget written as `3` or `5%`. Raises ConfigurationError."""
        found = _BUDGET.fullmatch(text.strip())
        if found is not None and found["percent"]:
            return cls(share=float(found["number"]) / 100)
        if found is not None and "." not in found["number"]:
            return cls(most=int(found["number"]))
        raise ConfigurationError(f"--max-diverged {text!r} is neither a number nor a percentage. Write 3 or 5%.")

    def exceeded(self, diverged: int, judged: int) -> bool:
        """Whether so many of so many are more than allowed."""
        if self.share is not None:
            return diverged > 0 and wilson(diverged, judged).low > self.share
        return diverged > (self.most or 0)


class Reason(NamedTuple):
    """Why the run does not end with 0."""

    code: Code
    text: str


def summary(
    results: Sequence[Result], policy: Policy, *, not_run: int = 0, conversations: Sequence[Conversation] = ()
) -> Summary:
    """What the results come to under a policy. not_run: selected cases that never got a result. conversations: whose turns are cases of their own."""
    found = [*_reasons(results, policy, not_run), *_whole(conversations, policy)]
    reasons = sorted(found, key=lambda reason: PRECEDENCE.index(reason.code))
    code = reasons[0].code if reasons else 0
    return Summary(
        verdict=_WORDS[code], exit_code=code, reasons=[reason.text for reason in reasons], counts=counts(results, not_run=not_run),
        over_budget=_over_budget(results, policy), live=live_comparison(results),
        not_comparable=[result.case.id for result in not_comparable(results)], by_dimension=by_dimension(results),
    )  # fmt: skip


def verdict(
    tool: Tool, run: Run, policy: Policy, results: Sequence[Result], *, not_run: int = 0, conversations: Sequence[Conversation] = (),
    warnings: Sequence[str] = (),
) -> Verdict:  # fmt: skip
    """The whole verdict object of a gate run."""
    return Verdict(
        tool=tool, run=run, policy=policy, summary=summary(results, policy, not_run=not_run, conversations=conversations),
        results=list(results), conversations=list(conversations), warnings=list(warnings),
    )  # fmt: skip


def exit_code(verdict: Verdict) -> int:
    """What the command ends with; `--exit-zero` changes this number and nothing else."""
    return 0 if verdict.policy.exit_zero else verdict.summary.exit_code


def live_comparison(results: Sequence[Result]) -> Comparison | None:
    """The candidate against the champion on the cases that a live model is judged on: a pair a case, both with as many trials.

    A regression is a case in which fewer trials passed, so trials of one case, which depend on each other, count once.
    """
    passes = [counted for result in results if (counted := _passes(result)) is not None]
    if not passes:
        return None
    regressions = sum(now < before for now, before in passes)
    improvements = sum(now > before for now, before in passes)
    p = mcnemar(regressions, improvements)
    return Comparison(
        pairs=len(passes), regressions=regressions, improvements=improvements, p=p, worse=p < ALPHA,
        need=None if p < ALPHA else _need(len(passes), regressions, improvements),
    )  # fmt: skip


def not_comparable(results: Sequence[Result]) -> list[Result]:
    """The cases that a live model is judged on, and the champion was too, but not in as many trials or not in every mode: nothing can be paired."""
    known = [result for result in results if any(mode.previous is not None for mode in _live(result))]
    return [result for result in known if _passes(result) is None]


def _live(result: Result) -> list[ModeResult]:
    return [mode for mode in result.modes if mode.rate is not None]


def _passes(result: Result) -> tuple[int, int] | None:
    """How many trials of its live modes passed, now and on the champion; None where they cannot be paired."""
    live = _live(result)
    if not live or any(mode.previous is None or mode.previous_trials != mode.trials for mode in live):
        return None
    return sum(mode.passed for mode in live), sum(mode.previous_passed for mode in live)


def _need(pairs: int, regressions: int, improvements: int) -> int | None:
    """How many pairs would decide if they went on as these; None where nothing points to a regression."""
    if regressions <= improvements:
        return None
    times = next(
        (times for times in range(2, 1000) if mcnemar(regressions * times, improvements * times) < ALPHA), None
    )
    return None if times is None else pairs * times


def by_dimension(results: Sequence[Result]) -> list[Dimension]:
    """Each dimension over the cases it applies to: what was counted, added up. Passed is that every case held; a threshold stands where all have the same one."""
    held: dict[DimensionName, list[Dimension]] = defaultdict(list)
    for result in results:
        for one in result.dimensions:
            held[one.name].append(one)
    return [_pooled(name, held[name]) for name in DimensionName if name in held]


def _pooled(name: DimensionName, held: Sequence[Dimension]) -> Dimension:
    n = sum(one.n for one in held)
    hits = sum(round(one.value * one.n) for one in held if one.value is not None)
    interval = wilson(hits, n) if n else None
    thresholds = {one.threshold for one in held}
    judged = [one.passed for one in held if one.passed is not None]
    return Dimension(
        name=name, value=hits / n if n else None, threshold=thresholds.pop() if len(thresholds) == 1 else None, n=n,
        ci_low=interval.low if interval else None, ci_high=interval.high if interval else None, passed=all(judged) if judged else None,
    )  # fmt: skip


def counts(results: Sequence[Result], *, not_run: int = 0) -> Counts:
    """Cases by outcome, by change, and against the champion."""
    outcomes = Counter(result.outcome for result in results)
    changes = Counter(result.change for result in results if result.change is not None)
    compared = [result for result in results if result.previous_outcome is not None]
    return Counts(
        passed=outcomes[Outcome.PASSED], failed=outcomes[Outcome.FAILED], diverged=outcomes[Outcome.DIVERGED], error=outcomes[Outcome.ERROR],
        not_run=not_run, regressed=changes["regressed"], known=changes["known"], new=changes["new"],
        waived=sum(result.waiver is not None for result in results),
        newly_covered=sum(_now(result, Outcome.PASSED) and not _was(result, Outcome.PASSED) for result in compared),
        newly_lost=sum(_was(result, Outcome.PASSED) and not _now(result, Outcome.PASSED) for result in compared),
    )  # fmt: skip


def _reasons(results: Sequence[Result], policy: Policy, not_run: int) -> Iterator[Reason]:
    """Every reason there is. ERROR is never green and `--fail-on` cannot make it so: a case that our own fault kept from being judged proves nothing."""
    red = [result for result in results if result.red]
    if red and Outcome.FAILED in policy.fail_on:
        yield Reason(1, f"{_cases(len(red))} failed: {_named(red)}")
    live = live_comparison(results)
    if live is not None and live.worse and Outcome.FAILED in policy.fail_on:
        yield Reason(1, f"live models are worse than the champion's: {live.text}")
    errors = _only(results, Outcome.ERROR)
    if errors:
        yield Reason(4, f"{_cases(len(errors))} could not be judged by our own fault: {_named(errors)}")
    yield from unaccepted(results)
    if not_run:
        yield Reason(4, f"{_cases(not_run)} selected, but not run to the end")
    if Outcome.DIVERGED in policy.fail_on:
        yield from _diverged(results, policy)
    yield from _too_few(results, policy)


def unaccepted(results: Sequence[Result]) -> Iterator[Reason]:
    """What no gate accepts, whatever it came to: weak isolation and simulated answers."""
    weak = [result for result in results if result.outcome is not Outcome.ERROR and result.isolation != _HERMETIC]
    if weak:
        how = " and ".join(sorted({_ISOLATIONS.get(result.isolation, _UNHELD) for result in weak}))
        yield Reason(4, f"{_cases(len(weak))} ran {how}, which no gate accepts: {_named(weak)}")
    simulated = [result for result in results if result.simulated]
    if simulated:
        said = f"{_cases(len(simulated))} rest on simulated answers, which no gate accepts: {_named(simulated)}"
        yield Reason(4, said)


def _whole(conversations: Sequence[Conversation], policy: Policy) -> Iterator[Reason]:
    """Turns that each pass do not make a passed conversation; no champion is pinned to one, so nothing excuses it."""
    broken = [one for one in conversations if one.violations]
    if broken and Outcome.FAILED in policy.fail_on:
        said = "; ".join(
            f"{one.id} ({', '.join(sorted({found.assertion_id for found in one.violations}))})" for one in broken
        )
        yield Reason(1, f"{_many(len(broken), 'conversation')} failed as a whole: {said}")
    for one in conversations:
        if one.unordered:
            said = f"which of {', '.join(one.unordered)} came first decides, and their envelopes bear the same turn"
            yield Reason(3, f"conversation {one.id} cannot be judged as a whole: {said}")
    unjudged = [one for one in conversations if one.error is not None]
    if unjudged:
        said = "; ".join(f"{one.id} ({one.error})" for one in unjudged)
        yield Reason(
            4, f"{_many(len(unjudged), 'conversation')} could not be judged as a whole by our own fault: {said}"
        )


def _diverged(results: Sequence[Result], policy: Policy) -> Iterator[Reason]:
    lost = [result for result in results if result.lost]
    if lost:
        yield Reason(3, f"{_cases(len(lost))} passed on the champion and diverged now: {_named(lost)}")
    unpaired = not_comparable(results)
    if unpaired:
        trials = sorted(
            {mode.previous_trials for result in unpaired for mode in _live(result) if mode.previous is not None}
        )
        pinned = " and ".join(map(str, trials))
        hint = f"its live trials are {pinned} a mode; run as many (--trials), or pin it anew"
        yield Reason(3, f"{_cases(len(unpaired))} not comparable with the champion ({hint}): {_named(unpaired)}")
    if _over_budget(results, policy):
        diverged = _only(results, Outcome.DIVERGED)
        yield Reason(3, f"{_cases(len(diverged))} diverged, {policy.max_diverged} allowed: {_named(diverged)}")


def _over_budget(results: Sequence[Result], policy: Policy) -> bool:
    ran = len(results) - len(_only(results, Outcome.ERROR))
    return Budget.parse(policy.max_diverged).exceeded(len(_only(results, Outcome.DIVERGED)), ran)


def _only(results: Sequence[Result], outcome: Outcome) -> list[Result]:
    return [result for result in results if result.outcome is outcome]


def _too_few(results: Sequence[Result], policy: Policy) -> Iterator[Reason]:
    """Only PASSED and FAILED are judged: a run in which nothing was judged proves nothing, whatever the budget lets through."""
    judged = sum(result.outcome in (Outcome.PASSED, Outcome.FAILED) for result in results)
    wanted = max(1, policy.min_cases)
    if judged < wanted:
        yield Reason(5, f"{_cases(judged)} judged, at least {wanted} wanted")


def _now(result: Result, outcome: Outcome) -> bool:
    return result.outcome is outcome


def _was(result: Result, outcome: Outcome) -> bool:
    return result.previous_outcome is outcome


def _cases(n: int) -> str:
    return _many(n, "case")


def _many(n: int, what: str) -> str:
    return f"1 {what}" if n == 1 else f"{n} {what}s"


def _named(results: Sequence[Result], *, most: int = 5) -> str:
    names = [result.name for result in results[:most]]
    return ", ".join(names) + (f" and {len(results) - most} more" if len(results) > most else "")
