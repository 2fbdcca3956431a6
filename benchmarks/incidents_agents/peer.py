"""Where agent-chronicle 0.5.0 runs: a virtual environment of its own under `.cache/`, which git ignores, made on first use."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.5.0"
_HOME = ROOT / ".cache" / f"agent-chronicle-{VERSION}"
_SECONDS = 600


def chronicle(*words: str) -> dict[str, Any]:
    """What the peer measures on the same scenarios; `installed: false` and why, where it cannot be had."""
    try:
        python = _environment()
        command = [str(python), "-m", "benchmarks.incidents_agents.chronicle_peer", *words]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS, cwd=ROOT)
    except (OSError, subprocess.SubprocessError) as failed:
        said = getattr(failed, "stderr", None) or str(failed)
        return {"version": VERSION, "installed": False, "why": said.strip().splitlines()[-1][:200]}
    return {"version": VERSION, "installed": True, **json.loads(done.stdout.splitlines()[-1])}


def _environment() -> Path:
    python = _HOME / "bin" / "python"
    if not (_HOME / ".ready").exists():
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", str(_HOME)],
            check=True,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            f"agent-chronicle=={VERSION}",
        ]
        subprocess.run(install, check=True, capture_output=True, text=True, timeout=_SECONDS)
        (_HOME / ".ready").touch()
    return python
