"""What peers pay for the same crossings: each runs in an environment of its own under `.cache/`, which git ignores, made on first use."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 600
PEERS = {
    "chronicle-0.5.0": ("chronicle05", "agent-chronicle==0.5.0", ()),
    "chronicle-1.1.1": ("chronicle11", "agent-chronicle==1.1.1", ()),
    "vcrpy-9.4.2": ("vcr_httpx", "vcrpy==9.4.2", ("httpx",)),
}
"""Name -> its script here, the package that its environment is named by, and what it needs besides."""


def measured(peer: str, sizes: list[int]) -> dict[str, Any]:
    """Microseconds a crossing of one peer, by what was done and N; `installed: false` and why, where it cannot be had."""
    script, package, besides = PEERS[peer]
    try:
        python = _environment(package, besides)
        command = [str(python), "-m", f"benchmarks.replay_peers.{script}", *map(str, sizes)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS, cwd=ROOT)
    except (OSError, subprocess.SubprocessError) as failed:
        said = getattr(failed, "stderr", None) or str(failed)
        return {"installed": False, "why": said.strip().splitlines()[-1][:200]}
    return {"installed": True, **json.loads(done.stdout.splitlines()[-1])}


def _environment(package: str, besides: tuple[str, ...]) -> Path:
    home = ROOT / ".cache" / package.replace("==", "-")
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package, *besides])
        (home / ".ready").touch()
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
