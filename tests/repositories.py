"""Git repositories that tests make."""

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> None:
    """Run git in a folder, as somebody."""
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True)  # noqa: S607 - whichever git is on the PATH
