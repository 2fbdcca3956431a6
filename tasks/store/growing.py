"""How a generation takes in what a pull brings: rows of new traces come in as one shard, and rows that the same traces had before give way."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple, Self

import polars as pl

from tasks.store.generation import Change, Contract, Snapshot, replace
from tasks.store.manifest import Part


class Grown(NamedTuple):
    """A table after it took rows in: all its rows, and what a commit says of it."""

    rows: pl.DataFrame
    change: Change


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What comes in to a generation (None: to an empty corpus). shard: the name under which it comes; trace_ids: the traces that are new or came again."""

    head: Snapshot | None
    shard: str
    trace_ids: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, head: Snapshot | None, *, pulls: pl.DataFrame, trace_ids: Collection[str]) -> Self:
        """From the rows of `pulls`, whose ids name the shard, and every trace that comes in."""
        named = sha256("".join(sorted(pulls["pull_id"])).encode()).hexdigest()
        return cls(head=head, shard=named[:16], trace_ids=frozenset(trace_ids))

    def by_trace(self, table: Contract, fresh: pl.DataFrame) -> Grown:
        """A table of which a trace has all its rows in one piece: what its traces had before gives way, whether or not they bring rows again."""
        return self._grown(table, fresh, "trace_id", self.trace_ids)

    def by_key(self, table: Contract, fresh: pl.DataFrame, key: str) -> Grown:
        """A table that only gains rows: a row of a key that is there already takes its place."""
        return self._grown(table, fresh, key, frozenset(fresh[key]))

    def completed(self, table: Contract, fresh: pl.DataFrame, key: str, *, trace_ids: Collection[str]) -> pl.DataFrame:
        """Fresh rows, with the stored ones of these traces that did not come again: a late span of a trace whose first file is gone."""
        if not trace_ids or self.head is None:
            return fresh
        wanted = pl.col("trace_id").is_in(pl.Series(sorted(trace_ids)).implode())
        stored = self.head.frame(table).filter(wanted).join(fresh, on=key, how="anti")
        return pl.concat([fresh, stored.select(fresh.columns)])

    def _grown(self, table: Contract, fresh: pl.DataFrame, key: str, given_up: Collection[str]) -> Grown:
        going = pl.Series(sorted(given_up), dtype=pl.String)
        shards: dict[str, pl.DataFrame | Part] = {}
        rows = {self.shard: pl.DataFrame(schema=table.dtypes())}
        for name, part, stored in self._stored(table):
            rows[name] = left = stored.filter(~pl.col(key).is_in(going.implode()))
            if left.height:
                shards[name] = part if left.height == stored.height else left
        if fresh.height:
            rows[self.shard] = shards[self.shard] = pl.concat([rows[self.shard], fresh])
        return Grown(table.arranged(pl.concat(rows.values())), replace(table, shards))

    def _stored(self, table: Contract) -> Iterator[tuple[str, Part, pl.DataFrame]]:
        """Each shard with its rows; columns that an older schema lacks are null, those it had more are left out."""
        names = table.dtypes().names()
        for name, part in (self.head.parts(table) if self.head else {}).items():
            found = pl.read_parquet(self.head.parts_at / part.file) if self.head else pl.DataFrame()
            yield name, part, pl.concat([pl.DataFrame(schema=table.dtypes()), found], how="diagonal").select(names)
