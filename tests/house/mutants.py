"""`make mutants`: mutmut on the modules that decide whether a gate is red; every survivor has to be explained in survivors.toml.

`python tests/house/mutants.py [MODULE ...]`: names as in `MODULES`, or one file of such a package (`replaying/calls`); none means all of them. Ends with 1
where a mutant survives that nobody explained, or an explanation stands for none that survives. A mutant is known by its function and its change, which an edit
elsewhere in the file does not move.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mutmut.mutation.diff_apply import get_diff_for_mutant

ROOT = Path(__file__).resolve().parents[2]
EXPLAINED = Path(__file__).with_name("survivors.toml")
MODULES = ("identity", "replaying", "cutpoint", "invariants", "grading")
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ALIVE = ("survived", "no tests", "timeout", "suspicious")


class Survivor(NamedTuple):
    """A mutant that no test noticed: the function it is in, and the lines before and after."""

    function: str
    was: str
    now: str


def main(chosen: list[str]) -> int:
    """Run mutmut module by module, and tell what is left."""
    wrong = set(chosen) - set(MODULES) - set(_files())
    if wrong:
        there = ", ".join((*MODULES, *_files()))
        print(f"no such module: {', '.join(sorted(wrong))}; there are {there}")
        return 2
    # mutmut reads its settings and its mutants from where it stands.
    os.chdir(ROOT)
    explained = _explained()
    left: set[Survivor] = set()
    prefixes = tuple(f"twiceshy.{name.replace('/', '.')}." for name in chosen or MODULES)
    for prefix in prefixes:
        _mutmut("run", "--max-children", "2", f"{prefix}*")
        left |= set(_left(prefix))
    unexplained = left - explained
    stale = {one for one in explained - left if one.function.startswith(prefixes)}
    for one in sorted(unexplained):
        print(f"survived, and nobody says why: {one.function}\n  - {one.was}\n  + {one.now}")
    for one in sorted(stale):
        print(f"explained, and killed: {one.function}\n  - {one.was}\n  + {one.now}")
    print(f"{len(left)} survivors, {len(left & explained)} explained")
    return 1 if unexplained or stale else 0


def _files() -> list[str]:
    """The files of those modules that are packages."""
    source = ROOT / "src" / "twiceshy"
    return sorted(f"{name}/{path.stem}" for name in MODULES for path in (source / name).glob("[!_]*.py"))


def _left(prefix: str) -> Iterator[Survivor]:
    """The survivors of the mutants whose names begin so. A run that tried nothing, or not everything, proves nothing: it ends here."""
    lines = [line.strip().partition(": ") for line in _mutmut("results", "--all", "true").splitlines()]
    states = {name: state for name, _, state in lines if name.startswith(prefix)}
    untried = [name for name, state in states.items() if state not in (*ALIVE, "killed")]
    if not states or untried:
        raise SystemExit(f"mutmut left {len(untried)} of {len(states)} mutants of {prefix[:-1]} untried; run it again.")
    for name, state in states.items():
        if state in ALIVE:
            yield _shown(name)


def _shown(name: str) -> Survivor:
    # Not `mutmut show`: a process for each of a hundred survivors takes minutes.
    diff = [line for line in get_diff_for_mutant(name).splitlines() if line[:3] not in ("---", "+++")]
    was = " ".join(line[1:].strip() for line in diff if line.startswith("-"))
    now = " ".join(line[1:].strip() for line in diff if line.startswith("+"))
    return Survivor(name.rpartition("__mutmut_")[0], was, now)


def _explained() -> set[Survivor]:
    held = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("survivor", [])
    lacking = [one["function"] for one in held if not one.get("why")]
    if lacking:
        raise SystemExit(f"{EXPLAINED}: no reason given for {', '.join(lacking)}")
    return {Survivor(one["function"], one["was"], one["now"]) for one in held}


def _mutmut(*words: str) -> str:
    """What mutmut prints; where it could not do its work, that is all there is to say.

    CI: hypothesis repeats itself, so that no mutant lives or dies by chance.
    """
    command = [sys.executable, "-m", "mutmut", *words]
    done = subprocess.run(command, check=False, env={**os.environ, "CI": "1"}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit("\n".join(line for line in done.stdout.splitlines() if line[:1] not in _SPINNER))
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
