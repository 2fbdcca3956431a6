"""How the parent asks a live model: one request of the candidate's as it came, with the key that stays on our side, again where the service cannot answer.

What the candidate's own request is refused for goes back to it. What the service could not do (a timeout, a limit, 5xx, a stream that breaks off), and what our
key is refused for, is no doing of the candidate's: UpstreamLost, after which nothing of the trial counts.
"""

from __future__ import annotations

import http.client
import re
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from twiceshy.errors import ConfigurationError, InfrastructureError
from twiceshy.gateway.upstream import OURS, event_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from twiceshy.configuration import UpstreamSettings
    from twiceshy.gateway.listening import Request

Face = Literal["openai", "anthropic"]
FACES: Mapping[str, Face] = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "openai",
    "/v1/embeddings": "openai",
    "/v1/messages": "anthropic",
}
"""Which upstream answers which path; no other path is a model's."""

_OK, _MANY = 200, 300
_KEYS = frozenset({401, 402, 403, 407})
"""Our key is refused, or has nothing left to spend."""
_LATER = frozenset({408, 409, 425, 429})
_CLIENT, _SERVER = 400, 500
_BACKOFF_S = 0.5
_LONGEST_S = 60.0
"""Seconds that a Retry-After may ask for; one that asks for more will not answer this trial."""
_TOLD = ("content-type", "request-id", "x-request-id", "retry-after", "x-should-retry")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EVENTS = "text/event-stream"
_LAST = frozenset({"message_stop", "response.completed", "response.incomplete"})


class UpstreamLost(InfrastructureError):
    """A live model that could not be asked. Names, numbers and types only: nothing that was said."""

    @classmethod
    def at(cls, host: str, why: str) -> UpstreamLost:
        """The host, and what became of the request."""
        return cls(f"the live model at {host} {why}")


class Stopped(Exception):
    """The trial is over: nobody waits for the answer."""


class Came(NamedTuple):
    """What is known of an answer before its body."""

    status: int
    headers: Mapping[str, str]

    @property
    def streamed(self) -> bool:
        """Whether it is a stream of events."""
        return _EVENTS in self.headers.get("content-type", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A service behind one face. Build it with `upstreams`."""

    face: Face
    secure: bool
    name: str
    port: int | None
    path: str
    key: str | None = field(default=None, repr=False)
    key_env: str | None = None
    timeout_s: float = 120.0
    retries: int = 2

    @property
    def host(self) -> str:
        """As outputs name it."""
        return self.name if self.port is None else f"{self.name}:{self.port}"

    def refuse_keyless(self) -> None:
        """Raise ConfigurationError where the variable that holds its key is not set."""
        if self.key_env is not None and not self.key:
            raise ConfigurationError(f"[upstream.{self.face}] key_env names ${self.key_env}, which is not set.")

    def refuse_shared(self, env: Mapping[str, str]) -> None:
        """Raise ConfigurationError where its key is in an environment: who holds it could ask past the door wherever it gets out."""
        shared = next((name for name, value in env.items() if self.key and value == self.key), None)
        if shared is not None:
            raise ConfigurationError(
                f"[upstream.{self.face}]: the candidate would see its key in ${shared}. Take the name out of allow_env."
            )

    def target(self, request: Request) -> str:
        """The path of a request there: a base URL of OpenAI's bears the `/v1`, one of Anthropic's does not."""
        path = request.path.removeprefix("/v1") if self.face == "openai" else request.path
        return f"{self.path}{path}" + (f"?{request.query}" if request.query else "")

    def headers(self, request: Request) -> dict[str, str]:
        """Those of the request, less those of one hop and the token of the run, and our key."""
        sent = {name: text for name, text in request.headers.items() if name not in OURS}
        if self.key:
            sent |= {"authorization": f"Bearer {self.key}"} if self.face == "openai" else {"x-api-key": self.key}
        return sent


def upstreams(settings: Mapping[Any, UpstreamSettings], env: Mapping[str, str]) -> dict[Face, Upstream]:
    """The services of the settings, each with its key from the environment. Raises ConfigurationError for an address or a name that is none."""
    return {face: _upstream(face, stated, env) for face, stated in settings.items()}


def _upstream(face: Face, stated: UpstreamSettings, env: Mapping[str, str]) -> Upstream:
    where = f"[upstream.{face}]"
    try:
        parts = urlsplit(stated.base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ConfigurationError(f"{where} base_url is no address. Write http://host:port/path, without a key in it.")
    if stated.key_env is not None and _NAME.fullmatch(stated.key_env) is None:  # not quoted: it may be the key itself
        raise ConfigurationError(f"{where} key_env is the NAME of the variable that holds the key, never the key.")
    key = env.get(stated.key_env) if stated.key_env else None
    return Upstream(
        face=face, secure=parts.scheme == "https", name=parts.hostname, port=port, path=parts.path.rstrip("/"), key=key,
        key_env=stated.key_env, timeout_s=stated.timeout, retries=stated.retries,
    )  # fmt: skip


class Asking:
    """One request on its way; `stop` ends it from another thread."""

    def __init__(self, upstream: Upstream, request: Request) -> None:
        self._upstream = upstream
        self._request = request
        self._stopped = Event()
        self._connection: http.client.HTTPConnection | None = None
        self._response: http.client.HTTPResponse | None = None

    def answer(self) -> Generator[Came | bytes, None, None]:
        """First what is known of the answer, then its body: the lines of each event, or all of it. Raises UpstreamLost, and Stopped."""
        try:
            response, came = self._opened()
            yield came
            yield from _events(response) if came.streamed else [response.read()]
            self._refuse_stopped()  # hung up by us, a stream just ends
        except (OSError, http.client.HTTPException) as broken:
            self._refuse_stopped()
            raise UpstreamLost.at(self._upstream.host, f"broke off its answer ({type(broken).__name__})") from None
        finally:
            self._hang_up()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):  # wakes the thread that reads from it; closing alone would not
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _opened(self) -> tuple[http.client.HTTPResponse, Came]:
        """The open answer: of the service, or to the candidate's own request."""
        tried = 0
        while True:
            try:
                response, came = self._sent()
            except (OSError, http.client.HTTPException) as broken:
                why, wait = f"gave no answer ({type(broken).__name__})", None
            else:
                if _OK <= came.status < _MANY or _theirs(came.status):
                    return response, came
                why, wait = f"answered {came.status}", _wanted(came)
                if came.status in _KEYS:
                    raise UpstreamLost.at(self._upstream.host, f"refuses our key ({came.status})")
            self._hang_up()
            self._refuse_stopped()
            tried += 1
            if tried > self._upstream.retries or (wait or 0) > _LONGEST_S:
                raise UpstreamLost.at(self._upstream.host, f"{why}, {tried} times")
            self._stopped.wait(_BACKOFF_S * 2 ** (tried - 1) if wait is None else wait)
            self._refuse_stopped()

    def _sent(self) -> tuple[http.client.HTTPResponse, Came]:
        upstream = self._upstream
        kind = http.client.HTTPSConnection if upstream.secure else http.client.HTTPConnection
        self._connection = connection = kind(upstream.name, upstream.port, timeout=upstream.timeout_s)
        connection.request("POST", upstream.target(self._request), self._request.body, upstream.headers(self._request))
        self._response = response = connection.getresponse()
        told = {name.lower(): text for name, text in response.headers.items() if name.lower() in _TOLD}
        return response, Came(response.status, told)

    def _hang_up(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()

    def _refuse_stopped(self) -> None:
        if self._stopped.is_set():
            raise Stopped


def ends(face: Face, block: bytes) -> bool:
    """Whether an event of a stream is one with which an answer is over. Raises ValueError, in words that go after `answered`, where it tells that the service failed."""
    try:
        event = event_of(block)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ValueError("an event that is no JSON") from None
    if event is None:
        return b"[DONE]" in block
    if event.get("type") in ("error", "response.failed") or isinstance(event.get("error"), dict):
        raise ValueError("an error in the middle of its answer")
    if event.get("type") in _LAST:
        return True
    return face == "openai" and any(choice.get("finish_reason") for choice in event.get("choices") or ())


def model_of(value: Any) -> str | None:
    """The model that an answer, or an event of one, says it is of."""
    held = value if isinstance(value, dict) else {}
    for told in (held, held.get("response"), held.get("message")):
        if isinstance(told, dict) and isinstance(told.get("model"), str):
            return str(told["model"])
    return None


def _events(response: http.client.HTTPResponse) -> Iterator[bytes]:
    block: list[bytes] = []
    while line := response.readline():
        block.append(line)
        if not line.strip():
            yield b"".join(block)
            block.clear()
    if block:
        yield b"".join(block)


def _theirs(status: int) -> bool:
    """Whether an error speaks of the candidate's own request."""
    return _CLIENT <= status < _SERVER and status not in _KEYS and status not in _LATER


def _wanted(came: Came) -> float | None:
    """Seconds after which the service wants to be asked again; None where it does not say, or names a date."""
    try:
        return max(0.0, float(came.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
