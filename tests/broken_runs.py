"""Every break of a case judged inside this process, as `twiceshy break` judges it in a sealed one."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from builders import Build, a_case, replayed
from twiceshy import breakage, breaking, candidates
from twiceshy.boundary import Boundary
from twiceshy.breakage import BreakRun
from twiceshy.breaking import BreakingBoundary
from twiceshy.candidates import Candidate
from twiceshy.casefile import Judge
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Envelope
from twiceshy.grading import case_grader
from twiceshy.invariants import Invariants
from twiceshy.judging import Rules, Terms
from twiceshy.policy import ToolsPolicy
from twiceshy.replaying import Replay
from twiceshy.replaying import Terms as ReplayTerms
from twiceshy.running import Played, Task
from twiceshy.sealing import Isolation
from twiceshy.transcript import Transcript


class Sitting:
    """A session without a process. What the candidate is made by stands in for its factory."""

    def __init__(self, build: Build) -> None:
        self._build = build
        declared = candidates.described(build, Candidate(workflow="refund")).boundaries
        self.ready = SimpleNamespace(isolation=Isolation.HERMETIC, boundaries=declared)

    def play(self, task: Task) -> Played:
        """One trial."""
        told, applied = broken(self._build, task.loaded.envelope, *task.breaks, policy=task.policy, cut=task.judge.cut)
        return Played(transcript=told, applied=frozenset(applied))


def broken(
    build: Build, envelope: Envelope, *breaks: str, policy: ToolsPolicy, cut: CutPoint | None = None
) -> tuple[Transcript, list[str]]:
    """A replay under these breaks, and those that changed something."""
    applied: list[str] = []
    terms = {"policy": policy, "cut": cut or CutPoint()}

    def boundary(replay: Replay) -> Boundary:
        return BreakingBoundary(
            replay, [breaking.parse(text) for text in breaks], record=envelope, terms=ReplayTerms(**terms),
            on_applied=lambda found: applied.append(found.text),
        )  # fmt: skip

    def complete(made: Boundary) -> Callable[[Any], Any]:
        agent = build(made)
        made.complete()
        return agent

    return replayed(complete, envelope, boundary=boundary, **terms), applied


def judged(
    build: Build, envelope: Envelope, breaks: Sequence[str], *, policy: ToolsPolicy, invariants: Invariants, judge: Judge, **case: Any
) -> list[BreakRun]:  # fmt: skip
    """What became of each break of a case. case: fields of the case."""
    own = [*(stated.spec.id for stated in invariants.invariants), "no_duplicate_write", "no_swallowed_error"]
    loaded = a_case(envelope, breaks=list(breaks), invariants=own, **{"kind": "positive", **case})
    sitting: Any = Sitting(build)
    grader = case_grader(loaded, invariants, policy)
    done = breakage.broken_case(
        sitting, grader, Rules(policy=policy, invariants=invariants, harness=""), Terms(judges=[judge])
    )
    (unbroken,) = done.unbroken
    assert done.passed, (unbroken.verdict.violations, unbroken.transcript.divergence, unbroken.transcript.fault)
    return list(done.runs)


def steps(told: Transcript) -> list[tuple[str, Any, Any]]:
    """Every step with what it got and what went back."""
    made = [played.crossing for played in told.played if not played.crossing.sub]
    return [(crossing.place, crossing.seen, crossing.shown) for crossing in made]
