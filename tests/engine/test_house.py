import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "all.txt"
# Put together from pieces, so that this file is not its own finding.
ADDRESSES = re.compile(
    "|".join(
        [
            r"pypi\.(?:org|python)",
            r"pythonhosted\.",
            "npmjs" + r"\.",
            r"--(?:extra-)?index" + "-url [^-$]",
            "--find" + "-links [^-$]",
            r"file:" + "///(?:opt|root|home|work)",
            r"(?<![\w.<}-])/(?:work|root|opt/wheels|opt/pypi)" + "/",
        ]
    )
)
BYTES = 25_000
LARGE_ON_PURPOSE = ("data/", "requirements/", "dashboards/assets/vendor/")


def files() -> list[Path]:
    listed = subprocess.run(
        ["/usr/bin/env", "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_files_stay_small() -> None:
    names = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in files()}
    large = {name: size for name, size in names.items() if size > BYTES and not name.startswith(LARGE_ON_PURPOSE)}
    assert large == {}, f"over {BYTES} bytes outside {', '.join(LARGE_ON_PURPOSE)}"


def test_no_registry_or_machine_path() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in files()
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="ignore").splitlines(), 1)
        if ADDRESSES.search(line)
    ]
    assert found == []


def test_tests_are_no_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_every_verb_has_help() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    explained = re.findall(r"^([a-z]+):.*## \S", makefile, flags=re.MULTILINE)
    assert sorted(phony.split()) == sorted(explained)


def test_make_alone_prints_help() -> None:
    printed = subprocess.run(
        ["/usr/bin/env", "make", "-C", str(ROOT)], capture_output=True, text=True, check=True
    ).stdout
    assert "make check" in printed


def declared() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ]
    return [Requirement(text) for group in lists for text in group]


def test_lock_holds_every_dependency() -> None:
    locked = dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE))
    missing = [
        str(wanted)
        for wanted in declared()
        if not wanted.specifier.contains(locked.get(canonicalize_name(wanted.name), "0"), prereleases=True)
    ]
    assert missing == [], "pyproject.toml changed without the lock: run make lock"


def imported() -> set[str]:
    trees = [
        ast.parse(path.read_text(encoding="utf-8"))
        for room in ("src", "tasks", "flows", "dashboards", "examples", "benchmarks")
        for path in (ROOT / room).rglob("*.py")
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.split(".")[0] for name in names}


def test_no_excuse_outlives_its_room() -> None:
    deptry = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["deptry"]
    modules = deptry["package_module_name_map"]
    excused = deptry.get("per_rule_ignores", {}).get("DEP002", [])
    stale = [name for name in excused if modules.get(name, name.replace("-", "_")) in imported()]
    assert stale == [], "imported now: delete their lines from DEP002 in pyproject.toml"


def test_every_pin_has_a_hash() -> None:
    pins = re.split(r"\n(?=\S)", LOCK.read_text(encoding="utf-8"))
    assert [pin.split()[0] for pin in pins if "==" in pin.split("\n")[0] and "--hash=sha256:" not in pin] == []


@pytest.mark.slow
def test_wheel_holds_only_the_engine(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"twiceshy"}
    assert "twiceshy/py.typed" in names


def test_benchmark_line_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import report

    report("replay_cost", {"us_per_crossing_10": 3.5}, holds=True)
    assert json.loads(capsys.readouterr().out) == {
        "benchmark": "replay_cost",
        "figures": {"us_per_crossing_10": 3.5},
        "peers": {},
        "holds": True,
    }


def test_benchmark_refuses_nan() -> None:
    from benchmarks import report

    with pytest.raises(ValueError, match="JSON"):
        report("replay_cost", {"load_us": float("nan")}, holds=True)
