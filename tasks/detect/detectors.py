"""Loops, swallowed errors and runs past their end, found in a recorded run without any invariant (signatures.md §7).

Precise, with low recall: facets and evidence for signatures, never the failure detector. Flagged at 2 as a signal, failing at 3.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import UNSET

from twiceshy.conditions import Condition
from twiceshy.envelope import Effect, Kind
from twiceshy.evidence import Run, Step, states
from twiceshy.identity import digest
from twiceshy.standpoints import possibly

SIGNAL = 2
FAILURE = 3
NO_PROGRESS = 5

Level = Literal["signal", "failure"]


class Hit(NamedTuple):
    """One detector on one run. steps: the crossings it rests on, the onset first. kind, effect: as in `Findings`."""

    detector: str
    kind: str
    effect: str
    level: Level
    steps: tuple[Step, ...]
    message: str


class _Seen(NamedTuple):
    """A call with its state and a digest of what came back."""

    step: Step
    state: str
    result: str


def hits(run: Run, done: Condition | None) -> list[Hit]:
    """Every hit of a recorded run, by onset. done: the workflow's done-predicate, None where it declares none."""
    calls = [_Seen(step, state, _result(step)) for step, state in states(run)]
    order = {id(step): at for at, step in enumerate(run.steps)}
    found = [
        *_repeats(run, calls),
        *_no_progress(run, calls),
        *_error_runs(calls),
        *_swallowed(run),
        *_overruns(run, done),
    ]
    return sorted(found, key=lambda hit: (order[id(hit.steps[0])], hit.detector))


def _repeats(run: Run, calls: Sequence[_Seen]) -> Iterator[Hit]:
    """REPEAT: the same call by one agent, again and again, with state and result constant. A tool that is polled fails only past its max_polls."""
    for row in _rows(calls, lambda call: [call.step.crossing.name, call.step.key, call.state, call.result]):
        policy = run.policy.of(row[0].step.crossing.name)
        fails_at = FAILURE if not policy.poll else (policy.max_polls or len(row)) + 1
        if len(row) >= (fails_at if policy.poll else SIGNAL):
            yield _hit("repeat", "loop", "loop", row, fails_at, f"the same call {len(row)} times, and nothing changed")


def _no_progress(run: Run, calls: Sequence[_Seen]) -> Iterator[Hit]:
    """NO_PROGRESS: one tool with ever other arguments, always the same result, state constant. Pure tools and polls are exempt."""
    for row in _rows(calls, lambda call: [call.step.crossing.name, call.state, call.result]):
        first = row[0].step
        named = run.policy.of(first.crossing.name)
        exempt = named.poll or _effect(run, first) is Effect.NONE or first.crossing.error is not None
        if not exempt and len(row) >= NO_PROGRESS and len({call.step.key for call in row}) > 1:
            yield _hit(
                "no_progress", "loop", "loop", row, NO_PROGRESS, f"{len(row)} calls with one and the same result"
            )


def _error_runs(calls: Sequence[_Seen]) -> Iterator[Hit]:
    """ERROR_RUN: equal error classes of one tool, consecutive for that tool."""
    by_tool: dict[tuple[str, str], list[_Seen]] = defaultdict(list)
    for call in calls:
        by_tool[call.step.crossing.scope, call.step.crossing.name].append(call)
    for of_tool in by_tool.values():
        for row in _runs(of_tool, lambda call: call.step.crossing.error.type if call.step.crossing.error else None):
            if row[0].step.crossing.error is not None and len(row) >= SIGNAL:
                yield _hit("error_run", "loop", "loop", row, FAILURE, f"the same error {len(row)} times in a row")


def _swallowed(run: Run) -> Iterator[Hit]:
    """SWALLOWED_ERROR: what came back is an error, what the model was shown is none, and the run goes on."""
    for at, step in enumerate(run.steps):
        crossing = step.crossing
        failed = crossing.error is not None or is_error(crossing.raw)
        goes_on = run.ended or any(later.crossing.kind is Kind.MODEL for later in run.steps[at + 1 :])
        if (
            crossing.kind is Kind.TOOL
            and failed
            and crossing.shown is not UNSET
            and not is_error(crossing.shown)
            and goes_on
        ):
            yield Hit(
                "swallowed_error", "error", "missing", "failure", (step,), "an error that the model was not shown"
            )


def _overruns(run: Run, done: Condition | None) -> Iterator[Hit]:
    """OVERRUN: calls after the done-predicate came true that are not closing ones."""
    if done is None:
        return
    late = [step for step in run.calls() if not run.policy.of(step.crossing.name).closing and possibly(done, run, step)]
    if late:
        yield Hit("overrun", "loop", "extra", "failure", tuple(late), f"{len(late)} calls after the work was done")


def is_error(value: Any) -> bool:
    """Whether a result says of itself that it is an error: `error` or `is_error` set, an error status, or text that begins with `Error`."""
    if isinstance(value, str):
        return value.startswith("Error")
    if not isinstance(value, dict):
        return False
    status = str(value.get("status", value.get("response_status", ""))).casefold()
    return bool(value.get("error") or value.get("is_error") or value.get("isError")) or status == "error"


def _hit(detector: str, kind: str, effect: str, row: Sequence[_Seen], fails_at: int, message: str) -> Hit:
    level: Level = "failure" if len(row) >= fails_at else "signal"
    return Hit(detector, kind, effect, level, tuple(call.step for call in row), message)


def _rows(calls: Iterable[_Seen], mark: Callable[[_Seen], object]) -> Iterator[list[_Seen]]:
    """Consecutive calls of one agent with equal marks."""
    by_scope: dict[str, list[_Seen]] = defaultdict(list)
    for call in calls:
        by_scope[call.step.crossing.scope].append(call)
    for of_agent in by_scope.values():
        yield from _runs(of_agent, mark)


def _runs(calls: Sequence[_Seen], mark: Callable[[_Seen], object]) -> Iterator[list[_Seen]]:
    row: list[_Seen] = []
    for call in calls:
        if row and mark(row[-1]) != mark(call):
            yield row
            row = []
        row.append(call)
    if row:
        yield row


def _result(step: Step) -> str:
    crossing = step.crossing
    returned = None if step.returned is UNSET else [step.returned]
    return digest([returned, crossing.error.type if crossing.error else None, crossing.blocked_by])


def _effect(run: Run, step: Step) -> Effect:
    return run.policy.effect_of(step.crossing)
