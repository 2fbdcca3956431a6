"""`twiceshy case from-run`: a case for review of one run that was kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twiceshy.cli.options import CasesOption, configured, keyring
from twiceshy.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from twiceshy.casefile import LoadedCase
    from twiceshy.drafting import Draft
    from twiceshy.envelope import Crossing
    from twiceshy.keeping import Kept

_ID = re.compile(r"[A-Za-z0-9][\w.@-]*")
Run = Annotated[Path, typer.Argument(help="The folder of a kept run.", show_default=False)]
To = Annotated[
    Literal["replay", "world"],
    typer.Option("--to", help="replay: its answers are the record. world: they seed tables."),
]
Id = Annotated[str | None, typer.Option("--id", help="The id of the case.", show_default="of its trace")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The case directory to write.", show_default="<cases>/<workflow>/<id>"),
]
Payloads = Annotated[bool, typer.Option("--show-payloads", help="Print what was asked and answered.")]
Unredacted = Annotated[
    bool,
    typer.Option("--unredacted", help="Take a recording that was never redacted: it holds no person's data."),
]


def from_run(
    run: Run,
    to: To = "replay",
    name: Id = None,
    out: Out = None,
    show_payloads: Payloads = False,
    unredacted: Unredacted = False,
    cases: CasesOption = None,
) -> None:
    """Draft a case of a run that `explore`, `replay` or `record` kept with --run, and say what a person must decide before a gate takes it.

    The violated invariants of its workflow become its expectation; a run that violates none becomes a positive case. Answers that nobody recorded (simulated,
    of a world, made up for a write, or of another request) stay marked: a person accepts each by its digest, or in a world the rows that rest on them.

    For example:

      twiceshy case from-run runs/friday --to world

      twiceshy case from-run runs/friday --id friday-full -o drafts/friday-full --show-payloads
    """
    from twiceshy import drafting, judging, keeping

    kept = keeping.load(run)
    if kept.run.source == "record" and kept.envelope.redaction is None and not unredacted:
        raise InputError(
            f"{run}: a recording that was never redacted. Let `twiceshy refresh` make a case of it, or say --unredacted where it holds no person's data."
        )
    config = configured()
    root = cases or config.path("cases")
    known = judging.load_cases(root) if root.is_dir() else []
    rules = judging.rules_of(config.path("policies"), kept.envelope.workflow, keyring())
    draft = drafting.drafted(kept, rules, _source(kept, known), to=to, name=name)
    _refuse_id(draft.case.id, known)
    path = out or root / draft.case.workflow / draft.case.id
    draft.save(path)
    for line in _told(draft, path, payloads=show_payloads):
        typer.echo(line)


def _source(kept: Kept, known: Sequence[LoadedCase]) -> LoadedCase | None:
    """The case that was replayed, where it still stands here as it was then."""
    return next((one for one in known if (one.case.id, one.digest) == (kept.run.case, kept.run.case_digest)), None)


def _refuse_id(name: str, known: Sequence[LoadedCase]) -> None:
    if not _ID.fullmatch(name):
        raise InputError(f"--id {name!r}: letters, digits, and . _ @ - inside.")
    if any(one.case.id == name for one in known):
        raise InputError(f"there is a case {name!r} already. Give the draft another --id.")


def _told(draft: Draft, path: Path, *, payloads: bool) -> Iterator[str]:
    from twiceshy.reporting.escaping import plain

    case, run = draft.case, draft.kept.run
    of = f" of {run.case} [{run.mode}]" if run.case else ""
    yield f"+++ {path}: a draft, {case.kind}, from {run.source}{of} by {plain(run.candidate)}"
    yield f"    stands for   {', '.join(case.invariants) or 'nothing yet'}"
    yield f"    opportunity  {_opportunity(draft)}"
    yield f"    judged       {' + '.join(judge.cut.label for judge in case.judge)}"
    asks = ", and a person must accept each:" if draft.undecided else ""
    yield f"    {len(draft.undecided)} of {len(draft.kept.envelope.crossings)} answers nobody recorded{asks}"
    by = {one.place: one for one in run.simulated}
    for crossing in draft.undecided:
        one = by[crossing.place]
        yield f"+ {one.place:<6} {plain(one.boundary)} by {plain(one.by)}  {one.digest}"
        yield from _payloads(crossing) if payloads else ()
    yield from (f"! invented row in world.yaml: {row}" for row in _invented(draft))
    yield from (f"! {plain(note)}" for note in draft.notes)
    yield f"Then in {path / 'case.yaml'}, or no gate takes it:"
    accepted = ", accepted_simulated: [DIGEST, ...]" if draft.undecided else ""
    yield f"review: {{status: promoted, by: YOU, date: TODAY, why: WHY{accepted}}}"


def _payloads(crossing: Crossing) -> Iterator[str]:
    from msgspec import UNSET

    from twiceshy.reporting.escaping import plain

    sides = {"asked": crossing.asked, "answer": crossing.shown if crossing.raw is UNSET else crossing.raw}
    for side, value in sides.items():
        if value is not UNSET:
            yield f"    {side} {plain(value)}"
    if crossing.error is not None:
        yield f"    error {plain(crossing.error.cls)}: {plain(crossing.error.message)}"


def _opportunity(draft: Draft) -> str:
    named = draft.case.opportunity
    if named is None:
        return "by default"
    step = draft.kept.envelope.at(named.seq) if named.seq is not None else None
    return f"tool:{named.tool}" if step is None else f"{step.place} {step.kind}:{step.name}"


def _invented(draft: Draft) -> list[str]:
    if draft.world is None:
        return []
    import yaml

    tables = yaml.safe_load(draft.world)["tables"]
    return [
        f"{name}[{len(table.get('rows', [])) + at}]"
        for name, table in tables.items()
        for at in range(len(table.get("invented", [])))
    ]
