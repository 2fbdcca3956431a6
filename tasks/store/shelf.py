"""Shelves for what may hold raw values: raw copies of a source (`raw/`) and rows set aside (`quarantine/`), each with an expiry.

Files are named by their digest, readable by their owner only, and never enter a generation. The label with the expiry is written before the content,
so nothing is ever kept that no sweep would find.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tasks.store import durable
from tasks.store.errors import Unkept
from twiceshy import identity

_REF = re.compile(r"[a-z]+/(?P<digest>[0-9a-f]{64})")


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The label of one kept file: what it was called where it came from, and until when it may stay."""

    ref: str
    source: str
    name: str
    bytes: int
    expires_at_ns: int


@dataclass(frozen=True)
class Shelf:
    """One shelf; its directory's name is the first half of every reference, as in `raw/<sha256>`."""

    root: Path

    def put(self, data: bytes, *, source: str, name: str, expires_at_ns: int) -> Kept:
        """Keep a copy. The same bytes again keep their label and first expiry, so a second pull changes nothing and prolongs nothing."""
        digest = durable.sha256(data)
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            kept = self._label(digest)
        except Unkept:
            kept = Kept(
                ref=f"{self.root.name}/{digest}", source=source, name=name, bytes=len(data), expires_at_ns=expires_at_ns
            )
            durable.write_whole(self._at(digest, "json"), identity.canonical(msgspec.to_builtins(kept)), mode=0o600)
        if not self._at(digest, "raw").exists():
            durable.write_whole(self._at(digest, "raw"), data, mode=0o600)
        return kept

    def get(self, ref: str) -> bytes:
        """The bytes kept at a reference. Raises Unkept."""
        try:
            return self._at(self._digest(ref), "raw").read_bytes()
        except FileNotFoundError:
            raise Unkept.at(ref) from None

    def label(self, ref: str) -> Kept:
        """The label at a reference. Raises Unkept."""
        return self._label(self._digest(ref))

    def labels(self) -> Iterator[Kept]:
        """Every label, by digest."""
        for file in sorted(self.root.glob("*.json")):
            yield self._label(file.stem)

    def sweep(self, *, now_ns: int, grace_ns: int) -> list[str]:
        """Remove what has expired, and what crashed writers left longer ago than the grace; the references removed, sorted."""
        expired = [kept for kept in self.labels() if kept.expires_at_ns <= now_ns]
        for kept in expired:
            digest = self._digest(kept.ref)
            self._at(digest, "raw").unlink(missing_ok=True)
            self._at(digest, "json").unlink(missing_ok=True)
        for orphan in (*self.root.glob(f"{durable.TEMP}*"), *self._unlabelled()):
            if durable.older(orphan, than_ns=now_ns - grace_ns):
                durable.removed(orphan)
        if expired:
            durable.sync(self.root)
        return [kept.ref for kept in expired]

    def _unlabelled(self) -> list[Path]:
        """Content whose label a sweep took while a `put` was under way."""
        return [file for file in self.root.glob("*.raw") if not file.with_suffix(".json").exists()]

    def _label(self, digest: str) -> Kept:
        try:
            return msgspec.json.decode(self._at(digest, "json").read_bytes(), type=Kept)
        except FileNotFoundError:
            raise Unkept.at(f"{self.root.name}/{digest}") from None

    def _digest(self, ref: str) -> str:
        """A reference is data that was read somewhere: it may not name a path of its own."""
        match = _REF.fullmatch(ref)
        if match is None or ref.split("/", maxsplit=1)[0] != self.root.name:
            raise Unkept.at(ref)
        return match["digest"]

    def _at(self, digest: str, suffix: str) -> Path:
        return self.root / f"{digest}.{suffix}"
