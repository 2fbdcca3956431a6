import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = ("prefect", "polars", "duckdb", "pandera", "great_expectations", "jinja2", "cel")


def test_verbs_import_nothing_heavy() -> None:
    script = f"import sys, flows.cli; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    printed = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == []
