"""What replay, load and record cost a crossing, and what isolation adds to a trial; beside Chronicle and vcrpy on the same crossings.

Figures: `us_per_crossing_N` one replayed crossing of N of one name, inside one process, journal included (flat in N); `index_us` building the index, a crossing;
`load_us` reading a case's envelope, digest checked, a crossing; `record_us` recording beyond the bare call; `bytes_per_crossing` on disk;
`trial_ms` a sealed trial beyond an unsealed one, paired; `fork_ms` the bare fork of a process of `process_mb`. Medians of CPU time, trials of wall time.
Peers: the same names where they have the thing. Chronicle 1.1.1 replays from a list in memory; of vcrpy the HTTP client's own work is a part.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.replay_peers import PEERS, measured
from benchmarks.replay_peers.crossings import calls, lookup, timed
from twiceshy import casefile
from twiceshy.boundary import Boundary
from twiceshy.casefile import Case, Judge
from twiceshy.envelope import Disposition, Effect, Envelope, RunInput
from twiceshy.journal import Journal
from twiceshy.policy import ToolPolicy, ToolsPolicy
from twiceshy.recording import Recorder, live
from twiceshy.replaying import Replay, Terms
from twiceshy.running import CandidateSpec, Session, Task

SIZES = (10, 100, 1000, 3000)
REPLAY_US, LOAD_US, TRIAL_MS = 15, 50, 5
"""What a crossing may cost to replay and to load, and isolation to a trial."""
POLICY = ToolsPolicy(workflow="bench", tools={"find": ToolPolicy(effect=Effect.READ)})
Agent = Callable[[int], None]


def build(boundary: Boundary) -> Agent:
    """An agent that makes n calls of one tool, with the arguments and results of an ordinary lookup."""
    find = boundary.tool("find", lookup, effect="read")

    return lambda many: calls(find, many)


def recorded(calls: int) -> Envelope:
    """The envelope of a run of so many calls."""
    recorder = Recorder(policy=POLICY)
    build(Boundary(recorder))(calls)
    return recorder.envelope(
        trace_id="0" * 32,
        source="bench",
        workflow="bench",
        run_input=RunInput(user=calls),
        disposition=Disposition(output=None),
    )


def replay_us(envelope: Envelope, calls: int, rounds: int) -> tuple[float, float]:
    """Microseconds a replayed crossing and for its share of the index, medians over the rounds."""
    once = [replayed_once(envelope, calls) for _ in range(rounds)]
    serving, indexing = (statistics.median(times) / calls * 1e6 for times in zip(*once, strict=True))
    return serving, indexing


def replayed_once(envelope: Envelope, calls: int) -> tuple[float, float]:
    """CPU seconds of serving one run, and of building its index."""
    lines: list[bytes] = []
    replays: list[Replay] = []
    indexing = timed(lambda: replays.append(Replay(envelope, Terms(policy=POLICY), Journal(lines.append))))
    agent = build(Boundary(replays[0]))
    serving = timed(lambda: agent(calls))
    assert len(lines) == calls
    return serving, indexing


def record_us(calls: int, rounds: int) -> float:
    """Microseconds that recording adds to a call, against the same call through a boundary that only runs it."""
    extra = []
    for _ in range(rounds):
        bare = timed(lambda: build(Boundary(live()))(calls))
        extra.append(timed(lambda: build(Boundary(Recorder(policy=POLICY)))(calls)) - bare)
    return statistics.median(extra) / calls * 1e6


def stored(envelope: Envelope, calls: int, rounds: int, folder: Path) -> tuple[float, float]:
    """Microseconds to load a crossing, and bytes on disk for one."""
    path = folder / "envelope.jsonl"
    casefile.save_envelope(path, envelope)
    load = statistics.median(timed(lambda: casefile.load_envelope(path)) for _ in range(rounds))
    return load / calls * 1e6, path.stat().st_size / calls


def trials_ms(folder: Path, rounds: int) -> dict[str, float]:
    """Wall milliseconds of a trial, sealed and unsealed in turn, of the refund agent's own work and a fork."""
    from examples import refund

    recorder = Recorder()
    refund.buggy(Boundary(recorder))(refund.T_1042)
    envelope = recorder.envelope(
        trace_id="1" * 32,
        source="bench",
        workflow="refund",
        run_input=RunInput(user=refund.T_1042),
        disposition=Disposition(output=None),
    )
    path = folder / "case"
    casefile.save(path, Case(id="bench", kind="failure", workflow="refund", trace_id="1" * 32), envelope)
    task = Task(loaded=casefile.load(path), judge=Judge(), policy=ToolsPolicy(workflow="refund"))
    spec = CandidateSpec(factory="examples.refund:buggy")
    env = dict(os.environ)
    with (
        Session(spec, env=env, folder=Path.cwd(), cases=[path]) as sealed,
        Session(spec, env=env, folder=Path.cwd(), cases=[path], weak=True) as bare,
    ):
        differences, alone = [], []
        for _ in range(rounds):
            inside, outside = wall_ms(lambda: sealed.play(task)), wall_ms(lambda: bare.play(task))
            differences.append(inside - outside)
            alone.append(outside)
        size = sealed.ready.memory_bytes
    return {
        "trial_ms": round(statistics.median(differences), 2),
        "trial_unsealed_ms": round(statistics.median(alone), 2),
        "fork_ms": round(statistics.median(fork_ms() for _ in range(rounds)), 2),
        "process_mb": round(size / 2**20, 1),
    }


def wall_ms(run: Callable[[], object]) -> float:
    """Wall milliseconds of one run."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def fork_ms() -> float:
    """Wall milliseconds to fork this process and wait for a child that ends at once."""

    def run() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    return wall_ms(run)


def holds(figures: dict[str, float], peers: dict[str, dict[str, Any]]) -> bool:
    """Flat in N; cheap in itself or far below Chronicle, whose figures of this very run count; load, record and isolation within bounds."""
    ours, flat = figures["us_per_crossing_3000"], figures["us_per_crossing_3000"] <= 2 * figures["us_per_crossing_100"]
    old, new = (peers.get(name, {}) for name in ("chronicle-0.5.0", "chronicle-1.1.1"))
    ahead = 100 * ours <= old.get("replay_us_3000", 0) and 4 * ours <= new.get("replay_us_3000", 0)
    recorded_below = all(
        figures["record_us"] < peer["record_us_1000"] for peer in (old, new) if "record_us_1000" in peer
    )
    return (
        flat
        and (ours <= REPLAY_US or ahead)
        and figures["load_us"] <= LOAD_US
        and recorded_below
        and figures["trial_ms"] <= TRIAL_MS
    )


def main() -> int:
    """Measure and report."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for calls in SIZES:
            envelope = recorded(calls)
            rounds = max(5, 3000 // calls)
            figures[f"us_per_crossing_{calls}"], figures["index_us"] = replay_us(envelope, calls, rounds)
        figures["load_us"], figures["bytes_per_crossing"] = stored(recorded(SIZES[-1]), SIZES[-1], 5, Path(folder))
        figures["record_us"] = record_us(1000, 7)
        figures |= trials_ms(Path(folder), 30)
    peers = {peer: measured(peer, list(SIZES)) for peer in PEERS}
    return report(
        "replay_cost",
        {name: round(value, 2) for name, value in figures.items()},
        holds=holds(figures, peers),
        peers=peers,
    )


if __name__ == "__main__":
    sys.exit(main())
