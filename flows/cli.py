"""The verbs of a pipeline checkout, mounted into `twiceshy` by twiceshy.toml. Each imports what it needs when it is called, so that `--help` stays light."""

from pathlib import Path
from typing import Annotated, Any

import typer

from twiceshy.errors import ConfigurationError

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)


_Path = Annotated[
    str | None,
    typer.Option(
        help="A file of traces, gzip or not, or a folder of them. Of langfuse and langsmith also the address of the API; its keys are LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, or LANGSMITH_API_KEY.",
        show_default="LANGFUSE_HOST or LANGSMITH_ENDPOINT",
    ),
]


@app.command("refresh")
def refresh(
    source: Annotated[
        str,
        typer.Option(
            help="The trace format: otlp, openai_chat, langfuse, langsmith, or one that is installed.",
            show_default=False,
        ),
    ],
    path: _Path = None,
    flagged: Annotated[
        str | None,
        typer.Option(
            help="Which traces count as failures, as \"reward == 0.0 or status == 'error'\". Asked of those under --path that were taken in before, too.",
            show_default="an error status or a bad score",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(help="Traces that began in these days, as 2026-11-01/2026-11-08; .. is open.", show_default="all"),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option(help="The workflow of traces that name none.", show_default="by the tools they call")
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="The day from which raw copies live out their time.", show_default="today"),
    ] = None,
) -> None:
    """Take traces in: pull, redact, normalize, find and sign failures, admit, and propose one case a signature. A second run changes nothing.

    Every trace is accounted for; proposed cases wait in data/corpus/proposed until a person moves them into data/cases.

    For example:

      twiceshy refresh --source otlp --path traces/

      twiceshy refresh --source openai_chat --path runs.jsonl.gz --workflow airline --flagged 'reward == 0.0'

      twiceshy refresh --source langfuse --path https://cloud.langfuse.com --window 2026-11-01/2026-11-02
    """
    asked: dict[str, Any] = {
        "source": source, "path": path, "flagged": flagged, "window": window, "workflow": workflow, "as_of": as_of,
    }  # fmt: skip
    from flows.running import run_refresh

    for line in run_refresh(asked):
        typer.echo(line)


@app.command("nightly")
def nightly(
    night: Annotated[
        str | None, typer.Option(help="The newest night that is judged, by its date.", show_default="today")
    ] = None,
    nights: Annotated[int, typer.Option(min=1, max=90, help="So many nights that end with it, as of each.")] = 1,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            "-c",
            help="A candidate of twiceshy.toml that is called like its workflow, or workflow=package.module:factory; repeatable.",
            show_default="all of twiceshy.toml",
        ),
    ] = None,
    deployments: Annotated[
        Path | None,
        typer.Option(
            help="A file that says which version was in production on which day; those are judged in place of candidates.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=2, help="Trials a case and judging mode.", show_default="2")] = None,
) -> None:
    """Replay the whole catalog, sealed: every case, judging mode and trial; compare with the champion, publish, and build the site.

    Ends with 0 whatever it finds: what it found is its verdict, the first line. The gate is what fails a build.

    For example:

      twiceshy nightly

      twiceshy nightly --night 2026-11-22 --nights 14 --deployments data/samples/deployments.yaml
    """
    asked: dict[str, Any] = {
        "night": night, "nights": nights, "candidates": candidate or None, "deployments": str(deployments) if deployments else None, "trials": trials,
    }  # fmt: skip
    from flows.running import run_nightly

    for line in run_nightly(asked):
        typer.echo(line)


site_app = typer.Typer(
    help="The site: the latest published run as static pages.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(site_app, name="site")


@site_app.command("build")
def build(
    to: Annotated[
        Path | None, typer.Option(help="Where to write it; what was there is replaced.", show_default="site/")
    ] = None,
) -> None:
    """Build the pages of the latest published run. They open from the file system and ask nothing of any server.

    For example:

      twiceshy site build --to public/
    """
    from flows.running import run_site

    typer.echo(run_site(to))


@app.command("retain")
def retain(
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="The instant that counts as now, ISO 8601 with its zone.", show_default="now"),
    ] = None,
    keep: Annotated[
        int, typer.Option(min=1, help="The newest generations that stay; a published one stays anyway.")
    ] = 30,
) -> None:
    """Remove what has expired: raw copies past their time, what crashed writers left, old generations; close runs whose worker was killed.

    For example:

      twiceshy retain

      twiceshy retain --as-of 2026-12-31T06:00+00:00 --keep 7
    """
    from flows.running import run_retention

    for line in run_retention({"as_of": as_of, "keep": keep}):
        typer.echo(line)


raw_app = typer.Typer(
    help="Raw copies of what was pulled: sealed, each with an expiry, every reading written down.", no_args_is_help=True, rich_markup_mode=None
)  # fmt: skip
app.add_typer(raw_app, name="raw")


@raw_app.command("ls")
def raw_ls() -> None:
    """List the raw copies: reference, source, name, size, key, and until when each may stay.

    For example:

      twiceshy raw ls
    """
    from flows.rawcopies import listed

    for line in listed():
        typer.echo(line)


@raw_app.command("show")
def raw_show(
    ref: Annotated[str, typer.Argument(help="A reference of `twiceshy raw ls`.", metavar="{ref}")],
    why: Annotated[
        str, typer.Option(help="What it is read for; written to the log with your name.", show_default=False)
    ],
) -> None:
    """Write a raw copy to standard output, opened with the key it was sealed under. What is personal in it is personal.

    For example:

      twiceshy raw show raw/3b0c... --why 'parser fault of ticket 118' > day.jsonl
    """
    from flows.rawcopies import read

    typer.get_binary_stream("stdout").write(read(ref, why))


@raw_app.command("log")
def raw_log() -> None:
    """Say who read which raw copy, when and why.

    For example:

      twiceshy raw log
    """
    from flows.rawcopies import readings

    for line in readings():
        typer.echo(line)


@app.command("deploy")
def deploy() -> None:
    """Set up the Prefect server at PREFECT_API_URL: work pool, limits, automations and the deployments of prefect.yaml. Done twice it changes nothing.

    For example:

      PREFECT_API_URL=http://127.0.0.1:4200/api twiceshy deploy
    """
    from flows.surroundings import server, settle

    settle()
    if server() is None:
        raise ConfigurationError(
            "PREFECT_API_URL names no server. Start one (`prefect server start`) and set it, as in http://127.0.0.1:4200/api."
        )
    from flows.console import Steps
    from flows.deploying import deploy as apply

    for what, made in apply(Path.cwd(), say=Steps("deploy").say)._asdict().items():
        typer.echo(f"{what:<12} {made if isinstance(made, str) else ', '.join(made)}")
