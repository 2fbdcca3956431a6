import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def the_checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lengths", ROOT / "tests" / "house" / "lengths.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_file(root: Path, text: str, name: str = "src/long.py") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def a_function(lines: int, docstring: int = 0) -> str:
    body = [f'    """{"x" + chr(10) * (docstring - 1)}"""'] if docstring else []
    return "\n".join(["def long():", *body, *["    pass"] * (lines - 1)])


def test_long_file_is_named(tmp_path: Path) -> None:
    a_file(tmp_path, "x = 1\n" * 401)
    (finding,) = the_checker().findings(tmp_path)
    assert "long.py: 401 lines" in finding


def test_long_function_is_named(tmp_path: Path) -> None:
    a_file(tmp_path, a_function(41))
    (finding,) = the_checker().findings(tmp_path)
    assert "long.py:1: long has 41 lines" in finding


def test_docstring_lines_are_free(tmp_path: Path) -> None:
    a_file(tmp_path, a_function(40, docstring=12))
    assert the_checker().findings(tmp_path) == []


def test_vendored_code_is_exempt(tmp_path: Path) -> None:
    a_file(tmp_path, "x\n" * 500, name="dashboards/assets/vendor/charts.js")
    assert the_checker().findings(tmp_path) == []
