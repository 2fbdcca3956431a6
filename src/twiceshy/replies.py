"""What a live model replied, kept by request, candidate and trial: a trial that runs again gets its own replies, and no two trials share one (semantics.md §6.3)."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from threading import Lock

import msgspec

from twiceshy.envelope import Record
from twiceshy.errors import FormatError
from twiceshy.identity import digest

FORMAT = "twiceshy/live-reply/1"


class TrialId(Record, frozen=True, kw_only=True):
    """Which trial: of which case, in which judging mode, by which candidate, against which upstreams. occasion: the night, where every night asks anew."""

    candidate: str
    case: str
    envelope: str
    mode: str
    number: int
    upstreams: dict[str, str] = {}
    occasion: str = ""

    @property
    def digest(self) -> str:
        """Under which its replies are kept."""
        return digest(msgspec.to_builtins(self))


class LiveReply(Record, frozen=True, kw_only=True):
    """One reply. Grain: (trial, request digest, how often the trial had asked the same before). chunks: its body, of a stream the events in which it came.

    whole: whether it came to its end before the trial had enough of it.
    """

    format: str = FORMAT
    request: str
    candidate: str
    trial: str
    nth: int
    host: str
    asked: str | None = None
    """The model that the request names, and in `model` the one that the reply says it is of."""
    model: str | None = None
    status: int
    headers: dict[str, str] = {}
    streamed: bool = False
    chunks: list[str] = []
    whole: bool = True


class TrialReplies:
    """The replies of one trial in a folder of its own, one file each."""

    def __init__(self, folder: Path, trial: TrialId) -> None:
        self.trial = trial
        self._digest = trial.digest
        self._folder = folder / self._digest
        self._asked: Counter[str] = Counter()
        self._turn = Lock()  # a candidate may ask from several threads: guards the counts

    def turn(self, request: str) -> int:
        """How often this run of the trial has asked the same before."""
        with self._turn:
            self._asked[request] += 1
            return self._asked[request] - 1

    def of(self, request: str, nth: int) -> LiveReply | None:
        """The reply that the trial got when it asked this, where it has been run before. Raises FormatError for a file that is none."""
        path = self._path(request, nth)
        if not path.exists():
            return None
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=LiveReply)
        except msgspec.DecodeError as broken:
            raise FormatError.at(path, f"{broken}.") from None
        if (kept.format, kept.request, kept.trial, kept.nth) != (FORMAT, request, self._digest, nth):
            raise FormatError.at(path, "a reply of another format, request or trial.", hint="Remove the file.")
        return kept

    def keep(self, reply: LiveReply) -> None:
        """Write one reply, whole or not at all; it may hold what a model said about recorded data, so it is the user's alone."""
        made = msgspec.structs.replace(reply, candidate=self.trial.candidate, trial=self._digest)
        path = self._path(reply.request, reply.nth)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(made, order="deterministic"), indent=1) + b"\n")
        Path(name).replace(path)

    def _path(self, request: str, nth: int) -> Path:
        return self._folder / f"{request}-{nth}.json"
