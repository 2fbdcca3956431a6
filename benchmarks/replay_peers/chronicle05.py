"""agent-chronicle 0.5.0 on the same crossings, run by the interpreter of its own environment; prints one JSON object."""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.replay_peers.crossings import calls, lookup, rounds, timed, us

_boundary: Any = importlib.import_module("chronicle.boundary").boundary
_plan: Any = importlib.import_module("chronicle.replay.plan").ReplayPlan
_reset: Any = importlib.import_module("chronicle.session").reset_session


def main(sizes: list[int]) -> None:
    """Record in memory, export, load, replay."""
    find = _boundary("find", kind="tool")(lookup)
    told: dict[str, float] = {}
    for many in sizes:
        record, load, replay = [], [], []
        for _ in range(rounds(many)):
            with tempfile.TemporaryDirectory() as folder:
                session = _reset()
                session.begin_trace("bench")
                bare = timed(calls, lookup, many)
                record.append(timed(calls, find, many) - bare)
                session.export_trace(Path(folder))
                session = _reset()
                load.append(timed(session.load_trace, Path(folder)))
                session.enable_replay(_plan())
                replay.append(timed(calls, find, many))
        told |= {
            f"record_us_{many}": us(record, many),
            f"load_us_{many}": us(load, many),
            f"replay_us_{many}": us(replay, many),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
