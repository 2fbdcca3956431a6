"""The rules of what the engine means, one entry each in `law/*.toml`: in which tests each is varied, and in which it fails when it is taken out.

id = "4.2"
rule = "..."                                  # in one plain sentence
property = ["tests/engine/test_x.py::test_y"]  # varied by hypothesis
counterexample = ["tests/engine/test_x.py::test_z"]
no_property = "..."                           # in place of `property`: why there is nothing to vary
missing = "..."                               # what of the rule is not held yet
"""

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIELDS = {"id", "rule", "property", "counterexample", "no_property", "missing"}
Entry = dict[str, Any]


def entries(folder: Path) -> list[Entry]:
    """Every rule of every file, in order."""
    return [entry for path in sorted(folder.glob("*.toml")) for entry in tomllib.loads(path.read_text())["rule"]]


@cache
def held_in(path: Path) -> dict[str, bool]:
    """The tests of a file, by name, and whether hypothesis varies them."""
    if not path.is_file():
        return {}
    return {
        node.name: any("given" in _names(decorator) for decorator in node.decorator_list)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def _test_files(root: Path) -> list[Path]:
    return sorted((root / "tests").rglob("test_*.py"))


def _names(node: ast.expr) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def findings(rules: list[Entry], root: Path) -> list[str]:
    """What is wrong with an index of rules, a line each."""
    twice = [
        f"{name}: stands {often} times" for name, often in Counter(rule["id"] for rule in rules).items() if often > 1
    ]
    return twice + [f"{rule['id']}: {problem}" for rule in rules for problem in _problems(rule, root)]


def _problems(rule: Entry, root: Path) -> Iterator[str]:
    if unknown := rule.keys() - FIELDS:
        yield f"unknown field {', '.join(sorted(unknown))}"
    if not rule.get("rule"):
        yield "it does not say what the rule is"
    varied, shown = rule.get("property", []), rule.get("counterexample", [])
    if bool(varied) == bool(rule.get("no_property")):
        yield "it needs a property test, or in its place the reason why there is nothing to vary"
    if not shown and not rule.get("missing"):
        yield "it needs a counterexample: a test that fails when the rule is taken out"
    for node in dict.fromkeys([*varied, *shown]):
        path, _, name = node.partition("::")
        held = held_in(root / path)
        if name not in held:
            moved = [f"{found.relative_to(root)}::{name}" for found in _test_files(root) if name in held_in(found)]
            yield f"there is no test {node}" + (f"; it stands at {moved[0]}" if moved else "")
        elif node in varied and not held[name]:
            yield f"hypothesis does not vary {node}"


def test_every_rule_has_its_tests() -> None:
    assert findings(entries(Path(__file__).parent / "law"), ROOT) == []


WHOLE = {"id": "1", "rule": "r", "property": ["tests/test_a.py::test_p"], "counterexample": ["tests/test_a.py::test_c"]}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"property": ["tests/test_a.py::test_gone"]}, "1: there is no test tests/test_a.py::test_gone"),
        ({"counterexample": ["tests/test_b.py::test_c"]}, "1: there is no test tests/test_b.py::test_c; it stands at tests/test_a.py::test_c"),
        ({"property": ["tests/test_a.py::test_c"]}, "1: hypothesis does not vary tests/test_a.py::test_c"),
        ({"property": []}, "1: it needs a property test, or in its place the reason why there is nothing to vary"),
        ({"property": [], "no_property": "one value"}, None),
        ({"no_property": "one value"}, "1: it needs a property test, or in its place the reason why there is nothing to vary"),
        ({"counterexample": []}, "1: it needs a counterexample: a test that fails when the rule is taken out"),
        ({"counterexample": [], "missing": "not built"}, None),
        ({"rule": ""}, "1: it does not say what the rule is"),
        ({"counter": []}, "1: unknown field counter"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_entry_is_named(changed: Entry, says: str | None, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("@given(x)\ndef test_p(): ...\n\n\ndef test_c(): ...\n")
    assert findings([{**WHOLE, **changed}], tmp_path) == ([] if says is None else [says])


def test_no_id_stands_twice() -> None:
    rules = [{"id": "1", "rule": "r", "no_property": "n", "missing": "m"}] * 2
    assert findings(rules, ROOT) == ["1: stands 2 times"]
