"""Judging a candidate by the catalog: cases by judging modes by trials, sealed, graded, compared with the champion.

One session a worker; cases go to whichever worker is free; results come in the order of the cases, whatever finished first.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from msgspec import UNSET

from twiceshy import casefile, invariants, policy, redaction
from twiceshy.acceptance import refuse_unaccepted
from twiceshy.agreement import agreement
from twiceshy.champion import harness_state
from twiceshy.cutpoint import CutPoint, UnknownBoundary
from twiceshy.doors import UnreachedModel
from twiceshy.envelope import EVERY_TOOL, Kind
from twiceshy.errors import CaseError, ConfigurationError, InputError
from twiceshy.exercise import LAYERS, changed_layers
from twiceshy.grading import case_grader
from twiceshy.outcome import Mode, Outcome
from twiceshy.results import Candidacy, case_result
from twiceshy.running import Task
from twiceshy.sealing import Limits
from twiceshy.semantic import Unconfigured, with_semantics
from twiceshy.specs import Floor
from twiceshy.trials import Trial, mode_run, unrepeated
from twiceshy.worlds import loading
from twiceshy.worlds.proving import prove

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from twiceshy.casefile import Judge, LoadedCase
    from twiceshy.champion import Champion
    from twiceshy.envelope import Versions
    from twiceshy.gateway.door import LiveModels
    from twiceshy.grading import CaseGrader
    from twiceshy.invariants import Invariants
    from twiceshy.policy import ToolsPolicy
    from twiceshy.redaction import Keyring
    from twiceshy.redaction import Policy as RedactionPolicy
    from twiceshy.running import CandidateSpec, Session
    from twiceshy.semantic import Bench
    from twiceshy.sessions import SessionPool
    from twiceshy.trials import ModeRun
    from twiceshy.verdict import Result

    Heard = Callable[["Judged"], object]

SELECTORS = ("id", "signature", "tool", "layer", "kind", "severity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What holds in a workflow: its tools' policy, its invariants, and the digest of both that every pinned result is bound to.

    redaction, key: how its cases were redacted, and the key where it is at hand; without it a candidate's raw argument ends in ERROR.
    """

    policy: ToolsPolicy
    invariants: Invariants
    harness: str
    redaction: RedactionPolicy | None = None
    key: bytes | None = field(default=None, repr=False)

    def task(
        self, loaded: LoadedCase, judge: Judge, terms: Terms, *, number: int = 0, breaks: Sequence[str] = ()
    ) -> Task:
        """One trial under these rules."""
        return Task(
            loaded=loaded, judge=judge, policy=self.policy, number=number, breaks=breaks, limits=terms.limits,
            redaction=self.redaction, key=self.key, occasion=terms.occasion,
        )  # fmt: skip


def rules_of(policies: Path, workflow: str, keyring: Keyring, *, known_tools: Collection[str] = ()) -> Rules:
    """The rules of a workflow from `policies/<workflow>/`. known_tools: see `policy.load`. Raises InputError with file and line."""
    if (
        workflow in ("", ".", "..") or "/" in workflow or "\0" in workflow
    ):  # it was read in an envelope that anybody may have written, and here it names folders
        raise InputError(f"workflow {workflow!r} is no plain name, so it can have no folder of policies.")
    folder = policies / workflow
    tools = policy.load(folder / "tools.yaml", known_tools=known_tools)
    stated = invariants.load(folder / "invariants.yaml", tools=tools.tools)
    written = folder / "redaction.yaml"
    how = redaction.load(written) if written.exists() else None
    key = keyring.key(how.key_id) if how is not None and how.key_id in keyring else None
    return Rules(policy=tools, invariants=stated, harness=harness_state(stated, tools), redaction=how, key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a run is judged. judges: one judging mode for every case; none means each case's own (`auto`). bench: where the judge of the semantic tier is asked.

    drafts: whether a draft may be looked at that no person has accepted; what it comes to proves nothing.
    """

    judges: Sequence[Judge] = ()
    trials: int = 2
    limits: Limits = field(default_factory=Limits)
    accepted: Sequence[str] = ()
    bench: Bench = field(default_factory=Unconfigured)
    drafts: bool = False
    occasion: str = ""
    """Names the trials: those of another occasion ask their live models anew, those of the same one get the replies that they got."""

    def judges_of(self, grader: CaseGrader) -> Sequence[Judge]:
        """The judging modes of a case under these terms."""
        return self.judges or grader.judges


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A case with its result and the trials it rests on."""

    loaded: LoadedCase
    result: Result
    modes: Sequence[ModeRun]
    judges: Sequence[Judge]
    """The judging mode of each of `modes`."""


def lives(cases: Sequence[LoadedCase], judges: Sequence[Judge]) -> bool:
    """Whether any of these cases is to be judged with a model live. judges: as of Terms."""
    return any(judge.cut.has_live_model for loaded in cases for judge in judges or loaded.case.judges())


def asking(
    live: LiveModels | None, spec: CandidateSpec, cases: Sequence[LoadedCase], judges: Sequence[Judge]
) -> LiveModels | None:
    """Who is asked for the models that run live in these cases; None where none does. judges: as of Terms.

    Raises UnreachedModel for a command that has nobody to ask: its model would never run. A Python candidate may have one of its own.
    """
    command = spec.command
    concerned = [loaded for loaded in cases if command is None or loaded.case.workflow == command.workflow]
    if not lives(concerned, judges):
        return None
    if live is None and command is not None:
        raise UnreachedModel.of(command.name)
    return live


def refuse_keyless(live: LiveModels | None, cases: Sequence[LoadedCase], judges: Sequence[Judge]) -> None:
    """Raise ConfigurationError, before the first trial, where these cases need a live model's key that is not at hand."""
    if live is not None and lives(cases, judges):
        live.refuse_keyless()


def refuse_undeclared(judges: Sequence[Judge], boundaries: Collection[str]) -> None:
    """Raise UnknownBoundary where a judging mode names one that the candidate does not declare."""
    for judge in judges:
        judge.cut.refuse_unknown(boundaries)


def load_cases(root: Path) -> list[LoadedCase]:
    """Every case under a root, checked. Raises InputError for the first that cannot be used, CaseError where two share an id."""
    if not root.is_dir():
        raise InputError.missing(root, what="folder of cases")
    loaded = [casefile.load(path) for path in casefile.find(root)]
    seen: dict[str, LoadedCase] = {}
    for case in loaded:
        other = seen.setdefault(case.case.id, case)
        if other is not case:
            raise CaseError.at(case.path, f"the id {case.case.id!r} is that of {other.path} too.")
    return loaded


def tools_of(cases: Sequence[LoadedCase]) -> set[str]:
    """The names of the tools that these records hold."""
    return {crossing.name for loaded in cases for crossing in loaded.envelope.crossings if crossing.kind is Kind.TOOL}


def selected(cases: Sequence[LoadedCase], wanted: str) -> list[LoadedCase]:
    """The cases that fit every `key:glob` of a comma-separated list. Keys: id, signature, tool, layer, kind, severity. Raises InputError for another key."""
    pairs = [part.strip().partition(":") for part in wanted.split(",") if part.strip()]
    for key, colon, _ in pairs:
        if not colon or key not in SELECTORS:
            raise InputError(f"--select {wanted!r}: write key:glob; keys are {', '.join(SELECTORS)}.")
    return [case for case in cases if all(_fits(case, key, glob) for key, _, glob in pairs)]


def candidacy(
    versions: Versions, pinned: Versions | None, accepted: Sequence[str] = (), *, tools: Collection[str] = ()
) -> Candidacy:
    """What of a candidate changed against the champion's versions; nothing is asked of it where there is no champion. tools: see `changed_layers`.

    Raises ConfigurationError where what is accepted unexercised is no layer of either: misspelt, it would accept nothing, silently.
    """
    named = {*tools, *versions.tools, *(pinned.tools if pinned else ())} - {EVERY_TOOL}
    known = [*LAYERS, *(f"tool:{name}" for name in sorted(named))]
    for layer in accepted:
        if layer not in known:
            raise ConfigurationError(f"--accept-unexercised {layer!r} is no layer here. Known: {', '.join(known)}.")
    return Candidacy(changed=changed_layers(versions, pinned, tools) if pinned else (), accepted=accepted)


def graders(
    cases: Sequence[LoadedCase],
    rules: Rules,
    terms: Terms,
    *,
    champion: Champion | None = None,
    boundaries: Collection[str] | None = None,
) -> list[CaseGrader]:
    """A grader a case. Everything about a case that can be refused is refused here, before the first trial.

    champion: whose calls a candidate's are measured by, where a case has no annotation of its own. boundaries: what the candidate declares, as `kind:name`;
    None where none is at hand. Raises CaseError for an invariant the workflow lacks, LiveWrite where a judging mode names a write live,
    and where `terms` take no drafts CaseError for one.
    """
    made = [
        case_grader(
            loaded, rules.invariants, rules.policy, champion=champion.calls(loaded.digest, rules.harness) if champion else None
        )
        for loaded in cases
    ]  # fmt: skip
    for grader in made:
        loaded = grader.loaded
        if not terms.drafts:
            refuse_unaccepted(loaded, terms.judges_of(grader))
        _prove_world(grader, rules, terms)
        _refuse_floor(grader, terms)
        for judge in terms.judges_of(grader):
            judge.cut.refuse_live_writes(rules.policy)
            if boundaries is not None:
                _refuse_unknown(loaded, judge, boundaries)
            _refuse_worldless(loaded, judge)
        agreement(loaded.case.user_turns, where=f"{loaded.path}/case.yaml: user_turns")
    _refuse_empty(made, terms)
    return made


def fault(path: Path, policies: Path, keyring: Keyring) -> str | None:
    """Why no gate would take the case in a directory; None where one would."""
    try:
        loaded = casefile.load(path)
        graders([loaded], rules_of(policies, loaded.case.workflow, keyring), Terms())
    except InputError as found:
        return str(found)
    return None


def _prove_world(grader: CaseGrader, rules: Rules, terms: Terms) -> None:
    """Refuse a world that does not answer as recorded. One in Python is proved where it can be imported, in the candidate's process."""
    loaded = grader.loaded
    if loaded.world is None or loaded.world.file.python is not None:
        return
    alone = any(judge.mode is Mode.WORLD for judge in terms.judges_of(grader))
    prove(loading.load(loaded.world.path, rules.policy), loaded.envelope, rules.policy, alone=alone)


def _refuse_unknown(loaded: LoadedCase, judge: Judge, boundaries: Collection[str]) -> None:
    """Raise CaseError where a judging mode names live what neither the candidate declares nor the record holds: misspelt, it would judge nothing."""
    recorded = {f"{crossing.kind}:{crossing.name}" for crossing in loaded.envelope.crossings}
    try:
        CutPoint(live=judge.cut.live).refuse_unknown({*boundaries, *recorded})
    except UnknownBoundary as unknown:
        raise CaseError.at(loaded.path, f"its judging mode {judge.cut.label!r}: {unknown}") from None


def _refuse_floor(grader: CaseGrader, terms: Terms) -> None:
    """Raise CaseError where a floor can never be judged: of a case that runs no model live, or with fewer trials than its k."""
    loaded = grader.loaded
    floor = loaded.case.floor
    if floor is UNSET:
        return
    if not any(judge.cut.has_live_model for judge in grader.judges):
        raise CaseError.at(loaded.path, "a floor is for a live model, and no judging mode of the case names one.")
    live = any(judge.cut.has_live_model for judge in terms.judges_of(grader))
    if live and floor.k > terms.trials:
        raise CaseError.at(
            loaded.path,
            f"its floor is on pass^{floor.k}, and {terms.trials} trials were asked for.",
            hint=f"Run at least {floor.k} trials.",
        )


def _refuse_worldless(loaded: LoadedCase, judge: Judge) -> None:
    """Raise CaseError where a case without a world is to be judged in one."""
    if judge.mode is Mode.WORLD and loaded.world is None:
        raise CaseError.at(
            loaded.path, "the judging mode world needs a world, and the case has none.",
            hint=f"Propose one: twiceshy case convert {loaded.case.id} --to world",
        )  # fmt: skip


def _refuse_empty(docket: Sequence[CaseGrader], terms: Terms) -> None:
    """Raise CaseError, naming every such case, where a prefix leaves nothing of the candidate to judge: the opportunity itself would come from the record."""
    empty = [
        f"{grader.loaded.case.id} (--after {judge.after}, and {_end(grader)})"
        for grader in docket
        for judge in terms.judges_of(grader)
        if judge.after is not None and judge.after >= (grader.chance.seq or _last(grader))
    ]
    if empty:
        raise CaseError(
            f"the prefix leaves nothing to judge of {', '.join(empty)}. Cut earlier, or choose other cases."
        )


def _end(grader: CaseGrader) -> str:
    """Where a prefix must have ended."""
    seq = grader.chance.seq
    return f"the record ends at step {_last(grader)}" if seq is None else f"its opportunity is step {seq}"


def _last(grader: CaseGrader) -> int:
    return max((crossing.seq for crossing in grader.loaded.envelope.crossings), default=0)


def judge_case(session: Session, grader: CaseGrader, rules: Rules, terms: Terms, against: Candidacy) -> Judged:
    """One case by all its judging modes."""
    start = time.monotonic()
    modes = [_mode(session, grader, rules, terms, judge) for judge in terms.judges_of(grader)]
    took = int((time.monotonic() - start) * 1000)
    ready = session.ready
    result = case_result(
        grader, modes, candidacy=against, isolation=ready.isolation.value, declared=ready.boundaries, duration_ms=took
    )
    return Judged(loaded=grader.loaded, result=result, modes=modes, judges=terms.judges_of(grader))


def judge_cases(
    pool: SessionPool,
    docket: Sequence[CaseGrader],
    rules: Rules,
    terms: Terms,
    against: Candidacy,
    *,
    heard: Heard | None = None,
) -> list[Judged]:
    """Every case, in the order given, over the sessions of a pool. heard: told of each case as it is done, in whatever order that is."""

    def one(grader: CaseGrader) -> Judged:
        with pool.lent() as session:
            judged = judge_case(session, grader, rules, terms, against)
        if heard is not None:
            heard(judged)
        return judged

    with ThreadPoolExecutor(pool.size) as threads:
        return list(threads.map(one, docket))


def _mode(session: Session, grader: CaseGrader, rules: Rules, terms: Terms, judge: Judge) -> ModeRun:
    cut = judge.cut
    trials = [
        _trial(session, grader, rules.task(grader.loaded, judge, terms, number=number), terms)
        for number in range(terms.trials)
    ]
    return mode_run(cut, trials, floor=_floor(grader, terms) if cut.has_live_model else None)


def _trial(session: Session, grader: CaseGrader, task: Task, terms: Terms) -> Trial:
    """One trial, graded. One with a live model is run once more on its own replies: its model alone may make it what it is."""
    played = session.play(task)
    told = played.transcript
    verdict = grader.trial(told, task.judge.cut)
    if task.judge.cut.has_live_model and verdict.outcome is not Outcome.ERROR:
        again = session.play(replace(task, again=True)).transcript
        verdict = verdict if again.digest == told.digest else unrepeated(verdict, told, again)
    return Trial(told, with_semantics(verdict, told, grader, terms.bench), played.asked)


def _floor(grader: CaseGrader, terms: Terms) -> Floor:
    """What trials with a live model are judged by; of a case that names no floor every one must pass."""
    floor = grader.loaded.case.floor
    return Floor(k=terms.trials) if floor is UNSET else floor


def _fits(loaded: LoadedCase, key: str, glob: str) -> bool:
    case = loaded.case
    held = {
        "layer": case.layer.name,
        "id": case.id,
        "signature": case.signature,
        "tool": case.tool,
        "kind": case.kind,
        "severity": case.severity,
    }
    return fnmatchcase(str(held[key] or ""), glob)
