"""`twiceshy champion`: pin the results of the version in production, show them, and show where another version differs."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from twiceshy.cli.options import CandidateOption, CasesOption, TrialsOption, WorkersOption, bench, configured
from twiceshy.outcome import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from twiceshy.cli.gating import GateRun
    from twiceshy.configuration import Configuration

champion_app = typer.Typer(
    help="The pinned results that a candidate is compared with.", no_args_is_help=True, rich_markup_mode=None
)


@champion_app.command("show")
def show(workflow: Annotated[str, typer.Argument(help="The workflow.", show_default=False)]) -> None:
    """The pinned outcome of every case and mode, and the waivers beside them.

    For example:

      twiceshy champion show refund
    """
    from twiceshy import champion

    found = champion.load(configured().path("champion") / f"{workflow}.json")
    typer.echo(f"{found.ref} is the champion of {found.workflow}")
    for pin in found.pins:
        counted = f"{pin.passed}/{pin.trials}" if pin.trials else ""
        typer.echo(f"{pin.outcome:<9} {pin.case:<34} {pin.mode:<28} {counted:<5} {', '.join(pin.violated)}".rstrip())
    today = datetime.now(UTC).date().isoformat()
    for waiver in found.waivers:
        idle = champion.out_of_force(waiver, today)
        said = f"{waiver.case:<34} {', '.join(waiver.assertions)} by {waiver.by} on {waiver.date}: {waiver.why}"
        typer.echo(f"waived    {said}" if idle is None else f"not in force {said} ({idle})")


@champion_app.command("pin")
def pin(
    candidate: CandidateOption, cases: CasesOption = None, trials: TrialsOption = None, workers: WorkersOption = None
) -> None:
    """Run every case of a candidate's workflow and pin what it comes to, as the version to compare with. Waivers stand in a file of their own.

    For example:

      twiceshy champion pin -c refund
    """
    from twiceshy import champion

    config = configured()
    run = _run(config, candidate, cases, workers, trials)
    path = config.path("champion") / f"{run.verdict.run.workflow}.json"
    champion.save(path, champion.pinned(run.verdict, run.versions))
    came = Counter(result.outcome.value for result in run.verdict.results)
    told = ", ".join(f"{came[outcome.value]} {outcome.value}" for outcome in Outcome if came[outcome.value])
    typer.echo(f"{path}: {candidate} pinned on {len(run.verdict.results)} cases: {told or 'none ran'}")


@champion_app.command("diff")
def diff(
    candidate: CandidateOption, cases: CasesOption = None, trials: TrialsOption = None, workers: WorkersOption = None
) -> None:
    """Run every case of a candidate's workflow and show where it comes to something else than the champion: what pinning it would change.

    Ends with 0 where nothing differs, else with 1.

    For example:

      twiceshy champion diff -c refund
    """
    from twiceshy import champion
    from twiceshy.exercise import changed_layers

    config = configured()
    run = _run(config, candidate, cases, workers, trials)
    before = champion.load(config.path("champion") / f"{run.verdict.run.workflow}.json")
    found = champion.differences(before, champion.pinned(run.verdict, run.versions))
    typer.echo(f"{before.ref} -> {candidate}: {len(found)} results differ, {len(before.pins)} were pinned")
    if changed := sorted(changed_layers(run.versions, before.versions)):
        typer.echo(f"changed layers: {', '.join(changed)}")
    for one in found:
        ids = f"{', '.join(one.violated_before) or '-'} -> {', '.join(one.violated_after) or '-'}"
        typer.echo(f"{one.before or 'none':<9} -> {one.after or 'none':<9} {one.case:<34} {one.mode:<28} {ids}")
    if any(one.before is None or one.after is None for one in found):
        typer.echo("none: the case is new or gone there, or it or its rules were other ones then")
    raise typer.Exit(1 if found else 0)


def _run(config: Configuration, candidate: str, cases: Path | None, workers: int | None, trials: int | None) -> GateRun:
    from twiceshy.cli.gating import judged_run
    from twiceshy.judging import Terms
    from twiceshy.verdict import Policy

    return judged_run(
        config,
        candidate,
        terms=Terms(trials=trials or config.settings.gate.trials, bench=bench(config)),
        policy=Policy(),
        cases=cases,
        workers=workers,
    )
