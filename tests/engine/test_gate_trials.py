"""A gate runs every case at least twice: of one trial nobody knows whether the next comes to the same (semantics.md §7)."""

import pytest
from typer.testing import CliRunner

from twiceshy import pytest_plugin
from twiceshy.cli.app import mounted


@pytest.mark.parametrize("verb", ["gate", "champion pin", "champion diff", "nightly"])
def test_a_gate_takes_no_single_trial(verb: str) -> None:
    ran = CliRunner().invoke(mounted(), [*verb.split(), "-c", "nobody", "--trials", "1"])
    assert (ran.exit_code, "'--trials': Input should be greater than or equal to 2" in ran.output) == (2, True)


@pytest.mark.parametrize("text", ["0", "1", "-2", "two", ""])
def test_the_plugin_takes_no_single_trial(text: str) -> None:
    with pytest.raises(pytest.UsageError, match="write 2 or more"):
        pytest_plugin._trials(text)
    assert pytest_plugin._trials("2") == 2
