"""`python -m examples.samples`: write the sample traces into data/samples."""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.samples.generating import write

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.samples", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("data/samples"), help="folder to write into")
    parser.add_argument(
        "--policies", type=Path, default=Path("data/policies"), help="folder with a tools.yaml a workflow"
    )
    given = parser.parse_args()
    for path in write(given.out, policies=given.policies):
        print(path)  # noqa: T201 - the names of what was written
