import json
import subprocess
import sys

import pytest

from traces import ROOT, real


@pytest.mark.slow
def test_known_figures_are_met() -> None:
    traces = real("tau-bench/gpt-4o-airline.trajectories.jsonl.gz")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tau_divergence", "--traces", str(traces)], cwd=ROOT, capture_output=True, text=True, check=True
    )  # fmt: skip
    line = json.loads(done.stdout.splitlines()[-1])
    figures = line["figures"]
    assert line["holds"] is True
    # By the state rule: a change of these figures is a change of what a replay may answer.
    assert [figures[name] for name in ("fully_covered", "reads_covered", "first_miss_median", "reads")] == [
        0.566,
        0.645,
        0.286,
        1038,
    ]
    assert figures["misses"] == {"args_mismatch": 71, "state_mismatch": 98, "unrecorded_call": 199}


def test_missing_traces_are_named(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tau_divergence", "--traces", f"{tmp_path}/gone"], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 2
    assert "gone: no such file" in done.stderr
