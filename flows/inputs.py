"""What a refresh reads, looked at before anything heavy is loaded."""

from pathlib import Path
from urllib.parse import urlsplit

from twiceshy.errors import InputError


def readable(path: Path) -> Path:
    """The file or folder, if there is anything in it. Raises InputError."""
    if not path.exists():
        raise InputError.missing(path)
    if path.is_file() and not path.stat().st_size:
        raise InputError(f"{path}: the file is empty.")
    if path.is_dir() and not any(path.iterdir()):
        raise InputError(f"{path}: the folder is empty.")
    return path


def address(path: str) -> str | None:
    """The address of an API that a path is; None for a path of the file system. Raises InputError for one that holds keys: they would stand in every log."""
    if not path.startswith(("http://", "https://")):
        return None
    parts = urlsplit(path)
    if parts.username or parts.password or parts.query:
        raise InputError(
            "--path: an address with keys in it. Put them into the variables of the source, and give the bare address."
        )
    if not parts.hostname:
        raise InputError(f"--path: {path!r} names no host.")
    return path.rstrip("/")
