"""`twiceshy tools`: what tools.yaml says, held against recorded traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twiceshy.cli.options import CasesOption, configured
from twiceshy.errors import FormatError, InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from twiceshy.configuration import Configuration
    from twiceshy.envelope import Envelope
    from twiceshy.narrowing import Refutation
    from twiceshy.policy import ToolsPolicy

tools_app = typer.Typer(
    help="Check and propose what tools.yaml says of tools.", no_args_is_help=True, rich_markup_mode=None
)

Workflow = Annotated[
    str, typer.Argument(help="A workflow: the name of its folder in data/policies.", show_default=False)
]
Traces = Annotated[
    list[Path] | None,
    typer.Option(
        "--traces",
        help="A folder with further recorded runs (envelope.jsonl), as data/corpus/proposed, or what --run kept.",
        show_default=False,
    ),
]
Listing = Annotated[
    list[Path] | None,
    typer.Option("--mcp", help="A JSON file with the tools/list result of an MCP server.", show_default=False),
]


@tools_app.command("lint")
def lint(workflow: Workflow, traces: Traces = None, cases: CasesOption = None) -> None:
    """Refuse a `touches` or `reads` that a recorded trace refutes: a read that changed although no write between touched what it reads.

    Exit codes: 0 nothing is refuted, 1 a narrowing is, 5 there is no trace to hold it against.

    For example:

      twiceshy tools lint refund --traces data/corpus/proposed
    """
    from twiceshy import documents, policy
    from twiceshy.narrowing import refutations

    config = configured()
    path = _policy_path(config, workflow)
    held = policy.load(path)
    document = documents.Document(path)
    runs = list(_envelopes(config, workflow, traces, cases))
    found = [refuted for envelope in runs for refuted in refutations(envelope, held)]
    for refuted in found:
        typer.echo(f"{path}:{document.line(f'$.tools.{refuted.tool}') or 1}: {_told(refuted, held)}")
    typer.echo(f"{len(found)} refuted in {len(runs)} traces of {workflow}", err=bool(found))
    raise typer.Exit(1 if found else 0 if runs else 5)


@tools_app.command("suggest")
def suggest(workflow: Workflow, traces: Traces = None, mcp: Listing = None, cases: CasesOption = None) -> None:
    """Propose effects of tools from MCP hints and recorded traces, as a diff of tools.yaml. A person applies it; nothing is written.

    Exit codes: 0 whatever is proposed, 5 there is neither a hint nor a trace to go by.

    For example:

      twiceshy tools suggest refund --mcp listing.json | git apply

      twiceshy record -c refund -o traces/run.jsonl --run runs/first --input '{"message": "..."}'

      twiceshy tools suggest refund --traces runs
    """
    from twiceshy import documents, policy, suggesting

    config = configured()
    path = config.path("policies") / workflow / "tools.yaml"
    held = policy.load(path) if path.exists() else policy.ToolsPolicy(workflow=workflow)
    hints: dict[str, Any] = {}
    for file in mcp or ():
        for name, effect in suggesting.hinted(_listing(file)).items():
            hints[name] = max(effect, hints.get(name, effect))  # "write" > "read": the stricter
    known = suggesting.evidence(_envelopes(config, workflow, traces, cases), hints)
    made = suggesting.proposals(known, held)
    document = documents.Document(path) if path.exists() else None
    shown = path.relative_to(config.root) if path.is_relative_to(config.root) else path
    typer.echo(suggesting.diff(document, str(shown), made, workflow), nl=False)
    typer.echo(f"{len(made)} proposed for {len(known)} tools", err=True)
    if not known:
        typer.echo(f"no recorded run of {workflow} and no hint: name some by --traces or --mcp", err=True)
        raise typer.Exit(5)


def _told(refuted: Refutation, held: ToolsPolicy) -> str:
    from twiceshy.reporting.escaping import plain

    writes = ", ".join(
        f"{write.place} {plain(write.name)} (touches {_listed(held.of(write.name).touches)})"
        for write in refuted.writes
    )
    return (
        f"{plain(refuted.tool)} reads {_listed(held.of(refuted.tool).reads)}, but in trace {plain(refuted.trace_id)} it answered differently at {refuted.before} "
        f"and {refuted.after}, with {writes} between. Widen one of the two."
    )  # fmt: skip


def _listed(resources: tuple[str, ...] | None) -> str:
    return "everything" if resources is None else f"[{', '.join(resources)}]"


def _policy_path(config: Configuration, workflow: str) -> Path:
    root = config.path("policies")
    path = root / workflow / "tools.yaml"
    if not path.exists():
        known = [folder.parent.name for folder in root.glob("*/tools.yaml")]
        raise InputError(f"{path}: no such file. {nearest(workflow, known)}")
    return path


def _envelopes(
    config: Configuration, workflow: str, traces: Iterable[Path] | None, cases: Path | None
) -> Iterator[Envelope]:
    """The recorded runs of a workflow, each trace once. A project whose catalog is still to come has none in it."""
    from twiceshy import casefile

    seen: set[str] = set()
    catalog = cases or config.path("cases")
    for root in [*([catalog] if cases or catalog.exists() else []), *(traces or ())]:
        if not root.is_dir():
            raise InputError.missing(root, what="folder of recorded runs")
        for path in sorted(root.rglob("envelope.jsonl")):
            envelope = casefile.load_envelope(path)
            if envelope.workflow == workflow and envelope.trace_id not in seen:
                seen.add(envelope.trace_id)
                yield envelope


def _listing(path: Path) -> Any:
    """The result of tools/list in a file, or the list of tools alone."""
    listing = _json(path)
    tools = listing.get("tools") if isinstance(listing, dict) else listing
    if not isinstance(tools, list) or not all(isinstance(tool, dict) and "name" in tool for tool in tools):
        raise FormatError.at(path, 'no tools/list result: {"tools": [{"name": ..., "annotations": {...}}]} is.')
    return listing


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError.missing(path) from None
    except ValueError as broken:
        raise FormatError.at(path, f"no JSON: {broken}.") from None
