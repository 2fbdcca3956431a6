"""What the command line says and ends with, whatever is wrong around it."""

import os
from pathlib import Path

import pytest

from sample_cases import save_catalog, twiceshy
from twiceshy import cli


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gate", "-c", "x:y", "--junit", "taken/report.xml"], "--junit taken/report.xml: cannot be written: "),
        (["gate", "-c", "x:y", "--json", "."], "--json .: cannot be written: Is a directory."),
        (["gate", "-c", "x:y", "--json", "-", "--junit", "-"], "only one of --junit, --json, --summary can be stdout."),
        (["gate", "-c", "x:y", "--annotations", "gitlab"], "--annotations 'gitlab': write one of auto, github, none."),
        (["break", "--all", "-c", "x:y", "--json", "taken/x"], "--json taken/x: cannot be written: "),
        (["break", "some-case", "-c", "x:y", "--json", "x"], "--select and --json go with --all."),
        (["deploy"], "`twiceshy deploy` works in a pipeline checkout"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_runs(tmp_path: Path, words: list[str], told: str) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    ran = twiceshy(*words, cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"twiceshy: {told}")
    assert len(ran.err.splitlines()) == 1


def test_a_gate_that_is_refused_leaves_an_older_report_alone(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text("older", encoding="utf-8")
    assert twiceshy("gate", "-c", "x:y", "--junit", "report.xml", cwd=tmp_path).code == 2
    assert (tmp_path / "report.xml").read_text(encoding="utf-8") == "older"


def test_our_own_crash_never_looks_like_a_failed_case(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("our own mistake")

    monkeypatch.setattr(cli, "mounted", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 4
    assert "RuntimeError: our own mistake" in capsys.readouterr().err


def test_a_file_that_the_machine_refuses_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(28, os.strerror(28), "/data/champion/refund.json")

    monkeypatch.setattr(cli, "mounted", full)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, capsys.readouterr().err) == (
        4,
        "twiceshy: /data/champion/refund.json: No space left on device.\n",
    )


def test_it_says_its_version(tmp_path: Path) -> None:
    ran = twiceshy("--version", cwd=tmp_path)
    assert (ran.code, ran.out.split()[0]) == (0, "twiceshy")


def test_a_catalog_without_a_case_is_not_valid(tmp_path: Path) -> None:
    (tmp_path / "data/cases").mkdir(parents=True)
    ran = twiceshy("case", "validate", cwd=tmp_path)
    assert (ran.code, ran.out) == (5, "0 of 0 cases are valid\n")


def test_default_judging_modes_are_told_from_named_ones(tmp_path: Path) -> None:
    save_catalog(tmp_path / "cases")
    named = tmp_path / "cases/refund/refund-below-limit/case.yaml"
    named.write_text(named.read_text(encoding="utf-8") + "judge: [{mode: full}]\n", encoding="utf-8")
    other = tmp_path / "cases/scheduling/scheduling-thursday/case.yaml"
    other.write_text(
        other.read_text(encoding="utf-8").replace("confirmation-before", "nobody-before"), encoding="utf-8"
    )
    told = twiceshy("case", "ls", "--cases", tmp_path / "cases")
    assert told.code == 0
    modes = {line.split()[0]: " ".join(line.split()[4:-1]) for line in told.out.splitlines()}
    assert modes == {
        "refund-t-1042": "full + cut-point --after 3 (default)",
        "refund-below-limit": "full",
        "scheduling-thursday": "cut-point --live model:* (default, not valid)",
    }
    shown = twiceshy("case", "show", "refund-t-1042", "--cases", tmp_path / "cases").out
    assert "# judged: full + cut-point --after 3 (default)" in shown
    assert "verdict: suggested" in shown
