import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("src", "tasks", "flows", "dashboards")
LINT = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"


def a_checkout(at: Path, **extra: str) -> Path:
    """The rooms as they are, with a few files added: dots in a name stand for folders."""
    shutil.copy(ROOT / "pyproject.toml", at)
    for room in ROOMS:
        shutil.copytree(ROOT / room, at / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in extra.items():
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (path.parent / "__init__.py").exists():
            (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return at


def lint(checkout: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-logo", "--no-cache"],
        cwd=checkout,
        env={"PYTHONPATH": f"{checkout}/src:{checkout}"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "contract"),
    [
        ({"src/twiceshy/errors.py": "import polars\n"}, "engine is light"),
        ({"src/twiceshy/drawer.py": ""}, "engine order, no drawers"),
        ({"src/twiceshy/outcome.py": "import twiceshy.gate\n", "src/twiceshy/gate.py": ""}, "engine order, no drawers"),
        ({"src/twiceshy/errors.py": "import tasks\n"}, "top level"),
        ({"tasks/shared.py": ""}, "pipeline order, no drawers"),
        ({"tasks/sign/step.py": "", "tasks/admit/step.py": "import tasks.sign.step\n"}, "no step calls a step"),
        ({"tasks/sign/step.py": "import prefect\n"}, "Prefect: flows and one module"),
        ({"tasks/sign/step.py": "import great_expectations\n"}, "Great Expectations at the publish edge"),
        ({"flows/gate.py": "import polars\n"}, "flows move no frames"),
        (
            {
                "src/twiceshy/gate.py": "import twiceshy.champion\n",
                "src/twiceshy/champion.py": "import twiceshy.gate\n",
            },
            "no rings",
        ),
    ],
)
def test_contract_breaks_when_crossed(tmp_path: Path, files: dict[str, str], contract: str) -> None:
    assert f"{contract} BROKEN" in lint(a_checkout(tmp_path, **files))
