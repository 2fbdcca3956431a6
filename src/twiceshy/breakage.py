"""Break tests: every break of a case must turn it red, or it covers nothing (semantics.md §8).

A break is judged where the unbroken candidate PASSED: what was red before proves nothing by being red again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from twiceshy import breaking
from twiceshy.breaking.copies import NotApplicable
from twiceshy.breaking.nowhere import applied_nowhere
from twiceshy.errors import CandidateError
from twiceshy.matching import CALLS
from twiceshy.outcome import Failure, Outcome
from twiceshy.results import broken
from twiceshy.running import Played
from twiceshy.sealing import Isolation
from twiceshy.transcript import Transcript
from twiceshy.trials import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from twiceshy.breaking import Break
    from twiceshy.casefile import Judge, LoadedCase
    from twiceshy.grading import CaseGrader, TrialVerdict
    from twiceshy.judging import Rules, Terms
    from twiceshy.running import Session
    from twiceshy.sessions import SessionPool

    Play = Callable[[Judge], Played]

_NOWHERE = "it applied nowhere"

BreakState = Literal["killed", "survived", "inconclusive", "error"]
_FIRST: Sequence[BreakState] = ("killed", "survived", "inconclusive", "error")
"""A case is red as soon as one of its judging modes is, so the first of these that any mode came to counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakRun:
    """One break under one judging mode.

    killed: FAILED on the case's own ids. inconclusive: DIVERGED, crashed, FAILED on others, or the unbroken candidate does not pass. error: it applied nowhere.
    equivalent: it survived, and the whole run was to the byte the unbroken one.
    """

    case: str
    text: str
    mode: str
    state: BreakState
    violated: Sequence[str] = ()
    why: str = ""
    equivalent: bool = False
    judge: Judge
    trial: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCase:
    """A case with its unbroken trials, one a judging mode, and every break under every mode. isolation: the level that held."""

    loaded: LoadedCase
    isolation: str
    unbroken: Sequence[Trial]
    runs: Sequence[BreakRun]

    @property
    def passed(self) -> bool:
        """Whether the unbroken candidate PASSED it in every judging mode."""
        return all(trial.verdict.outcome is Outcome.PASSED for trial in self.unbroken)

    @property
    def states(self) -> Mapping[str, BreakState]:
        """What became of each break over all judging modes, by its text."""
        found: dict[str, BreakState] = {}
        for run in self.runs:
            found[run.text] = min(found.get(run.text, "error"), run.state, key=_FIRST.index)
        return found

    @property
    def equivalent(self) -> list[str]:
        """The breaks that were shown to change nothing: wherever one applied, the run was the unbroken one."""
        survived = [text for text, state in self.states.items() if state == "survived"]
        return [text for text in survived if all(run.equivalent for run in self._applied(text))]

    def _applied(self, text: str) -> list[BreakRun]:
        return [run for run in self.runs if run.text == text and run.state != "error"]


class Score(NamedTuple):
    """The mutation score of a catalog: breaks killed, of all that were declared and of those not shown equivalent."""

    killed: int
    declared: int
    applied: int
    equivalent: int

    @property
    def of_all(self) -> float | None:
        """Killed / declared, a ratio 0-1; None without breaks. A break that applied nowhere counts as not killed."""
        return self.killed / self.declared if self.declared else None

    @property
    def of_reachable(self) -> float | None:
        """Killed / declared less those shown equivalent, a ratio 0-1; None where nothing is left."""
        left = self.declared - self.equivalent
        return self.killed / left if left else None


def break_cases(pool: SessionPool, docket: Sequence[CaseGrader], rules: Rules, terms: Terms) -> list[BrokenCase]:
    """`broken_case` of every case, in the order given, over the sessions of a pool."""

    def one(grader: CaseGrader) -> BrokenCase:
        with pool.lent() as session:
            return broken_case(session, grader, rules, terms)

    with ThreadPoolExecutor(pool.size) as threads:
        return list(threads.map(one, docket))


def broken_case(
    session: Session, grader: CaseGrader, rules: Rules, terms: Terms, *, unbroken: Sequence[Trial] | None = None
) -> BrokenCase:
    """Every break of a case under every judging mode, one trial each, beside one unbroken trial of each mode.

    unbroken: those trials where they were played already, the first of each mode.
    """
    judges = terms.judges_of(grader)
    if unbroken is None:
        unbroken = [_trial(grader, judge, session.play(rules.task(grader.loaded, judge, terms))) for judge in judges]
    runs: list[BreakRun] = []
    for found in map(breaking.parse, grader.loaded.case.breaks):
        with _played(session, grader, rules, terms, found) as play:
            runs += [
                _run(grader, found, judge, before, play(judge), declared=session.ready.boundaries)
                for judge, before in zip(judges, unbroken, strict=True)
            ]
    return BrokenCase(loaded=grader.loaded, isolation=session.ready.isolation.value, unbroken=unbroken, runs=runs)


def score(cases: Sequence[BrokenCase]) -> Score:
    """The mutation score over these cases."""
    states = [state for case in cases for state in case.states.values()]
    return Score(
        killed=states.count("killed"), declared=len(states), applied=len(states) - states.count("error"),
        equivalent=sum(len(case.equivalent) for case in cases),
    )  # fmt: skip


def uncovered(case: BrokenCase, others: Sequence[BrokenCase]) -> str | None:
    """Why a case covers nothing, in a clause; None where it is covered: passed, every break killed, and (for a failure) a positive case of its tool passed too."""
    states = case.states
    if case.isolation != Isolation.HERMETIC:
        return f"its isolation was {case.isolation}, and nothing that ran so proves anything"
    if not case.passed:
        return "the unbroken candidate does not pass it"
    if not states:
        return "it declares no break"
    alive = [text for text, state in states.items() if state != "killed"]
    if alive:
        return f"not killed: {', '.join(alive)}"
    if case.loaded.case.kind == "failure" and not any(_vouches(other, case) for other in others):
        return "no positive case of its tool passed"
    return None


def _vouches(positive: BrokenCase, case: BrokenCase) -> bool:
    """Whether this is a positive case that passed in which the tool was used well; for a failure that rests on no tool any of its workflow is."""
    ours, theirs = case.loaded.case, positive.loaded.case
    if (
        theirs.kind != "positive"
        or theirs.workflow != ours.workflow
        or not positive.passed
        or positive.isolation != Isolation.HERMETIC
    ):
        return False
    return ours.tool in (None, theirs.tool) or any(
        crossing.name == ours.tool and crossing.kind in CALLS and crossing.blocked_by is None and crossing.error is None
        for crossing in positive.loaded.envelope.crossings
    )


@contextmanager
def _played(session: Session, grader: CaseGrader, rules: Rules, terms: Terms, found: Break) -> Iterator[Play]:
    """How one broken trial is run: in this session where the break acts at the boundary, in one of its own where it changes code."""
    if not found.of_code:
        yield lambda judge: session.play(rules.task(grader.loaded, judge, terms, breaks=[found.text]))
        return
    with ExitStack() as stack:
        try:
            other = stack.enter_context(session.broken(found, grader.loaded.path))
        except NotApplicable as nowhere:
            fault = Played(transcript=Transcript(fault=str(nowhere)), applied=frozenset())
            yield lambda _: fault
        except CandidateError:
            crashed = Played(transcript=Transcript(crash="crashed"), applied=frozenset([found.text]))
            yield lambda _: crashed
        else:
            yield lambda judge: _applied(other.play(rules.task(grader.loaded, judge, terms)), found)


def _applied(played: Played, found: Break) -> Played:
    return Played(transcript=played.transcript, applied=frozenset([found.text]), cpu_s=played.cpu_s)


def _trial(grader: CaseGrader, judge: Judge, played: Played) -> Trial:
    return Trial(played.transcript, grader.trial(played.transcript, judge.cut))


def _run(
    grader: CaseGrader, found: Break, judge: Judge, before: Trial, played: Played, *, declared: Sequence[str]
) -> BreakRun:
    trial = _trial(grader, judge, played)
    state, why = _state(grader.loaded, trial.verdict, before.verdict, applied=found.text in played.applied)
    if why == _NOWHERE:
        record = grader.loaded.envelope
        why = f"{why}: {applied_nowhere(found, trial.transcript.played, declared=declared, record=record)}"
    return BreakRun(
        case=grader.loaded.case.id, text=found.text, mode=judge.cut.label, state=state, why=why, violated=broken(trial.verdict),
        equivalent=state == "survived" and trial.transcript.digest == before.transcript.digest, judge=judge, trial=trial,
    )  # fmt: skip


def _state(loaded: LoadedCase, verdict: TrialVerdict, before: TrialVerdict, *, applied: bool) -> tuple[BreakState, str]:
    """Killed = FAILED on the case's own invariant ids; a break that changed nothing proves nothing (semantics.md §8.1)."""
    if not applied or verdict.outcome is Outcome.ERROR:
        return "error", verdict.error or _NOWHERE
    if before.outcome is not Outcome.PASSED:
        return "inconclusive", f"unbroken, the case is {before.outcome}"
    if verdict.outcome is Outcome.PASSED:
        return "survived", ""
    if verdict.outcome is Outcome.DIVERGED:
        return "inconclusive", str(verdict.divergence.kind) if verdict.divergence else "diverged"
    own = {*loaded.case.invariants, *loaded.case.decided_by}
    found = broken(verdict)
    if own & set(found):
        return "killed", ""
    if verdict.failure in (Failure.CANDIDATE_CRASHED, Failure.CANDIDATE_TIMEOUT):
        return "inconclusive", str(verdict.failure)
    return "inconclusive", f"it FAILED on {', '.join(found)}, which `invariants` of the case does not name"
