"""The verbs, by name; each imports what it needs when it is called, so that `--help` stays light."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Annotated

import typer

from twiceshy import configuration
from twiceshy.cli.breaks import break_
from twiceshy.cli.cases import case_app
from twiceshy.cli.champions import champion_app
from twiceshy.cli.doctoring import doctor
from twiceshy.cli.explorations import explore
from twiceshy.cli.gating import gate
from twiceshy.cli.recording import record
from twiceshy.cli.replays import replay
from twiceshy.cli.settings import config_app, keys_app, schema
from twiceshy.cli.tools import tools_app
from twiceshy.errors import ConfigurationError

_EXAMPLES = """
Judge a candidate and fail the build when a known failure is back:

  twiceshy gate --candidate examples.refund:hook_fixed_and_guarded

See step by step why a case went red:

  twiceshy replay refund-3a4d36f7d30b --candidate examples.refund:buggy -v
"""


def mounted() -> typer.Typer:
    """The command line of this folder: the engine's verbs, and those that its twiceshy.toml mounts. Raises ConfigurationError."""
    app = typer.Typer(
        name="twiceshy",
        help=f"A production failure of an LLM agent, once diagnosed, must never quietly return.\n{_EXAMPLES}",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_asked)
    app.command("gate")(gate)
    app.command("replay")(replay)
    app.command("explore")(explore)
    app.command("record")(record)
    app.command("doctor")(doctor)
    app.command("break")(break_)
    app.add_typer(case_app, name="case")
    app.add_typer(champion_app, name="champion")
    app.add_typer(tools_app, name="tools")
    app.add_typer(keys_app, name="keys")
    app.add_typer(config_app, name="config")
    app.command("schema")(schema)
    found = configuration.load(Path(), os.environ)
    for spec in found.settings.commands:
        _mount(app, spec)
    return app


def _say_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"twiceshy {version('twiceshy')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", help="Say the version.", callback=_say_version, is_eager=True)]


def _asked(version: Version = False) -> None:
    """Nothing: `--version` has done its work."""


def _mount(app: typer.Typer, spec: str) -> None:
    module, _, attribute = spec.partition(":")
    try:
        other = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as broken:
        raise ConfigurationError(
            f"commands: {spec!r} cannot be mounted: {broken}. Install the pipeline, or take the line out."
        ) from None
    app.registered_commands += other.registered_commands
    app.registered_groups += other.registered_groups
