"""A third party's package (tests/plugin_package): found by its entry points, and by nothing else."""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import a_played, a_policy, a_transcript, some_invariants
from tasks.pull.step import Terms, pull
from tasks.sources.registry import SOURCES, named
from tasks.sources.source import Window
from traces import HARNESS, ROOT, normalized
from twiceshy.errors import FormatError
from twiceshy.evidence import replayed_run
from twiceshy.graders import judgements, loaded
from twiceshy.judgement import Context
from twiceshy.outcome import Truth
from twiceshy.registry import PluginError

PACKAGE = ROOT / "tests/plugin_package"
ROLL = b'r1;get_order;{"id": "A1"};{"total": 7}\ntorn\nr1;get_order;{"id": "A2"};{"error": "gone"}\n'


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """What an installer would leave: the modules on the path, and a dist-info that says what pyproject.toml says. more: further sources."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = folder / f"till_roll-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"]
    groups["twiceshy.sources"] |= more
    told = [
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in points.items()) for group, points in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(told))
    for path in (folder, PACKAGE):
        monkeypatch.syspath_prepend(str(path))


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    yield
    for name in ("till_roll", "till_roll_grader"):
        sys.modules.pop(name, None)


def test_source_of_a_package_is_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    held = tmp_path / "rolls"
    held.mkdir()
    (held / "a.roll").write_bytes(ROLL)
    (held / "a.json").write_bytes(b"{}")
    pulled = pull(named("till_roll"), Window(paths=(held,)), Terms(harness_state=HARNESS))
    assert pulled.pulls.select("spans_in", "spans_out", "quarantined").rows() == [(3, 2, 1)]
    assert set(pulled.spans["source"]) == {"till_roll"}


def test_what_a_package_maps_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    (tmp_path / "a.roll").write_bytes(ROLL)
    source = named("till_roll")
    (raw,) = source.fetch(Window(paths=(tmp_path / "a.roll",)))
    made = normalized(source.spans(raw, harness_state=HARNESS))
    assert made.crossings["name"].to_list() == ["get_order", "get_order"]
    with pytest.raises(FormatError, match="no till_roll span in it"):
        source.spans(raw._replace(content=b"torn"), harness_state=HARNESS)


def test_grader_of_a_package_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch)
    rules = some_invariants(graders=["few_calls"])
    assert {held.id: held.version for held in loaded(rules)}["few_calls"] == 3
    run = replayed_run(a_transcript(a_played(1), a_played(2)), a_policy())
    (found,) = [held for held in judgements(Context(run=run, invariants=rules)) if held.id == "few_calls"]
    assert found.truth is Truth.VIOLATED


def test_package_that_is_gone_leaves_no_source() -> None:
    assert "till_roll" not in SOURCES.names()
    with pytest.raises(PluginError, match="source 'till_roll' is not installed"):
        named("till_roll")


def test_package_takes_no_name_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, otlp="till_roll:source")
    with pytest.raises(PluginError, match=r"'otlp' is provided twice: by twiceshy and by till-roll"):
        named("otlp")


def test_source_that_does_not_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, torn="till_roll:no_such_source")
    with pytest.raises(
        PluginError, match=r"source 'torn' of till-roll .group twiceshy\.sources. does not import: AttributeError"
    ):
        named("torn")
