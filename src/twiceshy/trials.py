"""From trials to one outcome: k trials of a judging mode, then the judging modes of a case, all of which must hold (semantics.md §6-§7)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from twiceshy.invariants import Sort
from twiceshy.outcome import Divergence, Outcome
from twiceshy.statistics import pass_hat_k
from twiceshy.transcript import Diverged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.answerers import Asked
    from twiceshy.cutpoint import CutPoint
    from twiceshy.grading import TrialVerdict
    from twiceshy.specs import Floor
    from twiceshy.transcript import Transcript

# The worst first: a proven failure outweighs our own faults, and those outweigh what could not be judged.
WORST = (Outcome.FAILED, Outcome.ERROR, Outcome.DIVERGED, Outcome.PASSED)


class Trial(NamedTuple):
    """One trial with its verdict, and the live models that were asked outside of it."""

    transcript: Transcript
    verdict: TrialVerdict
    asked: Sequence[Asked] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRun:
    """The trials of one judging mode. deciding: the trial that the outcome is shown by; verdict: its verdict, with the divergence of the mode."""

    cut: CutPoint
    trials: Sequence[Trial]
    outcome: Outcome
    deciding: Trial
    verdict: TrialVerdict
    floor: Floor | None = None
    """Given where the trials were judged as a rate."""

    @property
    def passed(self) -> int:
        """How many trials passed."""
        return sum(trial.verdict.outcome is Outcome.PASSED for trial in self.trials)

    @property
    def rate(self) -> float | None:
        """pass^k at the k of the floor, a ratio 0-1; None for a hermetic mode."""
        return None if self.floor is None else pass_hat_k([(len(self.trials), self.passed)], self.floor.k)


def mode_run(cut: CutPoint, trials: Sequence[Trial], *, floor: Floor | None = None) -> ModeRun:
    """The outcome of one judging mode over its trials. floor: given where a live model makes trials differ by chance, so that they are judged as a rate.

    Hermetic: any FAILED is FAILED, any ERROR is ERROR, PASSED and DIVERGED mixed is DIVERGED (`nondeterministic_candidate`).
    """
    outcome = _hermetic(trials) if floor is None else _by_chance(trials, floor)
    deciding = next((trial for trial in trials if trial.verdict.outcome is outcome), trials[0])
    verdict = deciding.verdict
    if (
        outcome is Outcome.DIVERGED
        and floor is None
        and any(trial.verdict.outcome is Outcome.PASSED for trial in trials)
    ):
        verdict = _nondeterministic(verdict, trials)
    return ModeRun(cut=cut, trials=trials, outcome=outcome, deciding=deciding, verdict=verdict, floor=floor)


def unrepeated(verdict: TrialVerdict, first: Transcript, again: Transcript) -> TrialVerdict:
    """The verdict of a trial with a live model that, run again on its own replies, came to another transcript: ERROR, for what it came to was not the model's doing alone.

    What must never happen and did is proven all the same (semantics.md §7).
    """
    why = f"run again on its own replies, the trial came to another transcript, first at {_parting(first, again)}"
    if _proves(verdict):
        return msgspec.structs.replace(verdict, notes=[*verdict.notes, why])
    return msgspec.structs.replace(
        verdict, outcome=Outcome.ERROR, error=why, failure=None, divergence=None, decided=False
    )


def _parting(first: Transcript, again: Transcript) -> str:
    """The first step at which two runs are not the same; `end` where all steps are."""
    pairs = zip_longest(first.played, again.played)
    places = ((one or other).crossing.place for one, other in pairs if one != other)
    return next(places, "end")


def worst(modes: Sequence[ModeRun]) -> ModeRun:
    """The judging mode that decides a case: the first with the worst outcome, so that all must hold."""
    return min(modes, key=lambda mode: WORST.index(mode.outcome))


def _hermetic(trials: Sequence[Trial]) -> Outcome:
    return min((trial.verdict.outcome for trial in trials), key=WORST.index)


def _by_chance(trials: Sequence[Trial], floor: Floor) -> Outcome:
    """Failing once proves that a forbidden or doubled thing can happen; everything else is a rate. A diverged trial did not pass."""
    if any(_proves(trial.verdict) for trial in trials):
        return Outcome.FAILED
    outcomes = [trial.verdict.outcome for trial in trials]
    if Outcome.ERROR in outcomes:
        return Outcome.ERROR
    passed = outcomes.count(Outcome.PASSED)
    if pass_hat_k([(len(trials), passed)], floor.k) >= floor.rate:
        return Outcome.PASSED
    return Outcome.FAILED if Outcome.FAILED in outcomes else Outcome.DIVERGED


def _proves(verdict: TrialVerdict) -> bool:
    return any(found.kind == Sort.MUST_NOT or found.id == "no_duplicate_write" for found in verdict.violations)


def _nondeterministic(verdict: TrialVerdict, trials: Sequence[Trial]) -> TrialVerdict:
    counted = {outcome: sum(trial.verdict.outcome is outcome for trial in trials) for outcome in WORST}
    first = verdict.divergence
    divergence = Diverged(
        kind=Divergence.NONDETERMINISTIC_CANDIDATE, place=first.place if first else "end", boundary=first.boundary if first else "run",
        detail=f"{counted[Outcome.PASSED]} of {len(trials)} trials passed, {counted[Outcome.DIVERGED]} diverged",
        asked=first.asked if first else msgspec.UNSET, nearest=first.nearest if first else [],
    )  # fmt: skip
    return msgspec.structs.replace(verdict, divergence=divergence)
