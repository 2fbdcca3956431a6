"""The frozen model: recorded outputs served by request digest, else in order, while the request still offers what they rest on (semantics.md §4)."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from twiceshy.envelope import Crossing, Kind
from twiceshy.identity import digest, equal
from twiceshy.outcome import Divergence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from twiceshy.transcript import Drift


@dataclass(frozen=True, slots=True)
class Output:
    """A recorded output that may be served, and how the request differs from the one it answered. again: it was served before."""

    crossing: Crossing
    drift: Drift | None
    again: bool = False


@dataclass(frozen=True, slots=True)
class NoOutput:
    """Why no recorded output may be served."""

    kind: Divergence
    detail: str


@dataclass(slots=True)
class _Outputs:
    """The outputs of one model in one scope, in order, and by the digest of the request each one answered."""

    crossings: list[Crossing] = field(default_factory=list)
    unserved: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    last: dict[str, int] = field(default_factory=dict)
    served: set[int] = field(default_factory=set)
    steps: dict[int, int] = field(default_factory=dict)
    """Where the output of each recorded step stands."""
    next: int = 0

    def add(self, crossing: Crossing) -> None:
        asked = "" if crossing.seen is UNSET else digest(crossing.seen)
        self.unserved[asked].append(len(self.crossings))
        self.steps[crossing.seq] = len(self.crossings)
        self.crossings.append(crossing)

    def take(self, asked: str) -> int | None:
        """The output recorded for this very request (the next unserved of several, else the last again); else the next unserved one.

        An error is no output: what the model says to another try nobody knows.
        """
        queue = self.unserved.get(asked)
        while queue:
            at = queue.popleft()
            if at not in self.served:
                self.last[asked] = at
                return at
        last = self.last.get(asked)
        return self._in_order() if last is None or self.crossings[last].error is not None else last

    def _in_order(self) -> int | None:
        while self.next in self.served:
            self.next += 1
        return self.next if self.next < len(self.crossings) else None


class FrozenModels:
    """The model outputs of one envelope. whole: whether its requests say all of what they offered, so that what one does not name it did not offer."""

    def __init__(self, crossings: Iterable[Crossing], *, whole: bool = True) -> None:
        self._whole = whole
        self._outputs: dict[tuple[str, str], _Outputs] = defaultdict(_Outputs)
        for crossing in crossings:
            if crossing.kind is Kind.MODEL and _answered(crossing):
                self._outputs[crossing.scope, crossing.name].add(crossing)

    def serve(self, scope: str, name: str, request: Any) -> Output | NoOutput:
        """The output for a request, or why there is none (`model_exhausted`, `model_shape`, `proposal_not_offered`)."""
        outputs = self._outputs.get((scope, name), _Outputs())
        at = outputs.take(digest(request))
        if at is None:
            return NoOutput(Divergence.MODEL_EXHAUSTED, self._exhausted(scope, name))
        crossing = outputs.crossings[at]
        refusal = _refusal(crossing, request, whole=self._whole)
        if refusal is not None:
            return refusal
        again = at in outputs.served
        outputs.served.add(at)
        return Output(crossing, drift(crossing.seen, request), again)

    def recorded(self, scope: str, name: str, request: Any) -> Crossing | None:
        """What was recorded where a live model answers now: by its request, else in order; None past the record."""
        outputs = self._outputs.get((scope, name), _Outputs())
        at = outputs.take(digest(request))
        if at is None:
            return None
        outputs.served.add(at)
        return as_shown(outputs.crossings[at])

    def passed(self, crossing: Crossing) -> None:
        """Count a model's output as served: it was given inside a passage that is answered from the record."""
        outputs = self._outputs.get((crossing.scope, crossing.name))
        if outputs is not None and crossing.kind is Kind.MODEL and crossing.seq in outputs.steps:
            outputs.served.add(outputs.steps[crossing.seq])

    def first_request(self, scope: str, name: str) -> Any:
        """The first recorded request of this model, or UNSET."""
        outputs = self._outputs.get((scope, name))
        return outputs.crossings[0].seen if outputs is not None else UNSET

    def _exhausted(self, scope: str, name: str) -> str:
        """Which model was asked, and which the record holds: one that goes by another name or scope finds nothing, and the counts alone do not say so."""
        mine = self._outputs.get((scope, name))
        if mine is not None:
            return f"all {_counted(mine)} recorded of {_model(scope, name)} were served"
        known = ", ".join(f"{_model(*model)} ({_counted(held)})" for model, held in sorted(self._outputs.items()))
        return f"the record holds no output of {_model(scope, name)}; it holds {known or 'no model'}"


def as_shown(crossing: Crossing) -> Crossing:
    """An output with what went back, which is what came: nothing stands between a model and its agent. Of a stream that was left early only that side is known."""
    return crossing if crossing.raw is UNSET else msgspec.structs.replace(crossing, shown=crossing.raw)


def drift(recorded: Any, request: Any) -> Drift | None:
    """How a request differs from the recorded one: in the prompt template (system text), in the messages, or not at all. An unknown request differs."""
    if recorded is not UNSET and equal(recorded, request):
        return None
    return "messages" if recorded is not UNSET and equal(_system(recorded), _system(request)) else "template"


def proposals(output: Any) -> Iterator[dict[str, Any]]:
    """The tool calls that a model output proposes, in order: {"name", "arguments", ...}."""
    for part in output.get("parts", ()) if isinstance(output, dict) else ():
        if isinstance(part, dict) and part.get("type") == "tool_call":
            yield part


def _model(scope: str, name: str) -> str:
    return f"{name!r} of agent {scope!r}" if scope else repr(name)


def _counted(held: _Outputs) -> str:
    return f"{len(held.crossings)} output{'s' if len(held.crossings) != 1 else ''}"


def _answered(crossing: Crossing) -> bool:
    return crossing.raw is not UNSET or crossing.error is not None or crossing.chunks is not None


def _refusal(crossing: Crossing, request: Any, *, whole: bool) -> NoOutput | None:
    asked = request if isinstance(request, dict) else {}
    if isinstance(crossing.seen, dict):
        for part in ("tools", "output_format"):
            known = whole or part in crossing.seen
            if known and not equal(crossing.seen.get(part) or None, asked.get(part) or None):
                return NoOutput(Divergence.MODEL_SHAPE, f"the request's {part} differ from the recorded ones")
    if "tools" in asked:
        offered = {tool.get("name") for tool in asked["tools"] or () if isinstance(tool, dict)}
        output = crossing.shown if crossing.raw is UNSET else crossing.raw
        missing = sorted({str(part.get("name")) for part in proposals(output)} - offered)
        if missing:
            return NoOutput(Divergence.PROPOSAL_NOT_OFFERED, f"{', '.join(missing)} not offered")
    return None


def _system(request: Any) -> Any:
    """The prompt template's part of a request: its system text and system messages."""
    if not isinstance(request, dict):
        return None
    messages = request.get("messages")
    listed = messages if isinstance(messages, list) else []
    return [
        request.get("system"),
        [message for message in listed if isinstance(message, dict) and message.get("role") == "system"],
    ]
