"""Claim: a world in Python over seeded tables answers what a real system answered: every tool call of 100 recorded airline runs, writes and errors too.

Each run of tau-bench's airline gets the world anew, seeded from the database that its agents worked on; its calls are asked in their order and the answers
compared under identity rules. `reads_equal_share` and `writes_equal_share` are of the calls that succeeded in the record, `errors_equal_share` of those that
failed. Every difference is printed by its kind before the figures.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchmarks import report
from benchmarks.airline_world import Airline
from twiceshy.envelope import Effect
from twiceshy.identity import digest, equal
from twiceshy.matching import differences
from twiceshy.worlds import TableSeed, WorldMiss, coded
from twiceshy.worlds.loading import LoadedWorld
from twiceshy.worlds.worldfile import WorldFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from twiceshy.worlds.bindings import WorldAnswer

ROOT = Path(__file__).parents[1]
_SET = "shared/real-traces/tau-bench"
FOLDER = next((above / _SET for above in ROOT.parents if (above / _SET).exists()), ROOT.parent / _SET)
TRAJECTORIES = "gpt-4o-airline.trajectories.jsonl.gz"


class Asked(NamedTuple):
    """One recorded call with its answer: the text as it was, and the value it holds."""

    run: str
    tool: str
    args: dict[str, Any]
    text: str

    @property
    def value(self) -> Any:
        """The answer as a value: JSON where it is JSON."""
        try:
            return msgspec.json.decode(self.text)
        except msgspec.DecodeError:
            return self.text

    @property
    def failed(self) -> bool:
        """Whether the tool returned an error."""
        return self.text.startswith("Error")


class Compared(NamedTuple):
    """One call with what the world made of it; why: None where both are equal."""

    asked: Asked
    sort: str
    why: str | None


def seeds(folder: Path) -> dict[str, TableSeed]:
    """The three tables. The database is of a later version than the runs: it calls `state` what every recorded address calls `province`."""
    flights, reservations, users = (
        msgspec.json.decode(gzip.decompress((folder / f"envdb-airline-{name}.json.gz").read_bytes()))
        for name in ("flights", "reservations", "users")
    )
    for user in users.values():
        user["address"]["province"] = user["address"].pop("state")
    return {
        "flights": TableSeed(key=["flight_number"], closed=True, rows=list(flights.values())),
        "reservations": TableSeed(key=["reservation_id"], closed=True, rows=list(reservations.values())),
        "users": TableSeed(key=["user_id"], closed=True, rows=[{"user_id": name, **user} for name, user in users.items()]),
    }  # fmt: skip


def calls(folder: Path) -> Iterator[list[Asked]]:
    """The calls of each run, in their order."""
    for line in gzip.decompress((folder / TRAJECTORIES).read_bytes()).splitlines():
        run = msgspec.json.decode(line)
        name = f"task {run['task_id']} trial {run['trial']}"
        asked: dict[str, tuple[str, dict[str, Any]]] = {}
        found = []
        for message in run["traj"]:
            for call in message.get("tool_calls") or ():
                asked[call["id"]] = (call["function"]["name"], msgspec.json.decode(call["function"]["arguments"]))
            if message["role"] == "tool":
                found.append(Asked(name, *asked[message["tool_call_id"]], message["content"]))
        yield found


def compared(world: LoadedWorld, run: list[Asked]) -> Iterator[Compared]:
    """The calls of one run, each beside the world's answer."""
    running = world.started()
    effects = coded.tools(Airline)
    for asked in run:
        sort = "error" if asked.failed else "write" if effects[asked.tool] is Effect.WRITE else "read"
        try:
            answer = running.answer(asked.tool, asked.args)
        except WorldMiss as miss:
            yield Compared(asked, sort, f"no answer: {miss}")
        else:
            yield Compared(asked, sort, _why(asked, answer))


def _why(asked: Asked, answer: WorldAnswer) -> str | None:
    """How the world's answer differs from the recorded one."""
    value = answer.value
    if (answer.error is not None) != asked.failed:
        return f"the world says {value!r}" if answer.error is not None else "the world does it, the record refuses"
    if equal(value, asked.value):
        return None
    fields = sorted({diff.path.partition("[")[0] or "the text" for diff in differences(asked.value, value)})
    return f"differs in {', '.join(fields)}"


def main() -> int:
    """Print the differences and the figures; 0 when every call is answered alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the airline runs and tables of tau-bench")
    folder = parser.parse_args().folder
    if not (folder / TRAJECTORIES).exists():
        print(f"skipped: {folder / TRAJECTORIES} is not there. Give the folder of the airline runs with --folder.")
        return 0
    tables = seeds(folder)
    file = WorldFile(tables=tables)
    world = LoadedWorld(path=folder, file=file, digest=digest(sorted(tables)), bindings={}, python=Airline)
    found = [one for run in calls(folder) for one in compared(world, run)]
    print(
        "seeded under the name that every recorded address has: users[].address.province, which the database calls state"
    )
    kinds: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for one in found:
        if one.why is not None:
            kinds[one.sort, one.asked.tool, one.why].append(one.asked.run)
    for (sort, tool, why), runs in sorted(kinds.items()):
        print(f"{len(runs)} {sort} {tool}: {why} ({', '.join(dict.fromkeys(runs))})")
    asked, same = Counter(one.sort for one in found), Counter(one.sort for one in found if one.why is None)
    figures: dict[str, object] = {"calls": len(found)}
    figures |= {f"{sort}s_equal_share": round(same[sort] / asked[sort], 4) for sort in ("read", "write", "error")}
    holds = all(figures[f"{sort}s_equal_share"] == 1.0 for sort in ("read", "write", "error"))
    return report("tau_world", figures, holds=holds)


if __name__ == "__main__":
    sys.exit(main())
