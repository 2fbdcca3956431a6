"""vcrpy on the same crossings as HTTP requests of httpx, matched on method, address and body; its time holds the client's own. Prints one JSON object."""

import importlib
import json
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.replay_peers.crossings import calls, lookup, timed, us

_httpx: Any = importlib.import_module("httpx")
_vcr: Any = importlib.import_module("vcr")
_MOST = 300
"""It scans its recordings for each request: beyond this a run takes minutes."""


class Lookup(BaseHTTPRequestHandler):
    """The tool behind HTTP."""

    def do_POST(self) -> None:
        """Answer one look-up."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = json.dumps(lookup(**asked)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _loaded(tape: Any, path: str) -> None:
    """Read the recordings, as every use of them begins."""
    with tape.use_cassette(path, record_mode="none"):
        pass


def main(sizes: list[int]) -> None:
    """Record against a local server, replay without it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lookup)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/find"
    told: dict[str, float] = {}
    for many in (size for size in sizes if size <= _MOST):
        with tempfile.TemporaryDirectory() as folder, _httpx.Client() as client:
            tape = _vcr.VCR(match_on=["method", "uri", "body"], record_mode="once")
            path = str(Path(folder) / "tape.yaml")

            def find(**asked: Any) -> Any:
                return client.post(url, json=asked).json()

            bare = timed(calls, find, many)
            with tape.use_cassette(path):
                record = timed(calls, find, many) - bare
            load = timed(_loaded, tape, path)
            with tape.use_cassette(path, record_mode="none"):
                replay = timed(calls, find, many)
        told |= {
            f"record_us_{many}": us([record], many),
            f"load_us_{many}": us([load], many),
            f"replay_us_{many}": us([replay], many),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
