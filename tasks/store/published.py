"""Published runs: a directory each, written whole before LATEST.json names it; readers open these and nothing else.

    <run_id>/<table>.parquet, other files, manifest.json (digest of every file)
    LATEST.json                 {run_id, directory, generation, digest}

A run is published once. Publishing it again with the same content changes nothing; with other content (a new release of the harness) it becomes
`<run_id>.2`, since a directory that somebody may be reading is never changed.
"""

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from tasks.store import durable
from twiceshy import identity
from twiceshy.errors import FormatError

_DIRECTORY = re.compile(r"(?P<run>[A-Za-z0-9_-]+)(?:\.(?P<edition>[1-9][0-9]*))?")
_FILE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+")


class Publication(NamedTuple):
    """One published run, and the corpus id it was made from."""

    run_id: str
    directory: Path
    generation: str

    def files(self) -> dict[str, Path]:
        """Table -> its Parquet file."""
        return {file.stem: file for file in sorted(self.directory.glob("*.parquet"))}

    def frame(self, table: str) -> pl.DataFrame:
        """The rows of a table, with `generation` as the first column."""
        return pl.read_parquet(self.directory / f"{table}.parquet")


@dataclass(frozen=True)
class Published:
    """All published runs under one directory."""

    root: Path

    def publish(
        self,
        run_id: str,
        *,
        generation: str,
        tables: Mapping[str, pl.DataFrame],
        files: Mapping[str, bytes] | None = None,
    ) -> Publication:
        """Write the run whole, then make it the latest. Tables get the column `generation` here; they come arranged."""
        if not _DIRECTORY.fullmatch(run_id) or "." in run_id:
            raise FormatError.at(run_id, "not a run id.", hint="Letters, digits, '-' and '_' only.")
        contents = {
            f"{name}.parquet": durable.parquet(_with_generation(frame, generation)) for name, frame in tables.items()
        } | dict(files or {})
        if strange := sorted(name for name in contents if not _FILE.fullmatch(name)):
            raise FormatError.at(
                run_id, f"cannot publish a file named {strange[0]!r}.", hint="Plain names with a suffix only."
            )
        manifest = identity.canonical(
            {"generation": generation, "files": {name: durable.sha256(data) for name, data in contents.items()}}
        )
        self.root.mkdir(parents=True, exist_ok=True)
        directory = self._placed(run_id, manifest, contents | {"manifest.json": manifest})
        latest = {
            "run_id": run_id,
            "directory": directory.name,
            "generation": generation,
            "digest": durable.sha256(manifest),
        }
        durable.write_whole(self.root / "LATEST.json", identity.canonical(latest))
        return Publication(run_id, directory, generation)

    def latest(self) -> Publication | None:
        """What LATEST.json names, resolved once; None before the first."""
        try:
            named = msgspec.json.decode((self.root / "LATEST.json").read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return None
        return Publication(named["run_id"], self.root / named["directory"], named["generation"])

    def runs(self) -> list[Publication]:
        """The newest edition of every run, by run id."""
        newest: dict[str, tuple[int, Path]] = {}
        for directory in (file.parent for file in self.root.glob("*/manifest.json")):
            if match := _DIRECTORY.fullmatch(directory.name):
                edition = (int(match["edition"] or 1), directory)
                newest[match["run"]] = max(newest.get(match["run"], edition), edition)
        return [Publication(run, directory, _generation(directory)) for run, (_, directory) in sorted(newest.items())]

    def sweep(self, *, now_ns: int, grace_ns: int) -> list[str]:
        """Remove what crashed writers left and editions that a newer one replaced, both longer ago than the grace; the names removed."""
        before, latest = now_ns - grace_ns, self.latest()
        temps = [path for path in self.root.glob(f"{durable.TEMP}*") if durable.older(path, than_ns=before)]
        replaced = [
            path
            for run in self.runs()
            if durable.older(run.directory, than_ns=before)
            for path in self._editions(run.run_id)
            if path != run.directory
        ]
        doomed = [path for path in (*temps, *replaced) if latest is None or path != latest.directory]
        for path in doomed:
            durable.removed(path)
        return sorted(path.name for path in doomed)

    def _editions(self, run_id: str) -> list[Path]:
        return [
            path
            for path in self.root.iterdir()
            if (match := _DIRECTORY.fullmatch(path.name)) and match["run"] == run_id
        ]

    def _placed(self, run_id: str, manifest: bytes, contents: Mapping[str, bytes]) -> Path:
        """The edition that holds this content already, else the next free one, written."""
        editions = (self.root / (run_id if edition == 1 else f"{run_id}.{edition}") for edition in count(1))
        return next(
            home for home in editions if _holds(home, manifest) or self._moved(home, contents) or _holds(home, manifest)
        )

    def _moved(self, directory: Path, contents: Mapping[str, bytes]) -> bool:
        """Whether the directory was still free; it appears with all its files."""
        if directory.exists():
            return False
        with durable.landing(self.root) as temp:
            temp.mkdir()
            for name, data in contents.items():
                durable.write_synced(temp / name, data)
            durable.sync(temp)
            try:
                temp.rename(directory)
            except OSError as taken:
                if taken.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
        durable.sync(self.root)
        return True


def _holds(directory: Path, manifest: bytes) -> bool:
    try:
        return (directory / "manifest.json").read_bytes() == manifest
    except FileNotFoundError:
        return False


def _with_generation(frame: pl.DataFrame, generation: str) -> pl.DataFrame:
    return frame.select(pl.lit(generation).alias("generation"), pl.all())


def _generation(directory: Path) -> str:
    return str(msgspec.json.decode((directory / "manifest.json").read_bytes())["generation"])
