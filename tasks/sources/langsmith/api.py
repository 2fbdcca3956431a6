"""Runs and feedback from LangSmith's API: every project of the key, or the one that is named, a hundred runs a page."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tasks.sources.paging import MARGIN_NS, Answer, paged, rows_of
from tasks.sources.web import Web, decoded
from twiceshy.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.source import Api, Raw, Window

KEY, HOST, PROJECT = "LANGSMITH_API_KEY", "LANGSMITH_ENDPOINT", "LANGSMITH_PROJECT"
_PAGE = 100
_SELECT = (
    "id", "trace_id", "parent_run_id", "dotted_order", "name", "run_type", "start_time", "end_time", "inputs", "outputs", "error", "status", "extra",
    "events", "tags", "session_id", "feedback_stats", "prompt_tokens", "completion_tokens", "total_tokens", "inputs_s3_urls", "outputs_s3_urls",
)  # fmt: skip


def pages(window: Window, api: Api) -> Iterator[Raw]:
    """Every page of runs, and after each the feedback that its runs have."""
    web = Web(api.url, headers={"x-api-key": api.keys[KEY]}, keys=KEY, sleep=api.sleep)
    projects: list[str] = []

    def runs(cursor: str | None) -> Answer:
        if not projects:
            projects.extend(_projects(web, api))
        content = web.post(
            "/runs/query", {"session": projects, "limit": _PAGE, "cursor": cursor, "select": _SELECT} | _between(window)
        )
        held = decoded(content, api.url)
        cursors = held.get("cursors") if isinstance(held, dict) else None
        following = cursors.get("next") if isinstance(cursors, dict) else None
        return Answer(content, following or None, len(rows_of(held, "runs")))

    for raw in paged(api, "runs", runs):
        yield raw
        judged = [run["id"] for run in msgspec.json.decode(raw.content)["runs"] if run.get("feedback_stats")]
        if judged:
            yield from paged(api, f"feedback of {raw.name}", partial(_feedback, web, api, judged))


def _feedback(web: Web, api: Api, runs: list[str], offset: str | None) -> Answer:
    begin = int(offset or 0)
    content = web.get("/feedback", {"run": runs, "limit": _PAGE, "offset": begin})
    count = len(rows_of(decoded(content, api.url), ""))
    return Answer(content, str(begin + count) if count == _PAGE else None, count)


def _projects(web: Web, api: Api) -> list[str]:
    """The ids of the project that is named, else of every one. Raises InputError where there is none."""
    found: list[str] = []
    while True:
        query = {"limit": _PAGE, "offset": len(found), "name": api.keys.get(PROJECT)}
        listed: list[Any] = rows_of(decoded(web.get("/sessions", query), api.url), "")
        found += [str(held["id"]) for held in listed if isinstance(held, dict) and "id" in held]
        if len(listed) < _PAGE:
            break
    if not found:
        named = f"project {api.keys[PROJECT]!r} ({PROJECT})" if PROJECT in api.keys else "project"
        raise InputError(f"{api.url}: no {named} that this key sees.")
    return found


def _between(window: Window) -> dict[str, Any]:
    after = None if window.start_ns is None else _iso(window.start_ns - MARGIN_NS)
    before = None if window.end_ns is None else f'lt(start_time, "{_iso(window.end_ns + MARGIN_NS)}")'
    return {"start_time": after, "filter": before}


def _iso(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
