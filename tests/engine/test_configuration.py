from pathlib import Path

import pytest

from twiceshy import configuration
from twiceshy.cli.options import candidate_spec
from twiceshy.errors import ConfigurationError


def toml(folder: Path, text: str, name: str = "twiceshy.toml") -> Path:
    (folder / name).write_text(text)
    return folder


def test_defaults_need_no_file(tmp_path: Path) -> None:
    found = configuration.load(tmp_path, {})
    assert found.path("cases") == tmp_path.resolve() / "data/cases"
    assert found.settings.gate.trials == 2


def test_environment_wins_over_the_file(tmp_path: Path) -> None:
    toml(
        tmp_path,
        '[gate]\ntrials = 3\nworkers = 2\n[paths]\ncases = "catalog"\n[candidate.refund]\nfactory = "shop.agent:build"\n',
    )
    found = configuration.load(
        tmp_path, {"TWICESHY_GATE__TRIALS": "5", "TWICESHY_PATHS__CASES": "other", "TWICESHY_KEY_K1": "secret"}
    )
    assert (found.settings.gate.trials, found.settings.gate.workers) == (5, 2)
    assert found.path("cases").name == "other"
    assert found.sources["gate.trials"] == "$TWICESHY_GATE__TRIALS"
    assert found.sources["gate.workers"].endswith("twiceshy.toml")
    assert found.settings.candidate["refund"].factory == "shop.agent:build"
    assert "secret" not in repr(found)


def test_a_folder_below_finds_it(tmp_path: Path) -> None:
    toml(tmp_path, "[gate]\ntrials = 4\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = configuration.load(tmp_path / "a" / "b", {})
    assert (found.root, found.settings.gate.trials) == (tmp_path.resolve(), 4)


def test_the_project_table_counts_too(tmp_path: Path) -> None:
    toml(tmp_path, "[tool.twiceshy.gate]\ntrials = 7\n", "pyproject.toml")
    assert configuration.load(tmp_path, {}).settings.gate.trials == 7


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("[gate]\ntrails = 3\n", "unknown setting 'gate.trails'. Did you mean 'trials'?"),
        ("[gat]\ntrials = 3\n", "unknown setting 'gat'"),
        ("[candidate.refund]\nfactry = 'x'\n", "unknown setting 'candidate.refund.factry'"),
        ("[candidate.refund]\n", "missing required field `factory`"),
        ("[gate]\ntrials = 'many'\n", "gate.trials"),
        ("[gate]\ntrials = 1\n", "Expected `int` >= 2 - at `$.gate.trials`"),
        ("[gate\n", "not TOML"),
    ],
)
def test_a_wrong_setting_is_refused(tmp_path: Path, text: str, phrase: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        configuration.load(toml(tmp_path, text), {})
    assert phrase in str(raised.value)
    assert "twiceshy.toml" in str(raised.value)


def test_a_wrong_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"gate\.trails"):
        configuration.load(tmp_path, {"TWICESHY_GATE__TRAILS": "3"})


def test_a_candidate_brings_its_settings(tmp_path: Path) -> None:
    text = '[candidate.refund]\nfactory = "shop:build"\nallow_env = ["LANG"]\nversions = {prompt = "7", "tool:find" = "2"}\n'
    toml(tmp_path, text)
    spec = candidate_spec("refund", configuration.load(tmp_path, {}))
    assert (spec.factory, spec.path, spec.allow_env) == ("shop:build", [tmp_path.resolve() / "."], ["LANG"])
    assert spec.versions == {"prompt": "7", "tool:find": "2"}
