"""The door of a live model: it listens inside the candidate's namespaces, where nothing else of the world can be reached, and the parent answers there (semantics.md §6.3).

The sealed process makes the listening socket and hands it out; the parent takes connections from it, asks the upstream, keeps each reply for its trial and passes it
on as it comes. A trial that has been run before gets the replies that it got then. Where the upstream fails, the parent ends the trial: its candidate never sees it.
"""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from twiceshy.answerers import Asked
from twiceshy.errors import TwiceshyError
from twiceshy.gateway.answers import Answer, refused
from twiceshy.gateway.asking import FACES, Asking, Came, Stopped, UpstreamLost, ends, model_of
from twiceshy.gateway.listening import Listener
from twiceshy.gateway.peers import Reach
from twiceshy.gateway.upstream import event_of
from twiceshy.identity import digest
from twiceshy.outcome import Divergence
from twiceshy.replies import LiveReply
from twiceshy.transcript import Diverged

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from twiceshy.gateway.asking import Face, Upstream
    from twiceshy.gateway.listening import Request, Unread
    from twiceshy.replies import TrialReplies

_LEFT_S = 5.0
"""Real seconds in which a candidate may leave a reply that it had left before; one that waits longer wants more of it than there is."""
_JOIN_S = 10.0
_CLOSED = {"Connection": "close"}
"""Each request needs a connection of its own, so that a seal that watches connections sees each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveModels:
    """Where live models are asked, and the folder of what they replied."""

    upstreams: Mapping[Face, Upstream]
    replies: Path

    def refuse_keyless(self) -> None:
        """Raise ConfigurationError where a key is not at hand. Only who will ask needs one, so it is no error to be without before."""
        for upstream in self.upstreams.values():
            upstream.refuse_keyless()

    def refuse_shared(self, env: Mapping[str, str]) -> None:
        """Raise ConfigurationError where a key stands in the environment of a candidate, under whatever name."""
        for upstream in self.upstreams.values():
            upstream.refuse_shared(env)

    @property
    def patience_s(self) -> float:
        """How long a reply may be on its way."""
        return max(upstream.timeout_s * (upstream.retries + 1) for upstream in self.upstreams.values())


@dataclass(slots=True, kw_only=True)
class LiveTrial:
    """One trial before its live models. end: takes down the session. only: its own earlier replies are all it gets."""

    upstreams: Mapping[Face, Upstream]
    replies: TrialReplies
    end: Callable[[], object]
    only: bool = False
    ended: Diverged | str | None = None
    asked: list[Asked] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    _asking: set[Asking] = field(default_factory=set)
    _turn: threading.Lock = field(default_factory=threading.Lock)  # one thread a connection: guards the two above

    def answer(self, request: Request) -> Answer:
        """The answer to one request of the candidate's. Where there is none, the trial ends."""
        face = FACES.get(request.path)
        if face is None or request.method != "POST":
            return self.uncontrolled("a request that is not for a model")
        if face not in self.upstreams:
            return self.fault(f"a live model was asked at {request.path}, and no [upstream.{face}] is configured")
        try:
            return self._answered(self.upstreams[face], request)
        except Stopped:
            return _nobody()
        except TwiceshyError as lost:
            return self.fault(str(lost))

    def fault(self, problem: str) -> Answer:
        """End the trial by no doing of the candidate's. problem: names and numbers only."""
        return self._end(problem)

    def uncontrolled(self, why: str) -> Answer:
        """End the trial at a request that passed no boundary."""
        return self._end(
            Diverged(kind=Divergence.LIVE_UNCONTROLLED, place="end", boundary="run", detail=f"{why} reached the door of the live models")
        )  # fmt: skip

    def stop(self) -> None:
        """The trial is over: nothing more is asked for it."""
        self.over.set()
        with self._turn:
            for asking in tuple(self._asking):
                asking.stop()

    def _end(self, ended: Diverged | str) -> Answer:
        with self._turn:
            over = self.ended is not None or self.over.is_set()
            self.ended = self.ended if over else ended
        if not over:
            self.end()
        return _nobody()

    def _answered(self, upstream: Upstream, request: Request) -> Answer:
        asked_for = digest([request.path, request.query, _value(request.body)])
        nth = self.replies.turn(asked_for)
        kept = self.replies.of(asked_for, nth)
        if kept is not None:
            return self._again(kept)
        if self.only:
            return self.fault("the trial, run again, asks its model what it had not asked")
        blank = LiveReply(
            request=asked_for, candidate="", trial="", nth=nth, host=upstream.host, asked=model_of(_value(request.body)), status=0
        )  # fmt: skip
        asking = Asking(upstream, request)
        with self._turn:
            self._asking.add(asking)
        return _Coming(self, asking, upstream.face, blank).start()

    def _again(self, kept: LiveReply) -> Answer:
        self.note(kept, again=True)
        if not kept.status:  # the trial had ended before anything came
            return (
                _nobody()
                if self.over.wait(_LEFT_S)
                else self.fault("the trial, run again, waits for a reply that it had not waited for")
            )
        if kept.streamed or not kept.whole:
            return Answer(kept.status, flow=_Again(self, kept), headers={**kept.headers, **_CLOSED})
        return _plain(kept)

    def note(self, reply: LiveReply, *, again: bool = False) -> None:
        """Know who answered."""
        with self._turn:
            self.asked.append(Asked(reply.host, reply.asked, reply.model, again))

    def done(self, asking: Asking, reply: LiveReply) -> None:
        """Keep what came of a request."""
        with self._turn:
            if asking not in self._asking:
                return
            self._asking.remove(asking)
        self.replies.keep(reply)
        self.note(reply)

    def forget(self, asking: Asking) -> None:
        """A request that was not answered is not kept: a trial that runs again asks anew."""
        with self._turn:
            self._asking.discard(asking)


class _Coming:
    """A reply on its way from the upstream to the candidate, kept once it is over."""

    broken = False

    def __init__(self, trial: LiveTrial, asking: Asking, face: Face, blank: LiveReply) -> None:
        self._trial = trial
        self._asking = asking
        self._face = face
        self._reply = blank
        self._chunks: list[bytes] = []
        self._coming = asking.answer()
        self._whole = False

    def start(self) -> Answer:
        """Wait until it is known what comes; for all of what is no stream."""
        try:
            came = next(self._coming)
        except BaseException as lost:
            self._lose(lost)
            raise
        if not isinstance(came, Came):
            raise UpstreamLost.at(self._reply.host, "gave no answer")
        headers = {name: text for name, text in came.headers.items() if name != "content-type"}
        self._reply = msgspec.structs.replace(self._reply, status=came.status, headers=headers, streamed=came.streamed)
        if came.streamed:
            return Answer(came.status, flow=self, headers={**headers, **_CLOSED})
        while self._next() is not None:
            pass
        return _plain(self._reply)

    def offer(self) -> bytes | None:
        """The next event; None at the end, and where the trial ended meanwhile."""
        try:
            return self._next()
        except Stopped:
            self.broken = True
        except UpstreamLost as lost:
            self.broken = True
            self._trial.fault(str(lost))
        return None

    def confirm(self) -> None:
        """What was sent counts as read: this side of the namespace cannot see further."""

    def leave(self) -> None:
        """The candidate has enough of it, and nothing more is asked for."""
        self._keep(whole=self._whole)
        self._asking.stop()
        self._coming.close()

    def exhaust(self) -> None:
        """A service ends its own streams."""

    def _next(self) -> bytes | None:
        try:
            came = self._came()
        except BaseException as lost:
            self._lose(lost)
            raise
        if came is None:
            self._keep(whole=True)
        return came

    def _came(self) -> bytes | None:
        came = next(self._coming, None)
        if isinstance(came, bytes):
            self._hear(came)
            return came
        if self._reply.streamed and not self._whole:
            raise UpstreamLost.at(self._reply.host, "broke off its answer")
        return None

    def _hear(self, came: bytes) -> None:
        self._chunks.append(came)
        try:
            came.decode()
            self._whole = self._whole or (self._reply.streamed and ends(self._face, came))
        except ValueError as wrong:
            why = "answered what is no text" if isinstance(wrong, UnicodeDecodeError) else f"answered {wrong}"
            raise UpstreamLost.at(self._reply.host, why) from None

    def _lose(self, lost: BaseException) -> None:
        """What the trial had of a reply when it ended is its own; what the service never gave is not kept."""
        if isinstance(lost, Stopped):
            self._keep(whole=False)
        else:
            self._trial.forget(self._asking)

    def _keep(self, *, whole: bool) -> None:
        chunks = [chunk.decode() for chunk in self._chunks]
        self._reply = msgspec.structs.replace(self._reply, chunks=chunks, whole=whole, model=_said(self._chunks))
        self._trial.done(self._asking, self._reply)


class _Again:
    """A reply that the trial got before, in the pieces in which it came."""

    broken = False

    def __init__(self, trial: LiveTrial, kept: LiveReply) -> None:
        self._trial = trial
        self._kept = kept
        self._chunks = iter(kept.chunks)

    def offer(self) -> bytes | None:
        """The next piece. Where it was left, the candidate may leave it again."""
        chunk = next(self._chunks, None)
        if chunk is not None:
            return chunk.encode()
        if not self._kept.whole and not self._trial.over.wait(_LEFT_S):
            self._trial.fault("the trial, run again, wants more of a reply than it had taken")
        self.broken = not self._kept.whole
        return None

    def confirm(self) -> None:
        """Nothing waits for it."""

    def leave(self) -> None:
        """It is kept as it was."""

    def exhaust(self) -> None:
        """It ends by itself."""


class _Unseen(NamedTuple):
    """A client in another network namespace: whether it has read is not known, and that it hung up shows where nothing can be sent to it."""

    def reach(self) -> Reach:
        return Reach(left=False, read=True)


class Door(Listener):
    """Answers the live models' requests of one session, a trial at a time; between trials nobody is answered."""

    def __init__(self, listening: socket.socket, token: str) -> None:
        super().__init__(token, listening=listening)
        self._trial: LiveTrial | None = None
        self._serving: threading.Thread | None = None
        self._open = 0
        self._idle = threading.Condition()  # one thread a connection: guards how many are open

    def begin(self, trial: LiveTrial) -> None:
        """Answer for this trial from now on, and nothing that was sent before it."""
        self._refuse_waiting()
        self._trial = trial
        self._serving = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._serving.start()

    def settle(self) -> None:
        """The trial is over, and what it had sent and nobody had taken yet is refused: none of it is the next trial's."""
        trial, self._trial = self._trial, None
        if self._serving is None:
            return
        if trial is not None:
            trial.stop()
        self.shutdown()
        self._refuse_waiting()
        self._serving = None

    def _refuse_waiting(self) -> None:
        """Refuse what was sent and nobody has taken: no trial runs now."""
        while select.select([self], [], [], 0)[0]:
            self.handle_request()
        with self._idle:
            self._idle.wait_for(lambda: not self._open, timeout=_JOIN_S)

    def close(self) -> None:
        """Listen no more."""
        self.settle()
        self.server_close()

    def routed(self, request: Request) -> Answer:
        """The answer of the upstream, or of an earlier run of the trial."""
        trial = self._trial
        return _nobody() if trial is None else trial.answer(request)

    def unread(self, request: Unread) -> Answer:
        """What does not know the token came past the gateway."""
        if self._trial is not None:
            self._trial.uncontrolled(f"a request that cannot be answered ({request.kind})")
        return request.refusal

    def broken(self, problem: BaseException) -> None:
        """A request was lost by our own fault."""
        if self._trial is not None:
            self._trial.fault(f"the door of the live models failed: {type(problem).__name__}")

    def peer(self, client: tuple[str, int]) -> _Unseen:  # noqa: ARG002 - the shape of Listener
        """Nothing is known of it here."""
        return _Unseen()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection, in a thread of its own."""
        with self._idle:
            self._open += 1
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """That thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._idle:
                self._open -= 1
                self._idle.notify_all()


def _nobody() -> Answer:
    return refused(503, "fault", "the trial is over")


def _plain(reply: LiveReply) -> Answer:
    body = "".join(reply.chunks).encode()
    return Answer(reply.status, msgspec.Raw(body) if body else None, headers={**reply.headers, **_CLOSED})


def _value(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body


def _said(chunks: list[bytes]) -> str | None:
    """The model that a reply says it is of: the first word of it."""
    for chunk in chunks:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            told = event_of(chunk) if chunk.lstrip().startswith((b"data:", b"event:", b":")) else _value(chunk)
            if (found := model_of(told)) is not None:
                return found
    return None
