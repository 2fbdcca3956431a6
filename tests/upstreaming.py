"""A service that behaves like those of OpenAI and Anthropic, for tests of live models: what it was asked, and what it was told to do about it."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-the-real-key"
MODEL = "gpt-x-2026-11-20"

Trouble = tuple[int, dict[str, str], dict[str, Any]]


@dataclass(kw_only=True)
class Service:
    """What the service does. troubles: answered first, one a request; says: the text of its n-th answer; cut: a stream breaks off after so many events."""

    says: Callable[[int], str] = lambda n: f"answer {n}"
    troubles: list[Trouble] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    cut: int | None = None
    slow_s: float = 0.0
    gap_s: float = 0.0
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    origin: str = ""
    answered: int = 0

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.asked]

    def parts(self, body: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """Its text, and the calls that it proposes where none was answered yet."""
        self.answered += 1
        spoken = json.dumps(body.get("messages") or body.get("input"))
        told = "tool_call_id" in spoken or "tool_result" in spoken or "function_call_output" in spoken
        return self.says(self.answered), [] if told else self.calls


def chat(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    made = [
        {"id": f"call_{at}", "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}
        for at, call in enumerate(calls)
    ]  # fmt: skip
    message = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if made else "stop"}
    return {
        "id": "chatcmpl-theirs", "object": "chat.completion", "created": 7, "model": MODEL, "system_fingerprint": "fp_1", "choices": [choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }  # fmt: skip


def chat_events(text: str, calls: list[dict[str, Any]]) -> Iterator[bytes]:
    head = {"id": "chatcmpl-theirs", "object": "chat.completion.chunk", "created": 7, "model": MODEL}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in text.split(" ")]
    deltas += [
        {"tool_calls": [{"index": at, "id": f"call_{at}", "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["args"])}}]}
        for at, call in enumerate(calls)
    ]  # fmt: skip
    for delta in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    finish = "tool_calls" if calls else "stop"
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    yield b"data: [DONE]\n\n"


def message(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    uses = [{"type": "tool_use", "id": f"toolu_{at}", "name": call["name"], "input": call["args"]} for at, call in enumerate(calls)]  # fmt: skip
    return {
        "id": "msg_theirs", "type": "message", "role": "assistant", "model": MODEL, "content": [{"type": "text", "text": text}, *uses],
        "stop_reason": "tool_use" if uses else "end_turn", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 4},
    }  # fmt: skip


def message_events(text: str, calls: list[dict[str, Any]]) -> Iterator[bytes]:
    assert not calls
    whole = message("", [])
    yield _event({"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}, "message_start")
    started = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield _event(started, "content_block_start")
    for word in text.split(" "):
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        yield _event(delta, "content_block_delta")
    yield _event({"type": "content_block_stop", "index": 0}, "content_block_stop")
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 4}}  # fmt: skip
    yield _event(ended, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


def response(text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    assert not calls
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}  # fmt: skip
    return {
        "id": "resp_theirs", "object": "response", "created_at": 7, "model": MODEL, "status": "completed", "output": [said], "tools": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    }  # fmt: skip


def embedding(_: str, __: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "model": MODEL, "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]}


WHOLE = {"/chat/completions": chat, "/responses": response, "/v1/messages": message, "/embeddings": embedding}
EVENTS = {"/chat/completions": chat_events, "/v1/messages": message_events}


def _event(told: dict[str, Any], name: str | None = None) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(told).encode() + b"\n\n"


class Answering(BaseHTTPRequestHandler):
    server: "Serving"
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        service = self.server.service
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): text for name, text in self.headers.items()}
        service.asked.append((self.path, headers, body))
        time.sleep(service.slow_s)
        if service.troubles:
            status, more, told = service.troubles.pop(0)
            self._whole(status, told, more)
        elif body.get("stream"):
            self._stream(EVENTS[self.path](*service.parts(body)))
        else:
            self._whole(200, WHOLE[self.path](*service.parts(body)), {"x-request-id": "req_1"})

    def _whole(self, status: int, told: dict[str, Any], more: dict[str, str]) -> None:
        content = json.dumps(told).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", "content-length": str(len(content)), **more}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, events: Iterator[bytes]) -> None:
        service = self.server.service
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for at, event in enumerate(events):
            if at == service.cut:
                self.close_connection = True
                return
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
            time.sleep(service.gap_s)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Serving(ThreadingHTTPServer):
    daemon_threads = True
    service: Service

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


@contextmanager
def a_service(**given: Any) -> Iterator[Service]:
    """The service on a free port."""
    server = Serving(("127.0.0.1", 0), Answering)
    server.service = service = Service(**given)
    service.origin = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
