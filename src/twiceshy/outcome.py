"""What a run can come to: outcomes, divergences, failures and the states of boundaries.

Data only. A new member without a meaning breaks at import, so no table of labels can fall behind its enum.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
"""A share, 0-1."""


class Outcome(StrEnum):
    """The result of a case: semantics.md §1."""

    PASSED = "passed"
    FAILED = "failed"
    DIVERGED = "diverged"
    ERROR = "error"

    @property
    def meaning(self) -> str:
        """What it says, in one clause."""
        return _OUTCOMES[self]


class Divergence(StrEnum):
    """Why a case cannot judge this version. Every kind of semantics.md §4-§7, and no other."""

    UNRECORDED_CALL = "unrecorded_call"
    ARGS_MISMATCH = "args_mismatch"
    STATE_MISMATCH = "state_mismatch"
    EXHAUSTED = "exhausted"
    SCHEMA_MISMATCH = "schema_mismatch"
    SIDE_UNKNOWN = "side_unknown"
    MODEL_SHAPE = "model_shape"
    PROPOSAL_NOT_OFFERED = "proposal_not_offered"
    MODEL_EXHAUSTED = "model_exhausted"
    STALE_USER_TURN = "stale_user_turn"
    CLOCK_NOT_IN_PROMPT = "clock_not_in_prompt"
    FLAG_UNRECORDED = "flag_unrecorded"
    WRITE_UNANSWERABLE = "write_unanswerable"
    OPPORTUNITY_NOT_REACHED = "opportunity_not_reached"
    NOT_EXERCISED = "not_exercised"
    LIVE_UNCONTROLLED = "live_uncontrolled"
    LEFT_RUNNING = "left_running"
    WORLD_MISS = "world_miss"
    NONDETERMINISTIC_CANDIDATE = "nondeterministic_candidate"

    @property
    def meaning(self) -> str:
        """What happened, in one clause a person can act on."""
        return _DIVERGENCES[self]


class Failure(StrEnum):
    """Why a case FAILED."""

    INVARIANT = "invariant"
    OPEN_MUST_HAPPEN = "open_must_happen"
    CANDIDATE_CRASHED = "candidate_crashed"
    CANDIDATE_TIMEOUT = "candidate_timeout"
    DIMENSION = "dimension"


class DimensionName(StrEnum):
    """The six dimensions, each measured and judged on its own (semantics.md §7)."""

    TOOL_SELECTION = "tool_selection"
    ARGUMENT_EXTRACTION = "argument_extraction"
    RESULT_UTILIZATION = "result_utilization"
    ERROR_RECOVERY = "error_recovery"
    PLAN_COHERENCE = "plan_coherence"
    TASK_COMPLETION = "task_completion"


class Mode(StrEnum):
    """What is frozen and what runs live: semantics.md §6."""

    FULL = "full"
    CUT_POINT = "cut-point"
    STUB = "stub"
    WORLD = "world"
    EXPLORE = "explore"


class BoundaryState(StrEnum):
    """What a replay did at a boundary."""

    FROZEN = "frozen"
    LIVE = "live"
    INTERCEPTED = "intercepted"


class AnsweredBy(StrEnum):
    """Where an answer came from; the last two are improvised (semantics.md §5.2)."""

    RECORDED = "recorded"
    REPEATED = "repeated"
    LIVE = "live"
    GUARD = "guard"
    VALIDATION = "validation"
    WORLD = "world"
    SIMULATED = "simulated"
    DECLARED = "declared"
    TEMPLATE = "template"
    OUTPUT_SCHEMA = "output_schema"
    OK = "ok"

    @property
    def improvised(self) -> bool:
        """Whether nobody recorded, declared or wrote this answer for this call."""
        return self in (AnsweredBy.OUTPUT_SCHEMA, AnsweredBy.OK)


class Truth(StrEnum):
    """The three values of an invariant's monitor."""

    VIOLATED = "violated"
    SATISFIED = "satisfied"
    OPEN = "open"


_OUTCOMES: Mapping[Outcome, str] = {
    Outcome.PASSED: "held",
    Outcome.FAILED: "broke",
    Outcome.DIVERGED: "this case cannot judge this version",
    Outcome.ERROR: "our fault, not the candidate's",
}

_DIVERGENCES: Mapping[Divergence, str] = {
    Divergence.UNRECORDED_CALL: "a call of a name that was never recorded",
    Divergence.ARGS_MISMATCH: "the name was recorded, but not with these arguments",
    Divergence.STATE_MISMATCH: "this call was recorded, but under other writes",
    Divergence.EXHAUSTED: "every recording of this call was served, and they do not agree on one answer",
    Divergence.SCHEMA_MISMATCH: "the recorded result does not validate under the candidate's own schema",
    Divergence.SIDE_UNKNOWN: "live hooks need a side of this crossing that was never recorded",
    Divergence.MODEL_SHAPE: "the request offers other tools, schemas or another output format",
    Divergence.PROPOSAL_NOT_OFFERED: "the recorded output proposes a tool that is no longer offered",
    Divergence.MODEL_EXHAUSTED: "the record holds no further output of this model",
    Divergence.STALE_USER_TURN: "the recorded user turn answers another message",
    Divergence.CLOCK_NOT_IN_PROMPT: "a live model request lacks the recorded date",
    Divergence.FLAG_UNRECORDED: "a flag that was not recorded and has no overlay",
    Divergence.WRITE_UNANSWERABLE: "the run rests on an improvised answer to a write",
    Divergence.OPPORTUNITY_NOT_REACHED: "the run never came to the point where the failure can happen",
    Divergence.NOT_EXERCISED: "a changed layer was frozen in every run",
    Divergence.WORLD_MISS: "the seeded world cannot answer this call",
    Divergence.LIVE_UNCONTROLLED: "live code tried to reach a system outside the replay",
    Divergence.LEFT_RUNNING: "processes went on after their command had ended, and what they would have done is not known",
    Divergence.NONDETERMINISTIC_CANDIDATE: "trials of a hermetic run disagree",
}


class NotExhaustive(TypeError):
    """A table of meanings that does not cover its enum."""


def _check(table: Mapping[Any, str], enum: type[StrEnum]) -> None:
    if set(table) != set(enum):
        raise NotExhaustive(f"{enum.__name__}: {set(enum) ^ set(table)} without a meaning")


_check(_OUTCOMES, Outcome)
_check(_DIVERGENCES, Divergence)
