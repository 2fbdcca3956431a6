"""Pages that a source has fetched and no generation has taken in yet: within one run they are asked for once, and an interrupted pull goes on where it stopped."""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from tasks.store import durable

if TYPE_CHECKING:
    from pathlib import Path


class Page(NamedTuple):
    """One page as it was answered. following: the cursor of the next one, None at the end; rows: how many it holds."""

    name: str
    content: bytes
    following: str | None
    rows: int


class Vault(Protocol):
    """Where raw copies lie sealed."""

    def put(self, name: str, content: bytes) -> str:
        """Keep a page; its reference."""
        ...

    def get(self, ref: str) -> bytes | None:
        """The page again; None where it is not kept any more, or cannot be opened."""
        ...


@dataclass(slots=True)
class Spool:
    """The pages of one window by listing. Without a vault they are held in memory alone, and an interrupted pull begins anew.

    The journal names the pages in the vault and the cursors after them, a line each; it holds nothing of a page. It goes when the pull is committed.
    """

    journal: Path | None = None
    vault: Vault | None = None
    _held: dict[str, list[tuple[Page, bytes]]] = field(default_factory=lambda: defaultdict(list))
    _read: bool = False

    def pages(self, listing: str) -> list[Page]:
        """What there is of a listing, in order, from its beginning."""
        self._load()
        return [page._replace(content=zlib.decompress(packed)) for page, packed in self._held[listing]]

    def add(self, listing: str, page: Page) -> None:
        """One more page at the end of a listing, durable when this returns."""
        self._load()
        self._held[listing].append((page._replace(content=b""), zlib.compress(page.content, 1)))
        if self.vault is not None:
            ref = self.vault.put(page.name, page.content)
            self._note(
                {"listing": listing, "name": page.name, "ref": ref, "following": page.following, "rows": page.rows}
            )

    def restart(self, listing: str) -> None:
        """The listing begins anew: its cursor is of no use any more."""
        self._held[listing].clear()
        self._note({"listing": listing, "restart": True})

    def done(self) -> None:
        """The pages are taken in: the next pull of this window asks again."""
        if self.journal is not None:
            durable.removed(self.journal)

    def _note(self, line: dict[str, Any]) -> None:
        if self.journal is not None and self.vault is not None:
            self.journal.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            durable.appended(self.journal, msgspec.json.encode(line))

    def _load(self) -> None:
        if self._read:
            return
        self._read = True
        lines = self.journal.read_bytes().split(b"\n") if self.journal is not None and self.journal.exists() else []
        lost: set[str] = set()
        for line in filter(None, lines):
            try:
                self._take(msgspec.json.decode(line), lost)
            except msgspec.DecodeError:
                return  # a torn last line

    def _take(self, line: dict[str, Any], lost: set[str]) -> None:
        """A line of the journal. After a page that is gone nothing of its listing counts: a gap would lose spans without a word."""
        listing = line["listing"]
        if line.get("restart"):
            self._held[listing].clear()
            lost.discard(listing)
            return
        content = self.vault.get(line["ref"]) if self.vault is not None and listing not in lost else None
        if content is None:
            lost.add(listing)
            return
        page = Page(line["name"], b"", line["following"], line["rows"])
        self._held[listing].append((page, zlib.compress(content, 1)))
