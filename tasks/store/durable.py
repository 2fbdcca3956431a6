"""Files that are there whole or not at all, also after `kill -9` or a power cut: write beside, fsync, move."""

import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

TEMP = ".tmp-"

# Fixed, so that equal frames give equal bytes whatever defaults a release of polars has.
_ROW_GROUP = 122_880
_PAGE_BYTES = 1 << 20


@contextmanager
def landing(directory: Path) -> Iterator[Path]:
    """A name in the directory that nobody else uses, for a file or a folder; what is left of it at the end is removed."""
    path = directory / f"{TEMP}{secrets.token_hex(8)}"
    try:
        yield path
    finally:
        removed(path)


def write_synced(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """A new file with these bytes, on the disk when this returns. Raises FileExistsError; `mode` is subject to the umask."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """The file holds exactly these bytes afterwards; until then it holds what it held."""
    with landing(path.parent) as temp:
        write_synced(temp, data, mode=mode)
        temp.replace(path)
    sync(path.parent)


def appended(path: Path, line: bytes, *, mode: int = 0o600) -> None:
    """One more line at the end of a file, whole and on the disk when this returns, whoever else appends."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode)
    try:
        os.write(handle, line + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)


def sync(directory: Path) -> None:
    """The names in the directory are on the disk when this returns."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def removed(path: Path) -> None:
    """Nothing has this name any more."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def older(path: Path, *, than_ns: int) -> bool:
    """Whether it was last written before an instant; a path that is gone meanwhile is not."""
    try:
        return path.stat().st_mtime_ns < than_ns
    except FileNotFoundError:
        return False


def freshen(path: Path) -> bool:
    """Give it the present as its time of writing; whether it was there."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def sha256(data: bytes) -> str:
    """The digest that names a part."""
    return hashlib.sha256(data).hexdigest()


def parquet(frame: pl.DataFrame) -> bytes:
    """The frame as Parquet (zstd-3): equal frames, equal bytes, under one release of polars."""
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer,
        compression="zstd",
        compression_level=3,
        statistics=True,
        row_group_size=_ROW_GROUP,
        data_page_size=_PAGE_BYTES,
    )
    return buffer.getvalue()
