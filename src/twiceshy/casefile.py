"""Case directories: what the catalog replays, as people review it.

<case>/case.yaml        what is reviewed: signature, invariants, expectations, breaks, judging modes, review
envelope.jsonl   a header line, then a crossing a line
blobs/<sha256>   values over 8 kB, by content
world.yaml       the case's world, where it has one
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from twiceshy import blobs, documents, encoding, paths, specs
from twiceshy.breaking.operators import Operator, Written, parse
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Kind, Record
from twiceshy.errors import CaseError, DigestMismatch, FormatError, InputError
from twiceshy.identity import digest
from twiceshy.outcome import DimensionName, Mode, Ratio
from twiceshy.specs import ExpectedCall, Floor, Spec
from twiceshy.worlds import loading
from twiceshy.worlds.goals import Goal, MayChange, RowTerms
from twiceshy.writes import DeclaredGrant, DeclaredWrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.breaking import Break
    from twiceshy.envelope import Envelope
    from twiceshy.worlds.loading import LoadedWorld

FORMAT = "twiceshy/case/1"
WORLD = "world.yaml"


class Opportunity(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Where the failure can happen: a step of the record, or a proposal of a tool (with these arguments)."""

    seq: int | None = None
    tool: str | None = None
    args: dict[str, Any] | None = None


class Judge(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One way in which a case is replayed."""

    mode: Mode = Mode.FULL
    live: list[str] = []
    after: int | None = None
    freeze: list[str] = []

    @property
    def cut(self) -> CutPoint:
        """The cut-point it stands for."""
        return CutPoint(mode=self.mode, live=frozenset(self.live), after=self.after, freeze=frozenset(self.freeze))


class Layer(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The layer at fault, and how far that is shown."""

    name: Literal[
        "model", "harness.prompt", "harness.tool", "harness.workflow", "harness.memory", "environment", "grader", "unknown"
    ] = "unknown"  # fmt: skip
    verdict: Literal["proven", "suggested", "unresolved", "diverged"] = "suggested"
    evidence: str = ""


class Expect(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What the case declares: writes that are explained, with the answers they get, what people grant beyond the record; in a world the rows that must change, and may.

    in_order: whether the writes must come in the order in which they stand here.
    calls: every call of a good run, in order: what tool_selection and argument_extraction are measured by, before the champion's own run.
    nothing_else: whether any other change of rows is a violation; without a word, wherever there is a goal.
    """

    writes: list[DeclaredWrite] = []
    grants: list[DeclaredGrant] = []
    in_order: bool = False
    calls: list[ExpectedCall] | UnsetType = UNSET
    goal: list[Goal] = []
    may_change: list[MayChange] = []
    nothing_else: bool | UnsetType = UNSET

    @property
    def rows(self) -> RowTerms:
        """What is expected of the rows."""
        alone = bool(self.goal) if self.nothing_else is UNSET else bool(self.nothing_else)
        return RowTerms(goal=self.goal, may_change=self.may_change, nothing_else=alone)


class Review(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The decision of a person, or that none was taken yet. A `draft` was made of a run, and no gate takes it.

    accepted_simulated: digests of answers that nobody recorded and that the person accepts as the record all the same.
    """

    status: Literal["draft", "proposed", "promoted"] = "proposed"
    by: str | None = None
    date: str | None = None
    why: str | None = None
    accepted_simulated: list[str] = []


class Unrecorded(Record, frozen=True, kw_only=True):
    """An answer of a kept run that nobody recorded: at which step, of which boundary (`tool:NAME`), by whom, and the digest by which a person accepts it."""

    place: str
    boundary: str
    by: str
    digest: str


class FromRun(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The run that a case was drafted from: how it was made, by which candidate, and where it was a replay the case (with its digest) and the mode."""

    source: Literal["explore", "replay", "record"]
    candidate: str
    run: str
    """The digest of the kept run."""
    case: str | None = None
    case_digest: str | None = None
    mode: str | None = None
    simulated: list[Unrecorded] = []


# Fields that came after the first cases were pinned: unused, they leave a case's digest what it was.
_LATER = frozenset({"flags", "user_turns"})


class Case(Record, frozen=True, kw_only=True):
    """case.yaml. `invariants` are the ids the case itself stands for: a break is killed when one of them turns red."""

    format: str = FORMAT
    id: str
    kind: Literal["failure", "positive"]
    workflow: str
    trace_id: str
    related_trace_ids: list[str] = []
    signature: str | None = None
    signature_id: str | None = None
    tool: str | None = None
    """The tool involved: a positive case of the same tool keeps a guard from refusing everything."""
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    layer: Layer = Layer()
    judge: list[Judge] = []
    opportunity: Opportunity | None = None
    invariants: list[str] = []
    decided_by: list[str] = []
    enforce_counts: bool | UnsetType = UNSET
    expect: Expect = Expect()
    flags: dict[str, Any] = {}
    """Values of flags that were not recorded."""
    user_turns: str | None = None
    """When a recorded user turn may be served: `any`, or a CEL condition over `recorded` and `said`; by default after the same message only."""
    world: Literal["world.yaml"] | UnsetType = UNSET
    """The world that answers: everything it knows in the mode `world`, and misses of the record where `misses` says so."""
    misses: Literal["diverge", "world"] | UnsetType = UNSET
    """What a miss of the record comes to; without a word a divergence."""
    breaks: list[Written] = []
    """What must turn it red: `guard.off:refund-approval`, or {patch: file.diff}; all operators are in `twiceshy.breaking`."""
    dimensions: dict[DimensionName, Ratio] | UnsetType = UNSET
    """The least share of a dimension, before that of the workflow."""
    floor: Floor | UnsetType = UNSET
    """In judging modes with a live model; without one every trial must pass."""
    latency: Annotated[float, msgspec.Meta(gt=0)] | UnsetType = UNSET
    """How many times the record's duration the run may take at its boundaries."""
    binding: list[str] | UnsetType = UNSET
    """Semantic invariants that count for this case; the others are advisory."""
    overlay: list[Spec] | UnsetType = UNSET
    """Invariants of this case alone: one with an id that the workflow has stands in its place, another is added."""
    envelope_digest: str = ""
    from_run: FromRun | UnsetType = UNSET
    """Where it was drafted from a run, which one, and the answers in it that nobody recorded."""
    review: Review = Review()

    def judges(self, opportunity: int | None = None) -> list[Judge]:
        """The judging modes: those of the case, else the defaults of its layer (semantics.md §6.1); a happy path has no layer at fault and is replayed in full.

        opportunity: the recorded step that is the case's opportunity, where the case itself names none.
        """
        if self.judge:
            return list(self.judge)
        if self.world is not UNSET and self.misses != "world":
            live = ["model:*"] if self.layer.name in ("harness.prompt", "model") else []
            return [Judge(mode=Mode.WORLD, live=live)]
        if self.kind == "positive":
            return [Judge(mode=Mode.FULL)]
        if self.layer.name in ("harness.prompt", "model"):
            return [Judge(mode=Mode.CUT_POINT, live=["model:*"])]
        named = self.opportunity.seq if self.opportunity else None
        seq = opportunity if named is None else named
        prefix = [Judge(mode=Mode.CUT_POINT, after=seq - 1)] if seq is not None and seq > 1 else []
        return [Judge(mode=Mode.FULL), *prefix]

    @property
    def digest(self) -> str:
        """The sha256 of what the case asks for; the review block is not part of it."""
        content = msgspec.to_builtins(msgspec.structs.replace(self, review=Review()))
        return digest({name: value for name, value in content.items() if name not in _LATER or value})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCase:
    """A case with its envelope, its world and the directory it stands in."""

    case: Case
    envelope: Envelope
    path: Path
    world: LoadedWorld | None = None

    @property
    def digest(self) -> str:
        """The sha256 of what the case asks for, its world included: what a pinned result is bound to."""
        return self.case.digest if self.world is None else digest([self.case.digest, self.world.digest])

    def world_in(self, mode: Mode) -> LoadedWorld | None:
        """The world that answers in a mode: always in `world` and `explore`, else where the case sends its misses there."""
        return self.world if mode in (Mode.WORLD, Mode.EXPLORE) or self.case.misses == "world" else None


def load(path: Path) -> LoadedCase:
    """The case in a directory, its envelope's digest checked against both files.

    Raises InputError for a missing file, FormatError for an unknown format, CaseError for a wrong case.yaml (file and line), DigestMismatch.
    """
    document = documents.Document(path / "case.yaml")
    case = _case(document)
    envelope = load_envelope(path / "envelope.jsonl")
    if case.envelope_digest != envelope.digest:
        raise DigestMismatch.of(path / "case.yaml", stated=case.envelope_digest, actual=envelope.digest)
    if case.trace_id != envelope.trace_id or case.workflow != envelope.workflow:
        raise CaseError.at(path / "case.yaml", "trace_id and workflow must be those of its envelope.")
    _refuse_breaks(document, case, envelope)
    return LoadedCase(case=case, envelope=envelope, path=path, world=_world(case, path))


def find(root: Path) -> Iterator[Path]:
    """The case directories under a root, in order of their paths."""
    for found in sorted(root.rglob("case.yaml")):
        yield found.parent


def load_envelope(path: Path) -> Envelope:
    """The envelope in a file, blobs resolved, digest checked."""
    try:
        read = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise InputError.missing(path) from None
    content = [blobs.resolved(line, path.parent / "blobs") for line in read if line]
    return encoding.envelope_of(content, path)


def save(path: Path, case: Case, envelope: Envelope, *, world: str | None = None) -> Case:
    """Write a case directory whole: under another name first, then renamed. Returns the case with the envelope's digest in it.

    An existing directory is replaced; the same content gives the same bytes. world: the text of its world.yaml.
    """
    case = msgspec.structs.replace(case, envelope_digest=envelope.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        save_envelope(temporary / "envelope.jsonl", envelope)
        (temporary / "case.yaml").write_text(case_text(case), encoding="utf-8")
        if world is not None:
            (temporary / WORLD).write_text(world, encoding="utf-8")
        temporary.chmod(0o755)
        if path.exists():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return case


def save_envelope(path: Path, envelope: Envelope) -> None:
    """Write the lines of an envelope, long values as blobs beside it."""
    content = [blobs.outsourced(line, path.parent / "blobs") for line in encoding.written(envelope)]
    path.write_bytes(b"\n".join([*content, b""]))


def case_text(case: Case) -> str:
    """case.yaml as text: fields in their order, defaults left out, but for how far the layer is shown and where the review stands: a person is to see both."""
    import yaml

    plain = {name: value for name, value in msgspec.to_builtins(case).items() if value != _DEFAULTS.get(name, UNSET)}
    plain = {"format": case.format, **plain}
    if "layer" in plain:
        plain["layer"] = {"name": case.layer.name, "verdict": case.layer.verdict, **plain["layer"]}
    if case.overlay is not UNSET:
        plain["overlay"] = [specs.written(spec) for spec in case.overlay]
    plain["review"] = {"status": case.review.status, **plain.pop("review", {})}
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120))


def _case(document: documents.Document) -> Case:
    path = document.path
    version = document.value.get("format") if isinstance(document.value, dict) else None
    if version != FORMAT:
        raise FormatError.unknown(path, version, known=FORMAT, upgrade="Install the twiceshy release that wrote it.")
    case = document.into(Case, error=CaseError)
    for at, judge in enumerate(case.judge):
        try:
            _ = judge.cut
        except InputError as broken:
            raise CaseError.at(path, str(broken), line=document.line(f"$.judge[{at}]")) from None
    _check_rows(document, case)
    return case


def _check_rows(document: documents.Document, case: Case) -> None:
    """What is expected of rows needs a world, and paths that are paths."""
    terms = case.expect.rows
    if (terms.goal or terms.may_change or terms.nothing_else) and case.world is UNSET:
        line = document.line("$.expect")
        raise CaseError.at(document.path, "what is expected of rows needs a world, and the case has none.", line=line)
    for at, goal in enumerate(terms.goal):
        if goal.key is None and goal.change != "inserted":
            problem = (
                f"a goal of a row that is {goal.change} needs its key: without one any row of {goal.table} would do."
            )
            raise CaseError.at(document.path, problem, line=document.line(f"$.expect.goal[{at}]"))
    listed = {
        "goal": [[*goal.fields, *goal.may] for goal in terms.goal],
        "may_change": [may.fields or [] for may in terms.may_change],
    }
    for part, rows in listed.items():
        for at, names in enumerate(rows):
            for name in names:
                _check_path(document, f"$.expect.{part}[{at}]", name)


def _check_path(document: documents.Document, here: str, name: str) -> None:
    try:
        paths.parse(name)
    except ValueError as broken:
        raise CaseError.at(document.path, f"{broken}.", line=document.line(here)) from None


def _world(case: Case, path: Path) -> LoadedWorld | None:
    """The world that the case names. One that it does not name would judge nothing, silently."""
    named, there = case.world is not UNSET, (path / WORLD).exists()
    if there and not named:
        raise CaseError.at(
            path / "case.yaml", f"{WORLD} stands beside it and is not named.", hint=f"Write `world: {WORLD}`."
        )
    if case.misses == "world" and not named:
        raise CaseError.at(path / "case.yaml", "misses go to a world, and the case has none.")
    return loading.load(path / WORLD, code=False) if named else None


def _refuse_breaks(document: documents.Document, case: Case, envelope: Envelope) -> None:
    """Raise CaseError, with the line, for a break that is none or that names what is not there."""
    for at, written in enumerate(case.breaks):
        try:
            problem = _amiss(parse(written), document.path.parent, envelope)
        except CaseError as broken:
            problem = str(broken)
        if problem is not None:
            raise CaseError.at(document.path, problem, line=document.line(f"$.breaks[{at}]"))


def _amiss(found: Break, folder: Path, envelope: Envelope) -> str | None:
    if found.operator is Operator.PATCH and not (folder / found.target).is_file():
        return f"patch: no such file {found.target!r} beside the case."
    if found.operator is Operator.PROPOSAL_REPLACE and not _answered(envelope, int(found.target)):
        return f"{found.text!r}: the record holds no model output at step {found.target}."
    return None


def _answered(envelope: Envelope, seq: int) -> bool:
    return any(
        (crossing.kind, crossing.seq, crossing.sub) == (Kind.MODEL, seq, 0) and crossing.raw is not UNSET
        for crossing in envelope.crossings
    )


_DEFAULTS: dict[str, Any] = msgspec.to_builtins(Case(id="", kind="failure", workflow="", trace_id=""))
for _required in ("id", "kind", "workflow", "trace_id", "envelope_digest"):
    del _DEFAULTS[_required]
