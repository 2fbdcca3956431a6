"""agent-chronicle 1.1.1 on the same crossings, with a control plane in memory so that no network is timed; prints one JSON object."""

import importlib
import json
import sys
from typing import Any

from benchmarks.replay_peers.crossings import calls, lookup, rounds, timed, us

_chronicle: Any = importlib.import_module("chronicle")


class InMemory:
    """The control plane's four verbs over one list."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def upsert_trace(self, trace: Any) -> None:
        """Nothing is asked of a trace here."""

    def upsert_span(self, span: Any) -> None:
        """Nothing is asked of a span here."""

    def append_envelopes(self, envelopes: Any) -> None:
        """Keep them."""
        self.held.extend(envelopes)

    def read_span_envelopes(self, trace_id: str, span_id: str) -> list[Any]:
        """Those of one span."""
        return [held for held in self.held if (held.trace_id, held.span_id) == (trace_id, span_id)]

    def close(self) -> None:
        """Nothing to release."""


def main(sizes: list[int]) -> None:
    """Record to memory, replay from it."""
    find = _chronicle.boundary("find", kind="tool")(lookup)
    told: dict[str, float] = {}
    for many in sizes:
        record, replay = [], []
        for _ in range(rounds(many)):
            client = InMemory()
            _chronicle.configure(client=client, max_queue=10 * many, service_name="bench")
            bare = timed(calls, lookup, many)
            with _chronicle.record("bench") as session:
                record.append(timed(calls, find, many) - bare)
            _chronicle.flush()
            with _chronicle.replay(client.held, trace_id=session.trace_id):
                replay.append(timed(calls, find, many))
            _chronicle.reset()
        told |= {f"record_us_{many}": us(record, many), f"replay_us_{many}": us(replay, many)}
    print(json.dumps(told))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
