"""The plugin in a pytest of its own, as a user has it: the catalog of this checkout, sealed candidates."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from sample_cases import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KNOWN, BELOW = "refund-3a4d36f7d30b", "refund-954f2b0c473c"


class Ran(NamedTuple):
    code: int
    out: str


def run(folder: Path, body: str, *options: str) -> Ran:
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
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, timeout=550)
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


def test_plugin_costs_nothing_unasked(tmp_path: Path) -> None:
    body = "import sys\ndef test_light():\n    assert not {'twiceshy.judging', 'twiceshy.cli', 'yaml', 'typer'} & set(sys.modules)\n"
    assert run(tmp_path, body).code == 0
