"""The candidate's process: seals itself, proves it, imports the candidate once, then forks a child a trial. Run as `python -P -m twiceshy.zygote FD`."""

from __future__ import annotations

import atexit
import os
import resource
import select
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import msgspec

from twiceshy import breaking, candidates, casefile, commands, exchange, frozen
from twiceshy.boundary import running
from twiceshy.breaking import BreakingBoundary
from twiceshy.cutpoint import CutPoint
from twiceshy.doors import LOOPBACK
from twiceshy.envelope import Disposition, Kind
from twiceshy.errors import CandidateError, IsolationNotHeld, TwiceshyError, Unrecordable
from twiceshy.exchange import Channel, Over, Ready, Refused, Start, Trial
from twiceshy.journal import Journal
from twiceshy.outcome import BoundaryState
from twiceshy.recording import error_record, run
from twiceshy.redaction import Keyring, Redactor
from twiceshy.replaying import Replay, Terms
from twiceshy.sealing import WEAK, CanaryReport, Isolation, Seal, canary, impose, seal
from twiceshy.seam import Call
from twiceshy.worlds import loading
from twiceshy.worlds.authority import for_run
from twiceshy.worlds.proving import prove

if TYPE_CHECKING:
    from collections.abc import Callable

    from twiceshy.candidates import Factory
    from twiceshy.commands import Command
    from twiceshy.doors import DoorTerms
    from twiceshy.envelope import Clock, Envelope, Versions
    from twiceshy.gateway.answering import Door
    from twiceshy.outcome import Mode
    from twiceshy.transcript import Diverged
    from twiceshy.worlds.authority import Authority

    Play = Callable[[Channel, "Recorded", Trial], NoReturn]

_NO_CLOCK_NS = 1_700_000_000_000_000_000
"""The instant that an import sees, and a run without a recorded clock: 2023-11-14T22:13:20Z, so that no real time leaks in."""

_DIALS = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"})

_DAEMON_S = 0.5
"""Seconds that each daemon thread of a finished run may still take: one that sends is done by then, one that only waits never is."""


class Recorded(NamedTuple):
    """What trials of one case replay."""

    envelope: Envelope
    world: Callable[[], Authority] | None = None


def main(descriptor: int) -> int:
    """Serve one session until the parent closes it."""
    os.set_inheritable(descriptor, False)  # a program that the candidate starts has no part in this
    channel = Channel(socket.socket(fileno=descriptor))
    message = channel.receive()
    if message is None:
        return 0
    start = msgspec.json.decode(message.body, type=Start)
    try:
        held, report = _sealed(start, descriptor)
        _open_door(start, held, channel)
        prepared = _commanded(start.command, start.door, held) if start.command else _imported(start)
    except TwiceshyError as refused:
        fault = "candidate" if isinstance(refused, CandidateError) else "isolation"
        channel.tell(exchange.REFUSED, Refused(fault=fault, message=str(refused)))
        return 0
    ready = Ready(
        workflow=prepared.workflow,
        warm=prepared.warm,
        versions=prepared.versions,
        boundaries=sorted(prepared.boundaries),
        isolation=prepared.isolation or held.isolation,
        canary=report.attempts if report else (),
        memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )
    channel.tell(exchange.READY, ready)
    os.dup2(
        1, 2
    )  # from here on only the journal counts; what trials print would fill one file until it is full for the next
    _serve(channel, prepared.play, held)
    return 0


def _sealed(start: Start, descriptor: int) -> tuple[Seal, CanaryReport | None]:
    readable = [Path(path) for path in [*start.readable, *start.path]]
    if start.targets is None:
        return seal(keep=[descriptor], readable=readable, protections=WEAK), None
    held = seal(keep=[descriptor], readable=readable)
    return held, canary(start.targets)


def _open_door(start: Start, held: Seal, channel: Channel) -> None:
    """Hand out a socket that listens in here: the parent alone takes connections from it, for models that run live."""
    if start.door is None:
        return
    if not held.protections.network:
        raise IsolationNotHeld(
            "a live model is reached through a network namespace: there is no weak isolation for it."
        )
    with socket.create_server((LOOPBACK, start.door.port), backlog=128) as listening:
        channel.hand(listening)


class _Prepared(NamedTuple):
    """Who the candidate is, and how it plays one trial in a process of its own, which ends with it. isolation: where it is less than the seal's."""

    workflow: str
    versions: Versions
    play: Play
    warm: bool = True
    boundaries: frozenset[str] = frozenset()
    isolation: Isolation | None = None


def _imported(start: Start) -> _Prepared:
    patience = frozen.Patience(io=start.door.patience_s) if start.door else None
    frozen.install(_clock(start.clock), frozen.Draws(start.seed.encode(), "import"), patience=patience)
    sys.path[:0] = start.path
    factory, said = candidates.load(start.candidate)
    said = msgspec.structs.replace(said, versions={**said.versions, **start.versions})
    described = candidates.described(factory, said)
    play = partial(_play, factory, described.boundaries, start.door)
    return _Prepared(said.workflow, described.versions, play, said.warm, described.boundaries)


def _commanded(command: Command, door: DoorTerms | None, held: Seal) -> _Prepared:
    """A command is started by each trial; only its gateway is imported here. Its clock is sealed where libfaketime is, and reaches it."""
    import twiceshy.gateway.replayed  # noqa: F401 - before the first fork, so that no trial pays for it

    if not held.protections.network:
        raise IsolationNotHeld(
            f"candidate {command.name!r} is a command, which needs a network namespace of its own: there is no weak isolation for it."
        )
    program = Path(commands.executable(command, os.environ.get("PATH")))  # noqa: TID251 - scrubbed by the parent; the command gets it on
    library = commands.faketime_library()
    sealed = library is not None and not commands.keeps_its_clock(program)
    play = partial(_play_command, command, library if sealed else None, door)
    isolation = None if sealed else Isolation.CLOCK_UNSEALED
    return _Prepared(command.workflow, commands.versions_of(command), play, isolation=isolation)


def _clock(pinned: Clock | None) -> frozen.FrozenClock:
    return frozen.FrozenClock(pinned.instant_ns, pinned.tz) if pinned else frozen.FrozenClock(_NO_CLOCK_NS, "UTC")


def _serve(channel: Channel, play: Play, sealed: Seal) -> None:
    held: dict[tuple[str, Mode], Recorded] = {}
    while (message := channel.receive()) is not None:
        trial = msgspec.json.decode(message.body, type=Trial)
        try:
            case = (trial.envelope, trial.mode)
            if case not in held:
                held = {case: _recorded(trial)}
        except TwiceshyError as broken:
            channel.tell(exchange.OVER, Over(fault=str(broken)))
            continue
        pid = os.fork()
        if pid == 0:
            play(channel, held[case], trial)
        _outlived(channel, pid)
        _, status, usage = os.wait4(pid, 0)
        sealed.sweep()
        channel.tell(exchange.OVER, Over(status=status, cpu_s=usage.ru_utime + usage.ru_stime))


def _outlived(channel: Channel, pid: int) -> None:
    """Wait for the end of a trial; end it where the parent, which says nothing meanwhile, is gone."""
    watched = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([watched, channel.fileno()], [], [])
    finally:
        os.close(watched)
    if watched not in ready:
        os.kill(pid, signal.SIGKILL)


def _recorded(trial: Trial) -> Recorded:
    """What a trial replays, loaded once for all trials of a case: the envelope, and the world with the proof that it answers as recorded."""
    envelope = casefile.load_envelope(Path(trial.envelope))
    if trial.world is None:
        return Recorded(envelope)
    world = loading.load(Path(trial.world), trial.policy)
    prove(world, envelope, trial.policy, alone=trial.world_leads)
    return Recorded(envelope, for_run(world, trial.policy, first=trial.world_leads))


def _play(
    factory: Factory, boundaries: frozenset[str], door: DoorTerms | None, channel: Channel, recorded: Recorded, trial: Trial
) -> NoReturn:  # fmt: skip
    """One trial, in its own process; ends it at the first divergence, whatever thread or handler it is in."""
    try:
        impose(trial.limits)
        signal.setitimer(signal.ITIMER_REAL, trial.limits.wall_s)
        envelope = recorded.envelope
        clock = _clock(envelope.pins.clock)
        patience = frozen.Patience(io=door.patience_s) if door else None
        frozen.install(clock, frozen.Draws(trial.seed.encode(), trial.number), patience=patience)
        journal = Journal(_line(channel))
        terms = _terms(trial, recorded)
        replay = Replay(envelope, terms, journal, clock=clock, on_end=_end)
        sys.addaudithook(_dialling(replay, door))
        boundary = _boundary(replay, terms, channel, envelope, trial)
        agent = factory(boundary)
        candidates.same(boundaries, boundary)
        boundary.complete()
        _told(journal, run(agent, envelope.input.user))
    except TwiceshyError as fault:
        channel.send(exchange.LINE, b"F\t" + msgspec.json.encode(str(fault)))
        os._exit(0)
    except BaseException:  # noqa: BLE001 - whatever it is, this process is over; without an end marker it counts as a crash
        os._exit(1)
    os._exit(0)


def _play_command(
    command: Command, library: Path | None, door: DoorTerms | None, channel: Channel, recorded: Recorded, trial: Trial
) -> NoReturn:
    """One trial of a command. This process is its gateway and runs nothing of the candidate, so whatever goes wrong in it is ours."""
    from twiceshy.gateway.replayed import Hosting, play

    try:
        signal.setitimer(signal.ITIMER_REAL, trial.limits.wall_s)
        envelope = recorded.envelope
        clock = _clock(envelope.pins.clock)
        journal = Journal(_line(channel))
        terms = _terms(trial, recorded)
        boundary = _boundary(Replay(envelope, terms, journal, clock=clock), terms, channel, envelope, trial)
        play(
            Hosting(
                command=command, envelope=envelope, policy=trial.policy, boundary=boundary, journal=journal, clock=clock, library=library,
                door=_door(door, terms.cut), limits=trial.limits, seed=f"{trial.seed}/{trial.number}", said=partial(channel.send, exchange.SAID), env=dict(os.environ),  # noqa: TID251 - as above
            )
        )  # fmt: skip
    except TwiceshyError as fault:
        problem = str(fault)
    except OSError as broken:
        problem = f"the gateway of a command failed: {broken}"
    except BaseException as broken:  # noqa: BLE001 - as above
        problem = f"the gateway of a command failed: {type(broken).__name__}"
    channel.send(exchange.LINE, b"F\t" + msgspec.json.encode(problem))
    os._exit(0)


def _boundary(replay: Replay, terms: Terms, channel: Channel, envelope: Envelope, trial: Trial) -> BreakingBoundary:
    return BreakingBoundary(
        replay,
        [breaking.parse(text) for text in trial.breaks],
        record=envelope,
        terms=terms,
        on_applied=lambda found: channel.send(exchange.APPLIED, found.text.encode()),
    )


def _door(terms: DoorTerms | None, cut: CutPoint) -> Door | None:
    """Where a command's gateway has its live models asked."""
    if terms is None:
        return None
    from twiceshy.gateway.answering import Door

    def opens(name: str, seq: int) -> bool:
        return cut.state(Call(kind=Kind.MODEL, name=name, seq=seq), None) is BoundaryState.LIVE

    return Door(terms.origin, terms.token, opens)


def _dialling(replay: Replay, door: DoorTerms | None) -> Callable[[str, tuple[Any, ...]], None]:
    """Hears every connection that Python code opens, before it is refused; the agent's own loop (telemetry, say) may try.

    At the door a live model is asked, and nothing else: by the loop itself it would be asked past its boundary.
    """
    known = None if door is None else (LOOPBACK, door.port)

    def heard(event: str, told: tuple[Any, ...]) -> None:
        if event not in _DIALS:
            return
        call = running()
        if known is not None and known in (told[:2], told[-1]):
            if event == "socket.connect" and (call is None or call.kind is not Kind.MODEL):
                replay.dialled(call)
        elif call is not None:
            replay.dialled(call)

    return heard


def _line(channel: Channel) -> Callable[[bytes], None]:
    """Sends lines of this process. One that the candidate forks has a copy of the matcher that nobody follows: its first passage ends the run as our fault."""
    owner = os.getpid()

    def keep(line: bytes) -> None:
        if os.getpid() != owner:
            problem = "a process that the candidate forked crossed a boundary; call tools in the process that got the boundary"
            channel.send(exchange.LINE, b"F\t" + msgspec.json.encode(problem))
            os._exit(1)
        channel.send(exchange.LINE, line)

    return keep


def _told(journal: Journal, disposition: Disposition) -> None:
    """End as an interpreter does: threads are joined and exit functions run first, for what they send belongs to the run."""
    for thread in threading.enumerate():
        if thread.daemon:
            thread.join(_DAEMON_S)
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - joins idle executor workers too, which only it can wake
    atexit._run_exitfuncs()  # noqa: SLF001 - as above: multiprocessing joins its children here
    try:
        journal.ended(disposition)
    except Unrecordable as odd:
        journal.ended(Disposition(ended=False, error=error_record(odd, ())))


def _terms(trial: Trial, recorded: Recorded) -> Terms:
    cut = CutPoint(mode=trial.mode, live=frozenset(trial.live), after=trial.after, freeze=frozenset(trial.freeze))
    seed = f"{trial.seed}/{trial.number}".encode()
    return Terms(
        policy=trial.policy, cut=cut, declared=trial.declared, grants=trial.grants, flags=trial.flags, seed=seed,
        world=recorded.world, simulated=trial.simulated,
        pseudonymise=_pseudonymise(trial, recorded.envelope), agrees=_agrees(trial),
    )  # fmt: skip


def _agrees(trial: Trial) -> Callable[[Any, Any], bool] | None:
    """When a recorded user turn may be served. The conditions' engine is loaded for the cases that have one."""
    if trial.user_turns is None:
        return None
    from twiceshy.agreement import agreement

    return agreement(trial.user_turns, where=f"{trial.seed}: user_turns")


def _pseudonymise(trial: Trial, envelope: Envelope) -> Callable[[str, Any], Any] | None:
    """How live arguments are redacted as the recording was; None for a record that was never redacted. Raises KeyMismatch."""
    stamp = envelope.redaction
    if trial.redaction is None or stamp is None:
        return None
    keys = {trial.redaction.key_id: bytes.fromhex(trial.key)} if trial.key else {}
    redactor = Redactor(trial.redaction, Keyring(keys), stamp.pseudonyms)
    redactor.check(stamp)
    return redactor.redact_arguments


def _end(_: Diverged | None) -> NoReturn:
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
