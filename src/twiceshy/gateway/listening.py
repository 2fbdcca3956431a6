"""The HTTP server under both gateways: one thread a connection, the token of the run, and each answer in one write.

Unbuffered, Nagle's algorithm makes a call cost 50 ms.
"""

from __future__ import annotations

import hmac
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from twiceshy.gateway.answers import Answer, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_MOST_BYTES = 64 << 20
"""A request longer than this is refused: nothing that a model reads is."""


class Listener(ThreadingHTTPServer):
    """Listens on loopback for one run. `requests` counts what came; `over`, once set, is that the run has ended.

    on_end: called once the client has the answer that ended the run.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, token: str, *, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Conversation)
        self.token = token
        self.on_end: Callable[[], object] = _nothing
        self.requests = 0

    @property
    def origin(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return False

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to one request: 401 without the token of this run."""
        self.requests += 1
        if not self._known(headers):
            return refused(401, "unauthorized", "this is not the token of this run")
        return self.routed(method, path, headers, body)

    def routed(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The answer to one request that bears the token. Raises nothing."""
        raise NotImplementedError

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""

    def _known(self, headers: Mapping[str, str]) -> bool:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        return hmac.compare_digest(given.encode(), self.token.encode())


class _Conversation(BaseHTTPRequestHandler):
    """One connection."""

    server: Listener
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._speak("GET")

    def do_POST(self) -> None:
        self._speak("POST")

    def do_DELETE(self) -> None:
        self._speak("DELETE")

    def log_message(self, *_: object) -> None:
        """Nothing: a path may hold a payload."""

    def _speak(self, method: str) -> None:
        headers = {name.lower(): text for name, text in self.headers.items()}
        body = self._body(headers)
        if body is None:
            self.close_connection = True
            self._send(refused(413, "too_large", "a request of more than 64 MB"))
            return
        answer = self.server.answer(method, urlsplit(self.path).path.rstrip("/") or "/", headers, body)
        try:
            self._send(answer)
        finally:
            if self.server.over:
                self.server.on_end()

    def _body(self, headers: Mapping[str, str]) -> bytes | None:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks()
        length = headers.get("content-length", "0")
        return self.rfile.read(int(length)) if length.isdecimal() and int(length) <= _MOST_BYTES else None

    def _chunks(self) -> bytes | None:
        found: list[bytes] = []
        room = _MOST_BYTES
        while size := int(self.rfile.readline(64).partition(b";")[0].strip() or b"0", 16):
            room -= size
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
        if answer.events is not None:
            self._send_events(answer.events)
        else:
            content = b"" if answer.body is None else msgspec.json.encode(answer.body)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        self.wfile.flush()

    def _send_events(self, events: Iterable[bytes]) -> None:
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")


def _nothing() -> None:
    """Nobody listens."""
