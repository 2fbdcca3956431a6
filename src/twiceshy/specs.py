"""What is demanded, as it is written: invariants with their tiers, kinds and shapes, and what a case expects besides. Data only; `twiceshy.invariants` compiles."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy import paths
from twiceshy.envelope import Record
from twiceshy.outcome import DimensionName, Ratio

CODE_TARGETS = ("guard", "hook", "router")
TARGETS = ("tool", *CODE_TARGETS, "model", "retrieval", "memory", "user", "human", "handoff")
"""The kinds of boundary that a selector may name."""


class Tier(StrEnum):
    """Cheap first: the next tier is judged when the one before it holds."""

    HARD = "hard"
    TRAJECTORY = "trajectory"
    SEMANTIC = "semantic"


class Sort(StrEnum):
    """What an invariant demands."""

    MUST_NOT = "must_not"
    MUST_HAPPEN = "must_happen"
    ORDER = "order"
    COUNT = "count"
    SCHEMA = "schema"
    OUTPUT = "output"


OnMissing = Literal["violated", "satisfied", "error"]
Severity = Literal["low", "medium", "high", "critical"]
Effect = Literal["missing", "extra", "wrong_args", "order", "leak", "loop", "drift", "none"]
"""What the violation did, as a facet of the signature key (signatures.md §1)."""


class Selector(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which crossings: one boundary by name (`*` is any), and what became of the call. args: paths and the values they must lead to."""

    tool: str | None = None
    guard: str | None = None
    hook: str | None = None
    router: str | None = None
    model: str | None = None
    retrieval: str | None = None
    memory: str | None = None
    user: str | None = None
    human: str | None = None
    handoff: str | None = None
    blocked: bool | None = None
    succeeded: bool | None = None
    args: dict[str, Any] = {}
    returned: dict[str, Any] | UnsetType = UNSET
    """Paths into what came back and the values they must lead to: a request for approval is no grant, an answer that says so is."""

    @property
    def target(self) -> tuple[str, str]:
        """The kind and the name it selects."""
        return next((kind, name) for kind in TARGETS if (name := getattr(self, kind)) is not None)


class AllowedWrite(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A write that is explained in every case of the workflow, on a condition where one is given."""

    tool: str
    when: str | None = None
    on_missing: OnMissing = "error"


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One invariant as it is written."""

    id: str
    version: int = 1
    tier: Tier = Tier.HARD
    kind: Sort
    at: Selector | None = None
    first: Selector | None = None
    then: Selector | None = None
    same_turn: bool = False
    """order: whether a step of the same model turn may come first; by default calls that one turn asks for have no order."""
    reads: list[str] = []
    when: str | None = None
    on_missing: OnMissing = "error"
    holds: str | None = None
    """output: a condition that must be true of the final output; `when` says where it is demanded, and `on_missing` what a missing field means there."""
    only_if: Literal["opportunity"] | None = None
    """must_happen: binds the cases that name this id, and only once their opportunity was reached."""
    max: int | None = None
    min: int | None = None
    schema: dict[str, Any] | None = None
    side: Literal["args", "proposed", "result"] = "args"
    """schema: what is validated."""
    rubric: str | UnsetType = UNSET
    """semantic: what the judge is asked."""
    message: str = ""
    effect: Effect | None = None
    severity: Severity = "medium"


class Checks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The built-in hard checks. no_loop: how many equal calls in a row without any change are a loop; None leaves loops to invariants."""

    explained_writes: bool = True
    no_duplicate_write: bool = True
    call_schemas: bool = True
    call_counts: bool = True
    no_loop: int | None = None
    allowed_tools: list[str] | None = None
    forbidden_tools: list[str] = []
    no_swallowed_error: bool | UnsetType = UNSET
    """On unless it says false."""
    context_drift: bool | UnsetType = UNSET
    """On, in runs where the user speaks more than once, unless it says false."""


class JudgeModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who judges the semantic tier; where it is asked stands in twiceshy.toml. samples: how many replies, of which most decide."""

    model: str
    version: str
    temperature: float = 0.0
    samples: Annotated[int, msgspec.Meta(ge=1)] = 1


class InvariantsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """invariants.yaml. graders: plug-ins of the entry-point group `twiceshy.graders` that judge this workflow too."""

    workflow: str
    version: int = 1
    allowed_writes: list[AllowedWrite] = []
    checks: Checks = Checks()
    dimensions: dict[DimensionName, Ratio] | UnsetType = UNSET
    """The least share of a dimension; below it a run FAILED. A case may set its own."""
    judge: JudgeModel | UnsetType = UNSET
    graders: list[str] = []
    invariants: list[Spec] = []


Source = Literal["args", "proposed", "output", "result"]
_CALLED = re.compile(r"result\((?P<quote>[\"']?)(?P<tool>[^\"'()]+)(?P=quote)\)")
_SOURCES: dict[str, Source] = {"args": "args", "proposed": "proposed", "output": "output", "result": "result"}


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """One field an invariant looks at: `args.amount_gbp`, `proposed.x`, `output.status` or `result(get_order).policy_limit_gbp`."""

    source: Source
    path: str
    tool: str | None = None

    @classmethod
    def parse(cls, text: str) -> Read:
        """The field that a text names. Raises ValueError for anything else."""
        head, _, path = text.partition(".")
        called = _CALLED.fullmatch(head)
        source = _SOURCES.get("result" if called else head)
        if source is None or not path:
            raise ValueError(
                f"{text!r} is no field; write args.amount, proposed.amount, output.status or result(get_order).limit"
            )
        paths.parse(path)
        return cls(source=source, path=path, tool=called["tool"] if called else None)


class ExpectedCall(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A call that the case expects. args: argument paths and the values they must lead to."""

    tool: str
    args: dict[str, Any] = {}


class Floor(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What a case demands where a live model makes trials differ: pass^k of at least `rate`, a ratio above 0 and up to 1; a floor of 0 could never be red."""

    k: Annotated[int, msgspec.Meta(ge=1)] = 1
    rate: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0


def written(spec: Spec) -> dict[str, Any]:
    """An invariant as a person would write it: what it says, and nothing that goes without saying."""
    return {name: _said(value) for name in spec.__struct_fields__ if (value := getattr(spec, name)) != _SILENT[name]}


def _said(value: Any) -> Any:
    if isinstance(value, Selector):
        return {
            name: found for name in value.__struct_fields__ if (found := getattr(value, name)) not in (None, {}, UNSET)
        }
    return msgspec.to_builtins(value)


_SILENT = {
    field.name: field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    for field in msgspec.structs.fields(Spec)
}
