"""Sessions: one sealed process of a candidate, a transcript a trial. The parent's side; what it holds came through the journal, not from exit codes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from twiceshy import commands, exchange
from twiceshy.breaking import copies
from twiceshy.breaking.operators import Operator
from twiceshy.doors import UnreachedModel, door_terms
from twiceshy.endings import ending
from twiceshy.errors import CandidateError, InfrastructureError, IsolationNotHeld
from twiceshy.exchange import Channel, Over, Ready, Refused, Start, Trial
from twiceshy.journal import transcript_of
from twiceshy.outcome import Mode
from twiceshy.sealing import Limits, host_targets, scrubbed_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from twiceshy.answerers import Asked
    from twiceshy.breaking import Break
    from twiceshy.casefile import Judge, LoadedCase
    from twiceshy.commands import Command
    from twiceshy.doors import DoorTerms
    from twiceshy.exchange import Message
    from twiceshy.gateway.door import Door, LiveModels
    from twiceshy.policy import ToolsPolicy
    from twiceshy.redaction import Policy as RedactionPolicy
    from twiceshy.sealing import Targets
    from twiceshy.simulators.served import SimulatedAnswer
    from twiceshy.transcript import Transcript

_START_S = 120.0
"""Seconds until a session that is not ready is given up: an import of a large candidate on a loaded machine takes a while."""

_GRACE_S = 10.0
"""Seconds past a trial's wall limit before the whole session counts as lost: the trial's own alarm comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSpec:
    """How a candidate is started: `module:factory` or a command, what it may read (and has on its sys.path), its interpreter, and names of variables it may see.

    versions: of its layers, before those that its factory states.
    """

    factory: str
    path: Sequence[Path] = (Path(),)
    python: str = sys.executable
    allow_env: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    command: Command | None = None
    """In place of the factory, which then is only its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One trial to run: a case, a judging mode, the tools' policy, breaks, and the trial's number from 0.

    redaction, key: how the case was redacted, and the key (bytes) where it is at hand. simulated: the answers of an exploration so far.
    again: the trial has been run, and its live models say what they said then. occasion: on which it is run, where each asks live models anew.
    """

    loaded: LoadedCase
    judge: Judge
    policy: ToolsPolicy
    number: int = 0
    breaks: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    redaction: RedactionPolicy | None = None
    key: bytes | None = field(default=None, repr=False)
    simulated: Sequence[SimulatedAnswer] = ()
    again: bool = False
    occasion: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What one trial came to, with the breaks that changed something in it, its CPU seconds, and the live models that were asked outside of it."""

    transcript: Transcript
    applied: frozenset[str]
    cpu_s: float = 0.0
    asked: Sequence[Asked] = ()


class Session:
    """One sealed candidate process, for the `with` block. `ready` says who it is and what isolation held.

    folder: where the parent may write and a candidate must not; the canary's targets stand there. live: where models that run live are asked.
    Raises CandidateError (exit 2) for a candidate that cannot be imported, IsolationNotHeld (exit 4) for anything less than hermetic, unless `weak` was asked for.
    """

    def __init__(
        self,
        spec: CandidateSpec,
        *,
        env: Mapping[str, str],
        folder: Path,
        cases: Sequence[Path] = (),
        weak: bool = False,
        live: LiveModels | None = None,
    ) -> None:
        self._spec = spec
        self._live = live
        self._door: Door | None = None
        self._env = env
        self._folder = folder
        self._cases = cases
        self._weak = weak
        self._stack = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self.ready: Ready
        self.said = ""
        """The end of what the last command said on standard error: for a person, never for a verdict."""

    def __enter__(self) -> Self:
        """Start the process and wait until it is sealed, proved and has imported the candidate."""
        try:
            self.ready = self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process and everything inside its namespaces."""
        self.close()

    def play(self, task: Task) -> Played:
        """Run one trial to its end. A fault of the process is in the transcript (`fault`, outcome ERROR) and the session starts anew.

        Raises UnreachedModel where a command's model is to run live and nothing says where it is asked.
        """
        lives = task.judge.cut.has_live_model
        if lives and self._spec.command is not None and self._live is None:
            raise UnreachedModel.of(self._spec.command.name)
        channel = self._open(task)
        if self._door is None or self._live is None or not lives:
            return self._played(channel, task)
        from twiceshy.gateway.lives import begun, ended

        door = self._door
        trial = begun(
            self._live,
            task.loaded,
            task.judge,
            task.number,
            self.ready.versions,
            occasion=task.occasion,
            end=self._end,
            only=task.again,
        )
        door.begin(trial)
        try:
            played = self._played(channel, task)
        finally:
            door.settle()
        told = ended(trial, played.transcript, commanded=self._spec.command is not None)
        return replace(played, transcript=told, asked=tuple(trial.asked))

    def _played(self, channel: Channel, task: Task) -> Played:
        lines: list[bytes] = []
        room = task.limits.output_bytes
        applied: set[str] = set()
        self.said = ""
        try:
            channel.tell(exchange.TRIAL, _trial(task))
        except BrokenPipeError:
            return self._lost(lines, frozenset())
        started = time.monotonic()
        deadline = started + task.limits.wall_s + _GRACE_S
        while True:
            message = _next(channel, deadline)
            if message is None:
                return self._lost(lines, frozenset(applied))
            if message.mark == exchange.LINE:
                lines.append(message.body)
                room -= len(message.body)
                if room < 0:
                    return self._flooded(lines, frozenset(applied))
            elif message.mark == exchange.OVER:
                over = msgspec.json.decode(message.body, type=Over)
                took, commanded = time.monotonic() - started, self._spec.command is not None
                told = ending(lines, over, task.limits, wall_s=took, commanded=commanded)
                if commanded and told.fault is None:
                    told = commands.closed_at_elsewhere(told, task.policy, dropped=_dropped(applied))
                return Played(transcript=told, applied=frozenset(applied), cpu_s=over.cpu_s)
            else:
                self._note(message, applied)

    def _note(self, message: Message, applied: set[str]) -> None:
        if message.mark == exchange.APPLIED:
            applied.add(message.body.decode())
        elif message.mark == exchange.SAID:
            self.said = message.body.decode(errors="replace")

    @contextmanager
    def broken(self, found: Break, case: Path) -> Iterator[Session]:
        """A session of the same candidate with its code broken, for the `with` block. case: the folder of the case. Raises NotApplicable, and what Session raises."""
        spec = self._spec
        with copies.changed(found, path=spec.path, env=self._env, case=case) as now:
            moved = dict(zip(map(Path.resolve, spec.path), now.path, strict=True))
            command = spec.command and commands.moved(spec.command, moved)
            broken = replace(spec, path=now.path, allow_env=[*spec.allow_env, *now.env], command=command)
            env = {**self._env, **now.env}
            with Session(
                broken, env=env, folder=self._folder, cases=self._cases, weak=self._weak, live=self._live
            ) as session:
                yield session

    def close(self) -> None:
        """End the session's process; the kernel ends everything in its namespaces with it."""
        if self._door is not None:
            self._door.close()
            self._door = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._stack.close()

    def _end(self) -> None:
        """Take the process down while a trial runs: what it does from here on counts for nothing. Whoever plays the trial sees the end of the channel."""
        if self._process is not None:
            self._process.kill()

    def _open(self, task: Task) -> Channel:
        """The channel of a process that can take this trial: the warmed one, or a fresh one that imports the candidate at the case's own instant."""
        if self._channel is not None and not self.ready.warm:
            self.close()
        if self._channel is None:
            self.ready = self._start(task)
        channel = self._channel
        if channel is None:
            raise InfrastructureError("the session's process did not start")
        return channel

    def _start(self, task: Task | None = None) -> Ready:
        env = scrubbed_environment(self._env, allow=self._spec.allow_env)
        if self._live is not None:
            self._live.refuse_shared(env)
        ours, theirs = exchange.pair()
        self._complaints = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        command = [self._spec.python, "-P", "-m", "twiceshy.zygote", str(theirs.fileno())]
        commanded = self._spec.command is not None
        door = door_terms(commanded=commanded, patience_s=self._live.patience_s) if self._live else None
        env |= door.clients if door and not commanded else {}
        with theirs:
            self._process = subprocess.Popen(
                command,
                env=env,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
            )
        self._channel = Channel(ours)
        if self._weak:
            self._channel.tell(exchange.START, self._hello(None, task, door))
            return self._answer(door)
        with host_targets(self._folder) as host:
            self._channel.tell(exchange.START, self._hello(host.targets, task, door))
            ready = self._answer(door)
            if arrivals := host.arrivals():
                raise IsolationNotHeld(f"the canary reached {', '.join(arrivals)} on this host; nothing was run.")
        return ready

    def _hello(self, targets: Targets | None, task: Task | None, door: DoorTerms | None) -> Start:
        return Start(
            candidate=self._spec.factory,
            versions=dict(self._spec.versions),
            command=self._spec.command,
            path=[str(Path(part).resolve()) for part in self._spec.path],
            readable=[str(Path(case).resolve()) for case in self._cases],
            targets=targets,
            door=door,
            clock=task.loaded.envelope.pins.clock if task else None,
            seed=f"{task.loaded.case.id}/{task.number}" if task else "import",
        )

    def _answer(self, door: DoorTerms | None) -> Ready:
        channel = self._channel
        if door is not None and channel is not None:
            self._door = _opened(channel, door)
        message = _next(channel, time.monotonic() + _START_S) if channel else None
        if message is None:
            raise InfrastructureError(
                f"candidate {self._spec.factory!r}: its process ended before it was ready. {self._complaint()}"
            )
        if message.mark == exchange.REFUSED:
            refused = msgspec.json.decode(message.body, type=Refused)
            raise (CandidateError if refused.fault == "candidate" else IsolationNotHeld)(refused.message)
        return msgspec.json.decode(message.body, type=Ready)

    def _complaint(self) -> str:
        """The last line that the process wrote before it ended: what kept it from starting."""
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else f"Is twiceshy installed for {self._spec.python}?"

    def _flooded(self, lines: Sequence[bytes], applied: frozenset[str]) -> Played:
        """A run without an end: the next trial gets a new process."""
        self.close()
        return Played(transcript=msgspec.structs.replace(transcript_of(lines), crash="output"), applied=applied)

    def _lost(self, lines: Sequence[bytes], applied: frozenset[str]) -> Played:
        """The zygote is gone or hangs: what the journal holds is kept, and the next trial gets a new process."""
        self.close()
        told = transcript_of(lines)
        return Played(
            transcript=msgspec.structs.replace(told, fault="the candidate's session was lost"), applied=applied
        )


def _opened(channel: Channel, terms: DoorTerms) -> Door | None:
    """The door that the sealed process hands out; None where it says something else in its place."""
    from twiceshy.gateway.door import Door

    with suppress(TimeoutError):
        listening = channel.handed(_START_S)
        if listening is not None:
            return Door(listening, terms.token)
    return None


def _next(channel: Channel, deadline: float) -> Message | None:
    """The next message before the deadline (of time.monotonic), or None."""
    try:
        return channel.receive(max(0.1, deadline - time.monotonic()))
    except TimeoutError:
        return None


def _trial(task: Task) -> Trial:
    judge, world = task.judge, task.loaded.world_in(task.judge.mode)
    return Trial(
        number=task.number,
        envelope=str((task.loaded.path / "envelope.jsonl").resolve()),
        mode=judge.mode,
        live=judge.live,
        after=judge.after,
        freeze=judge.freeze,
        policy=task.policy,
        declared=task.loaded.case.expect.writes,
        grants=task.loaded.case.expect.grants,
        flags=task.loaded.case.flags,
        user_turns=task.loaded.case.user_turns,
        world=None if world is None else str(world.path.resolve()),
        world_leads=task.judge.mode is Mode.WORLD
        or (task.judge.mode is Mode.EXPLORE and task.loaded.case.misses != "world"),
        simulated=list(task.simulated),
        breaks=list(task.breaks),
        limits=task.limits,
        seed=task.loaded.case.id,
        redaction=task.redaction if task.loaded.envelope.redaction else None,
        key=task.key.hex() if task.key else None,
    )


def _dropped(applied: Iterable[str]) -> list[str]:
    """The tools whose calls a break has kept from being made."""
    parted = (text.partition(":") for text in applied)
    return [target for operator, _, target in parted if operator == Operator.CALL_DROP]
