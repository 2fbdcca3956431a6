"""Whether a replay is one and the same, bit for bit, wherever it runs.

Every case of data/cases is replayed 100 times in each of its judging modes, in fresh sealed processes that differ in PYTHONHASHSEED, TZ, working folder and the
number of workers beside them. `replays` counts trials; `distinct_digests_max` is the largest number of different transcript digests that any (case, mode) came to.
"""

import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from benchmarks import report
from twiceshy import configuration, judging
from twiceshy.casefile import LoadedCase
from twiceshy.cli.options import candidate_spec
from twiceshy.redaction import Keyring
from twiceshy.results import Candidacy
from twiceshy.running import CandidateSpec
from twiceshy.sessions import SessionPool

ROUNDS = 100
VARIED = ("PYTHONHASHSEED", "TZ")


class Surroundings(NamedTuple):
    """What differs from round to round."""

    seed: str
    zone: str
    folder: Path
    workers: int


def surroundings(folders: list[Path]) -> Iterator[Surroundings]:
    """Round after round, no two dimensions in step with each other."""
    zones = cycle(["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Europe/London"])
    return (
        Surroundings(str(at * 7919 % 4_294_967_295), zone, folder, workers)
        for at, (zone, folder, workers) in enumerate(zip(zones, cycle(folders), cycle([1, 2, 3, 2]), strict=False))
    )


def played(
    spec: CandidateSpec, cases: list[LoadedCase], rules: judging.Rules, root: Path, around: Surroundings
) -> Iterator[tuple[str, str]]:
    """(case and mode, transcript digest) of one trial of each judging mode of each case, in fresh processes."""
    env = {**os.environ, "PYTHONHASHSEED": around.seed, "TZ": around.zone}
    terms = judging.Terms(trials=1)
    with chdir(around.folder), SessionPool(spec, env=env, folder=root, cases=[root], workers=around.workers) as pool:
        for judged in judging.judge_cases(pool, judging.graders(cases, rules, terms), rules, terms, Candidacy()):
            for mode in judged.modes:
                yield f"{judged.loaded.case.id} [{mode.cut.label}]", mode.trials[0].transcript.digest


def main() -> int:
    """Replay, count the digests, and report."""
    root = Path(__file__).resolve().parents[1]
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    config = configuration.load(root, os.environ)
    cases = judging.load_cases(config.path("cases"))
    digests: dict[str, set[str]] = defaultdict(set)
    replays = 0
    with tempfile.TemporaryDirectory() as elsewhere:
        for around in islice(surroundings([root, Path(elsewhere), Path("/")]), rounds):
            for workflow in sorted({loaded.case.workflow for loaded in cases}):
                spec = replace(candidate_spec(workflow, config), allow_env=VARIED)
                rules = judging.rules_of(config.path("policies"), workflow, Keyring.of(os.environ))
                of_workflow = [loaded for loaded in cases if loaded.case.workflow == workflow]
                for name, digest in played(spec, of_workflow, rules, root, around):
                    digests[name].add(digest)
                    replays += 1
    most = max(map(len, digests.values()))
    unstable = sorted(name for name, found in digests.items() if len(found) > 1)
    figures = {
        "replays": replays,
        "cases": len(cases),
        "rounds": rounds,
        "distinct_digests_max": most,
        "unstable": unstable,
    }
    return report("bit_stability", figures, holds=most == 1)


if __name__ == "__main__":
    sys.exit(main())
