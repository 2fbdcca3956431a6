from pathlib import Path

import pytest

from builders import a_case, a_played, a_policy, a_transcript, an_envelope, some_invariants
from twiceshy.evidence import replayed_run
from twiceshy.graders import GROUP, installed, judgements, loaded
from twiceshy.grading import case_grader
from twiceshy.judgement import Context, Judgement
from twiceshy.outcome import Truth
from twiceshy.registry import PluginError, Registry

GRADER = """
from twiceshy.judgement import Judgement
from twiceshy.outcome import Truth

class Few:
    id, version = "few_calls", 3
    def __call__(self, context):
        return Judgement(id=self.id, version=self.version, kind="count", truth=Truth.VIOLATED if len(context.run.steps) > 1 else Truth.SATISFIED)

few = Few()

def broken(context):
    raise KeyError("jane@example.org")
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """A real distribution on the path: a module and its entry points."""
    (folder / "house_graders.py").write_text(GRADER, encoding="utf-8")
    info = folder / "house_graders-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-graders\nVersion: 1.0\n", encoding="utf-8")
    listed = "\n".join(f"{name} = {target}" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{listed}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))


def judged(name: str, calls: int = 2) -> Judgement:
    run = replayed_run(a_transcript(*(a_played(seq) for seq in range(1, calls + 1))), a_policy())
    found = judgements(Context(run=run, invariants=some_invariants(graders=[name])))
    return next(judgement for judgement in found if judgement.id == name)


def test_third_party_grader_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, few_calls="house_graders:few")
    assert installed().names() == {"few_calls": "house_graders:few"}
    found = judged("few_calls")
    assert (found.id, found.version, found.truth) == ("few_calls", 3, Truth.VIOLATED)
    assert judged("few_calls", calls=1).truth is Truth.SATISFIED


def test_graders_that_take_part_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, few_calls="house_graders:few")
    taking_part = {grader.id: grader.version for grader in loaded(some_invariants(graders=["few_calls"]))}
    assert taking_part["few_calls"] == 3
    assert {"explained_writes", "no_duplicate_write", "call_schemas"} <= set(taking_part)
    assert "no_loop" not in taking_part


def test_missing_grader_stops_before_anything_runs() -> None:
    with pytest.raises(PluginError, match="'few_calls' is not installed"):
        case_grader(a_case(an_envelope()), some_invariants(graders=["few_calls"]), a_policy())


def test_grader_that_raises_is_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, broken="house_graders:broken")
    found = judged("broken")
    assert found.truth is None
    assert found.error is not None
    assert "house_graders.py:13 in broken" in found.error
    assert found.error.endswith("KeyError")
    assert "jane" not in found.error


def test_broken_plugin_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, gone="house_graders:missing", absent="no_such_module:x")
    for name, says in (("gone", "AttributeError"), ("absent", "ModuleNotFoundError")):
        with pytest.raises(
            PluginError, match=f"grader '{name}' of house-graders .group {GROUP}. does not import: {says}"
        ):
            judged(name)


def test_grader_without_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, broken="house_graders:broken")
    with pytest.raises(PluginError, match="grader 'broken' has no id, version"):
        loaded(some_invariants(graders=["broken"]))


def test_doubled_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, calls="house_graders:few")
    registry = Registry("grader", built_in={"calls": "twiceshy.graders.calls:call_schemas"}, group=GROUP)
    with pytest.raises(PluginError, match="'calls' is provided twice: by twiceshy and by house-graders"):
        registry.names()


def test_unknown_name_has_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, few_calls="house_graders:few")
    with pytest.raises(PluginError, match=r"grader 'few_call' is not installed\. Did you mean 'few_calls'"):
        judged("few_call")


def test_built_in_is_loaded_late() -> None:
    registry = Registry("grader", built_in={"schemas": "twiceshy.graders.calls:call_schemas"}, group="twiceshy.none")
    assert registry.load("schemas").__name__ == "call_schemas"
