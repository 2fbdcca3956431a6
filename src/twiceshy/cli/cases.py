"""`twiceshy case`: list, show, convert and validate the catalog; `drafts.py` has `from-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twiceshy.cli.drafts import from_run
from twiceshy.cli.options import CasesOption, configured, keyring, one_case
from twiceshy.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from pathlib import Path

    from twiceshy.casefile import LoadedCase

case_app = typer.Typer(help="Inspect and check the cases of the catalog.", no_args_is_help=True, rich_markup_mode=None)
case_app.command("from-run")(from_run)


@case_app.command("ls")
def ls(cases: CasesOption = None) -> None:
    """One line a case: id, kind, severity, layer, judging modes, signature. Modes that its case.yaml does not name are marked `default`.

    For example:

      twiceshy case ls
    """
    for loaded in _loaded(cases):
        case = loaded.case
        typer.echo(
            f"{case.id:<34} {case.kind:<8} {case.severity:<8} {case.layer.name:<17} {_modes(loaded):<28} {case.signature or '-'}"
        )


@case_app.command("show")
def show(
    case: Annotated[str, typer.Argument(help="Its id, signature or path.", show_default=False)],
    cases: CasesOption = None,
) -> None:
    """The case as it is reviewed, then a line for each recorded crossing.

    For example:

      twiceshy case show refund-3a4d36f7d30b
    """
    from twiceshy import acceptance, casefile

    loaded = one_case(case, _loaded(cases))
    typer.echo(casefile.case_text(loaded.case), nl=False)
    if not loaded.case.judge:
        typer.echo(f"# judged: {_modes(loaded)}")
    typer.echo(f"# {loaded.path / 'envelope.jsonl'}: {len(loaded.envelope.crossings)} crossings")
    if loaded.world is not None:
        typer.echo(f"# {loaded.world.path}: invented rows: {', '.join(loaded.world.file.invented) or 'none'}")
    waiting = {crossing.place for crossing in acceptance.unaccepted(loaded)}
    for crossing in loaded.envelope.crossings:
        effect = f" {crossing.effect}" if crossing.effect else ""
        how = "not accepted" if crossing.place in waiting else "accepted, or answered by the world"
        simulated = f" simulated, {how}: {acceptance.answer_digest(crossing)}" if crossing.simulated else ""
        typer.echo(f"# {crossing.place:<6} {crossing.kind}:{crossing.name}{effect}{simulated}")


@case_app.command("convert")
def convert(
    case: Annotated[str, typer.Argument(help="Its id, signature or path.", show_default=False)],
    to: Annotated[str, typer.Option("--to", help="What the case becomes: world.", show_default=False)],
    cases: CasesOption = None,
) -> None:
    """Print the diff that seeds a world from the reads of a case; nothing is written.

    For example:

      twiceshy case convert scheduling-7a928c9d50ad --to world | git apply
    """
    from twiceshy import converting, judging

    if to != "world":
        raise ConfigurationError(f"--to {to!r}: write world.")
    config = configured()
    loaded = one_case(case, _loaded(cases))
    rules = judging.rules_of(config.path("policies"), loaded.case.workflow, keyring())
    made = converting.to_world(loaded, rules.policy)
    typer.echo(converting.diff(loaded, made, config.root), nl=False)
    for note in made.notes:
        typer.echo(f"note: {note}", err=True)


@case_app.command("validate")
def validate(cases: CasesOption = None) -> None:
    """Check every case with the policies and invariants of its workflow; every fault is told, and any ends with 2. Without a case it ends with 5.

    For example:

      twiceshy case validate
    """
    from twiceshy import casefile, judging

    config = configured()
    root = cases or config.path("cases")
    if not root.is_dir():
        raise InputError.missing(root, what="folder of cases")
    found = list(casefile.find(root))
    keys = keyring()
    faults = [fault for path in found if (fault := judging.fault(path, config.path("policies"), keys)) is not None]
    for fault in dict.fromkeys(faults):
        typer.echo(fault, err=True)
    typer.echo(f"{len(found) - len(faults)} of {len(found)} cases are valid")
    raise typer.Exit(2 if faults else 0 if found else 5)


def _modes(loaded: LoadedCase) -> str:
    """The judging modes of a case, by default those of its layer and opportunity; where its opportunity cannot be told, that stands there."""
    from twiceshy import judging
    from twiceshy.grading import case_grader

    if loaded.case.judge:
        return " + ".join(judge.cut.label for judge in loaded.case.judge)
    try:
        rules = judging.rules_of(configured().path("policies"), loaded.case.workflow, keyring())
        judges, mark = case_grader(loaded, rules.invariants, rules.policy).judges, "default"
    except InputError:
        judges, mark = loaded.case.judges(), "default, not valid"
    return f"{' + '.join(judge.cut.label for judge in judges)} ({mark})"


def _loaded(cases: Path | None) -> list[LoadedCase]:
    from twiceshy import judging

    return judging.load_cases(cases or configured().path("cases"))
