"""The rule table of signatures.md §5: what in a failing run points at which layer. Proposals only; nothing here decides.

A signal is direct where it concerns the very field, tool or call that the violation rests on.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import UNSET

from tasks.attribute.schema import RAN_PAST_DONE
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.identity import canonical
from twiceshy.invariants import Invariants, Sort
from twiceshy.matching import CALLS
from twiceshy.paths import leaves
from twiceshy.policy import ToolsPolicy, identified
from twiceshy.schemas import breaks

RULES_VERSION = "r1"

_HALF = 0.5
"""A score of one half and above says that a run went well; the default rule for flags is the same."""

_ID = re.compile(r"(?=\w*\d)(?=\w*[A-Za-z])[\w-]{4,64}")
_LOOPS = frozenset({"repeat", "no_progress", "no_loop", "cycle"})


class Signal(NamedTuple):
    """One rule that fired: the layers it suspects, and where in the run."""

    rule: str
    layers: tuple[str, ...]
    evidence: str
    direct: bool


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What the rules look at: the run, its primary key (a row of `Memberships`), its findings (rows of `Findings`), and the rules of its workflow."""

    envelope: Envelope
    primary: Mapping[str, Any]
    findings: Sequence[Mapping[str, Any]]
    policy: ToolsPolicy
    invariants: Invariants | None = None
    scores: Sequence[Mapping[str, Any]] = ()

    @property
    def onset(self) -> tuple[int, int]:
        """The place where the violation shows."""
        return self.primary["onset_seq"], self.primary["onset_sub"]

    @property
    def violating(self) -> Crossing | None:
        """The call that violates, where it is one."""
        found = self.envelope.at(*self.onset)
        return found if found is not None and found.kind is Kind.TOOL and found.name == self._tool else None

    @property
    def read_tools(self) -> frozenset[str]:
        """The tools whose results the violated invariant reads."""
        found = next((row for row in self.findings if row["finding_id"] == self.primary["finding_id"]), None)
        reads = found["reads"] if found is not None else ()
        return frozenset(name for text in reads for name in re.findall(r"result\([\"']?([^\"')]+)", text))

    def until_onset(self) -> Iterator[Crossing]:
        """The crossings up to the onset."""
        return (crossing for crossing in self.envelope.crossings if (crossing.seq, crossing.sub) <= self.onset)

    @property
    def _tool(self) -> str | None:
        found = next((row for row in self.findings if row["finding_id"] == self.primary["finding_id"]), None)
        return found["tool"] if found is not None else None


def signals(failure: Failure) -> list[Signal]:
    """Every rule that fires on a failing run, in the order of the table."""
    return [signal for rule in _RULES for signal in rule(failure)]


def _graders_disagree(failure: Failure) -> Iterator[Signal]:
    """Two graders of one run, of which one says good and the other bad."""
    values = [
        score["value"] for score in failure.scores if score["origin"] in ("llm", "code") and score["value"] is not None
    ]
    if values and min(values) < _HALF <= max(values):
        yield Signal("graders_disagree", ("grader",), f"{len(values)} graders", direct=False)


def _result_breaks_schema(failure: Failure) -> Iterator[Signal]:
    """A result that the pinned schema does not allow."""
    for crossing in failure.until_onset():
        schema = failure.policy.of(crossing.name).result_schema if crossing.kind is Kind.TOOL else None
        if schema is None or crossing.raw is UNSET or crossing.error is not None:
            continue
        found = breaks(schema, crossing.raw)
        if found:
            direct = crossing.name in failure.read_tools
            yield Signal("result_breaks_schema", ("environment",), f"{crossing.place} {found[0]}", direct=direct)


def _lost_call(failure: Failure) -> Iterator[Signal]:
    """A timeout, reset, 5xx or 429 that nothing tried again."""
    calls = [crossing for crossing in failure.until_onset() if crossing.kind in CALLS]
    for at, crossing in enumerate(calls):
        error = crossing.error
        if error is None or error.definite or error.type in failure.policy.of(crossing.name).definite_errors:
            continue
        if not any((later.name, later.key) == (crossing.name, crossing.key) for later in calls[at + 1 :]):
            yield Signal("error_not_retried", ("environment", "harness.workflow"), crossing.place, direct=False)


def _hook_changed_field(failure: Failure) -> Iterator[Signal]:
    """Middleware changed a field that the invariant reads."""
    if failure.primary["stage_inferred"] or failure.primary["stage"] not in ("pre-tool-hook", "post-tool-hook"):
        return
    before = failure.primary["stage"] == "pre-tool-hook"
    layers = ("harness.tool", "harness.workflow") if before else ("harness.tool",)
    yield Signal(
        "pre_hook_changed" if before else "post_hook_changed", layers, failure.primary["evidence"], direct=True
    )


def _swallowed(failure: Failure) -> Iterator[Signal]:
    for row in _named(failure, {"swallowed_error"}):
        yield Signal("error_swallowed", ("harness.tool",), f"#{row['onset_seq']}", direct=_primary(failure, row))


def _memory_short(failure: Failure) -> Iterator[Signal]:
    """A retrieval that brought nothing."""
    for crossing in failure.until_onset():
        if crossing.kind is Kind.RETRIEVAL and crossing.raw is not UNSET and _is_empty(crossing.raw):
            yield Signal("retrieval_empty", ("harness.memory",), crossing.place, direct=False)


def _guard_not_invoked(failure: Failure) -> Iterator[Signal]:
    """The workflow's invariants name a guard that refuses this tool, and none stood before the violating call."""
    violating = failure.violating
    if violating is None or failure.invariants is None:
        return
    demanded = [
        spec.spec.at.guard
        for spec in failure.invariants.invariants
        if spec.spec.kind is Sort.MUST_HAPPEN and spec.spec.at is not None and spec.spec.at.guard is not None
    ]
    stood = {
        crossing.name
        for crossing in failure.envelope.crossings
        if crossing.kind is Kind.GUARD and crossing.seq == violating.seq
    }
    for name in demanded:
        if name not in stood:
            yield Signal("guard_not_invoked", ("harness.workflow",), f"{violating.place} {name}", direct=False)


def _looped(failure: Failure) -> Iterator[Signal]:
    for row in _named(failure, _LOOPS):
        yield Signal(
            "repeated_without_change",
            ("harness.workflow", "model"),
            f"#{row['onset_seq']}",
            direct=_primary(failure, row),
        )


def _overran(failure: Failure) -> Iterator[Signal]:
    for row in _named(failure, {"overrun"}):
        yield Signal(RAN_PAST_DONE, ("harness.prompt",), f"#{row['onset_seq']}", direct=True)


def _arguments_invalid(failure: Failure) -> Iterator[Signal]:
    """Arguments that the schema which the model was shown does not allow, as it proposed them."""
    violating = failure.violating
    if violating is None or violating.proposed is UNSET:
        return
    schema = _offered(failure.envelope, violating)
    if schema is None and violating.seen in (UNSET, violating.proposed):
        schema = failure.policy.of(violating.name).schema
    found = breaks(schema, violating.proposed) if schema is not None else []
    if found:
        yield Signal("arguments_invalid", ("model",), f"{violating.place} {found[0]}", direct=True)


def _offered(envelope: Envelope, call: Crossing) -> Mapping[str, Any] | None:
    """The schema of a tool in the request of the model turn that asked for this call."""
    turn = envelope.at(call.group) if call.group is not None else None
    offers = turn.seen.get("tools") if turn is not None and isinstance(turn.seen, dict) else None
    for offer in offers if isinstance(offers, list) else ():
        if isinstance(offer, dict) and offer.get("name") == call.name:
            return offer.get("parameters") if isinstance(offer.get("parameters"), dict) else None
    return None


def _id_from_nowhere(failure: Failure) -> Iterator[Signal]:
    """Valid arguments that hold an id which no earlier boundary showed. Volatile paths (request ids) are made up on purpose."""
    violating = failure.violating
    if violating is None or violating.proposed is UNSET:
        return
    told = _told_before(failure, violating)
    for path, leaf in leaves(identified(failure.policy.of(violating.name), violating.proposed)):
        if isinstance(leaf, str) and _ID.fullmatch(leaf) and leaf not in told:
            yield Signal("id_from_nowhere", ("model",), f"{violating.place} {path}", direct=True)


def _told_before(failure: Failure, violating: Crossing) -> str:
    """Everything that the model can have read before a call, its own words apart: later requests repeat those."""
    held = [failure.envelope.input.user, failure.envelope.input.system]
    models = (crossing.seen for crossing in failure.envelope.crossings if crossing.kind is Kind.MODEL)
    held += [asked for asked in (next(models, UNSET),) if asked is not UNSET]
    for crossing in failure.envelope.crossings:
        if crossing.seq < violating.seq and crossing.kind is not Kind.MODEL:
            held += [side for side in (crossing.raw, crossing.shown) if side is not UNSET]
    return canonical(held).decode()


def _is_empty(value: Any) -> bool:
    """Nothing at all, or an object whose lists are all empty."""
    lists = [item for item in value.values() if isinstance(item, list)] if isinstance(value, dict) else []
    return not any(lists) if lists else not value


def _primary(failure: Failure, row: Mapping[str, Any]) -> bool:
    return bool(row["finding_id"] == failure.primary["finding_id"])


def _named(failure: Failure, names: frozenset[str] | set[str]) -> Iterator[Mapping[str, Any]]:
    return (row for row in failure.findings if row["invariant_id"] in names)


_RULES: tuple[Callable[[Failure], Iterator[Signal]], ...] = (
    _graders_disagree, _result_breaks_schema, _lost_call, _hook_changed_field, _swallowed, _memory_short, _guard_not_invoked, _looped,
    _overran, _arguments_invalid, _id_from_nowhere,
)  # fmt: skip
