"""The refund agent in Node.js, with npm's openai package unmodified, judged by the committed cases."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sealed import a_host_folder, skip_without_namespaces
from twiceshy import commands

ROOT = Path(__file__).parents[2]
TOML = """
[paths]
cases = "{root}/data/cases"
policies = "{root}/data/policies"

[candidate.buggy]
command = ["node", "agent.mjs"]
workflow = "refund"
tools = ["http"]
versions = {{harness = "2.3.0", model = "refund-planner-1"}}

[candidate.guarded]
command = ["node", "agent.mjs", "--guarded", "--stream"]
workflow = "refund"
tools = ["http"]

[candidate.uncontrolled]
command = ["node", "agent.mjs"]
workflow = "refund"
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project() -> Iterator[Path]:
    skip_without_namespaces()
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are not installed: apt-get install nodejs npm")
    with a_host_folder() as folder:
        shutil.copy(ROOT / "examples/refund_node/agent.mjs", folder)
        (folder / "twiceshy.toml").write_text(TOML.format(root=ROOT))
        install = [
            "npm",
            "install",
            "openai@6",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--cache",
            str(folder / "cache"),
        ]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot install openai here: {done.stderr.strip().splitlines()[-1]}")
        yield folder


def twiceshy(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from twiceshy.cli import main; main()", *words], cwd=project, capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


@pytest.mark.skipif(
    commands.faketime_library() is None, reason="libfaketime is not installed: apt-get install faketime"
)
@pytest.mark.parametrize(("candidate", "code", "said"), [("buggy", 1, "assertion=refund-over-limit-missing-approval at=#4 issue_refund[intercepted]"), ("guarded", 0, "4 passed")])  # fmt: skip
def test_a_node_agent_is_judged_by_the_catalog(project: Path, candidate: str, code: int, said: str) -> None:
    done = twiceshy(project, "gate", "--candidate", candidate)
    assert (done.returncode, said in done.stdout) == (code, True), done.stdout + done.stderr


def test_no_gate_accepts_the_machines_clock(project: Path) -> None:
    """A shell that says of itself, in bytes that no loader reads, that it is a Go program, which asks the kernel for the time."""
    shell = bytearray(Path("/bin/sh").read_bytes())
    shell[9:13] = b"Go\x00\x00"
    (project / "wrapped").write_bytes(shell)
    (project / "wrapped").chmod(0o755)
    toml = (project / "twiceshy.toml").read_text()
    (project / "twiceshy.toml").write_text(
        toml
        + '\n[candidate.wrapped]\ncommand = ["./wrapped", "-c", "node agent.mjs --guarded"]\nworkflow = "refund"\ntools = ["http"]\n'
    )
    done = twiceshy(project, "gate", "--candidate", "wrapped")
    assert (done.returncode, "by the machine's clock" in done.stdout) == (4, True), done.stdout + done.stderr


def test_tools_that_go_elsewhere_are_refused(project: Path) -> None:
    done = twiceshy(project, "gate", "--candidate", "uncontrolled")
    assert done.returncode == 2
    assert "does not say where its tools go" in done.stderr


def test_what_a_command_complains_of_is_shown_to_a_person(project: Path) -> None:
    toml = (project / "twiceshy.toml").read_text()
    (project / "twiceshy.toml").write_text(
        toml
        + '\n[candidate.broken]\ncommand = ["node", "-e", "throw Error(\'no key\')"]\nworkflow = "refund"\ntools = ["http"]\n'
    )
    done = twiceshy(project, "replay", "refund-3a4d36f7d30b", "-c", "broken", "-m", "full", "-v")
    assert "Error: no key" in done.stdout
