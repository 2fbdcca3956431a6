"""Six dimensions of one run, each a share of what was counted for it, each with a threshold of its own, never averaged (semantics.md §7).

Only a run that came to its end is measured: a run that diverged, or went on with stale model outputs, is not the candidate's whole doing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy import paths
from twiceshy.conditions import ConditionError
from twiceshy.envelope import Record
from twiceshy.evidence import before, marked, states
from twiceshy.facts import facts, grounded, grounded_before
from twiceshy.identity import digest
from twiceshy.invariants import Sort
from twiceshy.matching import CALLS
from twiceshy.outcome import DimensionName, Truth
from twiceshy.standpoints import possibly
from twiceshy.verdict import CallRef

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from twiceshy.conditions import Condition
    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import Judgement
    from twiceshy.policy import ToolsPolicy

GOAL = "goal"
"""The id of a world's outcome check: rows that must have changed."""

_ADMITS = ("error", "fail", "unable", "could not", "couldn't", "cannot", "can't", "unavailable", "not found")
"""What a text says that tells of an error without its name."""


class Score(Record, frozen=True, kw_only=True):
    """One dimension of one run: `hits` of `n`. threshold: the least share, a ratio 0-1; None where none is set."""

    name: DimensionName
    hits: int = 0
    n: int = 0
    threshold: float | None = None
    error: str | None = None
    """Why it could not be measured; with a threshold that makes the trial an ERROR."""

    @property
    def value(self) -> float | None:
        """The share, a ratio 0-1; None where the dimension does not apply."""
        return self.hits / self.n if self.n else None

    @property
    def passed(self) -> bool | None:
        """Whether it reaches its threshold; None without a value or a threshold."""
        return None if self.value is None or self.threshold is None else self.value >= self.threshold


@dataclass(frozen=True, kw_only=True)
class Measures:
    """What a run is measured by. expected: the calls of the case's annotation or of a champion that PASSED; None where there is neither.

    given: the input of the run. done: the workflow's done-predicate. thresholds: the least share of each dimension that has one.
    """

    expected: Sequence[CallRef] | None = None
    given: Any = None
    done: Condition | None = None
    thresholds: Mapping[DimensionName, float] = field(default_factory=dict)


def scores(run: Run, found: Sequence[Judgement], measures: Measures, *, names: Collection[str] = ()) -> list[Score]:
    """All six, in the order of `DimensionName`. names: the invariant ids the case itself stands for."""
    counted: dict[DimensionName, Callable[[], tuple[int, int]]] = {
        DimensionName.TOOL_SELECTION: lambda: _tool_selection(run, measures.expected),
        DimensionName.ARGUMENT_EXTRACTION: lambda: _argument_extraction(run, measures.expected),
        DimensionName.RESULT_UTILIZATION: lambda: _result_utilization(run, measures.given),
        DimensionName.ERROR_RECOVERY: lambda: _error_recovery(run),
        DimensionName.PLAN_COHERENCE: lambda: _plan_coherence(run, measures.done),
        DimensionName.TASK_COMPLETION: lambda: _task_completion(found, names),
    }
    whole = run.ended and not run.stale
    return [_score(name, counted[name] if whole else None, measures.thresholds.get(name)) for name in DimensionName]


def _score(name: DimensionName, count: Callable[[], tuple[int, int]] | None, threshold: float | None) -> Score:
    try:
        hits, n = count() if count is not None else (0, 0)
    except ConditionError as broken:
        return Score(name=name, threshold=threshold, error=str(broken))
    return Score(name=name, hits=hits, n=n, threshold=threshold)


def called(run: Run) -> list[CallRef]:
    """The calls of a run as what is expected of another: each logical call once, its arguments by digest, so that no value is told."""
    return [
        CallRef(tool=step.crossing.name, args={path: digest(leaf) for path, leaf in _argument_leaves(step, run.policy)})
        for step in _logical(run)
    ]


def annotated(tool: str, args: Mapping[str, Any]) -> CallRef:
    """A call as a case's annotation expects it: argument paths and the values they must lead to."""
    return CallRef(tool=tool, args={path: digest(value) for path, value in args.items()})


def _tool_selection(run: Run, expected: Sequence[CallRef] | None) -> tuple[int, int]:
    """1 - edit distance / the longer of the two sequences (Levenshtein 1966, unit costs)."""
    if expected is None:
        return 0, 0
    ours, theirs = [step.crossing.name for step in _logical(run)], [call.tool for call in expected]
    longer = max(len(ours), len(theirs))
    return longer - _edits(ours, theirs), longer


def _edits(ours: Sequence[str], theirs: Sequence[str]) -> int:
    row = list(range(len(theirs) + 1))
    for at, name in enumerate(ours, 1):
        above, row = row, [at]
        for to, wanted in enumerate(theirs, 1):
            row.append(min(above[to] + 1, row[to - 1] + 1, above[to - 1] + (name != wanted)))
    return row[-1]


def _argument_extraction(run: Run, expected: Sequence[CallRef] | None) -> tuple[int, int]:
    """Each expected call is held against the call of its tool, not yet taken, with the most equal leaves; one that was never made has none."""
    free: dict[str, list[Step]] = defaultdict(list)
    for step in _logical(run):
        free[step.crossing.name].append(step)
    hits = n = 0
    for wanted in expected or ():
        n += len(wanted.args)
        rows = [(_equal_leaves(step, wanted, run.policy), step) for step in free[wanted.tool]]
        if rows:
            best, step = max(rows, key=lambda row: row[0])
            free[wanted.tool].remove(step)
            hits += best
    return hits, n


def _equal_leaves(step: Step, wanted: CallRef, policy: ToolsPolicy) -> int:
    held = dict(_argument_leaves(step, policy))
    return sum(_leads_to(path, stated, held, step) for path, stated in wanted.args.items())


def _leads_to(path: str, stated: str, held: Mapping[str, Any], step: Step) -> bool:
    """Whether a path leads to the stated value: a leaf as the policy compares it, or what the arguments hold there as it stands."""
    if path in held and digest(held[path]) == stated:
        return True
    try:
        found = list(paths.found(step.args, paths.parse(path)))
    except ValueError:  # a leaf inside a list, which only the champion's own calls name
        return False
    return bool(found) and all(digest(value) == stated for value in found)


def _result_utilization(run: Run, given: Any) -> tuple[int, int]:
    """Of the leaves of arguments and of the output that hold facts, those whose facts all came from the input or an earlier crossing."""
    looked = [
        (facts(leaf), known)
        for step, known in grounded_before(run, given)
        if step.crossing.kind in CALLS
        for _, leaf in _argument_leaves(step, run.policy)
    ]
    told = _leaves(run.output)
    at_the_end = grounded(run, given)
    stated = [(held, known) for held, known in [*looked, *((facts(leaf), at_the_end) for _, leaf in told)] if held]
    return sum(held <= known for held, known in stated), len(stated)


def _error_recovery(run: Run) -> tuple[int, int]:
    failed = [step for step in _made(run) if step.crossing.error is not None and step.crossing.blocked_by is None]
    return sum(_recovered(step, run) for step in failed), len(failed)


def _recovered(failed: Step, run: Run) -> bool:
    """Whether a later call is another one than the one that failed, or the output tells of the error."""
    mine = (failed.crossing.name, failed.key)
    later = (step for step in run.calls() if before(failed, step))
    return any((step.crossing.name, step.key) != mine for step in later) or _mentioned(failed, run.output)


def _mentioned(failed: Step, output: Any) -> bool:
    error = failed.crossing.error
    if error is None:
        return False
    words = [failed.crossing.name, error.cls.rpartition(".")[2], error.message, *_ADMITS]
    words += [error.type] if error.type != "unknown" else []
    told = " ".join(leaf for _, leaf in _leaves(output) if isinstance(leaf, str)).casefold()
    return any(word.casefold() in told for word in words if word)


def _plan_coherence(run: Run, done: Condition | None) -> tuple[int, int]:
    """A call is wasted that repeats an earlier one of its agent under the same state with the same result, or that comes after the work was done."""
    seen: Counter[tuple[str, str]] = Counter()
    calls = wasted = 0
    for call, state in states(run):
        calls += 1
        mark = call.crossing.scope, marked(call, state)
        seen[mark] += 1
        wasted += seen[mark] > _free_repeats(call, run.policy) or _after_done(call, run, done)
    return calls - wasted, calls


def _free_repeats(call: Step, policy: ToolsPolicy) -> float:
    polled = policy.of(call.crossing.name)
    if not polled.poll:
        return 1
    return float("inf") if polled.max_polls is None else polled.max_polls


def _after_done(call: Step, run: Run, done: Condition | None) -> bool:
    closing = run.policy.of(call.crossing.name).closing
    return done is not None and not closing and possibly(done, run, call)


def _task_completion(found: Sequence[Judgement], names: Collection[str]) -> tuple[int, int]:
    """Of what had to be: every must_happen and output that binds, what the case itself stands for, and a world's goal."""
    required = [
        judgement
        for judgement in found
        if not judgement.advisory
        and (judgement.kind in (Sort.MUST_HAPPEN, Sort.OUTPUT) or judgement.id in names or judgement.id == GOAL)
    ]
    return sum(judgement.truth is Truth.SATISFIED for judgement in required), len(required)


def _made(run: Run) -> Iterator[Step]:
    return (step for step in run.steps if step.crossing.kind in CALLS)


def _logical(run: Run) -> Iterator[Step]:
    """Each call once, however often it was attempted."""
    return (step for step in _made(run) if step.crossing.attempt == 1)


def _argument_leaves(step: Step, policy: ToolsPolicy) -> Iterator[tuple[str, Any]]:
    """The leaves of a call's arguments as its policy compares them: what is volatile is no part of them."""
    if step.args is UNSET:
        return iter(())
    return _leaves(policy.identified(step.crossing.name, step.args))


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf that holds something."""
    if value is UNSET:
        return iter(())
    return ((path, leaf) for path, leaf in paths.leaves(value) if leaf not in ({}, []))
