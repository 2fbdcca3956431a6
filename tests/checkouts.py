"""A pipeline checkout in a temporary folder, with our policies and as many days of the samples as a test needs."""

import shutil
from pathlib import Path

from flows.checkout import Checkout

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "data/samples"
DAYS = sorted(file.name for file in SAMPLES.glob("*.jsonl"))
AS_OF = "2026-11-23"


def a_checkout(at: Path, days: int = 1, *, commands: str = "[]", **paths: Path) -> Checkout:
    """An empty corpus, and the first days of the samples under `samples/`. commands: what is mounted, TOML; paths: settings of [paths] that differ."""
    held = {"policies": ROOT / "data/policies", "samples": "samples", **paths}
    lines = [f"commands = {commands}", "[paths]", *(f'{name} = "{path}"' for name, path in held.items())]
    at.mkdir(parents=True, exist_ok=True)
    (at / "twiceshy.toml").write_text("\n".join(lines), encoding="utf-8")
    give(at, days)
    return Checkout.at(at, {})


def give(at: Path, days: int) -> Path:
    """So many days of the samples in a checkout; the folder of them."""
    folder = at / "samples"
    folder.mkdir(exist_ok=True)
    for name in DAYS[:days]:
        shutil.copy(SAMPLES / name, folder / name)
    return folder
