"""One trial of a command: its gateway over the replay, its process, and the end of both."""

from __future__ import annotations

import hashlib
import hmac
import resource
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from twiceshy.gateway import hosting
from twiceshy.gateway.answering import Gateway
from twiceshy.gateway.catalog import catalog_of
from twiceshy.gateway.server import Server
from twiceshy.outcome import Divergence
from twiceshy.replaying import RunDiverged, RunFaulted
from twiceshy.sealing import cpu_spent, crashes, signal_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twiceshy.breaking import BreakingBoundary
    from twiceshy.commands import Command
    from twiceshy.envelope import Envelope
    from twiceshy.frozen import FrozenClock
    from twiceshy.gateway.answering import Door
    from twiceshy.journal import Journal
    from twiceshy.policy import ToolsPolicy
    from twiceshy.sealing import Limits

_PORT = 41_184
"""Of the network namespace's own loopback: a fixed one, so that a run which prints its addresses is the same twice."""
_CLOCK = ".twiceshy/clock"
"""Below TMPDIR, which the seal names: all of /tmp is not to be written where the candidate itself lies below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """All that one trial of a command needs. door: where its live models are asked. library: libfaketime, where the command's clock is sealed; seed: of the case and trial; said: hears the end of what it says on standard error."""

    command: Command
    envelope: Envelope
    policy: ToolsPolicy
    boundary: BreakingBoundary
    journal: Journal
    clock: FrozenClock
    limits: Limits
    seed: str
    said: Callable[[bytes], object]
    door: Door | None = None
    library: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def play(trial: Hosting) -> NoReturn:
    """Run it to its end, and this process with it. At the first divergence the client gets its answer, then everything ends."""
    catalog = catalog_of(trial.envelope, trial.policy, trial.command.models)
    gateway = Gateway(trial.boundary, catalog, trial.journal, trial.door)
    trial.boundary.complete()
    server = Server(gateway, _token(trial.seed), port=_PORT)
    hosted = hosting.start(
        trial.command, server, trial.envelope.input.user, env=trial.env, limits=trial.limits, faketime=_faketime(trial)
    )
    server.before, server.after = hosted.look, hosted.passed
    server.on_end = partial(_end, trial, hosted)
    settle = hosting.serve(server)
    hosted.process.wait()
    with suppress(RunDiverged, RunFaulted):
        _outlast(gateway, hosted, settle)
    _end(trial, hosted, ended_by=0 if gateway.ended is not None else _told(trial, hosted))


def _outlast(gateway: Gateway, hosted: hosting.Hosted, settle: Callable[[], bool]) -> None:
    """Let what the command left running come to its end, and hear all that was sent. What goes on after that is ended, and so is the run: nobody knows what it would have done."""
    try:
        left = hosted.outlast(hosting.LEFT_S)
    finally:
        hosting.end_all()
        whole = settle()
    if gateway.ended is None and not whole:
        gateway.fault("what the command had sent could not be read to its end")
    if gateway.ended is None and left:
        gateway.refuse(
            Divergence.LEFT_RUNNING, "run", f"{', '.join(left)} went on after the command had ended", place="end"
        )


def _told(trial: Hosting, hosted: hosting.Hosted) -> int:
    """Tell how the command ended. The signal that ended it for a budget it had spent, by which this process has to end too; else 0."""
    signalled = max(0, -hosted.process.returncode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if signalled == signal.SIGXFSZ or cpu_spent(signalled, used.ru_utime + used.ru_stime, trial.limits):
        return signalled
    if signalled and not crashes(signalled):
        trial.journal.signalled(signal_name(signalled))
    else:
        trial.journal.ended(hosted.disposition)
    return 0


def _end(trial: Hosting, hosted: hosting.Hosted, *, ended_by: int = 0) -> NoReturn:
    trial.said(hosted.complaint)
    if ended_by:
        hosting.follow(ended_by)
    hosting.leave()


def _token(seed: str) -> str:
    """The same for each run of a trial: it keeps nobody out of a namespace, but a client that forgets it out of a run."""
    return hmac.digest(b"twiceshy token", seed.encode(), hashlib.sha256).hex()[:32]


def _faketime(trial: Hosting) -> hosting.Faketime | None:
    if trial.library is None:
        return None
    told = Path(trial.env["TMPDIR"], _CLOCK)
    told.parent.mkdir(exist_ok=True)
    return hosting.Faketime(library=trial.library, clock=trial.clock, told=told)
