"""Services for a recording gateway to stand in front of, and what its traces are read back as."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from builders import a_policy
from twiceshy.envelope import Envelope
from twiceshy.gateway import mcp
from twiceshy.policy import ToolsPolicy

POLICY = a_policy("weather", get_weather="read")


def weather(_: str, asked: Any) -> dict[str, Any]:
    if asked["city"] == "Rome":
        raise LookupError("no such city")
    return {"city": asked["city"], "celsius": 7}


class Weather(BaseHTTPRequestHandler):
    """A tool server, plain and MCP, that asks for no token."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        shown = (
            mcp.answered(asked, (), weather, note=str, version="1")
            if self.path == "/mcp"
            else weather("get_weather", asked)
        )
        content = json.dumps(shown).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def a_tool_server(answers: type[BaseHTTPRequestHandler] = Weather) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def read_back(content: bytes, policy: ToolsPolicy = POLICY) -> Envelope:
    from tasks.contracts import validated
    from tasks.envelopes import envelopes
    from tasks.normalize.step import normalize, unredacted
    from tasks.sources import otlp
    from tasks.sources.schema import SpanRecords
    from traces import HARNESS, a_raw

    mapped = otlp.spans(a_raw(content), harness_state=HARNESS)
    validated(mapped.spans, SpanRecords)
    read = normalize(
        unredacted(mapped.spans),
        mapped.scores,
        policies={"weather": policy},
        harness_state=HARNESS,
    )
    (envelope,) = envelopes(read.traces, read.crossings)
    return envelope
