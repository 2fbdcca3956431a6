"""The immutable record of one run: every crossing of its boundaries, with its input, pins and disposition (semantics.md §2).

Data only. Absent, null and {} are three values: a side that was not recorded is `UNSET` (unknown), which is not "equal" to anything.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

FORMAT = "twiceshy/envelope/1"


class Kind(StrEnum):
    """What sort of boundary a crossing passes."""

    MODEL = "model"
    TOOL = "tool"
    RETRIEVAL = "retrieval"
    MEMORY = "memory"
    USER = "user"
    HUMAN = "human"
    CLOCK = "clock"
    RANDOM = "random"
    FLAG = "flag"
    HOOK = "hook"
    GUARD = "guard"
    ROUTER = "router"
    HANDOFF = "handoff"


CODE_KINDS = frozenset({Kind.HOOK, Kind.GUARD, Kind.ROUTER})
"""Candidate code worth naming: it runs live outside a frozen prefix."""

SUB_KINDS = CODE_KINDS | {Kind.CLOCK, Kind.RANDOM, Kind.FLAG}
"""Kinds that take no step number of their own: they are numbered inside the step they belong to, as #4.1."""


class Effect(StrEnum):
    """What a tool does to the world; anything not listed as a read or as pure is a write."""

    READ = "read"
    WRITE = "write"
    NONE = "none"


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of everything that is stored in an envelope."""


RETURNED = "twiceshy.ReturnedError"
"""The class of an error that nothing raised: the tool returned it as a value."""

UNKNOWN_ERROR = "twiceshy.UnknownError"
"""The class of an error of which a trace does not tell the class."""


class ErrorRecord(Record, frozen=True, kw_only=True, rename={"cls": "class"}):
    """An error as it was raised: its class (qualified), our code for it, its text, and whether it proves that nothing happened."""

    cls: str
    type: str = "unknown"
    message: str = ""
    definite: bool = False


class Crossing(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One passage of a boundary. Grain: (seq, sub); both sides of the middleware; times in integer nanoseconds.

    A step (model, tool, ...) has sub 0; hooks, guards, routers and ambient draws are subs of the step they belong to (seq 0 before the first step).
    proposed: what the model or agent asked. seen: what the boundary got, after pre-hooks, defaults applied. raw: what it returned. shown: what went back, after post-hooks.
    """

    seq: int
    sub: int = 0
    parent: str | None = None
    """The place of the passage in whose code it happened: a tool's body (`#4`), a hook (`#4.1`), an agent that was handed to."""
    kind: Kind
    name: str
    scope: str = ""
    """The spawn path of the agent: "" for the first, then the scope of who handed to it, its name, key and index."""
    group: int | None = None
    """The step number of the model crossing that asked for this one."""
    at: str | None = None
    """Hooks and guards: `before:TOOL` or `after:TOOL`. Handoffs: the scope of the agent that was handed to."""
    attempt: int = 1
    effect: Effect | None = None
    tightened: bool = False
    """A server hinted that this tool writes: a write, whatever tools.yaml says."""
    simulated: bool = False
    """Nobody recorded this answer: a simulator, a world or the replay itself gave it in a run that was kept, or it was recorded of another request."""
    proposed: Any | UnsetType = UNSET
    seen: Any | UnsetType = UNSET
    raw: Any | UnsetType = UNSET
    shown: Any | UnsetType = UNSET
    error: ErrorRecord | None = None
    blocked_by: str | None = None
    chunks: list[Any] | None = None
    key: str = ""
    state: str = ""
    start_ns: int | None = None
    end_ns: int | None = None

    @property
    def place(self) -> str:
        """Where it stands, as people read it: `#4`, or `#4.1` for a hook inside step 4."""
        return f"#{self.seq}.{self.sub}" if self.sub else f"#{self.seq}"

    @property
    def asked(self) -> Any | UnsetType:
        """What the call is keyed by: `seen`, or `proposed` where only that was recorded."""
        return self.proposed if self.seen is UNSET else self.seen


class RunInput(Record, frozen=True, kw_only=True):
    """What the run was given."""

    system: str | None = None
    user: Any = None
    goal: str | None = None


class Clock(Record, frozen=True, kw_only=True):
    """The pinned clock: an instant in ns since the epoch, its zone, and the text the agent was told."""

    instant_ns: int
    tz: str = "UTC"
    as_given_to_agent: str | None = None


class LayerVersion(Record, frozen=True, kw_only=True):
    """The version of one layer; all three None says that it is not known, which compares as changed."""

    name: str | None = None
    version: str | None = None
    digest: str | None = None


EVERY_TOOL = "*"
"""Among the versions of tools, that of each one that has none of its own: a command declares no tools by name."""


class Versions(Record, frozen=True, kw_only=True):
    """A version for each layer; a layer that is not known says so and is never omitted."""

    model: LayerVersion = LayerVersion()
    prompt: LayerVersion = LayerVersion()
    tools: dict[str, LayerVersion] = {}
    routing: LayerVersion = LayerVersion()
    memory: LayerVersion = LayerVersion()
    skills: LayerVersion = LayerVersion()
    harness: LayerVersion = LayerVersion()


class Pins(Record, frozen=True, kw_only=True):
    """What was pinned while the run was recorded."""

    clock: Clock | None = None
    seeds: dict[str, Any] = {}
    flags: dict[str, Any] = {}
    retrieval_snapshots: dict[str, str] = {}
    versions: Versions = Versions()


class Grade(Record, frozen=True, kw_only=True):
    """How a replay requirement R1..R11 (formats.md §6) is met, and by which rule where it was derived."""

    grade: Literal["recorded", "derived", "missing"]
    how: str | None = None


class Disposition(Record, frozen=True, kw_only=True):
    """How the run ended. `output` is UNSET when the run never returned one."""

    ended: bool = True
    output: Any | UnsetType = UNSET
    side_effects: list[str] = []
    outcome_label: str | None = None
    flags: list[str] = []
    error: ErrorRecord | None = None


class RedactionStamp(Record, frozen=True, kw_only=True):
    """Which policy and key redacted the record; counts per action, never a value.

    pseudonyms: those that stand in this record, each with the keyed digest of what it stands for, so that a replay knows them again without the key.
    """

    policy_digest: str
    key_id: str
    counts: dict[str, int] = {}
    pseudonyms: dict[str, str] = {}


class Envelope(Record, frozen=True, kw_only=True):
    """The record of one run. `digest` is the sha256 of the canonical bytes of all the rest; it is checked on load."""

    format: str = FORMAT
    trace_id: str
    source: str
    workflow: str
    conversation_id: str | None = None
    turn: int = 0
    input: RunInput
    pins: Pins = Pins()
    grades: dict[str, Grade] = {}
    disposition: Disposition
    redaction: RedactionStamp | None = None
    crossings: tuple[Crossing, ...] = ()
    digest: str = ""

    def at(self, seq: int, sub: int = 0) -> Crossing | None:
        """The crossing at a place, or None."""
        return next((crossing for crossing in self.crossings if (crossing.seq, crossing.sub) == (seq, sub)), None)
