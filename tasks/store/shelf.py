"""Shelves for what may hold raw values: raw copies of a source (`raw/`) and rows set aside (`quarantine/`), each with an expiry.

Files are named by the digest of what they hold, sealed under a redaction key, readable by their owner only, and never enter a generation. The label with the expiry
is written before the content, so nothing is ever kept that no sweep would find. Every reading is written to `access.jsonl` before a byte is given.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from tasks.store import durable
from tasks.store.errors import Unkept
from tasks.store.sealing import opened, sealed
from twiceshy import identity

ACCESS = "access.jsonl"
_REF = re.compile(r"[a-z]+/(?P<digest>[0-9a-f]{64})")


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The label of one kept file: what it was called where it came from, and until when it may stay."""

    ref: str
    source: str
    name: str
    bytes: int
    expires_at_ns: int
    key_id: str


class Lock(NamedTuple):
    """The redaction key that seals a copy, and its id."""

    key_id: str
    key: bytes

    def __repr__(self) -> str:
        return f"Lock({self.key_id!r}, ...)"


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the access log: who read what, when (ns since the epoch), and what for."""

    at_ns: int
    reader: str
    ref: str
    why: str


@dataclass(frozen=True)
class Shelf:
    """One shelf; its directory's name is the first half of every reference, as in `raw/<sha256>`."""

    root: Path

    def put(self, data: bytes, lock: Lock, *, source: str, name: str, expires_at_ns: int) -> Kept:
        """Keep a copy. The same bytes again keep their label and first expiry, so a second pull changes nothing and prolongs nothing."""
        digest = durable.sha256(data)
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            kept = self._label(digest)
        except Unkept:
            kept = Kept(
                ref=f"{self.root.name}/{digest}",
                source=source,
                name=name,
                bytes=len(data),
                expires_at_ns=expires_at_ns,
                key_id=lock.key_id,
            )
            durable.write_whole(self._at(digest, "json"), identity.canonical(msgspec.to_builtins(kept)), mode=0o600)
        if not self._at(digest, "raw").exists():
            if (
                kept.key_id != lock.key_id
            ):  # its content went missing under another key: the label has to name the one that opens it
                kept = msgspec.structs.replace(kept, key_id=lock.key_id)
                durable.write_whole(self._at(digest, "json"), identity.canonical(msgspec.to_builtins(kept)), mode=0o600)
            durable.write_whole(self._at(digest, "raw"), sealed(data, lock.key, about=kept.ref), mode=0o600)
        return kept

    def get(self, ref: str, key: Callable[[str], bytes], *, reader: str, why: str, at_ns: int) -> bytes:
        """The bytes kept at a reference, opened with the key that `key` gives for an id. Raises Unkept, Unsealable, and what `key` raises."""
        kept = self.label(ref)
        path = self._at(self._digest(ref), "raw")
        if not path.exists():
            raise Unkept.at(ref)
        opening = key(kept.key_id)
        durable.appended(
            self.root / ACCESS,
            identity.canonical(msgspec.to_builtins(Reading(at_ns=at_ns, reader=reader, ref=ref, why=why))),
        )
        return opened(path.read_bytes(), opening, about=ref)

    def readings(self) -> list[Reading]:
        """Who read what, in the order of the reading."""
        path = self.root / ACCESS
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line, type=Reading) for line in lines]

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
