"""One shard of replays as a process of its own: `python -m twiceshy.shards` reads one request on stdin and writes a line of JSON a trial.

Asked for several times, everything is replayed anew each time, in the same session: the start of a process and its seal cost some fifty trials.

The pipeline runs it with the engine's interpreter and can kill it; the candidate is sealed one process further down. No table library is loaded here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import msgspec

from twiceshy import breakage, judging
from twiceshy.benches import bench_of
from twiceshy.breakage import BreakRun, BreakState
from twiceshy.casefile import Judge, load
from twiceshy.champion import Champion
from twiceshy.commands import Command
from twiceshy.configuration import JudgeSettings, UpstreamSettings
from twiceshy.conversations import whole_conversations
from twiceshy.encoding import record_line, record_of
from twiceshy.envelope import Record, Versions
from twiceshy.errors import TwiceshyError
from twiceshy.evidence import replayed_run
from twiceshy.gateway.asking import upstreams
from twiceshy.gateway.door import LiveModels
from twiceshy.graders.explained import Explanation, explanation, repeated
from twiceshy.grading import TrialVerdict
from twiceshy.judgement import CaseTerms, Context
from twiceshy.judging import Terms
from twiceshy.outcome import AnsweredBy
from twiceshy.redaction import Keyring
from twiceshy.running import CandidateSpec
from twiceshy.sealing import Limits
from twiceshy.semantic import Unconfigured
from twiceshy.sessions import SessionPool
from twiceshy.transcript import Transcript
from twiceshy.verdict import Conversation, Result
from twiceshy.writes import went_unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from twiceshy.grading import CaseGrader
    from twiceshy.judging import Judged, Rules
    from twiceshy.results import Candidacy
    from twiceshy.semantic import Bench
    from twiceshy.trials import Trial


class ShardRequest(Record, frozen=True, kw_only=True):
    """What to replay. Paths are absolute. judges: none means each case's own.

    env is what the candidate's environment is made from, scrubbed once more; keys are redaction keys in hex by id.
    times: how often everything is replayed; breaks are tried the last time only. occasions: what each time is called, where live models are asked anew each time.
    """

    factory: str
    versions: dict[str, str] = {}
    command: Command | None = None
    python: str
    path: list[str]
    allow_env: list[str] = []
    env: dict[str, str] = {}
    folder: str
    policies: str
    cases: list[str]
    judges: list[Judge] = []
    trials: int = 2
    breaks: bool = False
    times: int = 1
    occasions: list[str] = []
    workers: int = 1
    limits: Limits = Limits()
    keys: dict[str, str] = {}
    judge: JudgeSettings = JudgeSettings()
    replies: str | None = None
    """Where replies of the semantic judge are kept; without it none is asked. Its key stands in the environment of this process."""
    upstream: dict[Literal["openai", "anthropic"], UpstreamSettings] = {}
    """Where models that run live are asked, with `live`, the folder of what they replied. Their keys stand in the environment of this process."""
    live: str | None = None
    pinned: Champion | None = None
    """Whose layers and calls those of the candidate are measured by."""


class ReadyLine(Record, frozen=True, kw_only=True, tag="ready"):
    """First: who the candidate is, and what isolation held."""

    workflow: str
    versions: Versions
    isolation: str
    harness: str


class IntentLine(Record, frozen=True, kw_only=True):
    """One intercepted write of a trial, and what explains it."""

    seq: int
    tool: str
    key: str
    state: str
    proposed: Any | msgspec.UnsetType = msgspec.UNSET
    seen: Any | msgspec.UnsetType = msgspec.UNSET
    idempotency_key: Any = None
    blocked_by: str | None = None
    answered_by: AnsweredBy | None = None
    explained_by: Explanation | None = None
    duplicate: bool = False


class TrialLine(Record, frozen=True, kw_only=True, tag="trial"):
    """One trial with its verdict. broken_by: the break that was applied; killed etc. says what became of it."""

    case_id: str
    judge: Judge
    trial: int
    transcript: Transcript
    verdict: TrialVerdict
    intents: list[IntentLine] = []
    broken_by: str | None = None
    break_state: BreakState | None = None


class ResultLine(Record, frozen=True, kw_only=True, tag="result"):
    """What the trials of one case come to."""

    result: Result


class TogetherLine(Record, frozen=True, kw_only=True, tag="together"):
    """After the cases of one time: every conversation of which several turns are cases, as a whole."""

    conversations: list[Conversation]


class AgainLine(Record, frozen=True, kw_only=True, tag="again"):
    """Between two times: from here on everything is replayed anew."""


class FaultLine(Record, frozen=True, kw_only=True, tag="fault"):
    """Last, in place of all else: why the shard could not run. exit_code as the command line's."""

    message: str
    exit_code: int


Line = ReadyLine | TrialLine | ResultLine | TogetherLine | AgainLine | FaultLine


def lines_of(content: bytes) -> Iterator[Line]:
    """The lines of a shard's output. Raises msgspec.MsgspecError for one that is none, such as one cut short by a kill."""
    for line in content.splitlines():
        yield record_of(line, Line)


def main(source: BinaryIO, to: BinaryIO, env: Mapping[str, str]) -> int:
    """Serve one request. env: of this process, which holds the judge's key. Ends with 0 when every case has its result, else with the exit code of the fault, which is the last line."""

    def write(line: Line) -> None:
        to.write(record_line(line) + b"\n")
        to.flush()

    try:
        _run(msgspec.json.decode(source.read(), type=ShardRequest), write, env)
    except TwiceshyError as fault:
        write(FaultLine(message=str(fault), exit_code=fault.exit_code))
        return fault.exit_code
    return 0


def _run(request: ShardRequest, write: Callable[[Line], None], env: Mapping[str, str]) -> None:
    cases = [load(Path(path)) for path in request.cases]
    spec = CandidateSpec(
        factory=request.factory,
        python=request.python,
        path=[Path(part) for part in request.path],
        allow_env=request.allow_env,
        command=request.command,
    )
    terms = Terms(judges=request.judges, trials=request.trials, limits=request.limits, bench=_bench(request, env))
    keyring = Keyring({key_id: bytes.fromhex(key) for key_id, key in request.keys.items()})
    visible = [loaded.path for loaded in cases]
    live = judging.asking(_live(request, env), spec, cases, terms.judges)
    judging.refuse_keyless(live, cases, terms.judges)
    with SessionPool(
        spec, env=request.env, folder=Path(request.folder), cases=visible, workers=request.workers, live=live
    ) as pool:
        ready = pool.ready
        rules = judging.rules_of(Path(request.policies), ready.workflow, keyring)
        write(
            ReadyLine(
                workflow=ready.workflow, versions=ready.versions, isolation=ready.isolation.value, harness=rules.harness
            )
        )
        docket = judging.graders(cases, rules, terms, boundaries=ready.boundaries, champion=request.pinned)
        against = judging.candidacy(
            ready.versions, request.pinned.versions if request.pinned else None, tools=judging.tools_of(cases)
        )
        for occasion, follows in _times(request):
            court = _Court(pool, docket, rules, replace(terms, occasion=occasion), against)
            judged = court.judge(write)
            if follows:
                write(AgainLine())
            elif request.breaks:
                court.break_all(judged, write)


def _times(request: ShardRequest) -> Iterator[tuple[str, bool]]:
    """What each time is called, and whether another one follows. Times without a name are told apart by their number."""
    for time in range(request.times):
        named = request.occasions[time] if time < len(request.occasions) else str(time)
        yield named, time + 1 < request.times


@dataclass(frozen=True, slots=True)
class _Court:
    """The cases of a shard before its sessions."""

    pool: SessionPool
    docket: Sequence[CaseGrader]
    rules: Rules
    terms: Terms
    against: Candidacy

    def judge(self, write: Callable[[Line], None]) -> list[Judged]:
        """Every case once. A case is written as soon as it is judged, so that a kill loses no more than what was under way."""
        graders = {grader.loaded.case.id: grader for grader in self.docket}
        one_at_a_time = Lock()  # cases are told of by the threads that judged them, and a line is one case's

        def heard(judged: Judged) -> None:
            with one_at_a_time:
                _write_case(graders[judged.loaded.case.id], judged, write)

        judged = judging.judge_cases(self.pool, self.docket, self.rules, self.terms, self.against, heard=heard)
        told = [(grader, one.modes, one.result) for grader, one in zip(self.docket, judged, strict=True)]
        write(TogetherLine(conversations=whole_conversations(told, self.rules.invariants)))
        return judged

    def break_all(self, judged: Sequence[Judged], write: Callable[[Line], None]) -> None:
        """Every break of every case, beside its first unbroken trials."""
        for grader, one in zip(self.docket, judged, strict=True):
            if grader.loaded.case.breaks:
                unbroken = [mode.trials[0] for mode in one.modes]
                with self.pool.lent() as session:
                    done = breakage.broken_case(session, grader, self.rules, self.terms, unbroken=unbroken)
                _write_breaks(grader, done.runs, write)


def _bench(request: ShardRequest, env: Mapping[str, str]) -> Bench:
    if request.replies is None:
        return Unconfigured()
    return bench_of(request.judge, replies=Path(request.replies), env=env)


def _live(request: ShardRequest, env: Mapping[str, str]) -> LiveModels | None:
    if not request.upstream or request.live is None:
        return None
    return LiveModels(upstreams=upstreams(request.upstream, env), replies=Path(request.live))


def _write_case(grader: CaseGrader, judged: Judged, write: Callable[[Line], None]) -> None:
    for mode, judge in zip(judged.modes, judged.judges, strict=True):
        for number, trial in enumerate(mode.trials):
            write(_trial_line(grader, judge, number, trial))
    write(ResultLine(result=judged.result))


def _write_breaks(grader: CaseGrader, runs: Sequence[BreakRun], write: Callable[[Line], None]) -> None:
    for run in runs:
        line = _trial_line(grader, run.judge, 0, run.trial)
        write(msgspec.structs.replace(line, broken_by=run.text, break_state=run.state))


def _trial_line(grader: CaseGrader, judge: Judge, number: int, trial: Trial) -> TrialLine:
    return TrialLine(
        case_id=grader.loaded.case.id, judge=judge, trial=number, transcript=trial.transcript, verdict=trial.verdict,
        intents=list(_intents(grader, trial.transcript)),
    )  # fmt: skip


def _intents(grader: CaseGrader, transcript: Transcript) -> Iterator[IntentLine]:
    run = replayed_run(transcript, grader.policy)
    case = CaseTerms(names=frozenset(), recorded=grader.recorded, expected=grader.loaded.case.expect.writes)
    context = Context(run=run, invariants=grader.invariants, case=case)
    repeats = repeated(run)
    explained = {step.crossing.seq: explanation(step, context, repeats=repeats) for step in run.writes()}
    known: Explanation = "recorded"  # what a write that the record holds under other writes is, whoever asked for it
    for played in transcript.played:
        crossing = played.crossing
        if played.intent:
            yield IntentLine(
                seq=crossing.seq, tool=crossing.name, key=crossing.key, state=crossing.state, proposed=crossing.proposed, seen=crossing.seen,
                idempotency_key=played.idempotency_key, blocked_by=crossing.blocked_by, answered_by=played.answered_by,
                explained_by=explained.get(crossing.seq, known if went_unanswered(crossing) else None), duplicate=crossing.seq in repeats,
            )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer, sys.stdout.buffer, os.environ))  # noqa: TID251 - the edge of this process
