"""One trial of a command: its gateway over the replay, its process, and the end of both."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from twiceshy.gateway import hosting
from twiceshy.gateway.answering import Gateway
from twiceshy.gateway.catalog import catalog_of
from twiceshy.gateway.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from twiceshy.breaking import BreakingBoundary
    from twiceshy.commands import Command
    from twiceshy.envelope import Envelope
    from twiceshy.frozen import FrozenClock
    from twiceshy.journal import Journal
    from twiceshy.policy import ToolsPolicy
    from twiceshy.sealing import Limits

_PORT = 41_184
"""Of the network namespace's own loopback: a fixed one, so that a run which prints its addresses is the same twice."""
_CLOCK = Path("/tmp/.twiceshy/clock")  # noqa: S108 - private inside the seal


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """All that one trial of a command needs. library: libfaketime, where the command's clock is sealed; seed: of the case and trial; said: hears the end of what it says on standard error."""

    command: Command
    envelope: Envelope
    policy: ToolsPolicy
    boundary: BreakingBoundary
    journal: Journal
    clock: FrozenClock
    limits: Limits
    seed: str
    said: Callable[[bytes], object]
    library: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)


def play(trial: Hosting) -> NoReturn:
    """Run it to its end, and this process with it. At the first divergence the client gets its answer, then everything ends."""
    catalog = catalog_of(trial.envelope, trial.policy, trial.command.models)
    gateway = Gateway(trial.boundary, catalog, trial.journal)
    trial.boundary.complete()
    server = Server(gateway, _token(trial.seed), port=_PORT)
    hosted = hosting.start(
        trial.command, server, trial.envelope.input.user, env=trial.env, limits=trial.limits, faketime=_faketime(trial)
    )
    server.on_passage = hosted.passed
    server.on_end = partial(_end, trial, hosted)
    settle = hosting.serve(server)
    hosted.process.wait()
    hosted.end()
    settle()
    if gateway.ended is None and hosted.process.returncode >= 0:
        trial.journal.ended(hosted.disposition)
    trial.said(hosted.complaint)
    hosting.follow(hosted.process)


def _end(trial: Hosting, hosted: hosting.Hosted) -> NoReturn:
    trial.said(hosted.complaint)
    hosting.leave()


def _token(seed: str) -> str:
    """The same for each run of a trial: it keeps nobody out of a namespace, but a client that forgets it out of a run."""
    return hmac.digest(b"twiceshy token", seed.encode(), hashlib.sha256).hex()[:32]


def _faketime(trial: Hosting) -> hosting.Faketime | None:
    if trial.library is None:
        return None
    _CLOCK.parent.mkdir(exist_ok=True)
    return hosting.Faketime(library=trial.library, clock=trial.clock, told=_CLOCK)
