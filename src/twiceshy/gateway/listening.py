"""The HTTP server under both gateways: one thread a connection, the token of the run, and each answer in one write.

No request is forgotten: one that is no HTTP, lacks the token, or was cut off is told to `unread`. Unbuffered, Nagle's algorithm makes a call cost 50 ms.
"""

from __future__ import annotations

import hmac
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from twiceshy.gateway.answers import Answer, refused
from twiceshy.gateway.peers import Peer, Sending

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping

    from twiceshy.gateway.answers import Flow
    from twiceshy.gateway.peers import Reaching

_MOST_BYTES = 64 << 20
"""A request longer than this is refused: nothing that a model reads is."""


_CUT = "the request was cut off"
_NO_REQUEST = {501: "no face is asked by this method", 414: "its address is too long", 431: "its head is too long"}


class Request(NamedTuple):
    """One request that came whole. path: without a slash at its end; headers: by lower-case names; query: as it was written, without the `?`."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    query: str = ""


class Unread(NamedTuple):
    """A request that cannot be routed, and why, in words that quote nothing of it. method, path: empty where not even these came."""

    status: int
    kind: str
    why: str
    method: str = ""
    path: str = ""

    @property
    def refusal(self) -> Answer:
        """What its sender is told."""
        return refused(self.status, self.kind, self.why)


class Listener(ThreadingHTTPServer):
    """Listens on loopback for one run, at a port or on a socket that listens already. `requests` counts what came whole; `over`, once set, is that the run has ended.

    on_end: called once the client has the answer that ended the run.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, token: str, *, port: int = 0, listening: socket.socket | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Conversation, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = listening
            self.server_address = listening.getsockname()
            self.server_port = self.server_address[1]
        self.token = token
        self.on_end: Callable[[], object] = _nothing
        self.requests = 0
        self._counting = Lock()  # one thread a connection: guards the count
        self._flowing: dict[Sending, None] = {}

    @property
    def origin(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return False

    def answer(self, request: Request) -> Answer:
        """The answer to one request: 401 without the token of this run."""
        with self._counting:
            self.requests += 1
        for flowing in tuple(self._flowing):
            flowing.look()
        if not self._known(request.headers):
            why = "the token of this run is missing, or is another one: send Authorization: Bearer $TWICESHY_TOKEN"
            return self.unread(Unread(401, "unauthorized", why, request.method, request.path))
        return self.routed(request)

    @contextmanager
    def flowing(self, held: Sending) -> Iterator[None]:
        """Let other requests see, for the `with` block, whether the client of a stream is still there. One to which nothing can be sent has hung up."""
        self._flowing[held] = None
        try:
            yield
        except OSError:
            held.gone()
        finally:
            del self._flowing[held]

    def peer(self, client: tuple[str, int]) -> Reaching:
        """How it is seen what a client has read."""
        return Peer(client, self.server_address)  # type: ignore[arg-type]  # IPv4

    def routed(self, request: Request) -> Answer:
        """The answer to one request that bears the token. Raises nothing."""
        raise NotImplementedError

    def unread(self, request: Unread) -> Answer:
        """The answer to one that cannot be routed. Raises nothing."""
        raise NotImplementedError

    def broken(self, problem: BaseException) -> None:
        """Hear that a request was lost by our own fault. Raises nothing."""
        raise NotImplementedError

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the shape of socketserver
        """A client that went away is no news: what it asked for in full was answered. Anything else lost a request."""
        problem = sys.exc_info()[1]
        if problem is not None and not isinstance(problem, OSError):
            self.broken(problem)

    def _known(self, headers: Mapping[str, str]) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(given.encode(), self.token.encode())


class _CutOff(Exception):
    """The client sent less than it had announced."""


class _Reading:
    """What comes in, with what a cut in it looks like: less than was asked for."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.cut = False

    def readline(self, most: int = -1) -> bytes:
        line: bytes = self._caught(self._file.readline, most)
        self.cut = self.cut or (not line.endswith(b"\n") and len(line) != most)
        return line

    def read(self, size: int) -> bytes:
        content: bytes = self._caught(self._file.read, size)
        self.cut = self.cut or len(content) < size
        return content

    def close(self) -> None:
        self._file.close()

    def _caught(self, read: Callable[[int], bytes], size: int) -> bytes:
        try:
            return read(size)
        except OSError:  # reset in the middle: as good as an end
            return b""


class _Conversation(BaseHTTPRequestHandler):
    """One connection."""

    server: Listener
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _Reading(self.rfile)

    def parse_request(self) -> bool:
        """Read the head of one request. One that is none is told, by `send_error` or here."""
        self._told = False
        parsed = super().parse_request() and not self.rfile.cut
        if not parsed and not self._told:
            self.send_error(400)
        return parsed

    def do_GET(self) -> None:
        self._speak()

    def do_POST(self) -> None:
        self._speak()

    def do_DELETE(self) -> None:
        self._speak()

    def log_message(self, *_: object) -> None:
        """Nothing: a path may hold a payload."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002 - the shape of http.server
        """What no HTTP request is, and one by a method that no face has."""
        self._told = True
        self._refuse(code, _CUT if self.rfile.cut else _NO_REQUEST.get(code, "it is no HTTP request"))

    def _speak(self) -> None:
        try:
            body = self._body()
            address = urlsplit(self.path)
        except (_CutOff, ValueError) as wrong:
            cut = isinstance(wrong, _CutOff) or self.rfile.cut
            self._refuse(400, _CUT if cut else "its address, its length or its chunks are not told as HTTP has it")
            return
        if body is None:
            self._refuse(413, "a request of more than 64 MB")
            return
        headers = {name.lower(): text for name, text in self.headers.items()}
        path = address.path.rstrip("/") or "/"
        self._give(self.server.answer(Request(self.command, path, headers, body, address.query)))

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True
        method = getattr(self, "command", None) or ""
        path = self.path.partition("?")[0] if method else ""
        self._give(self.server.unread(Unread(status, "invalid_request_error", why, method, path)))

    def _give(self, answer: Answer) -> None:
        try:
            self._send(answer)
        finally:
            if self.server.over:
                self.server.on_end()

    def _body(self) -> bytes | None:
        """The body, None for one that is too long. Raises ValueError for one that HTTP does not know, _CutOff for less than was announced."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = self._chunks()
        else:
            length = int(self.headers.get("content-length", "0"))
            if length < 0:
                raise ValueError
            body = self.rfile.read(length) if length <= _MOST_BYTES else None
        if self.rfile.cut:
            raise _CutOff
        return body

    def _chunks(self) -> bytes | None:
        found: list[bytes] = []
        room = _MOST_BYTES
        while size := int(self.rfile.readline(64).partition(b";")[0].strip(), 16):
            room -= size
            if size < 0:
                raise ValueError
            if room < 0:
                return None
            found.append(self.rfile.read(size))
            self.rfile.readline(8)
        while self.rfile.readline(8192).strip():
            pass  # trailers
        return b"".join(found)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        if answer.flow is not None:
            self._send_flow(answer.flow)
        else:
            content = b"" if answer.body is None else msgspec.json.encode(answer.body)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        self.wfile.flush()

    def _send_flow(self, flow: Flow) -> None:
        """Step by step, each once the one before has been read."""
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        held = Sending(flow, self.server.peer(self.client_address))
        with self.server.flowing(held):
            self.wfile.flush()
            held.settle(waits=False)  # the head by itself, or who reads it has read the first chunk
            while held.goes_on() and (told := held.offer()) is not None:
                if told:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(told), told))
                    self.wfile.flush()
                held.settle(waits=not told)
        if held.left or flow.broken:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")


def _nothing() -> None:
    """Nobody listens."""
