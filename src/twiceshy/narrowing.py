"""Whether recorded traces refute what tools.yaml says of resources: a read that changed although no write between touched what it reads (semantics.md §4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from twiceshy.envelope import Effect
from twiceshy.history import History, effective
from twiceshy.identity import canonical
from twiceshy.matching import recordings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.envelope import Crossing, Envelope
    from twiceshy.matching import Recording
    from twiceshy.policy import ToolsPolicy


class Refutation(NamedTuple):
    """One narrowing that a trace refutes: the read, where it was answered one way and another, and the writes between that the policy holds apart from it."""

    trace_id: str
    tool: str
    before: str
    after: str
    writes: tuple[Crossing, ...]


def refutations(envelope: Envelope, policy: ToolsPolicy) -> Iterator[Refutation]:
    """Every read of this run that answered differently at one state. Answers that no write came between tell of the world, not of the policy.

    A recorded error that is not definite is no answer: a timeout says nothing of the state.
    """
    wide = replace(policy, tools={name: replace(tool, touches=None, reads=None) for name, tool in policy.tools.items()})
    last: dict[tuple[str, str, str, str], tuple[Recording, str]] = {}
    for narrow, whole in zip(recordings(envelope.crossings, policy), recordings(envelope.crossings, wide), strict=True):
        crossing = narrow.crossing
        answered = _answer(narrow)
        if policy.effect_of(crossing) is not Effect.READ or answered is UNSET:
            continue
        at = (crossing.scope, crossing.name, narrow.key, narrow.state)
        earlier, state = last.get(at, (None, ""))
        last[at] = (narrow, whole.state)
        if earlier is not None and state != whole.state and canonical(_answer(earlier)) != canonical(answered):
            writes = tuple(_apart(envelope, policy, earlier.crossing, crossing))
            yield Refutation(envelope.trace_id, crossing.name, earlier.crossing.place, crossing.place, writes)


def _answer(recording: Recording) -> Any:
    error = recording.crossing.error
    if error is None:
        return UNSET if recording.answer is UNSET else [recording.answer]
    return {"error": error.type} if error.definite else UNSET


def _apart(envelope: Envelope, policy: ToolsPolicy, first: Crossing, second: Crossing) -> Iterator[Crossing]:
    """The effective writes between two reads that the policy says do not touch what is read."""
    history = History(policy)
    for crossing in envelope.crossings:
        between = first.seq <= crossing.seq < second.seq
        if between and effective(crossing, policy) and not history.touches(crossing.name, second.name):
            yield crossing
