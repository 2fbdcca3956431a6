"""`twiceshy champion`: pin the results of the version in production, and show them."""

from __future__ import annotations

from typing import Annotated

import typer

from twiceshy.cli.options import CandidateOption, CasesOption, WorkersOption, configured

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
        typer.echo(f"{pin.outcome:<9} {pin.case:<34} {pin.mode:<28} {', '.join(pin.violated)}".rstrip())
    for waiver in found.waivers:
        typer.echo(
            f"waived    {waiver.case:<34} {', '.join(waiver.assertions)} by {waiver.by} on {waiver.date}: {waiver.why}"
        )


@champion_app.command("pin")
def pin(candidate: CandidateOption, cases: CasesOption = None, workers: WorkersOption = None) -> None:
    """Run every case of a candidate's workflow and pin what it comes to, as the version to compare with. Waivers are kept.

    For example:

      twiceshy champion pin -c refund
    """
    from twiceshy import champion
    from twiceshy.cli.gating import judged_run
    from twiceshy.judging import Terms
    from twiceshy.verdict import Policy

    config = configured()
    run = judged_run(
        config,
        candidate,
        terms=Terms(trials=config.settings.gate.trials),
        policy=Policy(),
        cases=cases,
        workers=workers,
    )
    path = config.path("champion") / f"{run.verdict.run.workflow}.json"
    waivers = champion.load(path).waivers if path.exists() else []
    champion.save(path, champion.pinned(run.verdict, run.versions, waivers=waivers))
    typer.echo(f"{path}: {candidate} pinned on {len(run.verdict.results)} cases")
