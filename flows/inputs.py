"""What a refresh reads, looked at before anything heavy is loaded."""

from pathlib import Path

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
