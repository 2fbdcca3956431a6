"""The one verdict object of a gate run: exit code, console, JSON, JUnit and Markdown are renderings of it; none of them recomputes an outcome. Data only.

No recorded value stands in it: ids, tool names, assertion ids, JSON paths and digests only.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from twiceshy.answerers import LiveModel
from twiceshy.envelope import Effect, Kind, Record
from twiceshy.outcome import BoundaryState, DimensionName, Failure, Outcome
from twiceshy.outcome import Divergence as DivergenceKind

SCHEMA_ID = "https://twiceshy.invalid/schemas/gate-result.v1.schema.json"

Change = Literal["regressed", "known", "new"]
"""What the champion did where this candidate FAILED."""


class Tool(Record, frozen=True, kw_only=True):
    """What wrote the result."""

    name: Literal["twiceshy"] = "twiceshy"
    version: str


class Git(Record, frozen=True, kw_only=True):
    """Where the candidate's code stood."""

    sha: str | None = None
    base: str | None = None


class CandidateRef(Record, frozen=True, kw_only=True):
    """The version under test: its name and the digests of its layers; None where a layer is not known. layers: routing, memory, skills, harness."""

    ref: str
    digest: str
    prompt: str | None = None
    model: str | None = None
    tools: dict[str, str | None] = {}
    layers: dict[str, str | None] = {}


class ChampionRef(Record, frozen=True, kw_only=True):
    """The version whose results are pinned."""

    ref: str
    digest: str


class CatalogRef(Record, frozen=True, kw_only=True):
    """The cases that were there to choose from."""

    version: str
    digest: str


class GraderRef(Record, frozen=True, kw_only=True):
    """A grader that took part."""

    id: str
    version: int


class JudgeRef(Record, frozen=True, kw_only=True):
    """The judge of the semantic tier, as it was pinned; rubrics: the digest of each by its invariant."""

    model: str
    version: str
    temperature: float
    samples: int
    rubrics: dict[str, str]


class Run(Record, frozen=True, kw_only=True):
    """One gate run. Times are ISO 8601 in UTC."""

    id: str
    started: str
    finished: str
    mode: str
    workflow: str
    candidate: CandidateRef
    catalog: CatalogRef
    harness_version: str
    harness_state: str
    git: Git = Git()
    champion: ChampionRef | None = None
    corpus: str | None = None
    graders: list[GraderRef] = []
    judge: JudgeRef | None = None
    trials: int = 2


class Policy(Record, frozen=True, kw_only=True):
    """What the gate lets through. max_diverged: a number, or a percentage as `5%`."""

    fail_on: tuple[Outcome, ...] = (Outcome.FAILED, Outcome.DIVERGED, Outcome.ERROR)
    max_diverged: str = "0"
    min_cases: int = 1
    accept_unexercised: list[str] = []
    exit_zero: bool = False


class Counts(Record, frozen=True, kw_only=True):
    """Cases by what they came to. Not run is a count, not an outcome."""

    passed: int = 0
    failed: int = 0
    diverged: int = 0
    error: int = 0
    not_run: int = 0
    regressed: int = 0
    known: int = 0
    new: int = 0
    waived: int = 0
    newly_covered: int = 0
    newly_lost: int = 0


class Dimension(Record, frozen=True, kw_only=True):
    """One of the six dimensions, judged on its own, never averaged; None where it does not apply."""

    name: DimensionName
    value: float | None
    threshold: float | None
    n: int
    ci_low: float | None
    ci_high: float | None
    passed: bool | None


class Comparison(Record, frozen=True, kw_only=True):
    """Candidate against champion over the cases that a live model is judged on, a pair a case: exact McNemar, one-sided (signatures.md §10.3).

    regressions, improvements: pairs in which fewer, or more, trials passed than the champion's. need: how many pairs would decide at the same share; None where
    nothing points to a regression, or it is decided.
    """

    pairs: int
    regressions: int
    improvements: int
    p: float
    worse: bool
    need: int | None = None

    @property
    def text(self) -> str:
        """With its counts: `6 regressions and 0 improvements in 12 pairs, exact McNemar p = 0.016`."""
        counted = f"{self.regressions} regressions and {self.improvements} improvements in {self.pairs} pairs"
        need = f"; inconclusive: need {self.need} pairs" if self.need is not None else ""
        return f"{counted}, exact McNemar p = {self.p:.3f}{need}"


class Summary(Record, frozen=True, kw_only=True):
    """What the run came to. exit_code is the true one, whatever `--exit-zero` makes of it; reasons say why, most severe first.

    over_budget: more cases diverged than the policy allows. not_comparable: cases whose live trials cannot be held against the champion's.
    live: None where no case that a live model is judged on has a champion's result of as many trials.
    """

    verdict: Literal["passed", "failed", "diverged", "error", "nothing_judged"]
    exit_code: int
    reasons: list[str]
    counts: Counts
    over_budget: bool = False
    by_dimension: list[Dimension] = []
    live: Comparison | None = None
    not_comparable: list[str] = []


class Waiver(Record, frozen=True, kw_only=True):
    """A person's dated decision that a known failure may stand. Dates are ISO 8601; after `until` it counts no more."""

    id: str
    case: str
    assertions: list[str]
    by: str
    date: str
    why: str
    until: str | None = None


class Boundary(Record, frozen=True, kw_only=True):
    """What the replay did at one crossing."""

    seq: int
    sub: int
    name: str
    kind: Kind
    effect: Effect | None
    state: BoundaryState


class RowDiff(Record, frozen=True, kw_only=True):
    """What became of one row of a case's world: its place in world.yaml, and the paths that changed."""

    row: str
    change: Literal["inserted", "updated", "deleted"]
    paths: list[str] = []
    invented: bool = False


class Violation(Record, frozen=True, kw_only=True):
    """One violated assertion, at the crossing where it shows first; no place where it shows at the end of the run."""

    tier: Literal["hard", "trajectory", "semantic"]
    assertion_id: str
    version: int
    message: str
    detail: str = ""
    place: str | None = None
    boundary: str | None = None
    boundary_seq: int | None = None
    boundary_state: BoundaryState | None = None
    rows: list[RowDiff] = []
    """The rows of the case's world that are not as they must be."""


class Near(Record, frozen=True, kw_only=True):
    """A recorded crossing that was near, why it was refused, and the paths that differ."""

    place: str
    reason: str
    paths: list[str] = []


class Divergence(Record, frozen=True, kw_only=True):
    """Why the case could not judge. got_hash: the digest of what was asked."""

    kind: DivergenceKind
    boundary: str
    place: str
    detail: str = ""
    boundary_state: BoundaryState | None = None
    nearest: list[Near] = []
    got_hash: str | None = None


class WriteIntent(Record, frozen=True, kw_only=True):
    """An intercepted write."""

    seq: int
    tool: str
    args_hash: str
    idempotency_key_hash: str | None = None
    blocked_by: str | None = None
    answered_by: str | None = None


class CaseRef(Record, frozen=True, kw_only=True):
    """The case that was judged."""

    id: str
    path: str
    kind: Literal["failure", "positive"]
    severity: str
    digest: str
    envelope_digest: str
    redaction_review: str


class Rate(Record, frozen=True, kw_only=True):
    """pass^k over the trials of a judging mode with a live model, and the floor it may not fall below; ratios 0-1."""

    k: int
    value: float
    floor: float


class CallRef(Record, frozen=True, kw_only=True):
    """One call that a run made, each leaf of its arguments by the digest of its value."""

    tool: str
    args: dict[str, str] = {}


class ModeResult(Record, frozen=True, kw_only=True):
    """One judging mode of a case: what its trials came to and the digest of each transcript. previous: what the champion came to in it. rate: where a live model is judged."""

    mode: str
    outcome: Outcome
    trials: int
    passed: int
    violated: list[str] = []
    transcripts: list[str] = []
    manifest: dict[str, BoundaryState] = {}
    """What was done at every boundary that is declared or was met, as `kind:name`; after a prefix, past its end."""
    live_models: list[LiveModel] = []
    seed: str = ""
    """Of draws past the record: trial N draws from `SEED/N`."""
    previous: Outcome | None = None
    rate: Rate | None = None
    previous_trials: int = 0
    previous_passed: int = 0
    calls: list[CallRef] = []
    """Of a mode that PASSED undiverged, the calls it made: what another version's calls are held against."""


class WorldRef(Record, frozen=True, kw_only=True):
    """The world that answered. invented: its rows that a person added, as `appointments[1]`."""

    digest: str
    invented: list[str] = []


class TurnResult(Record, frozen=True, kw_only=True):
    """What one turn of a conversation came to, from 0; case: where it is a case of its own."""

    turn: int
    outcome: Outcome
    violated: list[str] = []
    case: str | None = None


class Conversation(Record, frozen=True, kw_only=True):
    """Turns that are cases of their own, and what they came to together. error: why that could not be judged; unordered: cases of equal number whose order decides."""

    id: str
    outcome: Outcome
    turns: list[TurnResult]
    violations: list[Violation] = []
    error: str | None = None
    unordered: list[str] = []


class Result(Record, frozen=True, kw_only=True):
    """One case. The details are those of the judging mode and the trial that decide it; dimensions: those that apply or have a threshold."""

    signature: str | None
    case: CaseRef
    trace_id: str
    related_trace_ids: list[str] = []
    outcome: Outcome
    mode: str
    modes: list[ModeResult]
    isolation: str
    failure: Failure | None = None
    decided: bool = False
    change: Change | None = None
    waiver: Waiver | None = None
    previous_outcome: Outcome | None = None
    violations: list[Violation] = []
    divergence: Divergence | None = None
    error: str | None = None
    boundaries: list[Boundary] = []
    write_intents: list[WriteIntent] = []
    open: list[str] = []
    exercised: list[str] = []
    world: WorldRef | None = None
    simulated: bool = False
    """Whether a simulator answered anything in it: no gate accepts that."""
    notes: list[str] = []
    dimensions: list[Dimension] = []
    turns: list[TurnResult] = []
    """Where the user speaks more than once in the run."""
    duration_ms: int | None = None
    report_url: str | None = None

    @property
    def name(self) -> str:
        """How people call it: its signature, or the id of a case that has none."""
        return self.signature or self.case.id

    @property
    def lost(self) -> bool:
        """Whether a judging mode in which the champion PASSED is now DIVERGED."""
        return any(mode.previous is Outcome.PASSED and mode.outcome is Outcome.DIVERGED for mode in self.modes) or (
            self.previous_outcome is Outcome.PASSED and self.outcome is Outcome.DIVERGED
        )

    @property
    def red(self) -> bool:
        """Whether it is a failure that nothing excuses: only a known one with a waiver is excused."""
        return self.outcome is Outcome.FAILED and not (self.change == "known" and self.waiver is not None)


class Verdict(Record, frozen=True, kw_only=True):
    """One gate run, whole. warnings: what was given and had no effect, a line each: a waiver that excuses nothing."""

    schema_version: Literal["1"] = "1"
    tool: Tool
    run: Run
    policy: Policy
    summary: Summary
    results: list[Result]
    conversations: list[Conversation] = []
    warnings: list[str] = []


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a verdict as JSON; every object is closed."""
    shape = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(Verdict)))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **shape}
