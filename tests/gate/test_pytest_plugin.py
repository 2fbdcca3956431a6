"""The plugin in a pytest of its own, as a user has it: the catalog of this checkout, sealed candidates."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from sample_cases import ROOT
from twiceshy import casefile
from twiceshy.casefile import Judge
from twiceshy.outcome import Mode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KNOWN, BELOW = "refund-3a4d36f7d30b", "refund-954f2b0c473c"


# A machine without namespaces, as `Session` is told of one that was allowed: the plugin itself never asks for it.
WEAK = """
import functools
from twiceshy import running
running.Session = functools.partial(running.Session, weak=True)
"""


class Ran(NamedTuple):
    code: int
    out: str


def run(folder: Path, body: str, *options: str, env: Mapping[str, str] | None = None) -> Ran:
    """Pytest on one file, with this checkout as its root."""
    file = folder / "test_catalog.py"
    file.write_text("import pytest\n" + textwrap.dedent(body), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(folder / "pytest.ini"),
        "--rootdir",
        str(ROOT),
        "-rA",
        "-p",
        "no:randomly",
        *options,
        str(file),
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder, timeout=550, env={**os.environ, **(env or {})}
    )
    return Ran(done.returncode, done.stdout + done.stderr)


def test_case_passes_and_fails_as_the_gate_says(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        f"""
        @pytest.mark.twiceshy("{KNOWN}", "{BELOW}", candidate="refund")
        def test_fixed(replay):
            assert replay.passed

        @pytest.mark.twiceshy("{KNOWN}", candidate="examples.refund:buggy")
        def test_empty_body_is_no_pass():
            pass

        @pytest.mark.twiceshy("{KNOWN}", candidate="examples.refund:buggy", expect="failed")
        def test_red_is_expected(replay):
            assert replay.violated == ["refund-over-limit-missing-approval"]
            assert "issue_refund" in replay.intents
        """,
    )  # fmt: skip
    assert ran.code == 1
    assert f"::test_fixed[{KNOWN}]" in ran.out
    assert "3 passed" in ran.out
    assert "1 failed" in ran.out
    assert "refund-over-limit-missing-approval (hard)" in ran.out


def test_diverged_is_a_kind_of_its_own(tmp_path: Path) -> None:
    body = """
        @pytest.mark.twiceshy("scheduling-7a928c9d50ad", candidate="scheduling")
        def test_thursday(replay):
            assert replay.outcome == "diverged"
        """
    ran = run(tmp_path, body, "-n", "2", "--record-mode=none", "--block-network")
    assert ran.code == 1
    assert "1 diverged" in ran.out
    assert "DIVERGED: these cases cannot judge this version" in ran.out
    assert "1 failed" not in ran.out
    skipped = run(tmp_path, body, "--twiceshy-diverged=skip")
    assert (skipped.code, "1 skipped" in skipped.out) == (0, True)


def test_our_own_fault_is_an_error(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        f"""
        @pytest.mark.twiceshy("no-such-case", candidate="refund")
        def test_unknown_case(replay):
            pass

        @pytest.mark.twiceshy("{KNOWN}")
        def test_no_candidate(replay):
            pass

        def test_no_mark(replay):
            pass
        """,
    )
    assert ran.code == 1
    assert "3 errors" in ran.out
    assert "there is no case 'no-such-case'" in ran.out
    assert "--twiceshy-candidate NAME" in ran.out


def test_mark_that_judges_nothing_is_an_error(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        f"""
        import unittest

        @pytest.mark.twiceshy("{KNOWN}", candidate="examples.refund:buggy")
        class TestOld(unittest.TestCase):
            def test_method(self):
                pass
        """,
    )
    assert (ran.code, "1 error" in ran.out, "passed" in ran.out) == (1, True, False)
    assert "no case would be judged" in ran.out


def test_live_boundary_that_nobody_declares_is_an_error(tmp_path: Path) -> None:
    for path in casefile.find(ROOT / "data/cases/refund"):
        held = casefile.load(path)
        misspelt = msgspec.structs.replace(held.case, judge=[Judge(mode=Mode.CUT_POINT, live=["model:planer"])])
        casefile.save(tmp_path / "cases" / path.name, misspelt, held.envelope)
    body = f"""
        @pytest.mark.twiceshy("{BELOW}", candidate="refund")
        def test_misspelt():
            pass
        """
    ran = run(tmp_path, body, env={"TWICESHY_PATHS__CASES": str(tmp_path / "cases")})
    assert (ran.code, "1 error" in ran.out) == (1, True)
    assert "declares no boundary 'model:planer'" in ran.out


def test_run_that_no_gate_accepts_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(WEAK, encoding="utf-8")
    body = f"""
        @pytest.mark.twiceshy("{KNOWN}", candidate="refund")
        def test_weak():
            pass

        @pytest.mark.twiceshy("{KNOWN}", candidate="examples.refund:buggy", expect="failed")
        def test_weak_and_expected():
            pass
        """
    ran = run(tmp_path, body)
    assert (ran.code, "2 errors" in ran.out, "passed" in ran.out) == (1, True, False)
    assert "which no gate accepts" in ran.out


def test_plugin_costs_nothing_unasked(tmp_path: Path) -> None:
    body = "import sys\ndef test_light():\n    assert not {'twiceshy.judging', 'twiceshy.cli', 'yaml', 'typer'} & set(sys.modules)\n"
    assert run(tmp_path, body).code == 0


def test_an_outcome_that_is_none_is_refused(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        f"""
        @pytest.mark.twiceshy("{KNOWN}", candidate="examples.refund:buggy", expect="fialed")
        def test_never_judged():
            pass
        """,
    )
    assert ran.code == 2
    assert "expect='fialed' is none of passed, failed, diverged." in ran.out


def test_a_case_of_another_workflow_is_one_line(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        f"""
        @pytest.mark.twiceshy("{KNOWN}", candidate="scheduling")
        def test_never_judged():
            pass
        """,
    )
    assert (ran.code, "Traceback" in ran.out or "pytest_plugin.py:" in ran.out) == (1, False)
    assert "candidate 'scheduling' is of workflow 'scheduling', case" in ran.out
