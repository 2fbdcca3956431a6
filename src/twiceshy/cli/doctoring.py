"""`twiceshy doctor`: what stands between this project and a gate that can be believed, a line a check."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from twiceshy.cli.options import candidate_spec, configured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.configuration import Configuration
    from twiceshy.diagnosing import Check

Candidates = Annotated[
    list[str] | None,
    typer.Option(
        "--candidate",
        "-c",
        help="Only this candidate: a name, or package.module:factory. May be repeated.",
        show_default="all of twiceshy.toml",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")]


def doctor(candidate: Candidates = None, json: Json = False) -> None:
    """Say what of this project and machine keeps a gate from judging: isolation, clock, settings, policies, keys, cases, champions, candidates. Nothing is changed.

    Candidates are started sealed; one that is a command also runs a case once, to show whether its tools go through MCP or /tools. Ends with 2 where there is a problem.

    For example:

      twiceshy doctor

      twiceshy doctor -c refund --json
    """
    from twiceshy.reporting.escaping import plain

    checks = []
    for check in _checks(configured(), candidate):
        checks.append(check)
        if not json:
            typer.echo(f"{check.state:<8} {plain(check.name)}: {plain(check.found)}")
            if check.todo:
                typer.echo(f"{'':<8} -> {plain(check.todo)}")
    problems = sum(check.state == "problem" for check in checks)
    if json:
        _print(checks)
    raise typer.Exit(2 if problems else 0)


def _checks(config: Configuration, chosen: Sequence[str] | None) -> Iterator[Check]:
    from twiceshy import diagnosing, examining
    from twiceshy.commands import faketime_library
    from twiceshy.errors import TwiceshyError
    from twiceshy.sealing import probe

    named = list(chosen or sorted(config.settings.candidate))
    yield from diagnosing.settings(config)
    had = diagnosing.isolation(probe(config.root))
    yield had
    known = config.settings.candidate
    yield diagnosing.clock(faketime_library(), needed=any(name in known and known[name].command for name in named))
    catalog, checks = diagnosing.catalog(config, os.environ)
    yield from checks
    for name in named:
        try:
            spec = candidate_spec(name, config)
        except TwiceshyError as why:
            yield diagnosing.refused(f"candidate {name}", why)
            continue
        weak = had.state == "problem"
        yield from examining.examined(name, spec, catalog, env=os.environ, folder=config.root, weak=weak)
    if not named:
        todo = "name one in twiceshy.toml, or with -c"
        yield diagnosing.Check(
            name="candidates", state="warning", found="none is named, so none was started", todo=todo
        )


def _print(checks: Sequence[Check]) -> None:
    import msgspec

    told = msgspec.json.format(msgspec.json.encode({"checks": checks}), indent=2)
    typer.echo(told.decode())
