"""Options that several verbs share, each with its one help text, and what they are read into."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twiceshy import configuration
from twiceshy.errors import CaseError, ConfigurationError, InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.casefile import Judge, LoadedCase
    from twiceshy.commands import Command
    from twiceshy.configuration import CandidateSettings, Configuration
    from twiceshy.gateway.door import LiveModels
    from twiceshy.redaction import Keyring
    from twiceshy.running import CandidateSpec
    from twiceshy.semantic import Bench

STDOUT = "-"
"""The path that means standard output."""
CandidateOption = Annotated[
    str,
    typer.Option("--candidate", "-c", help="A name from twiceshy.toml, or package.module:factory.", show_default=False),
]
ModeOption = Annotated[
    str, typer.Option("--mode", "-m", help="auto (each case's own judging modes), full, cut-point or world.")
]
LiveOption = Annotated[
    list[str] | None,
    typer.Option(
        "--live",
        help="cut-point: a boundary that runs live, as kind:name. Never a write. A remote model is asked at [upstream] of twiceshy.toml.",
        show_default=False,
    ),
]
AfterOption = Annotated[
    int | None,
    typer.Option(
        "--after",
        min=0,
        help="cut-point: steps 1 to N come from the record, hooks and guards included.",
        show_default=False,
    ),
]
FreezeOption = Annotated[
    list[str] | None, typer.Option("--freeze", help="cut-point: a boundary that is frozen besides.", show_default=False)
]
CasesOption = Annotated[
    Path | None, typer.Option("--cases", help="The folder of cases.", show_default="from twiceshy.toml")
]
TrialsOption = Annotated[
    int | None, typer.Option("--trials", min=2, help="Trials a case and mode; a gate needs two.", show_default="2")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", "-j", min=1, help="Candidate processes at a time.", show_default="1")
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout-case", min=0.1, help="Seconds of wall clock a trial may take.", show_default="60"),
]
RunOption = Annotated[
    Path | None,
    typer.Option(
        "--run",
        help="A new folder in which the run is kept, one below it a judging mode, for `twiceshy case from-run`.",
        show_default=False,
    ),
]
WeakOption = Annotated[
    bool,
    typer.Option(
        "--allow-weak-isolation",
        help="Run without namespaces where they cannot be had. Labelled; the gate never accepts it.",
    ),
]


def configured() -> Configuration:
    """The configuration of the working folder and the environment."""
    return configuration.load(Path(), os.environ)


def keyring() -> Keyring:
    """The redaction keys of the environment."""
    from twiceshy.redaction import Keyring

    return Keyring.of(os.environ)


def bench(config: Configuration) -> Bench:
    """Where the judge of the semantic tier is asked."""
    from twiceshy.benches import bench_of

    return bench_of(config.settings.judge, replies=config.path("replies"), env=os.environ)


def live_models(config: Configuration) -> LiveModels | None:
    """Where models that run live are asked by this process, which has their keys; None where nothing is configured."""
    if not config.settings.upstream:
        return None
    from twiceshy.gateway.asking import upstreams
    from twiceshy.gateway.door import LiveModels

    return LiveModels(
        upstreams=upstreams(config.settings.upstream, os.environ), replies=config.path("replies") / "live"
    )


def candidate_spec(text: str, config: Configuration) -> CandidateSpec:
    """The candidate by its name in twiceshy.toml, or by module:factory with the settings of no name."""
    from twiceshy.running import CandidateSpec

    named = config.settings.candidate
    if ":" in text:
        return CandidateSpec(factory=text, path=[config.root])
    if text not in named:
        raise ConfigurationError(
            f"candidate {text!r} is not in twiceshy.toml; write package.module:factory, or a name. {nearest(text, named)}"
        )
    held = named[text]
    path = [config.root / part for part in held.path]
    if held.command:
        return CandidateSpec(factory=text, path=path, allow_env=held.allow_env, command=_command(text, held, config))
    python = sys.executable if held.python is None else str(config.root / held.python)
    return CandidateSpec(
        factory=str(held.factory), path=path, python=python, allow_env=held.allow_env, versions=held.versions
    )


def _command(name: str, held: CandidateSettings, config: Configuration) -> Command:
    """The command of a candidate. Raises ConfigurationError where it is half a factory or names no workflow, UncontrolledTools where its tools are not said to go through the gateway."""
    from twiceshy.commands import Command, UncontrolledTools

    if held.factory is not None or held.python is not None:
        raise ConfigurationError(f"candidate {name!r} in twiceshy.toml: a command takes no factory and no python.")
    if held.workflow is None:
        raise ConfigurationError(f"candidate {name!r} in twiceshy.toml: a command needs its workflow.")
    if not held.tools:
        raise UncontrolledTools.of(name)
    return Command(
        argv=held.command,
        folder=str(config.root),
        workflow=held.workflow,
        tools=held.tools,
        versions=held.versions,
        sources=held.sources,
        models=held.models,
    )


def judges(
    mode: str, live: Sequence[str] | None, after: int | None, freeze: Sequence[str] | None, *, comparing: bool = False
) -> list[Judge]:
    """The one judging mode that the options name; none for `auto`. comparing: `stub` is one too, which decides nothing.

    Raises ConfigurationError where they contradict each other.
    """
    from twiceshy.casefile import Judge
    from twiceshy.outcome import Mode

    varied = bool(live or freeze) or after is not None
    if mode == Mode.STUB:
        _stub(varied=varied, comparing=comparing)
        return [Judge(mode=Mode.STUB)]
    if mode == "auto":
        return (
            [Judge(mode=Mode.CUT_POINT, live=list(live or ()), after=after, freeze=list(freeze or ()))]
            if varied
            else []
        )
    if mode == Mode.EXPLORE:
        raise ConfigurationError(
            "--mode explore: no gate and no break accepts it. Explore one case with twiceshy explore."
        )
    if mode not in (Mode.FULL, Mode.CUT_POINT, Mode.WORLD):
        raise ConfigurationError(f"--mode {mode!r}: write auto, full, cut-point or world.")
    if mode == Mode.FULL and varied:
        raise ConfigurationError("--mode full takes no --live, --after or --freeze; those make it a cut-point.")
    made = Judge(mode=Mode(mode), live=list(live or ()), after=after, freeze=list(freeze or ()))
    _ = made.cut  # refuses a name that is no boundary
    return [made]


def _stub(*, varied: bool, comparing: bool) -> None:
    if not comparing:
        raise ConfigurationError(
            "--mode stub is for comparison only; no gate accepts it. Use it with `twiceshy replay`."
        )
    if varied:
        raise ConfigurationError("--mode stub takes no --live, --after or --freeze: everything comes from the record.")


def refuse_unwritable(**files: Path | None) -> None:
    """Raise InputError, before anything runs, where a file that an option names cannot be written, or two of them are stdout."""
    if sum(str(path) == STDOUT for path in files.values()) > 1:
        raise InputError(f"only one of {', '.join(f'--{name}' for name in files)} can be stdout.")
    for name, path in files.items():
        if path is None or str(path) == STDOUT:
            continue
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("a").close()
        except OSError as broken:
            raise InputError(f"--{name} {path}: cannot be written: {broken.strerror}.") from None


def one_case(name: str, cases: Sequence[LoadedCase]) -> LoadedCase:
    """The case with this id, signature or path. Raises CaseError with the nearest name; a signature resolves to its case."""
    for loaded in cases:
        if name in (
            loaded.case.id,
            loaded.case.signature,
            loaded.case.signature_id,
            str(loaded.path),
            loaded.path.name,
        ):
            return loaded
    raise CaseError(f"there is no case {name!r}. {nearest(name, [loaded.case.id for loaded in cases])}")
