"""Why a break applied nowhere: what it looked for, and what the candidate, its run or the record has instead. Names and paths only, never a value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import UNSET

from twiceshy import paths
from twiceshy.breaking.operators import Break, Operator
from twiceshy.envelope import Kind
from twiceshy.errors import nearest
from twiceshy.matching import CALLS
from twiceshy.outcome import BoundaryState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from twiceshy.envelope import Envelope
    from twiceshy.transcript import Played

_KINDS: dict[Operator, frozenset[Kind]] = {
    Operator.GUARD_OFF: frozenset({Kind.GUARD}),
    Operator.HOOK_OFF: frozenset({Kind.HOOK}),
}
_MOST = 12
"""Of the paths that are named: enough to see what a result is made of."""


def applied_nowhere(found: Break, played: Sequence[Played], *, declared: Collection[str], record: Envelope) -> str:
    """One clause on a break at the boundary that changed nothing. declared: what the candidate declares, as `kind:name`; a command declares nothing."""
    if found.operator is Operator.PROPOSAL_REPLACE:
        return _replaced(found, record)
    kinds = _KINDS.get(found.operator, frozenset(CALLS))
    what = " or ".join(sorted(kinds)) if len(kinds) == 1 else "tool"
    met = [one for one in played if one.crossing.kind in kinds and not one.crossing.name.startswith("break ")]
    known = {name for kind, _, name in (text.partition(":") for text in declared) if kind in kinds}
    for name in found.names:
        ours = [one for one in met if one.crossing.name == name]
        if name not in known and not ours:
            seen = {*known, *(one.crossing.name for one in met)}
            there = f"it declares no {what} {name!r}" if declared else f"it came to no {what} {name!r}"
            return f"{there}. {nearest(name, seen)}"
        if not ours:
            others = sorted({one.crossing.name for one in met})
            return f"{what} {name!r} was never reached; reached were: {', '.join(others) or 'none'}"
    return _unchanged(found, [one for one in met if one.crossing.name == found.names[0]])


def _unchanged(found: Break, met: Sequence[Played]) -> str:
    """Of what was reached, why the break found nothing to change."""
    name = found.names[0]
    match found.operator:
        case Operator.HOOK_STRIP:
            held = list(dict.fromkeys(path for one in met for path in _paths(one)))
            return f"no result of {name!r} has {'.'.join(found.path)!r}. {_near(found.path, held)}"
        case Operator.ARGS_SET:
            return f"every call of {name!r} asked for this value already"
        case Operator.CALL_DROP:
            return f"nobody recorded what {name!r} says to what it was asked"
        case Operator.ORDER_SWAP:
            return f"no call of {found.names[1]!r} came after one of {name!r} that can be answered early"
        case Operator.ERROR_SWALLOW:
            return f"no call of {name!r} raised or returned an error"
        case _:
            frozen = all(one.boundary is BoundaryState.FROZEN for one in met)
            return f"{name!r} was {'only met frozen' if frozen else 'met, and only in what comes from the record'}"


def _replaced(found: Break, record: Envelope) -> str:
    steps = [crossing for crossing in record.crossings if crossing.kind is Kind.MODEL and crossing.raw is not UNSET]
    at = next((crossing for crossing in steps if crossing.place == f"#{found.target}"), None)
    if at is None:
        held = ", ".join(crossing.place for crossing in steps) or "none"
        return f"the record has no output of a model at #{found.target}; it has {held}"
    return f"{at.name!r} gave the recorded output at {at.place} anyway; it is replaced only where the model runs live (--live model:{at.name})"


def _paths(played: Played) -> Iterator[str]:
    """The places of a result, as a break would name them: items without their numbers, objects too."""
    held = played.crossing.raw if played.crossing.raw is not UNSET else played.crossing.shown
    for path, _ in paths.leaves(None if held is UNSET else held):
        parts = re.sub(r"\[\d+\]", "[]", path).split(".")
        yield from (".".join(parts[:upto]) for upto in range(1, len(parts) + 1) if path)


def _near(path: tuple[str, ...], held: Sequence[str]) -> str:
    hint = nearest(".".join(path), held)
    more = len(held) - _MOST
    return hint if hint.startswith("Did") or more <= 0 else f"Known: {', '.join(held[:_MOST])} and {more} more."
