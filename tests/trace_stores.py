"""Trace stores on the loopback that answer as the real ones do: pages, cursors, cut metadata, refusals; each request is noted."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Query = dict[str, str]
_OF_GROUP = {
    "input": "io",
    "output": "io",
    "metadata": "metadata",
    "usageDetails": "usage",
    "promptName": "prompt",
    "promptVersion": "prompt",
    "tags": "trace_context",
}


@dataclass
class AStore:
    """What a store holds and how it fails. faults: the statuses, with their headers, of the next requests; hook: called before each answer."""

    rows: Sequence[dict[str, Any]] = ()
    scores: Sequence[dict[str, Any]] = ()
    page: int = 2
    faults: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    asked: list[tuple[str, Query]] = field(default_factory=list)
    expired: set[str] = field(default_factory=set)
    hook: Callable[[int], object] = lambda number: None
    url: str = ""

    def answer(self, path: str, query: Query, headers: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, body and headers of one request."""
        self.asked.append((path, query))
        self.hook(len(self.asked))
        if self.faults:
            status, more = self.faults.pop(0)
            return status, {"message": "secret payload"}, more
        if query.get("cursor") in self.expired:
            self.expired.clear()
            return 400, {"message": "Invalid cursor"}, {}
        return self.listed(path, query, headers)

    def listed(self, path: str, query: Query, headers: Any) -> tuple[int, Any, dict[str, str]]:
        """The page itself."""
        raise NotImplementedError

    def paged(self, rows: Sequence[Any], cursor: str | None) -> tuple[list[Any], str | None]:
        """The rows after a cursor, and the next one."""
        begin = int(base64.b64decode(cursor)) if cursor else 0
        end = begin + self.page
        return list(rows[begin:end]), base64.b64encode(str(end).encode()).decode() if end < len(rows) else None


class ALangfuse(AStore):
    """Observations v2 and scores v3."""

    def listed(self, path: str, query: Query, headers: Any) -> tuple[int, Any, dict[str, str]]:
        if headers.get("authorization") != "Basic " + base64.b64encode(b"pk-1:sk-1").decode():
            return 401, {"message": "secret payload"}, {}
        if path == "/api/public/v2/observations":
            fields = set(query.get("fields", "core,basic").split(","))
            whole = set(query.get("expandMetadata", "").split(","))
            inside = [
                row
                for row in self.rows
                if query.get("fromStartTime", "") <= row["startTime"] < query.get("toStartTime", "9")
            ]
            found, cursor = self.paged([_shown(row, fields, whole) for row in inside], query.get("cursor"))
        elif path == "/api/public/v3/scores":
            found, cursor = self.paged(
                [row for row in self.scores if row["timestamp"] >= query.get("fromTimestamp", "")], query.get("cursor")
            )
        else:
            return 404, {}, {}
        return 200, {"data": found, "meta": {"cursor": cursor} if cursor else {}}, {}


class ALangsmith(AStore):
    """Projects, runs and feedback."""

    def listed(self, path: str, query: Query, headers: Any) -> tuple[int, Any, dict[str, str]]:
        if headers.get("x-api-key") != "ls-1":
            return 403, {}, {}
        if path == "/sessions":
            wanted = [name for name in ("default", "other") if query.get("name") in (None, name)]
            return 200, [{"id": f"p-{name}", "name": name} for name in wanted if query.get("offset") == "0"], {}
        if path == "/runs/query":
            inside = [run for run in self.rows if run["start_time"] >= query.get("start_time", "")]
            found, cursor = self.paged(inside, query.get("cursor"))
            return 200, {"runs": found, "cursors": {"next": cursor}}, {}
        if path == "/feedback":
            ids = query["run"].split(",")
            return 200, [row for row in self.scores if row["run_id"] in ids], {}
        return 404, {}, {}


@contextmanager
def serving(store: AStore) -> Iterator[AStore]:
    """The store at its `url` while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._answer(parts.path, {name: ",".join(held) for name, held in parse_qs(parts.query).items()})

        def do_POST(self) -> None:
            self._answer(self.path, json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _answer(self, path: str, query: Query) -> None:
            status, body, headers = store.answer(path, query, self.headers)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response_only(status)
            for name, value in ({"content-length": str(len(content))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            """Nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _shown(row: dict[str, Any], fields: set[str], whole: set[str]) -> dict[str, Any]:
    shown = {name: value for name, value in row.items() if name not in _OF_GROUP or _OF_GROUP[name] in fields}
    if isinstance(shown.get("metadata"), dict):
        shown["metadata"] = {name: value if name in whole else value[:200] for name, value in shown["metadata"].items()}
    return shown
