"""`twiceshy break`: can the catalog go red? One case, or all of a workflow with the mutation score."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twiceshy.cli.options import (
    CandidateOption,
    CasesOption,
    ModeOption,
    WeakOption,
    WorkersOption,
    bench,
    candidate_spec,
    configured,
    judges,
    keyring,
    live_models,
    refuse_unwritable,
)
from twiceshy.cli.replays import opened
from twiceshy.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from twiceshy.breakage import BrokenCase, Score
    from twiceshy.casefile import Judge
    from twiceshy.configuration import Configuration

OneCase = Annotated[str | None, typer.Argument(help="A case: its id, its signature or its path.", show_default=False)]
All = Annotated[
    bool, typer.Option("--all", help="Every case of the candidate's workflow, with the catalog's mutation score.")
]
Select = Annotated[
    str, typer.Option("--select", help="With --all: only cases that fit, as tool:issue_refund", show_default=False)
]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="With --all: write the score and every break; - is stdout.", show_default=False),
]


class NothingToBreak(InputError):
    """No case fits, so nothing would be broken."""

    @classmethod
    def under(cls, root: Path, workflow: str) -> Self:
        """The workflow, and where its cases were looked for."""
        return cls(f"no case of workflow {workflow!r} under {root} fits.")


def break_(
    candidate: CandidateOption,
    case: OneCase = None,
    every: All = False,
    select: Select = "",
    mode: ModeOption = "auto",
    cases: CasesOption = None,
    workers: WorkersOption = None,
    json: Json = None,
    allow_weak_isolation: WeakOption = False,
) -> None:
    """Break a candidate on purpose, as the case declares, and see that the case goes red.

    Breaks at the boundary: guard.off:NAME, hook.off:NAME, hook.strip:TOOL.path, args.set:TOOL.path=VALUE, call.drop:TOOL, call.duplicate:TOOL,
    order.swap:A,B, error.swallow:TOOL, proposal.replace:SEQ. On a private copy of its code: {patch: file.diff}, {env: {K: V}}, {git: REF}.

    A break is killed when the case FAILED on its own invariants. Ends with 0 when every break was killed, with 1 otherwise, and with 4 where all were killed
    without hermetic isolation, which proves nothing.

    For example:

      twiceshy break refund-3a4d36f7d30b -c examples.refund:hook_fixed_and_guarded

      twiceshy break --all -c refund
    """
    if every == (case is not None):
        raise InputError("name one case, or say --all.")
    if not every and (select or json is not None):
        raise InputError("--select and --json go with --all.")
    refuse_unwritable(json=json)
    if every:
        _all(candidate, select, mode, cases, workers, json, weak=allow_weak_isolation)
    _one(str(case), candidate, mode, cases, weak=allow_weak_isolation)


def _one(name: str, candidate: str, mode: str, cases: Path | None, *, weak: bool) -> None:
    from twiceshy.breakage import broken_case
    from twiceshy.judging import Terms, graders

    chosen = judges(mode, None, None, None)
    with opened(name, candidate, cases, judges=chosen, weak=weak) as (session, loaded, rules):
        if not loaded.case.breaks:
            raise InputError(f"case {loaded.case.id!r} declares no breaks, so nothing shows that it can go red.")
        terms = Terms(judges=chosen)
        done = broken_case(
            session, graders([loaded], rules, terms, boundaries=session.ready.boundaries)[0], rules, terms
        )
    for line in _lines(done):
        typer.echo(line)
    killed = list(done.states.values()).count("killed")
    typer.echo(f"{killed} of {len(done.states)} breaks killed")
    raise typer.Exit(_code([done]))


def _all(
    candidate: str, select: str, mode: str, cases: Path | None, workers: int | None, json: Path | None, *, weak: bool
) -> None:
    from twiceshy import breakage

    done = broken_run(
        configured(), candidate, chosen=judges(mode, None, None, None), select=select, cases=cases, workers=workers, weak=weak
    )  # fmt: skip
    for case in done:
        why = breakage.uncovered(case, done)
        name = case.loaded.case.signature or case.loaded.case.id
        _line(f"{'unproven' if why else 'covered':<9} {name}" + (f": {why}" if why else ""), json)
        for line in _lines(case):
            _line(f"  {line}", json)
    _line(said(breakage.score(done)), json)
    if json is not None:
        _write(json, done)
    raise typer.Exit(_code(done))


def _code(done: Sequence[BrokenCase]) -> int:
    """The exit code; a seal that did not hold is named."""
    from twiceshy.sealing import Isolation

    for level in sorted({case.isolation for case in done} - {Isolation.HERMETIC}):
        typer.echo(f"isolation: {level}: {Isolation(level).meaning}", err=True)
    return exit_code(done)


def exit_code(done: Sequence[BrokenCase]) -> int:
    """1 unless every break was killed, and at least one was declared; 4 where all were, but not behind a seal: that proves nothing."""
    from twiceshy.breakage import score
    from twiceshy.sealing import Isolation

    found = score(done)
    if not found.declared or found.killed < found.declared:
        return 1
    return 0 if {case.isolation for case in done} == {Isolation.HERMETIC} else 4


def broken_run(
    config: Configuration, candidate: str, *, chosen: Sequence[Judge], select: str = "", cases: Path | None = None,
    workers: int | None = None, weak: bool = False,
) -> list[BrokenCase]:  # fmt: skip
    """Every break of every case of the candidate's workflow that fits. chosen: the judging modes; none means each case's own. Raises NothingToBreak."""
    from twiceshy import breakage, judging
    from twiceshy.sealing import Limits
    from twiceshy.sessions import SessionPool

    root = cases or config.path("cases")
    catalog = judging.load_cases(root)
    settings = config.settings.gate
    spec, many = candidate_spec(candidate, config), workers or settings.workers
    live = judging.asking(live_models(config), spec, judging.selected(catalog, select), chosen)
    with SessionPool(
        spec, env=os.environ, folder=config.root, cases=[root], workers=many, weak=weak, live=live
    ) as pool:
        workflow = pool.ready.workflow
        fitting = judging.selected([loaded for loaded in catalog if loaded.case.workflow == workflow], select)
        if not fitting:
            raise NothingToBreak.under(root, workflow)
        rules = judging.rules_of(config.path("policies"), workflow, keyring())
        terms = judging.Terms(judges=chosen, limits=Limits(wall_s=settings.timeout_case), bench=bench(config))
        docket = judging.graders(fitting, rules, terms, boundaries=pool.ready.boundaries)
        judging.refuse_keyless(live, fitting, chosen)
        return breakage.break_cases(pool, docket, rules, terms)


def _line(text: str, json: Path | None) -> None:
    """One line for people; beside JSON on stdout it goes to stderr."""
    typer.echo(text, err=str(json) == "-")


def _lines(case: BrokenCase) -> Iterator[str]:
    for run in case.runs:
        rest = ", ".join(run.violated) if run.state == "killed" else run.why
        mark = "equivalent: the run is the unbroken one" if run.equivalent else rest
        yield f"{run.state:<13} {run.text}  [{run.mode}]  {mark}".rstrip()


def said(score: Score) -> str:
    """The mutation score with both denominators."""
    if score.of_all is None:
        return "mutation score: no case declares a break"
    left = score.declared - score.equivalent
    rest = (
        f"{score.of_reachable:.3f} of the {left} not shown equivalent"
        if score.of_reachable is not None
        else "none is left"
    )
    return f"mutation score: {score.killed} of {score.declared} breaks killed, {score.of_all:.3f} of all, {rest} ({score.applied} applied)"


def told(done: Sequence[BrokenCase]) -> dict[str, Any]:
    """The score, and of each case every break under every judging mode, as plain values."""
    from twiceshy import breakage

    score = breakage.score(done)
    return {
        "score": {**score._asdict(), "of_all": score.of_all, "of_reachable": score.of_reachable},
        "cases": [
            {
                "case": case.loaded.case.id, "signature": case.loaded.case.signature, "passed": case.passed, "uncovered": breakage.uncovered(case, done),
                "breaks": [
                    {"break": run.text, "mode": run.mode, "state": run.state, "violated": list(run.violated), "why": run.why, "equivalent": run.equivalent}
                    for run in case.runs
                ],
            }
            for case in done
        ],
    }  # fmt: skip


def _write(path: Path, done: Sequence[BrokenCase]) -> None:
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(told(done)), indent=2).decode() + "\n"
    if str(path) == "-":
        typer.echo(text, nl=False)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
