"""Refuses Python, SQL, template, style and script files over 400 lines, and functions over 40."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("src", "tasks", "flows", "dashboards", "examples", "benchmarks", "tests")
KINDS = {".py", ".sql", ".j2", ".css", ".js"}
FILE_LINES = 400
FUNCTION_LINES = 40
# Third-party code that is shipped as it came.
VENDORED = "vendor"


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines from `def` to the end, less the docstring; decorators do not count."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return total
    docstring = function.body[0]
    return total - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def too_long(path: Path) -> Iterator[str]:
    """One line for the file if it is too long, and one for each function of it that is."""
    text = path.read_text(encoding="utf-8")
    count = len(text.splitlines())
    if count > FILE_LINES:
        yield f"{path}: {count} lines, {FILE_LINES} at most; give the second idea in it a module of its own"
    if path.suffix != ".py":
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(node) > FUNCTION_LINES:
            yield f"{path}:{node.lineno}: {node.name} has {lines_of(node)} lines, {FUNCTION_LINES} at most"


def findings(root: Path) -> list[str]:
    """Every file and function under the rooms of `root` that is too long."""
    files = sorted(path for room in ROOMS for path in (root / room).rglob("*") if path.suffix in KINDS)
    return [line for path in files if VENDORED not in path.parts for line in too_long(path)]


if __name__ == "__main__":
    found = findings(Path())
    print("\n".join(found) or "Lengths: kept.")
    sys.exit(bool(found))
