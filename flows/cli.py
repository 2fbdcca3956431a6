"""The verbs of a pipeline checkout, mounted into `twiceshy` by twiceshy.toml. Each imports what it needs when it is called, so that `--help` stays light."""

from pathlib import Path
from typing import Annotated

import typer

from twiceshy.errors import ConfigurationError

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

AsOfOption = Annotated[
    str | None, typer.Option("--as-of", help="The instant that counts as now, ISO 8601.", show_default="now")
]


@app.command("retain")
def retain(
    as_of: AsOfOption = None,
    keep: Annotated[
        int, typer.Option(min=1, help="The newest generations that stay; a published one stays anyway.")
    ] = 30,
) -> None:
    """Remove what has expired: raw copies past their time, what crashed writers left, old generations; close runs whose worker was killed.

    For example:

      twiceshy retain

      twiceshy retain --as-of 2026-12-31T06:00+00:00 --keep 7
    """
    from flows.surroundings import settle

    settle()
    from flows.retention import retention

    for what, count in retention(as_of=as_of, keep=keep).items():
        typer.echo(f"{count:>6} {what}")


@app.command("deploy")
def deploy() -> None:
    """Set up the Prefect server at PREFECT_API_URL: work pool, limits, automations and the deployments of prefect.yaml. Done twice it changes nothing.

    For example:

      PREFECT_API_URL=http://127.0.0.1:4200/api twiceshy deploy
    """
    from flows.surroundings import server, settle

    settle()
    address = server()
    if address is None:
        raise ConfigurationError(
            "PREFECT_API_URL names no server. Start one (`prefect server start`) and set it, as in http://127.0.0.1:4200/api."
        )
    from flows.deploying import deploy as apply

    for what, made in apply(Path.cwd())._asdict().items():
        typer.echo(f"{what:<12} {made if isinstance(made, str) else ', '.join(made)}")
