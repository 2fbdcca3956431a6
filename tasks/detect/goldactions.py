"""The state effect of a run against the actions that an annotator expected (signatures.md §4): which writes are missing, extra, or made with other arguments."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from twiceshy.envelope import Crossing, Effect, Kind
from twiceshy.history import effective
from twiceshy.matching import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from twiceshy.policy import ToolsPolicy

_INDEX = re.compile(r"\[\d+\]")


class StateEffect(NamedTuple):
    """One way in which a run's writes differ from the expected ones.

    calls: how many. seq: the first call that shows it; None for missing calls. paths: the arguments in which they differ, indices removed.
    """

    effect: Literal["missing", "extra", "wrong_args"]
    tool: str
    calls: int
    seq: int | None
    paths: frozenset[str]


class _Write(NamedTuple):
    arguments: Any
    seq: int | None


def state_effects(
    crossings: Iterable[Crossing], expected: Sequence[Mapping[str, Any]], policy: ToolsPolicy
) -> list[StateEffect]:
    """The differences of one run, sorted; none where it wrote exactly what was expected, in whatever order.

    crossings: of the run; only writes that took effect and touch something count. expected: [{"name", "arguments"}], reads among them are passed over.
    An extra and a missing call of one tool are one call with wrong arguments.
    """
    done = [
        (crossing.name, _Write(crossing.asked, crossing.seq)) for crossing in crossings if _counts(crossing, policy)
    ]
    wanted = [
        (str(action["name"]), _Write(action["arguments"], None))
        for action in expected
        if _writes(str(action["name"]), policy)
    ]
    extra, missing = _without(done, wanted, policy), _without(wanted, done, policy)
    found: list[StateEffect] = []
    for tool in sorted({*extra, *missing}):
        found += _differences(tool, extra[tool], missing[tool])
    return sorted(found, key=lambda difference: difference[:2])


def _differences(tool: str, extra: Sequence[_Write], missing: Sequence[_Write]) -> Iterable[StateEffect]:
    pairs = list(zip(extra, missing, strict=False))
    if pairs:
        paths = {
            _INDEX.sub("", field.path)
            for done, wanted in pairs
            for field in differences(wanted.arguments, done.arguments)
        }
        yield StateEffect("wrong_args", tool, len(pairs), pairs[0][0].seq, frozenset(paths))
    for effect, rest in (("extra", extra[len(pairs) :]), ("missing", missing[len(pairs) :])):
        if rest:
            yield StateEffect("extra" if effect == "extra" else "missing", tool, len(rest), rest[0].seq, frozenset())


def _without(
    these: Sequence[tuple[str, _Write]], others: Sequence[tuple[str, _Write]], policy: ToolsPolicy
) -> dict[str, list[_Write]]:
    """By tool, the calls of one side that have no equal on the other, in order."""
    held = Counter(policy.key(tool, write.arguments) for tool, write in others)
    left: dict[str, list[_Write]] = defaultdict(list)
    for tool, write in these:
        key = policy.key(tool, write.arguments)
        if held[key]:
            held[key] -= 1
        else:
            left[tool].append(write)
    return left


def _counts(crossing: Crossing, policy: ToolsPolicy) -> bool:
    return crossing.kind is Kind.TOOL and _writes(crossing.name, policy) and effective(crossing, policy)


def _writes(tool: str, policy: ToolsPolicy) -> bool:
    """Whether a tool has a state effect: a write, and not one that is declared to touch nothing."""
    return policy.effect(tool) is Effect.WRITE and policy.of(tool).touches != ()
