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
    RunOption,
    WeakOption,
    bench,
    candidate_spec,
    configured,
    judges,
    keyring,
    live_models,
    one_case,
)
from twiceshy.errors import InputError
from twiceshy.outcome import Mode, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from twiceshy.casefile import Judge, LoadedCase
    from twiceshy.exchange import Ready
    from twiceshy.judging import Judged, Rules
    from twiceshy.keeping import Kept
    from twiceshy.policy import ToolsPolicy
    from twiceshy.running import Session
    from twiceshy.trials import ModeRun

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
    run: RunOption = None,
    cases: CasesOption = None,
    allow_weak_isolation: WeakOption = False,
) -> None:
    """Replay one case against a candidate, one trial a judging mode, and show what happened step by step.

    Exit codes: 0 passed, 1 FAILED, 3 diverged, 4 infrastructure.

    For example:

      twiceshy replay refund-3a4d36f7d30b -c examples.refund:buggy -v

      twiceshy replay refund-3a4d36f7d30b -c examples.refund:guarded --after 3 -v

      twiceshy replay refund-3a4d36f7d30b -c examples.refund:guarded --run runs/guarded
    """
    from twiceshy import keeping
    from twiceshy.judging import Terms, graders, judge_case, refuse_undeclared
    from twiceshy.reporting.escaping import plain
    from twiceshy.results import Candidacy
    from twiceshy.sealing import Isolation

    if run is not None and mode == Mode.STUB:
        raise InputError("--run keeps nothing of the mode stub: all of it is the record's.")
    keeping.refuse_existing(run)
    chosen = judges(mode, live, after, freeze, comparing=True)
    with opened(case, candidate, cases, judges=chosen, weak=allow_weak_isolation) as (session, loaded, rules):
        terms = Terms(judges=chosen, trials=1, bench=bench(configured()), drafts=True)
        refuse_undeclared(chosen, session.ready.boundaries)
        docket = graders([loaded], rules, terms, boundaries=session.ready.boundaries)
        judged = judge_case(session, docket[0], rules, terms, Candidacy())
        complaint, ready = session.said, session.ready
    _show(judged, ready, rules, verbose=verbose, payloads=show_payloads)
    if verbose and show_payloads and complaint:
        typer.echo("the command said on standard error:")
        typer.echo("".join(f"  {plain(line)}\n" for line in complaint.splitlines()[-20:]), nl=False)
    if run is not None:
        _keep(run, judged, candidate, ready)
    if ready.isolation is not Isolation.HERMETIC:
        typer.echo(f"isolation: {ready.isolation}: {ready.isolation.meaning}", err=True)
    raise typer.Exit(CODES[judged.result.outcome])


def _show(judged: Judged, ready: Ready, rules: Rules, *, verbose: bool, payloads: bool) -> None:
    """Each judging mode step by step, and what a draft still waits for."""
    from twiceshy.acceptance import standing
    from twiceshy.reporting import colours, transcripttext

    loaded = judged.loaded
    for held in judged.modes:
        typer.echo(f"{loaded.case.id} [{held.cut.label}]")
        if verbose:
            for line in _boundaries(held, ready.boundaries, rules.policy):
                typer.echo(f"  {line}")
        options = transcripttext.Options(whole=verbose, payloads=payloads)
        text = transcripttext.render(loaded.envelope, held.deciding.transcript, held.verdict, options)
        in_colour = colours.wanted(os.environ, terminal=sys.stdout.isatty())
        typer.echo(colours.painted(text) if in_colour else text, nl=False)
    if waits := standing(loaded, judged.judges):
        typer.echo(f"  {waits}: what it comes to proves nothing, and no gate takes it.")


def _keep(folder: Path, judged: Judged, candidate: str, ready: Ready) -> None:
    """Each judging mode's run, for `case from-run`."""
    from twiceshy import keeping

    for judge, held in zip(judged.judges, judged.modes, strict=True):
        how = keeping.Replayed("replay", candidate, held.cut.label, ready.isolation.value, ready.versions)
        keep(folder, judge, keeping.of_replay(judged.loaded, held.deciding.transcript, held.verdict, how))


def keep(folder: Path, judge: Judge, kept: Kept) -> None:
    """Write the run of a judging mode, and say where."""
    from twiceshy import keeping

    path = folder / keeping.folder_of(judge.cut.label)
    keeping.save(path, kept)
    typer.echo(f"  kept: {path}")


def _boundaries(run: ModeRun, declared: Sequence[str], policy: ToolsPolicy) -> Iterator[str]:
    """What was done at each boundary, and who answered for the models that ran live outside of the candidate."""
    from twiceshy.answerers import answering
    from twiceshy.reporting.escaping import plain

    for name, state in run.cut.manifest(declared, policy).items():
        yield f"{state:<12} {name}"
    for model in answering(one for trial in run.trials for one in trial.asked):
        yield f"{'asked':<12} {plain(model.text)}"


@contextmanager
def opened(
    name: str, candidate: str, cases: Path | None, *, judges: Sequence[Judge], weak: bool
) -> Iterator[tuple[Session, LoadedCase, Rules]]:
    """A session of the candidate with the case that was named and the rules of its workflow. judges: as of judging.Terms."""
    from twiceshy import judging
    from twiceshy.running import Session

    config = configured()
    root = cases or config.path("cases")
    loaded = one_case(name, judging.load_cases(root))
    rules = judging.rules_of(config.path("policies"), loaded.case.workflow, keyring())
    spec = candidate_spec(candidate, config)
    live = judging.asking(live_models(config), spec, [loaded], judges)
    judging.refuse_keyless(live, [loaded], judges)
    with Session(spec, env=os.environ, folder=config.root, cases=[root], weak=weak, live=live) as session:
        if session.ready.workflow != loaded.case.workflow:
            raise InputError(
                f"candidate {candidate!r} is of workflow {session.ready.workflow!r}, the case of {loaded.case.workflow!r}."
            )
        yield session, loaded, rules
