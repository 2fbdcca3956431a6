"""Environments of peers: each under `.cache/`, which git ignores, made on first use; a peer that cannot be had says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_SECONDS = 900


def asked(module: str, *arguments: str, packages: tuple[str, ...], given: str | None = None) -> dict[str, Any]:
    """What a script prints as its last line, JSON, run where these packages are; `installed: false` and why, where they cannot be had.

    packages: the first names the environment. given: the script's standard input.
    """
    try:
        python = _environment(packages)
        command = [str(python), "-m", module, *arguments]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_SECONDS, cwd=ROOT, input=given
        )
    except (OSError, subprocess.SubprocessError) as failed:
        said = getattr(failed, "stderr", None) or str(failed)
        return {"installed": False, "why": said.strip().splitlines()[-1][:200]}
    return {"installed": True, **json.loads(done.stdout.splitlines()[-1])}


def _environment(packages: tuple[str, ...]) -> Path:
    home = ROOT / ".cache" / packages[0].replace("==", "-")
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
        (home / ".ready").touch()
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
