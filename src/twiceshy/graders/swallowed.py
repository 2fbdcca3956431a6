"""No tool error swallowed that the model had to see (semantics.md §7)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twiceshy.envelope import Kind
from twiceshy.identity import equal
from twiceshy.invariants import Sort, Tier
from twiceshy.judgement import Judgement
from twiceshy.paths import leaves

if TYPE_CHECKING:
    from collections.abc import Collection

    from twiceshy.evidence import Run, Step
    from twiceshy.judgement import Context

_TELLING = (
    "error",
    "fail",
    "exception",
    "denied",
    "refused",
    "invalid",
    "not found",
    "timeout",
    "timed out",
    "unavailable",
)
"""What a text says that tells of an error without its name."""


def no_swallowed_error(context: Context) -> Judgement:
    """Violated where a tool's error was shown as something else, or where the model that asked for the call goes on without being told.

    A retry that brings an answer leaves nothing to tell. A recorded run has a detector for this, so replays only are judged.
    """
    blank = Judgement(
        id="no_swallowed_error", tier=Tier.TRAJECTORY, kind=Sort.MUST_NOT.value, effect="missing",
        message="an error of a tool may not be kept from the model",
    )  # fmt: skip
    run = context.run
    if context.case is not None:
        for at, step in enumerate(run.steps):
            if _failed(step) and (_disguised(step) or _untold(run, at)):
                return blank.at(step, detail=_named(step))
    return blank.kept(run)


def tells_of_error(value: Any) -> bool:
    """Whether a result says of itself that it is an error: `error` or `is_error` set, an error status, or text that begins with `Error`."""
    if isinstance(value, str):
        return value.startswith("Error")
    if not isinstance(value, dict):
        return False
    status = str(value.get("status", "")).casefold()
    return bool(value.get("error") or value.get("is_error") or value.get("isError")) or status == "error"


def _failed(step: Step) -> bool:
    crossing = step.crossing
    called = crossing.kind is Kind.TOOL and crossing.blocked_by is None
    return called and (crossing.error is not None or tells_of_error(crossing.raw))


def _disguised(step: Step) -> bool:
    """Whether hooks or middleware made something else of it, which no longer tells of an error."""
    crossing = step.crossing
    if crossing.shown is UNSET or tells_of_error(crossing.shown):
        return False
    if crossing.raw is UNSET:
        return not _told(step, _texts(crossing.shown))
    return not equal(crossing.raw, crossing.shown)


def _untold(run: Run, at: int) -> bool:
    """Whether the model that asked for the call has its next turn without a word of the error. Code that calls a tool by itself may handle it by itself."""
    step = run.steps[at]
    if step.crossing.group is None or step.crossing.error is None or _answered_later(run, at):
        return False
    turns = [
        turn for turn in run.steps if turn.crossing.kind is Kind.MODEL and turn.crossing.scope == step.crossing.scope
    ]
    asked = next((turn for turn in turns if turn.crossing.seq == step.crossing.group), None)
    following = next((turn for turn in turns if turn.turn > step.turn), None)
    if following is None or following.crossing.seen is UNSET:
        return False
    before = [] if asked is None else _texts(asked.crossing.seen)
    return not _told(step, Counter(_texts(following.crossing.seen)) - Counter(before))


def _answered_later(run: Run, at: int) -> bool:
    """Whether the same call was made again, whatever came of that: the last attempt is the one to tell of."""
    step = run.steps[at]
    return any(
        (later.crossing.scope, later.crossing.name, later.key) == (step.crossing.scope, step.crossing.name, step.key)
        for later in run.steps[at + 1 :]
    )


def _told(step: Step, added: Collection[str]) -> bool:
    """Whether one of these texts tells of the error. Of a request they are what it has besides that of the turn before: the prompt speaks of errors too."""
    error = step.crossing.error
    words = [*_TELLING]
    if error is not None:
        words += [error.cls.rpartition(".")[2], error.message, *([error.type] if error.type != "unknown" else [])]
    return any(word.casefold() in text for word in words if word for text in added)


def _texts(value: Any) -> list[str]:
    return [] if value is UNSET else [leaf.casefold() for _, leaf in leaves(value) if isinstance(leaf, str)]


def _named(step: Step) -> str:
    error = step.crossing.error
    return "" if error is None or error.type == "unknown" else error.type
