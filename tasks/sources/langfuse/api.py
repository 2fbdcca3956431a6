"""Observations and scores from Langfuse's API: v2 observations with every field that a replay needs, v3 scores."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tasks.sources.langfuse.observations import is_cut
from tasks.sources.paging import MARGIN_NS, Answer, paged, rows_of
from tasks.sources.web import Web, decoded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.source import Api, Raw, Window

PUBLIC, SECRET, HOST = "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "LANGFUSE_HOST"
FIELDS = "core,basic,time,io,metadata,model,usage,prompt,trace_context"
"""Without it an answer has no input, output or metadata."""

_OBSERVATIONS, _SCORES = "/api/public/v2/observations", "/api/public/v3/scores"
_KEPT_WHOLE = ("attributes", "resourceAttributes", "scope")
_PAGE, _SCORE_PAGE = 500, 100
_ROUNDS = 3


def pages(window: Window, api: Api) -> Iterator[Raw]:
    """Every page of the window. Scores are asked for from its beginning on: most are given later."""
    web = Web(api.url, auth=(api.keys[PUBLIC], api.keys[SECRET]), keys=f"{PUBLIC} and {SECRET}", sleep=api.sleep)
    whole = set(_KEPT_WHOLE)

    def observations(cursor: str | None) -> Answer:
        query = {"fields": FIELDS, "limit": _PAGE, "cursor": cursor} | _between(window, "fromStartTime", "toStartTime")
        content = web.get(_OBSERVATIONS, query | {"expandMetadata": ",".join(sorted(whole))})
        for _ in range(_ROUNDS):
            cut = _cut(rows_of(decoded(content, api.url), "data")) - whole
            if not cut:
                break
            whole.update(cut)
            content = web.get(_OBSERVATIONS, query | {"expandMetadata": ",".join(sorted(whole))})
        return _answer(content, decoded(content, api.url))

    def scores(cursor: str | None) -> Answer:
        since = _between(window, "fromTimestamp", "")["fromTimestamp"]
        content = web.get(
            _SCORES, {"fields": "details,subject", "limit": _SCORE_PAGE, "cursor": cursor, "fromTimestamp": since}
        )
        return _answer(content, decoded(content, api.url))

    yield from paged(api, "observations", observations)
    yield from paged(api, "scores", scores)


def _answer(content: bytes, held: Any) -> Answer:
    meta = held.get("meta") if isinstance(held, dict) else None
    cursor = meta.get("cursor") if isinstance(meta, dict) else None
    return Answer(content, cursor if isinstance(cursor, str) and cursor else None, len(rows_of(held, "data")))


def _cut(rows: list[Any]) -> set[str]:
    """The keys of metadata that the API cut: it gives them whole when it is asked for them by name."""
    held = [row["metadata"] for row in rows if isinstance(row, dict) and isinstance(row.get("metadata"), dict)]
    return {str(key) for metadata in held for key, value in metadata.items() if is_cut(value) and "," not in str(key)}


def _between(window: Window, start: str, end: str) -> dict[str, str | None]:
    after = None if window.start_ns is None else _iso(window.start_ns - MARGIN_NS)
    before = None if window.end_ns is None else _iso(window.end_ns + MARGIN_NS)
    return {start: after, end: before}


def _iso(instant_ns: int) -> str:
    return datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
