"""What of a finding makes its key: block, facets, template and branch, worked out from the crossings of its run (signatures.md §1)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from tasks.sign import keys, staging
from tasks.sign.keys import Block, Facets, Key
from tasks.sign.overrides import Overrides
from tasks.sign.schema import NONE
from tasks.sign.staging import Stage
from tasks.sources.templates import identifiers, parameterise
from twiceshy.envelope import Crossing, Kind
from twiceshy.invariants import BUILT_IN
from twiceshy.paths import leaves
from twiceshy.policy import ToolsPolicy

STATE_EFFECT = "state_effect"
"""The detector whose findings of one run make one key together: the set of (effect, write tool) (signatures.md §4)."""

_AMBIENT = frozenset({Kind.CLOCK, Kind.RANDOM, Kind.FLAG})
_INDEX = re.compile(r"\[\d+\]")
_LISTED = 3

Labels = Mapping[tuple[int, int], Sequence[Mapping[str, Any]]]
"""Place of a crossing -> its bucket labels, [{path, labels}]."""


class Occurrence(NamedTuple):
    """One finding with its key. slug: what a signature founded on it would be called."""

    finding: Mapping[str, Any]
    key: Key
    branch: str
    stage: Stage
    slug: str
    occurrences: int


class RunFacts(NamedTuple):
    """What the keys of one run rest on."""

    crossings: tuple[Crossing, ...]
    labels: Labels
    policy: ToolsPolicy


def occurrences(findings: Sequence[Mapping[str, Any]], facts: RunFacts, overrides: Overrides) -> list[Occurrence]:
    """The failures of one run, each with its key, in order of onset. findings: rows of `Findings` of one trace, level `failure`."""
    effects = [finding for finding in findings if finding["invariant_id"] == STATE_EFFECT]
    others = [finding for finding in findings if finding["invariant_id"] != STATE_EFFECT]
    found = [_occurrence(finding, facts, overrides) for finding in others]
    if effects:
        found.append(_state_effect(effects, facts, overrides))
    return sorted(found, key=lambda one: (one.finding["onset_seq"], one.finding["onset_sub"], one.key.id))


def _occurrence(finding: Mapping[str, Any], facts: RunFacts, overrides: Overrides) -> Occurrence:
    onset = finding["onset_seq"], finding["onset_sub"]
    stage = staging.staged(
        facts.crossings, reads=finding["reads"], tool=finding["tool"], boundary=finding["boundary"], onset=onset
    )
    tool = overrides.tool(finding["tool"]) if finding["tool"] else NONE
    at = next((crossing for crossing in facts.crossings if (crossing.seq, crossing.sub) == onset), None)
    here = at if finding["boundary"] is not None else None
    template = _template(here, facts.policy)
    block = Block(finding["invariant_id"], tool, stage.stage, overrides.tool(stage.boundary))
    facets = Facets(
        finding["effect"],
        keys.error_class(tool, here.error.type if here is not None and here.error else None, template),
        tuple(sorted(set(finding["violated_pairs"]))),
    )
    key = Key(block, facets, template if template and facets.from_template else None)
    return Occurrence(
        finding, key, _branch(key, here, facts, onset), stage, _slug(finding, tool, stage), finding["occurrences"]
    )


def _state_effect(effects: Sequence[Mapping[str, Any]], facts: RunFacts, overrides: Overrides) -> Occurrence:
    """One key for all differences from the expected actions of a run: a set, so their order and number do not matter."""
    pairs = sorted({(finding["effect"], overrides.tool(finding["tool"] or NONE)) for finding in effects})
    tools, kinds = sorted({tool for _, tool in pairs}), sorted({effect for effect, _ in pairs})
    first = min(effects, key=lambda finding: (finding["onset_seq"], finding["onset_sub"], finding["finding_id"]))
    stage = Stage("final", True, NONE, first["onset_seq"], first["onset_sub"])
    facets = Facets(kinds[0] if len(kinds) == 1 else "none", NONE, tuple(f"{effect} {tool}" for effect, tool in pairs))
    key = Key(Block(STATE_EFFECT, tools[0] if len(tools) == 1 else NONE, "final", NONE), facets)
    listed = [word for pair in pairs[:_LISTED] for word in pair]
    rest = [f"and-{len(pairs) - _LISTED}"] if len(pairs) > _LISTED else []
    branch = _branch(key, None, facts, (first["onset_seq"], first["onset_sub"]))
    return Occurrence(first, key, branch, stage, f"{_words(STATE_EFFECT, *listed, *rest)}@final", 1)


def _template(crossing: Crossing | None, policy: ToolsPolicy) -> str | None:
    if crossing is None or crossing.error is None or not crossing.error.message:
        return None
    keep = {crossing.name, *identifiers(policy.of(crossing.name).schema)}
    return parameterise(crossing.error.message, keep=keep)


def _branch(key: Key, violating: Crossing | None, facts: RunFacts, onset: tuple[int, int]) -> str:
    asked = UNSET if violating is None or violating.kind is not Kind.TOOL else violating.asked
    argument_paths = [] if asked is UNSET else [_INDEX.sub("[]", path) for path, _ in leaves(asked)]
    labels = facts.labels.get(onset, ()) if asked is not UNSET else ()
    buckets = [(label["path"], label["labels"][0]) for label in labels if label["labels"]]
    skeleton = [
        f"{crossing.kind}:{crossing.name}"
        for crossing in facts.crossings
        if crossing.kind not in _AMBIENT and (crossing.seq, crossing.sub) <= onset
    ]
    return keys.branch_id(key.id, argument_paths, buckets, skeleton)


def _slug(finding: Mapping[str, Any], tool: str, stage: Stage) -> str:
    """`<invariant>[-<tool>]@<stage>[-<change>]`: a check that every workflow shares says which tool, an invariant of the workflow's own does not."""
    shared = finding["source"] == "detector" or finding["invariant_id"] in BUILT_IN
    named = [tool] if shared and tool != NONE else []
    return f"{_words(finding['invariant_id'], *named)}@{_words(stage.stage, *([stage.change] if stage.change else []))}"


def _words(*parts: str) -> str:
    cleaned = (re.sub(r"[^a-z0-9_]+", "-", part.casefold()).strip("-") for part in parts)
    return "-".join(part for part in cleaned if part)


def failing(findings: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Trace id -> its failures; signals make no key."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for finding in findings:
        if finding["level"] == "failure":
            found.setdefault(finding["trace_id"], []).append(finding)
    return found
