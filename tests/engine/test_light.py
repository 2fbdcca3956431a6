import subprocess
import sys

import pytest

import twiceshy

HEAVY = (
    "prefect",
    "polars",
    "duckdb",
    "pandera",
    "great_expectations",
    "cel",
    "jsonschema",
    "time_machine",
    "yaml",
    "phonenumbers",
)


def loaded(code: str) -> set[str]:
    """The top-level modules that are loaded after this code has run in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}}, file=sys.stderr)"],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"},
    )  # fmt: skip
    return set(told.stderr.split())


def test_the_engine_imports_light() -> None:
    assert not loaded("import twiceshy") & {*HEAVY, "typer", "asyncio"}


@pytest.mark.parametrize("words", [["--help"], ["gate", "--help"], ["case", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = f"sys.argv = ['twiceshy', *{words}]\nfrom twiceshy.cli import main\ntry: main()\nexcept SystemExit: pass"
    assert not loaded(code) & set(HEAVY)


def test_all_names_what_is_exported() -> None:
    # pytest adds its own names (@...) to the modules of a plugin.
    modules = {name.removeprefix("twiceshy.") for name in sys.modules if name.startswith("twiceshy.")}
    public = {name for name in vars(twiceshy) if name[0] not in "_@"} - {*modules, "TYPE_CHECKING"}
    asked_for = {name for name in twiceshy.__all__ if name not in public and hasattr(twiceshy, name)}
    assert (public | asked_for, asked_for) == (set(twiceshy.__all__), {"live", "record"})
