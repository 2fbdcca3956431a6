"""The pages of a listing, to its end: those that were fetched before first, then the rest by cursor."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources.source import FileSource, Raw
from tasks.sources.spool import Page
from tasks.sources.web import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tasks.sources.source import Api, Mapped, Window

MARGIN_NS = 3_600_000_000_000
"""A trace is wanted by its beginning, and its spans are asked for by theirs: so much before and after the window is asked for too, which keeps traces of
up to an hour whole and shows of the others that they began before."""

_RESTARTS = 3
_EXPIRED = (400, 410, 422)


class Answer(NamedTuple):
    """A page: its bytes, the cursor of the next one (None at the end), and how many rows it holds."""

    content: bytes
    following: str | None
    rows: int


Ask = Callable[[str | None], Answer]
"""The page after a cursor; the first one for None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSource:
    """A source of files that has an API too. keys: the variables that it must have; more: those it may have; host: the one that may hold its address."""

    files: FileSource
    pages: Callable[[Window, Api], Iterator[Raw]]
    keys: tuple[str, ...]
    more: tuple[str, ...] = ()
    host: str

    @property
    def name(self) -> str:
        """As it is asked for."""
        return self.files.name

    def fetch(self, window: Window) -> Iterator[Raw]:
        """The pages of the API where the window names one, else the files."""
        return self.files.fetch(window) if window.api is None else self.pages(window, window.api)

    def spans(self, raw: Raw, *, harness_state: str) -> Mapped:
        """The canonical spans of one file or page."""
        return self.files.spans(raw, harness_state=harness_state)


def paged(api: Api, listing: str, ask: Ask) -> Iterator[Raw]:
    """Every page that holds rows. A cursor that has expired begins its listing anew; what came twice is told once. Raises Refused, Unavailable."""
    held = api.spool.pages(listing)
    told: set[str] = set()
    yield from _told(held, told)
    if held and held[-1].following is None:
        return
    cursor, number, restarts = (held[-1].following if held else None), len(held), 0
    while True:
        try:
            answer = ask(cursor)
        except Refused as refused:
            if cursor is None or refused.status not in _EXPIRED or restarts == _RESTARTS:
                raise
            api.spool.restart(listing)
            cursor, number, restarts = None, 0, restarts + 1
            continue
        if answer.following is not None and answer.following == cursor:
            raise Refused.of(
                api.url,
                200,
                f"The page of {listing} after this cursor names the same cursor again: it would never end.",
            )
        page = Page(f"{listing} {number:06}", answer.content, answer.following, answer.rows)
        api.spool.add(listing, page)
        yield from _told([page], told)
        if answer.following is None:
            return
        cursor, number = answer.following, number + 1


def _told(pages: list[Page], told: set[str]) -> Iterator[Raw]:
    for page in pages:
        digest = hashlib.sha256(page.content).hexdigest()
        if page.rows and digest not in told:
            told.add(digest)
            yield Raw(page.name, page.content, digest, len(page.content))


def rows_of(held: Any, name: str) -> list[Any]:
    """The rows of an answer under a name. Raises Refused where there are none to be found."""
    found = held.get(name) if isinstance(held, dict) else held
    if not isinstance(found, list):
        raise Refused.of(name, 200, "The answer has no such list: check the address.")
    return found
