"""The damage that must turn a proposed case red: what its failure was, brought back on a version that is repaired."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from twiceshy import paths
from twiceshy.breaking import Written
from twiceshy.casefile import Layer
from twiceshy.envelope import Crossing, Envelope, Kind
from twiceshy.identity import canonical


class Standing(NamedTuple):
    """Code that stood at a tool somewhere in the workflow's recorded runs: its kind, its name, and where, as `before:issue_refund`."""

    kind: str
    name: str
    at: str


class Grounds(NamedTuple):
    """What a failure case rests on: its key (a row of `Memberships`), its signature's slug, its finding (a row of `Findings`), and its layer."""

    membership: Mapping[str, Any]
    slug: str
    finding: Mapping[str, Any]
    layer: Layer


def breaks(envelope: Envelope, grounds: Grounds, stood: Sequence[Standing]) -> list[Written]:
    """The breaks of a failure case, none where no operator brings its failure back.

    Of a model or a prompt: the recorded proposal on which the violation rests, said again by the live model. Else guards of the violating tool, off: where one
    stands, what a hook does no longer decides, and such a break would survive on every repaired version. Without a guard, what the hook did: a field of a
    result stripped again, an argument set again.
    """
    if grounds.layer.name in ("model", "harness.prompt"):
        return _said_again(envelope, grounds.finding)
    tool = grounds.finding["tool"]
    guards = {f"guard.off:{code.name}" for code in stood if code.kind == Kind.GUARD and code.at == f"before:{tool}"}
    return [*sorted(guards)] or _hooked_again(envelope, grounds)


def _said_again(envelope: Envelope, finding: Mapping[str, Any]) -> list[Written]:
    """The model turn that asked for the violating call; where the output violates, the last one."""
    onset = envelope.at(finding["onset_seq"]) if finding["boundary"] else None
    said = [crossing for crossing in envelope.crossings if crossing.kind is Kind.MODEL and crossing.raw is not UNSET]
    turns = [crossing.seq for crossing in said if onset is None or crossing.seq == onset.group]
    return [f"proposal.replace:{turns[-1]}"] if turns else []


def _hooked_again(envelope: Envelope, grounds: Grounds) -> list[Written]:
    shown = msgspec.json.decode(grounds.membership["evidence"])
    tool, path = grounds.finding["tool"], shown["path"]
    if grounds.membership["stage"] == "post-tool-hook" and shown["change"] == "strip":
        return [f"hook.strip:{tool if shown['boundary'] == '-' else shown['boundary']}.{path}"]
    if grounds.membership["stage"] == "pre-tool-hook" and shown["change"] != "strip":
        changed = envelope.at(int(shown["place"].removeprefix("#")))
        value = _argument(changed, path)
        return (
            [] if changed is None or value is UNSET else [f"args.set:{changed.name}.{path}={canonical(value).decode()}"]
        )
    return []


def _argument(called: Crossing | None, path: str | None) -> Any:
    """What a hook made of an argument; UNSET where that is not one plain value."""
    if called is None or called.kind is not Kind.TOOL or called.seen is UNSET or not path:
        return UNSET
    found = list(paths.found(called.seen, paths.parse(path)))
    return (
        found[0] if len(found) == 1 and (found[0] is None or isinstance(found[0], str | int | float | bool)) else UNSET
    )
