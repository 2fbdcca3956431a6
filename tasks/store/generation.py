"""What a generation is to its readers, what a commit says about a table, and the seam behind which either may live."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import polars as pl

from tasks.store.manifest import Manifest, Part

WHOLE = "all"
"""The shard of a table that is written in one piece."""


class Contract(Protocol):
    """What the store asks of a table's model; `tasks.contracts.Table` has it. The store itself loads no pandera."""

    def named(self) -> str:
        """The table's name."""

    def version(self) -> int:
        """The version of its schema."""

    def dtypes(self) -> pl.Schema:
        """Its columns."""

    def arranged(self, frame: pl.DataFrame, /) -> pl.DataFrame:
        """The frame in the one order that its content allows."""


class Change(NamedTuple):
    """What becomes of one table: shard -> a new frame, or a part that is stored already. `whole`: no other shard remains."""

    table: Contract
    shards: Mapping[str, pl.DataFrame | Part]
    whole: bool


def replace(table: Contract, shards: pl.DataFrame | Mapping[str, pl.DataFrame | Part]) -> Change:
    """The table is exactly these shards; a bare frame is its one shard."""
    return Change(table, {WHOLE: shards} if isinstance(shards, pl.DataFrame) else shards, whole=True)


def append(table: Contract, shards: Mapping[str, pl.DataFrame | Part]) -> Change:
    """These shards come in, by name; the table's other shards are kept."""
    return Change(table, shards, whole=False)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One generation, resolved once: what it holds does not change under a reader, whatever is committed meanwhile."""

    id: str
    number: int
    manifest: Manifest
    parts_at: Path

    def parts(self, table: Contract) -> dict[str, Part]:
        """Shard -> part."""
        return {part.shard: part for part in self.manifest.parts if part.table == table.named()}

    def files(self, table: Contract) -> list[Path]:
        """The Parquet files of a table, by shard."""
        return [self.parts_at / part.file for part in self.parts(table).values()]

    def frame(self, table: Contract) -> pl.DataFrame:
        """All rows, arranged; none where the generation lacks the table. Columns that an older schema lacks are null, those it had more are left out."""
        held = [pl.read_parquet(file) for file in self.files(table)]
        whole = pl.concat([pl.DataFrame(schema=table.dtypes()), *held], how="diagonal")
        return table.arranged(whole.select(table.dtypes().names()))

    def views(self, *tables: Contract) -> dict[str, list[Path] | pl.DataFrame]:
        """What `connect` makes views of: the files, or a frame where there are none or an older schema wrote them."""
        return {table.named(): self.files(table) if self._current(table) else self.frame(table) for table in tables}

    def _current(self, table: Contract) -> bool:
        return {part.schema for part in self.parts(table).values()} == {table.version()}


class Store(Protocol):
    """The seam for another place than a local directory. An object store commits by PUT with `If-None-Match: *` (412 = lost race)."""

    def list(self) -> tuple[str, ...]:
        """The corpus ids kept, oldest first; the last one is the head."""

    def read(self, corpus_id: str) -> Snapshot:
        """One generation. Raises UnknownGeneration."""

    def commit(self, changes: Iterable[Change], *, parent: str | None) -> Snapshot:
        """The generation that has these changes. Raises ChangedMeanwhile."""
