import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from sample_cases import ROOT
from twiceshy.cli.app import mounted


def leaves(command: Any, *names: str) -> Iterator[tuple[str, str]]:
    """(verb, help) of every command."""
    if hasattr(command, "commands"):
        for name, below in command.commands.items():
            yield from leaves(below, *names, name)
    else:
        yield " ".join(names), command.help or ""


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(ROOT)
    return dict(leaves(typer.main.get_command(mounted())))


def test_every_verb_shows_an_example(verbs: dict[str, str]) -> None:
    assert "gate" in verbs
    assert "nightly" in verbs
    without = [verb for verb, text in verbs.items() if "For example:\n\n" not in text]
    assert without == []


def test_examples_are_lines_of_their_own(verbs: dict[str, str]) -> None:
    for verb, text in verbs.items():
        examples = text.partition("For example:\n\n")[2].split("\n\n")
        assert all(example.count("twiceshy") == 1 for example in examples if example.strip()), verb


def test_cases_of_examples_exist(verbs: dict[str, str]) -> None:
    ids = {
        path.read_text(encoding="utf-8").split("id: ")[1].split()[0] for path in ROOT.glob("data/cases/*/*/case.yaml")
    }
    named = {case for text in verbs.values() for case in re.findall(r"(?:refund|scheduling|research)-[0-9a-z]+", text)}
    assert named
    assert named <= ids
