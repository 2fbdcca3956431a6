"""DuckDB over Parquet: the only place that connects, always in memory, so no writer ever excludes a reader."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one connection may take. DuckDB's own defaults are 80 % of the memory, and spilling into the working directory."""

    spill: Path
    memory: str = "1500MB"
    threads: int = 2


def connect(views: Mapping[str, Sequence[Path] | pl.DataFrame], *, limits: Limits) -> "duckdb.DuckDBPyConnection":
    """A connection in which every name is a view: over Parquet files, or over a frame (an empty one for a table that has no part).

    Use it as a context, in the thread that made it. `con.sql(query, params=...)` and `.pl()` or `.fetchall()`: `execute().fetchone()` leaves a result open,
    and the next query fails. Row order is not kept: say `order by`.
    """
    import duckdb  # 0.3 s that a reader of published frames need not pay

    con = duckdb.connect(
        config={
            "memory_limit": limits.memory,
            "threads": limits.threads,
            "temp_directory": str(limits.spill),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    for name, held in views.items():
        if isinstance(held, pl.DataFrame):
            con.register(name, held.to_arrow())
        else:
            con.read_parquet([str(file) for file in held], union_by_name=True).create_view(name)
    return con
