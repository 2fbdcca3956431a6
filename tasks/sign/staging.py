"""Where a failure began: the first crossing whose middleware changed a field that the invariant reads, else where the violation shows (signatures.md §1)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from tasks.sign.schema import NONE
from twiceshy import paths
from twiceshy.envelope import Crossing, Kind
from twiceshy.identity import canonical
from twiceshy.invariants import Read

Change = Literal["strip", "add", "retype", "rewrite"]
"""A field was removed, put in, given another type, given another value."""

_SHOWN_AT: Mapping[str, str] = {
    "model": "model",
    "tool": "tool",
    "retrieval": "retrieval",
    "memory": "memory",
    "user": "input",
    "human": "input",
    "guard": "guard",
}


class Stage(NamedTuple):
    """A stage with how it was found. seq, sub, path: the change that shows it, or the onset; boundary: whose middleware it was, `-` where none was seen."""

    stage: str
    inferred: bool
    boundary: str
    seq: int
    sub: int
    path: str | None = None
    change: Change | None = None

    @property
    def evidence(self) -> dict[str, Any]:
        """The pointer into the run."""
        return {
            "boundary": self.boundary,
            "change": self.change,
            "path": self.path,
            "place": f"#{self.seq}.{self.sub}" if self.sub else f"#{self.seq}",
        }


def staged(
    crossings: Sequence[Crossing],
    *,
    reads: Iterable[str],
    tool: str | None,
    boundary: str | None,
    onset: tuple[int, int],
) -> Stage:
    """The stage of a violation.

    crossings: of one run, in order. reads: the invariant's fields, such as `args.amount_gbp`. tool: the violating one. boundary: `kind:name` of the onset; None at the end of the run.
    A side that was not recorded shows no change. A hook on another tool is named, so that stripping A and stripping B are two failures.
    """
    fields = [Read.parse(text) for text in reads]
    for crossing in crossings:
        if crossing.kind is Kind.TOOL and (crossing.seq, crossing.sub) <= onset:
            found = _changed(crossing, fields, tool)
            if found is not None:
                return found
    return _inferred(crossings, boundary, onset)


def _changed(crossing: Crossing, fields: Sequence[Read], tool: str | None) -> Stage | None:
    """The first change at a crossing: arguments before results."""
    named = NONE if crossing.name == tool else crossing.name
    for field in fields:
        if field.source in ("args", "proposed") and crossing.name == tool:
            change = changed(crossing.proposed, crossing.seen, field.path)
            if change is not None:
                return Stage("pre-tool-hook", False, named, crossing.seq, crossing.sub, field.path, change)
    for field in fields:
        if field.source == "result" and crossing.name == field.tool:
            change = changed(crossing.raw, crossing.shown, field.path)
            if change is not None:
                return Stage("post-tool-hook", False, named, crossing.seq, crossing.sub, field.path, change)
    return None


def changed(before: Any | UnsetType, after: Any | UnsetType, path: str) -> Change | None:
    """What happened to a field between two sides; None where nothing did, or a side is unknown."""
    if before is UNSET or after is UNSET:
        return None
    parts = paths.parse(path)
    had, has = list(paths.found(before, parts)), list(paths.found(after, parts))
    if canonical(had) == canonical(has):
        return None
    if len(had) != len(has):
        return "strip" if len(has) < len(had) else "add"
    return "rewrite" if list(map(_type, had)) == list(map(_type, has)) else "retype"


def _type(value: Any) -> str:
    """The JSON type: 750 and 750.5 are both numbers."""
    if isinstance(value, bool) or value is None:
        return str(type(value))
    return "number" if isinstance(value, int | float) else type(value).__name__


def _inferred(crossings: Sequence[Crossing], boundary: str | None, onset: tuple[int, int]) -> Stage:
    seq, sub = onset
    if boundary is None:
        return Stage("final", True, NONE, seq, sub)
    kind, _, name = boundary.partition(":")
    if kind != Kind.HOOK:
        return Stage(_SHOWN_AT.get(kind, "model"), True, name if kind == Kind.GUARD else NONE, seq, sub)
    at = next((crossing.at or "" for crossing in crossings if (crossing.seq, crossing.sub) == onset), "")
    return Stage("pre-tool-hook" if at.startswith("before:") else "post-tool-hook", True, name, seq, sub)
