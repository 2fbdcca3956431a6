"""`twiceshy gate`: judge a candidate by the catalog of its workflow, and say so in every form asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from twiceshy.cli.options import (
    STDOUT,
    AfterOption,
    CandidateOption,
    CasesOption,
    FreezeOption,
    LiveOption,
    ModeOption,
    TimeoutOption,
    TrialsOption,
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
from twiceshy.errors import ConfigurationError, InputError
from twiceshy.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.casefile import Judge
    from twiceshy.champion import Champion
    from twiceshy.configuration import Configuration
    from twiceshy.envelope import Versions
    from twiceshy.exchange import Ready
    from twiceshy.judging import Judged, Rules, Terms
    from twiceshy.verdict import CandidateRef, Conversation, Policy, Verdict

Select = Annotated[
    str, typer.Option("--select", help="Only cases that fit, as tool:issue_refund,layer:harness.*", show_default=False)
]
ChampionFile = Annotated[
    Path | None, typer.Option("--champion", help="The pinned results to compare with.", show_default="of the workflow")
]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-unexercised", help="A changed layer that may stay frozen; every output names it.", show_default=False
    ),
]
FailOn = Annotated[str, typer.Option("--fail-on", help="Outcomes that make the gate red.")]
MaxDiverged = Annotated[
    str | None,
    typer.Option("--max-diverged", help="How many cases may diverge: a number, or a percentage.", show_default="0"),
]
MinCases = Annotated[
    int | None, typer.Option("--min-cases", min=0, help="Fewer judged cases than this end with 5.", show_default="1")
]
ExitZero = Annotated[
    bool, typer.Option("--exit-zero", help="End with 0 whatever was found; the JSON keeps the true code.")
]
Junit = Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML; - is stdout.", show_default=False)]
Json = Annotated[Path | None, typer.Option("--json", help="Write the verdict object; - is stdout.", show_default=False)]
SummaryFile = Annotated[
    Path | None, typer.Option("--summary", help="Append a Markdown summary; - is stdout.", show_default=False)
]
ANNOTATIONS = ("auto", "github", "none")
Annotations = Annotated[str, typer.Option("--annotations", help="auto, github or none.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only what did not pass.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="A line for every case.")]


def gate(
    candidate: CandidateOption,
    select: Select = "",
    mode: ModeOption = "auto",
    live: LiveOption = None,
    after: AfterOption = None,
    freeze: FreezeOption = None,
    trials: TrialsOption = None,
    champion: ChampionFile = None,
    accept_unexercised: Accept = None,
    cases: CasesOption = None,
    workers: WorkersOption = None,
    timeout_case: TimeoutOption = None,
    fail_on: FailOn = "failed,diverged,error",
    max_diverged: MaxDiverged = None,
    min_cases: MinCases = None,
    exit_zero: ExitZero = False,
    junit: Junit = None,
    json: Json = None,
    summary: SummaryFile = None,
    annotations: Annotations = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
    allow_weak_isolation: WeakOption = False,
) -> None:
    """Judge a candidate by every case of its workflow, hermetically, and end with 0 only if none of its failures is back.

    Exit codes: 0 passed, 1 a case FAILED, 2 usage or catalog error, 3 diverged, 4 infrastructure, 5 nothing judged.

    For example:

      twiceshy gate --candidate refund

      twiceshy gate -c examples.refund:buggy --select tool:issue_refund --junit report.xml

      twiceshy gate -c examples.refund:guarded --after 3

      twiceshy gate -c support-node --live model:* --trials 8
    """
    if annotations not in ANNOTATIONS:
        raise ConfigurationError(f"--annotations {annotations!r}: write one of {', '.join(ANNOTATIONS)}.")
    refuse_unwritable(junit=junit, json=json, summary=summary)
    config = configured()
    terms = _terms(config, judges(mode, live, after, freeze), trials, timeout_case, accept_unexercised)
    policy = _policy(config, fail_on, max_diverged, min_cases, accept_unexercised, exit_zero=exit_zero)
    run = judged_run(
        config, candidate, terms=terms, policy=policy, cases=cases, workers=workers, select=select, pinned=champion,
        weak=allow_weak_isolation, quiet=quiet,
    )  # fmt: skip
    _write(run.verdict, junit=junit, json=json, summary=summary, annotations=annotations, verbose=verbose)
    from twiceshy.gate import exit_code

    raise typer.Exit(exit_code(run.verdict))


class GateRun(NamedTuple):
    """A finished gate run: its verdict, and the versions of the candidate's layers."""

    verdict: Verdict
    versions: Versions


def judged_run(
    config: Configuration, candidate: str, *, terms: Terms, policy: Policy, cases: Path | None, workers: int | None = None,
    select: str = "", pinned: Path | None = None, weak: bool = False, quiet: bool = False,
) -> GateRun:  # fmt: skip
    """One gate run. Everything that can be refused is refused before the first trial."""
    from twiceshy import judging
    from twiceshy.champion import idle_waivers
    from twiceshy.cli.progress import Progress
    from twiceshy.conversations import whole_conversations
    from twiceshy.sessions import SessionPool

    started = _now()
    root = cases or config.path("cases")
    catalog = judging.load_cases(root)
    spec, many = candidate_spec(candidate, config), workers or config.settings.gate.workers
    live = judging.asking(live_models(config), spec, judging.selected(catalog, select), terms.judges)
    with SessionPool(
        spec, env=os.environ, folder=config.root, cases=[root], workers=many, weak=weak, live=live
    ) as pool:
        ready = pool.ready
        judging.refuse_undeclared(terms.judges, ready.boundaries)
        of_workflow = [loaded for loaded in catalog if loaded.case.workflow == ready.workflow]
        tools = judging.tools_of(of_workflow)
        named = {*ready.versions.tools, *tools}
        rules = judging.rules_of(config.path("policies"), ready.workflow, keyring(), known_tools=named)
        chosen = judging.selected(of_workflow, select)
        known = champion_of(config, ready.workflow, pinned)
        against = judging.candidacy(ready.versions, known.versions if known else None, terms.accepted, tools=tools)
        docket = judging.graders(chosen, rules, terms, boundaries=ready.boundaries, champion=known)
        judging.refuse_keyless(live, chosen, terms.judges)
        progress = Progress(len(docket), what="cases", quiet=quiet)
        judged = judging.judge_cases(
            pool, docket, rules, terms, against, heard=lambda done: progress.advance(done.result.name)
        )
    told = [(one, done.modes, done.result) for one, done in zip(docket, judged, strict=True)]
    together = whole_conversations(told, rules.invariants)
    idle = idle_waivers(known.waivers, [loaded.case.id for loaded in of_workflow], started[:10]) if known else []
    verdict = _verdict(
        started, candidate, ready, rules, terms, policy, judged, pinned=known, together=together, warnings=idle
    )
    return GateRun(verdict, ready.versions)


def _verdict(
    started: str, candidate: str, ready: Ready, rules: Rules, terms: Terms, policy: Policy, judged: Sequence[Judged], *,
    pinned: Champion | None, together: Sequence[Conversation], warnings: Sequence[str],
) -> Verdict:  # fmt: skip
    from twiceshy import champion, gate, graders
    from twiceshy.identity import digest
    from twiceshy.semantic import reference
    from twiceshy.verdict import CatalogRef, Git, Run, Tool

    results = [champion.compared(one.result, pinned, harness=rules.harness, today=started[:10]) for one in judged]
    digests = sorted(one.loaded.digest for one in judged)
    run = Run(
        id=digest([candidate, digests, rules.harness, started])[:16],
        started=started,
        finished=_now(),
        mode=terms.judges[0].cut.label if terms.judges else "auto",
        workflow=ready.workflow,
        candidate=_reference(candidate, ready.versions),
        champion=pinned.reference if pinned else None,
        catalog=CatalogRef(version="1", digest=digest(digests)),
        harness_version=version("twiceshy"),
        harness_state=rules.harness,
        git=Git(sha=_sha()),
        graders=graders.loaded(rules.invariants),
        judge=reference(rules.invariants),
        trials=terms.trials,
    )
    return gate.verdict(
        Tool(version=version("twiceshy")), run, policy, results, conversations=together, warnings=warnings
    )


def _reference(candidate: str, versions: Versions) -> CandidateRef:
    import msgspec

    from twiceshy.exercise import LAYERS
    from twiceshy.identity import digest
    from twiceshy.verdict import CandidateRef

    return CandidateRef(
        ref=candidate,
        digest=digest(msgspec.to_builtins(versions)),
        prompt=versions.prompt.digest,
        model=versions.model.digest,
        tools={name: tool.digest for name, tool in versions.tools.items()},
        layers={name: getattr(versions, name).digest for name in LAYERS if name not in ("model", "prompt")},
    )


def _terms(
    config: Configuration,
    chosen: Sequence[Judge],
    trials: int | None,
    timeout: float | None,
    accepted: Sequence[str] | None,
) -> Terms:
    from twiceshy.judging import Terms
    from twiceshy.sealing import Limits

    settings = config.settings.gate
    return Terms(
        judges=chosen,
        trials=trials or settings.trials,
        limits=Limits(wall_s=timeout or settings.timeout_case),
        accepted=accepted or (),
        bench=bench(config),
    )


def _policy(
    config: Configuration,
    fail_on: str,
    max_diverged: str | None,
    min_cases: int | None,
    accepted: Sequence[str] | None,
    *,
    exit_zero: bool,
) -> Policy:
    from twiceshy.gate import Budget
    from twiceshy.verdict import Policy

    budget = max_diverged if max_diverged is not None else config.settings.gate.max_diverged
    Budget.parse(budget)
    return Policy(
        fail_on=_red(fail_on), max_diverged=budget, min_cases=config.settings.gate.min_cases if min_cases is None else min_cases,
        accept_unexercised=list(accepted or ()), exit_zero=exit_zero,
    )  # fmt: skip


def _red(fail_on: str) -> tuple[Outcome, ...]:
    """The outcomes that make a gate red. Raises ConfigurationError for none, which could never be red, and for `passed`."""
    words = [word.strip() for word in fail_on.split(",") if word.strip()]
    known = [outcome for outcome in Outcome if outcome is not Outcome.PASSED]
    if not words or not set(words) <= set(known):
        raise ConfigurationError(f"--fail-on {fail_on!r}: write some of {','.join(known)}.")
    return tuple(map(Outcome, words))


def champion_of(config: Configuration, workflow: str, given: Path | None = None) -> Champion | None:
    """The champion in the file that was named, which must be there; else the workflow's, where there is one."""
    from twiceshy import champion

    path = given or config.path("champion") / f"{workflow}.json"
    if given is None and not path.exists():
        return None
    found = champion.load(path)
    if found.workflow != workflow:
        raise InputError(f"{path}: the champion of {found.workflow!r}, not of {workflow!r}.")
    return found


def _write(
    verdict: Verdict, *, junit: Path | None, json: Path | None, summary: Path | None, annotations: str, verbose: bool
) -> None:
    """Every rendering that was asked for; one of them may be stdout, which then carries nothing else."""
    from twiceshy.reporting import annotations as github
    from twiceshy.reporting import console, jsonfile, markdown
    from twiceshy.reporting import junit as xml

    rendered = [(junit, xml.render, False), (json, jsonfile.render, False), (summary, markdown.summary, True)]
    to_stdout = False
    for path, render, append in rendered:
        if path is None:
            continue
        if str(path) == STDOUT:
            to_stdout = True
            typer.echo(render(verdict), nl=False)
        else:
            with path.open("a" if append else "w", encoding="utf-8") as file:
                file.write(render(verdict))
    typer.echo(console.render(verdict, verbose=verbose), err=to_stdout, nl=False)
    if annotations == "github" or (annotations == "auto" and os.environ.get("GITHUB_ACTIONS") == "true"):
        sys.stdout.write(github.render(verdict))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _sha() -> str | None:
    """The commit of the working folder, where it is in a git checkout."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True)  # noqa: S607 - whichever git is on the PATH
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
