"""The rows of a CSV or Parquet file, as exports of trace stores have them: plain JSON values, an empty cell of a CSV being none."""

from __future__ import annotations

import io
from datetime import date, datetime
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import polars as pl

from twiceshy.errors import FormatError

if TYPE_CHECKING:
    from tasks.sources.source import Raw

SUFFIXES = frozenset({".csv", ".parquet"})
_PARQUET = b"PAR1"


def rows(raw: Raw) -> list[dict[str, Any]] | None:
    """The rows; None for a file that is neither. Raises FormatError where it is damaged."""
    packed = raw.content.startswith(_PARQUET)
    if not packed and PurePath(raw.name).suffix != ".csv":
        return None
    try:
        table = pl.read_parquet(io.BytesIO(raw.content)) if packed else pl.read_csv(raw.content, infer_schema=False)
    except (pl.exceptions.PolarsError, OSError):
        raise FormatError.at(raw.name, f"damaged {'Parquet' if packed else 'CSV'}.", hint="Export it again.") from None
    return [{name: _plain(value) for name, value in row.items()} for row in table.iter_rows(named=True)]


def _plain(value: Any) -> Any:
    """A cell as JSON has it: times as ISO text, decimals as numbers, a map (pairs of key and value) as an object."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, dict) and item.keys() == {"key", "value"} for item in value):
            return {str(item["key"]): _plain(item["value"]) for item in value}
        return [_plain(item) for item in value]
    return value
