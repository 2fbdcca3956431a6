"""What one candidate is found to be: whether it starts, what it declares, and of a command whether its tools go through its gateway (semantics.md §10.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twiceshy import judging
from twiceshy.casefile import Judge
from twiceshy.diagnosing import Check, refused, tool_calls
from twiceshy.envelope import EVERY_TOOL, Kind
from twiceshy.errors import TwiceshyError
from twiceshy.exercise import tool_layer
from twiceshy.judging import Terms
from twiceshy.outcome import Divergence
from twiceshy.running import Session
from twiceshy.sealing import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from twiceshy.casefile import LoadedCase
    from twiceshy.diagnosing import Catalog
    from twiceshy.envelope import LayerVersion
    from twiceshy.exchange import Ready
    from twiceshy.judging import Rules
    from twiceshy.running import CandidateSpec
    from twiceshy.transcript import Transcript

_LAYERS = {"model": Kind.MODEL, "prompt": Kind.MODEL, "routing": Kind.ROUTER, "memory": Kind.MEMORY}
"""The layers that may be frozen in a run, by the kind of boundary that speaks for them."""

_THROUGH = "send them through the MCP server (TWICESHY_MCP_URL) or POST /tools/NAME (TWICESHY_TOOLS_URL): a base URL alone is not hermetic. A call that a guard of its own refuses is reported there too"


def examined(
    name: str, spec: CandidateSpec, catalog: Catalog, *, env: Mapping[str, str], folder: Path, weak: bool
) -> Iterator[Check]:
    """Every check of one candidate, sealed as for a gate. weak: where nothing better can be had, which the check of isolation says."""
    name = f"candidate {name}"
    try:
        with Session(spec, env=env, folder=folder, cases=[one.path for one in catalog.cases], weak=weak) as session:
            yield from _started(name, session.ready, catalog, commanded=spec.command is not None)
            if spec.command is not None:
                yield _tools(name, session, catalog)
    except TwiceshyError as why:
        yield refused(name, why)


def _started(name: str, ready: Ready, catalog: Catalog, *, commanded: bool) -> Iterator[Check]:
    rules = catalog.rules.get(ready.workflow)
    started = "a command, started by a run" if commanded else f"starts with {len(ready.boundaries)} boundaries"
    yield Check(name=name, found=f"{started}; workflow {ready.workflow}, {ready.isolation}")
    if ready.isolation is Isolation.CLOCK_UNSEALED:
        yield Check(
            name=name, state="problem", found=f"{ready.isolation}: {ready.isolation.meaning}",
            todo="apt-get install faketime; a program that is linked statically, or written in Go, reads the machine's clock whatever is installed",
        )  # fmt: skip
    if rules is None:
        told = f"workflow {ready.workflow!r} has no tools.yaml and invariants.yaml that can be used"
        yield Check(name=name, state="problem", found=told, todo=f"write them in data/policies/{ready.workflow}")
    if not any(loaded.case.workflow == ready.workflow for loaded in catalog.cases):
        yield Check(name=name, state="warning", found=f"workflow {ready.workflow!r} has no case: a gate judges nothing")
    yield from _unlisted(name, ready, rules)
    unknown = list(_unknown(ready, catalog, commanded=commanded))
    if unknown:
        told = f"of no stated version, which compares as changed: {', '.join(unknown)}"
        yield Check(
            name=name, state="warning", found=told, todo="state them as `versions` in twiceshy.toml or of the factory"
        )


def _unlisted(name: str, ready: Ready, rules: Rules | None) -> Iterator[Check]:
    tools = [boundary.partition(":")[2] for boundary in ready.boundaries if boundary.startswith(f"{Kind.TOOL}:")]
    unlisted = [tool for tool in tools if rules is not None and tool not in rules.policy.tools]
    if unlisted:
        told = f"declares tools that tools.yaml lacks: {', '.join(unlisted)}"
        yield Check(name=name, state="warning", found=told, todo=f"twiceshy tools suggest {ready.workflow}")


def _unknown(ready: Ready, catalog: Catalog, *, commanded: bool) -> Iterator[str]:
    """The layers that a frozen run would meet and of which nothing is known; of a command, whose boundaries only show in a run, those that a record holds."""
    kinds = {boundary.partition(":")[0] for boundary in ready.boundaries}
    tools = set(ready.versions.tools) - {EVERY_TOOL}
    if commanded:
        kinds.add(Kind.MODEL)
        tools |= judging.tools_of([one for one in catalog.cases if one.case.workflow == ready.workflow])
    for layer, kind in _LAYERS.items():
        if kind in kinds and not _known(getattr(ready.versions, layer)):
            yield layer
    yield from (f"tool:{tool}" for tool in sorted(tools) if not _known(tool_layer(ready.versions, tool)))


def _known(layer: LayerVersion | None) -> bool:
    return layer is not None and (layer.version or layer.digest) is not None


def _tools(name: str, session: Session, catalog: Catalog) -> Check:
    """One run of a command against a case that calls tools."""
    workflow = session.ready.workflow
    rules = catalog.rules.get(workflow)
    fit = [loaded for loaded in catalog.cases if loaded.case.workflow == workflow and tool_calls(loaded)]
    if rules is None or not fit:
        told = "no case of its workflow calls a tool, so nothing shows where its tools go"
        return Check(name=name, state="warning", found=told, todo="record one: twiceshy record")
    case = next((loaded for loaded in fit if loaded.case.kind == "positive"), fit[0])
    played = session.play(rules.task(case, Judge(), Terms(trials=1, drafts=True)))
    return where_tools_go(name, case, played.transcript)


def where_tools_go(name: str, case: LoadedCase, told: Transcript) -> Check:
    """What a run of a command shows of its tools."""
    calls = [played.crossing.name for played in told.played if played.crossing.kind is Kind.TOOL]
    models = sum(played.crossing.kind is Kind.MODEL for played in told.played)
    where = f"in a run of {case.case.id}"
    if told.fault is not None:
        return Check(name=name, state="problem", found=f"{where}: {told.fault}")
    if told.divergence is not None and told.divergence.kind is Divergence.LIVE_UNCONTROLLED:
        return Check(
            name=name,
            state="problem",
            found=f"{where} it reached past its gateway: {told.divergence.detail}",
            todo=_THROUGH,
        )
    if calls:
        return Check(name=name, found=f"{where} {len(calls)} tool calls came through MCP or /tools")
    if told.divergence is not None or told.crash is not None:
        how = told.divergence.kind if told.divergence else told.crash
        found = f"{where} it came to no tool call ({how}), so nothing shows where its tools go"
        return Check(
            name=name, state="warning", found=found, todo=f"look: twiceshy replay {case.case.id} -c NAME --mode full -v"
        )
    found = f"{where} no tool call came through MCP or /tools, and {models} model requests; its record holds {tool_calls(case)} tool calls"
    return Check(name=name, state="problem", found=found, todo=_THROUGH)
