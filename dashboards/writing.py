"""A site on disk: written whole under another name, then moved into place."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Self

import msgspec

from twiceshy.errors import InputError

TOOL = "twiceshy"
MANIFEST = "manifest.json"

_PLAIN = re.compile(r"(?:[a-z]+/)?[a-z0-9][a-z0-9-]*\.[a-z0-9]+")


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a site is made from and of: publication, counts, and the sha256 of every other file in it."""

    tool: str
    version: str
    publication: str
    generation: str
    run_id: str
    counts: dict[str, int]
    files: dict[str, str]


class NoSite(InputError):
    """A place that a site cannot take."""

    @classmethod
    def occupied(cls, out: Path) -> Self:
        """Something else stands there."""
        return cls(f"{out}: not a site that twiceshy built, so it is left alone. Name an empty or a new directory.")

    @classmethod
    def named(cls, name: str) -> Self:
        """A page name that is no plain path."""
        return cls(f"{name!r}: no name for a page. The published tables were not written by twiceshy.")


class Writer:
    """Keeps files under a root, with their digests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}

    def write(self, name: str, text: str) -> None:
        """Keep one file, under a plain name: what a night or a signature is called never leads out of the site."""
        if not _PLAIN.fullmatch(name):
            raise NoSite.named(name)
        content = text.encode()
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.files[name] = sha256(content).hexdigest()


@contextmanager
def replacing(out: Path) -> Iterator[Writer]:
    """A writer whose files stand at `out` once all of them are written. Raises NoSite where something else stands there."""
    if not _ours(out):
        raise NoSite.occupied(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        fresh, old = temporary / "new", temporary / "old"
        fresh.mkdir()
        yield Writer(fresh)
        if out.exists():
            out.rename(old)
        fresh.rename(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _ours(out: Path) -> bool:
    if not out.exists():
        return True
    if not out.is_dir():
        return False
    if not any(out.iterdir()):
        return True
    try:
        return msgspec.json.decode((out / MANIFEST).read_bytes(), type=Manifest).tool == TOOL
    except (OSError, msgspec.DecodeError):
        return False
