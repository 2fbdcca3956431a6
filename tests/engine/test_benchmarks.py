"""The scripts that claims rest on end with what they found, and so does what runs mutants."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.incidents_agents.cases import CUT_POINT, incidents
from benchmarks.incidents_agents.replays import replayed
from benchmarks.incidents_agents.systems import systems
from twiceshy.outcome import BoundaryState

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))


def test_the_exit_code_follows_the_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert [report("x", {"n": 1}, holds=holds) for holds in (True, False)] == [0, 1]
    assert '"holds": false' in capsys.readouterr().out


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_ends_with_its_claim(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    main = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main")
    last = main.body[-1]
    assert isinstance(last, ast.Return)
    assert ast.unparse(last).startswith("return report(")
    assert ast.unparse(tree.body[-1]).endswith("sys.exit(main())")


def test_a_call_that_runs_live_arrives_at_its_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the count of live crossings rests on: it would see one."""
    with systems() as behind:
        cases = incidents(tmp_path)
        assert behind.arrived.total() == 3 * len(cases)
        behind.arrived.clear()
        replayed(cases["refund"], CUT_POINT, mode="ungated")
        assert behind.arrived.total() == 0
        monkeypatch.setattr("twiceshy.cutpoint.CutPoint.state", lambda *_: BoundaryState.LIVE)
        replayed(cases["refund"], CUT_POINT, mode="ungated")
        assert set(behind.arrived) >= {"get_order", "pay_back"}


@pytest.mark.slow
@pytest.mark.parametrize("failing", ["run", "results", None])
def test_mutants_looks_at_how_mutmut_ended(failing: str | None, tmp_path: Path) -> None:
    for name in ("mutmut", "mutmut/mutation"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "mutmut/mutation/diff_apply.py").write_text("get_diff_for_mutant = None\n")
    # What `results` tells may stand from an earlier run.
    (tmp_path / "mutmut/__main__.py").write_text(
        "import sys\nif sys.argv[1] == 'results': print('twiceshy.replaying.f__mutmut_1: killed')\n"
        f"else: print('it could not')\nsys.exit(sys.argv[1] == {failing!r})\n"
    )
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/house/mutants.py"), "replaying"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=60,
    )  # fmt: skip
    finished = "0 survivors, 0 explained" in done.stdout
    assert finished is (failing is None), done.stdout + done.stderr
    assert done.returncode != 0 or failing is None
