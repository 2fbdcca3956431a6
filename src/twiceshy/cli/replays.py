"""`twiceshy replay`: one case, looked at closely."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from twiceshy.cli.options import (
    AfterOption,
    CandidateOption,
    CasesOption,
    FreezeOption,
    LiveOption,
    WeakOption,
    bench,
    candidate_spec,
    configured,
    judges,
    keyring,
    one_case,
)
from twiceshy.errors import InputError
from twiceshy.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from twiceshy.casefile import LoadedCase
    from twiceshy.judging import Rules
    from twiceshy.running import Session

CaseName = Annotated[str, typer.Argument(help="A case: its id, its signature or its path.", show_default=False)]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Every step, recorded beside replayed, with both sides of the middleware."),
]
Payloads = Annotated[
    bool, typer.Option("--show-payloads/--hide-payloads", help="Print the (redacted) values that differ.")
]
ReplayModeOption = Annotated[
    str,
    typer.Option(
        "--mode", "-m", help="auto, full, cut-point, world, or stub: all from the record, for comparison only."
    ),
]
CODES = {Outcome.PASSED: 0, Outcome.FAILED: 1, Outcome.DIVERGED: 3, Outcome.ERROR: 4}


def replay(
    case: CaseName,
    candidate: CandidateOption,
    mode: ReplayModeOption = "auto",
    live: LiveOption = None,
    after: AfterOption = None,
    freeze: FreezeOption = None,
    verbose: Verbose = False,
    show_payloads: Payloads = True,
    cases: CasesOption = None,
    allow_weak_isolation: WeakOption = False,
) -> None:
    """Replay one case against a candidate, one trial a judging mode, and show what happened step by step.

    Exit codes: 0 passed, 1 FAILED, 3 diverged, 4 infrastructure.

    For example:

      twiceshy replay refund-3a4d36f7d30b -c examples.refund:buggy -v

      twiceshy replay refund-3a4d36f7d30b -c examples.refund:guarded --after 3 -v
    """
    from twiceshy.judging import Terms, graders, judge_case
    from twiceshy.reporting import colours, transcripttext
    from twiceshy.reporting.escaping import plain
    from twiceshy.results import Candidacy
    from twiceshy.sealing import Isolation

    with opened(case, candidate, cases, weak=allow_weak_isolation) as (session, loaded, rules):
        terms = Terms(judges=judges(mode, live, after, freeze, comparing=True), trials=1, bench=bench(configured()))
        for judge in terms.judges:
            judge.cut.refuse_unknown(session.ready.boundaries)
        docket = graders([loaded], rules, terms, boundaries=session.ready.boundaries)
        judged = judge_case(session, docket[0], rules, terms, Candidacy())
        complaint, isolation, declared = session.said, session.ready.isolation, session.ready.boundaries
    for run in judged.modes:
        typer.echo(f"{loaded.case.id} [{run.cut.label}]")
        if verbose:
            for name, state in run.cut.manifest(declared, rules.policy).items():
                typer.echo(f"  {state:<12} {name}")
        options = transcripttext.Options(whole=verbose, payloads=show_payloads)
        text = transcripttext.render(loaded.envelope, run.deciding.transcript, run.verdict, options)
        in_colour = colours.wanted(os.environ, terminal=sys.stdout.isatty())
        typer.echo(colours.painted(text) if in_colour else text, nl=False)
    if verbose and show_payloads and complaint:
        typer.echo("the command said on standard error:")
        typer.echo("".join(f"  {plain(line)}\n" for line in complaint.splitlines()[-20:]), nl=False)
    if isolation is not Isolation.HERMETIC:
        typer.echo(f"isolation: {isolation}: {isolation.meaning}", err=True)
    raise typer.Exit(CODES[judged.result.outcome])


@contextmanager
def opened(name: str, candidate: str, cases: Path | None, *, weak: bool) -> Iterator[tuple[Session, LoadedCase, Rules]]:
    """A session of the candidate with the case that was named and the rules of its workflow."""
    from twiceshy import judging
    from twiceshy.running import Session

    config = configured()
    root = cases or config.path("cases")
    loaded = one_case(name, judging.load_cases(root))
    rules = judging.rules_of(config.path("policies"), loaded.case.workflow, keyring())
    with Session(
        candidate_spec(candidate, config), env=os.environ, folder=config.root, cases=[root], weak=weak
    ) as session:
        if session.ready.workflow != loaded.case.workflow:
            raise InputError(
                f"candidate {candidate!r} is of workflow {session.ready.workflow!r}, the case of {loaded.case.workflow!r}."
            )
        yield session, loaded, rules
