"""Generations of the corpus: immutable parts under numbered manifests, committed by a hard link (data-engine.md §6).

    parts/<table>-<sha256>.parquet     never changed, never clashing
    manifests/manifest-<N>.json        head = the highest N, whatever MANIFEST.json says
    timings/<sha256>.parquet           wall-clock values, outside every manifest
    MANIFEST.json                      a convenience for people and shells; it may be one behind after a crash

What a commit says about a table: nothing (its shards are kept), `append` (these shards come in, the others are kept; a shard of the same name is written
again), or `replace` (the table is exactly these shards). So a step that is run twice changes nothing, and a commit that changes nothing makes no generation.
"""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_SH, flock
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import polars as pl

from tasks.store import durable
from tasks.store.errors import ChangedMeanwhile, ForeignFrame, NoHardLinks, UnknownGeneration
from tasks.store.generation import Change, Contract, Snapshot
from tasks.store.manifest import Manifest, Part
from twiceshy.errors import FormatError

_NUMBERED = re.compile(r"manifest-(\d{8})\.json")
_READ_ONLY = 0o444
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class Swept(NamedTuple):
    """File names that a sweep removed, sorted."""

    manifests: list[str]
    parts: list[str]
    temps: list[str]


@dataclass(frozen=True)
class Corpus:
    """The corpus in a local directory, which is made when the first generation is committed. `link` is the one call that has to be atomic."""

    root: Path
    link: Callable[[Path, Path], None] = os.link

    def list(self) -> tuple[str, ...]:
        """The corpus ids kept, oldest first; the last one is the head."""
        return tuple(snapshot.id for snapshot in self._snapshots(self._numbers()))

    def head(self) -> Snapshot | None:
        """The newest generation, None before the first."""
        numbers = self._numbers()
        return self._snapshot(numbers[-1]) if numbers else None

    def read(self, corpus_id: str) -> Snapshot:
        """The generation with this corpus id; newest first, since that is mostly what is asked for. Raises UnknownGeneration."""
        numbers = self._numbers()
        for snapshot in self._snapshots(reversed(numbers)):
            if snapshot.id == corpus_id:
                return snapshot
        raise UnknownGeneration.among(corpus_id, len(numbers))

    def commit(self, changes: Iterable[Change], *, parent: str | None) -> Snapshot:
        """The generation that has these changes; the head itself where it has them already.

        parent: the corpus id that the changes were worked out from, None for an empty corpus. A writer that lost the race is rebased onto the new head and
        tries again; where that head changed the same table or shard, it raises ChangedMeanwhile instead of overwriting. Raises NoHardLinks, ForeignFrame.
        """
        with self._writing(LOCK_SH):
            wanted = [self._stored(change) for change in changes]
            base = self.read(parent).manifest if parent else Manifest.of((), parent=None)
            durable.sync(self._parts)
            while True:
                head = self.head()
                parts = _rebased(
                    wanted, base=base, head=head.manifest if head else Manifest.of((), parent=None), parent=parent
                )
                if head and parts == head.manifest.named():
                    return head
                number = head.number + 1 if head else 1
                if self._linked(Manifest.of(parts.values(), parent=head.id if head else None), number):
                    return self._snapshot(number)

    def add_timings(self, table: Contract, frame: pl.DataFrame) -> None:
        """Keep wall-clock values beside the generations: they are part of none."""
        data = durable.parquet(_checked(table, frame))
        _made(self.root / "timings")
        durable.write_whole(self.root / "timings" / f"{durable.sha256(data)}.parquet", data)

    def timings(self, table: Contract) -> pl.DataFrame:
        """All timings kept."""
        held = [pl.read_parquet(file) for file in sorted((self.root / "timings").glob("*.parquet"))]
        return table.arranged(pl.concat([pl.DataFrame(schema=table.dtypes()), *held]))

    def sweep(self, *, now_ns: int, grace_ns: int, keep: int | None = None, pinned: Collection[str] = ()) -> Swept:
        """Remove what nothing names any more: temps and parts of crashed writers, and all but the newest `keep` generations and the pinned ids.

        grace_ns: longer than the longest reader; a generation goes only when its successor is older than that, a file only when it is itself.
        """
        with self._writing(LOCK_EX):
            before = now_ns - grace_ns
            doomed = self._superseded(keep=keep, pinned=pinned, before=before)
            for number in doomed:
                self._manifest_at(number).unlink()
            named = {part.file for number in self._numbers() for part in self._snapshot(number).manifest.parts}
            parts = [
                file
                for file in self._parts.glob("*.parquet")
                if file.name not in named and durable.older(file, than_ns=before)
            ]
            temps = [file for file in self.root.rglob(f"{durable.TEMP}*") if durable.older(file, than_ns=before)]
            for file in (*parts, *temps):
                file.unlink()
        return Swept(
            *(
                sorted(file.name for file in files)
                for files in ([self._manifest_at(number) for number in doomed], parts, temps)
            )
        )

    @property
    def _parts(self) -> Path:
        return self.root / "parts"

    def _manifest_at(self, number: int) -> Path:
        return self.root / "manifests" / f"manifest-{number:08}.json"

    def _numbers(self) -> tuple[int, ...]:
        found = (_NUMBERED.fullmatch(file.name) for file in (self.root / "manifests").glob("manifest-*.json"))
        return tuple(sorted(int(match[1]) for match in found if match))

    def _snapshots(self, numbers: Iterable[int]) -> Iterator[Snapshot]:
        """A superseded manifest may be swept between being listed and being read."""
        for number in numbers:
            with suppress(FileNotFoundError):
                yield self._snapshot(number)

    def _snapshot(self, number: int) -> Snapshot:
        data = self._manifest_at(number).read_bytes()
        manifest = Manifest.load(data, where=self._manifest_at(number))
        if manifest.dump() != data:
            raise FormatError.at(
                self._manifest_at(number),
                "its bytes are not canonical, so they were edited.",
                hint="Restore it from a copy.",
            )
        return Snapshot(id=durable.sha256(data), number=number, manifest=manifest, parts_at=self._parts)

    @contextmanager
    def _writing(self, kind: int) -> Iterator[None]:
        """Writers share it and a sweep has it alone, so no part vanishes between being reused and being named. Readers take no lock; a killed holder frees it."""
        _made(self._parts)
        _made(self.root / "manifests")
        with (self.root / ".writing").open("w") as handle:
            flock(handle, kind)
            yield

    def _stored(self, change: Change) -> "_Wanted":
        parts = {}
        for shard, held in change.shards.items():
            part = held if isinstance(held, Part) else self._part(change.table, shard, held)
            parts[part.table, part.shard] = part
        return _Wanted(change.table.named(), parts, change.whole)

    def _part(self, table: Contract, shard: str, frame: pl.DataFrame) -> Part:
        data = durable.parquet(_checked(table, frame))
        part = Part(
            table=table.named(),
            shard=shard,
            schema=table.version(),
            rows=frame.height,
            bytes=len(data),
            sha256=durable.sha256(data),
        )
        if not durable.freshen(self._parts / part.file):
            durable.write_whole(self._parts / part.file, data, mode=_READ_ONLY)
        return part

    def _linked(self, manifest: Manifest, number: int) -> bool:
        """Whether the number was still free. A link, so that the manifest appears whole or the name is taken."""
        target = self._manifest_at(number)
        with durable.landing(target.parent) as temp:
            durable.write_synced(temp, manifest.dump(), mode=_READ_ONLY)
            try:
                self.link(temp, target)
            except FileExistsError:
                return False
            except OSError as refused:
                if refused.errno in _NO_LINKS:
                    raise NoHardLinks.under(target.parent, os.strerror(refused.errno or 0)) from None
                raise
        durable.sync(target.parent)
        # A copy, not a second link: whoever edits the pointer must not edit the manifest.
        durable.write_whole(self.root / "MANIFEST.json", manifest.dump())
        return True

    def _superseded(self, *, keep: int | None, pinned: Collection[str], before: int) -> tuple[int, ...]:
        numbers = self._numbers()
        old = () if keep is None else numbers[: -max(keep, 1)]
        successors = dict(pairwise(numbers))
        return tuple(
            number
            for number in old
            if durable.older(self._manifest_at(successors[number]), than_ns=before)
            and self._snapshot(number).id not in pinned
        )


class _Wanted(NamedTuple):
    table: str
    parts: dict[tuple[str, str], Part]
    whole: bool

    def before(self, manifest: Manifest) -> dict[tuple[str, str], Part]:
        """What the manifest holds at the places that this writes."""
        return {
            place: part
            for place, part in manifest.named().items()
            if place in self.parts or (self.whole and place[0] == self.table)
        }


def _rebased(
    wanted: list[_Wanted], *, base: Manifest, head: Manifest, parent: str | None
) -> dict[tuple[str, str], Part]:
    parts = head.named()
    for change in wanted:
        found = change.before(head)
        if found not in (change.before(base), change.parts):
            raise ChangedMeanwhile.on(change.table, parent)
        parts = {place: part for place, part in parts.items() if place not in found} | change.parts
    return parts


def _checked(table: Contract, frame: pl.DataFrame) -> pl.DataFrame:
    expected, found = dict(table.dtypes()), dict(frame.schema)
    differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if differing:
        raise ForeignFrame.of(table.named(), differing)
    return table.arranged(frame)


def _made(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
