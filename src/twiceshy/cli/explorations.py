"""`twiceshy explore`: one case past what its record can answer, with a simulator in the place of the tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twiceshy.cli.options import CandidateOption, CasesOption, RunOption, WeakOption, configured
from twiceshy.cli.replays import CaseName, Payloads, Verbose, keep, opened
from twiceshy.outcome import Mode, Outcome

if TYPE_CHECKING:
    from twiceshy.casefile import LoadedCase
    from twiceshy.exploring import Exploration
    from twiceshy.grading import TrialVerdict
    from twiceshy.reporting.transcripttext import Options

SimulatorOption = Annotated[str, typer.Option("--simulator", help="Who answers misses: nearest or openai.")]
UrlOption = Annotated[
    str | None, typer.Option("--simulator-url", help="openai: the endpoint, as https://host/v1.", show_default=False)
]
ModelOption = Annotated[str | None, typer.Option("--simulator-model", help="openai: the model.", show_default=False)]
RepliesOption = Annotated[
    Path | None, typer.Option("--replies", help="openai: the file that keeps its replies.", show_default=False)
]


def explore(
    case: CaseName,
    candidate: CandidateOption,
    simulator: SimulatorOption = "nearest",
    simulator_url: UrlOption = None,
    simulator_model: ModelOption = None,
    replies: RepliesOption = None,
    verbose: Verbose = False,
    show_payloads: Payloads = True,
    run: RunOption = None,
    cases: CasesOption = None,
    allow_weak_isolation: WeakOption = False,
) -> None:
    """Replay one case in the mode explore: a simulator answers what the record misses, which is labelled and proves nothing.

    Exit codes: 3 whatever it came to, 4 infrastructure. A key for the endpoint is read from TWICESHY_SIMULATOR_KEY.

    For example:

      twiceshy explore scheduling-7a928c9d50ad -c examples.scheduling:fixed

      twiceshy explore scheduling-7a928c9d50ad -c examples.scheduling:fixed --run runs/friday
    """
    import msgspec

    from twiceshy import exploring, judging
    from twiceshy.keeping import Replayed, of_replay, refuse_existing
    from twiceshy.reporting.transcripttext import Options
    from twiceshy.simulators import Settings
    from twiceshy.simulators import simulator as made

    settings = Settings(url=simulator_url, model=simulator_model, key=os.environ.get("TWICESHY_SIMULATOR_KEY"), replies=replies)  # fmt: skip
    refuse_existing(run)
    who, terms, outcomes = made(simulator, settings), judging.Terms(drafts=True), []
    with opened(case, candidate, cases, judges=(), weak=allow_weak_isolation) as (session, loaded, rules):
        corpus = judging.load_cases(cases or configured().path("cases"))
        known = [one for one in corpus if one.case.workflow == loaded.case.workflow]
        grader = judging.graders([loaded], rules, terms)[0]
        for own in grader.judges:
            judge = msgspec.structs.replace(own, mode=Mode.EXPLORE)
            found = exploring.explore(session, rules.task(loaded, judge, terms), who, known)
            verdict = grader.trial(found.played.transcript, judge.cut)
            outcomes.append(verdict.outcome)
            typer.echo(f"{loaded.case.id} [{judge.cut.label}]")
            _show(loaded, found, verdict, Options(whole=verbose, payloads=show_payloads))
            if run is not None:
                ready = session.ready
                how = Replayed("explore", candidate, judge.cut.label, ready.isolation.value, ready.versions)
                keep(run, own, of_replay(loaded, found.played.transcript, verdict, how, found.told))
    raise typer.Exit(4 if Outcome.ERROR in outcomes else 3)


def _show(loaded: LoadedCase, found: Exploration, verdict: TrialVerdict, options: Options) -> None:
    """The run step by step, and what of it was simulated."""
    from twiceshy.reporting import transcripttext

    typer.echo(transcripttext.render(loaded.envelope, found.played.transcript, verdict, options), nl=False)
    for told in found.told:
        typer.echo(f"  simulated: {told.tool} at {told.place}, by {told.by}")
    if found.stopped:
        typer.echo(f"  stopped: {found.stopped}")
    if found.told:
        typer.echo("  This run rests on simulated answers: it proves nothing, and no gate accepts it.")
