"""One script a claim: `.venv/bin/python -m benchmarks.NAME` ends with one JSON line of figures."""

import json
from collections.abc import Mapping


def report(
    name: str,
    figures: Mapping[str, object],
    *,
    holds: bool,
    peers: Mapping[str, object] | None = None,
) -> int:
    """Print the one JSON line every benchmark ends with; what comes back is its exit code: 0 where the claim holds, else 1.

    figures: the measured values, under the names that README and docs cite; peers: the same for what they are measured against.
    holds: whether the claim the script stands for is true on these figures. Raises ValueError for NaN or infinity, TypeError
    for what JSON cannot hold.
    """
    line = {"benchmark": name, "figures": dict(figures), "peers": dict(peers or {}), "holds": holds}
    print(json.dumps(line, allow_nan=False), flush=True)
    return 0 if holds else 1
