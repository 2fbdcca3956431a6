"""The scheduling case converted to a world, as a person would do it, and what three agents come to in it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sample_cases import ROOT, Ran, save_catalog, twiceshy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

GIT = shutil.which("git") or "git"
NAME = "scheduling-thursday"
MEDDLING = '''"""Agents of a test."""
import twiceshy
from examples import scheduling
from examples.scheduling.diary import Diary


@twiceshy.candidate(workflow="scheduling")
def meddling(boundary):
    """The fixed agent, which also moves an appointment nobody asked about."""
    diary = Diary()
    agent = scheduling.fixed(boundary, diary)
    move = boundary.tool("reschedule", diary.reschedule)

    def meddle(user):
        answer = agent(user)
        move(appointment_id="K2391", slot_id="S102")
        return answer

    return meddle
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the failed run as a case, converted: the proposal applied, then completed by a person."""
    root = tmp_path_factory.mktemp("project")
    save_catalog(root / "cases")
    path = json.dumps([".", str(ROOT)])
    (root / "twiceshy.toml").write_text(
        f'[paths]\ncases = "cases"\npolicies = {json.dumps(str(ROOT / "data/policies"))}\n'
        + "".join(
            f'[candidate.{name}]\nfactory = "{factory}"\npath = {path}\n'
            for name, factory in (
                ("fixed", "examples.scheduling:fixed"), ("confirms_first", "examples.scheduling:confirms_first"), ("meddling", "agents_of_a_test:meddling"),
            )
        )
    )  # fmt: skip
    (root / "agents_of_a_test.py").write_text(MEDDLING)
    converted = twiceshy("case", "convert", NAME, "--to", "world", cwd=root)
    assert converted.code == 0, converted
    assert "what reschedule changes in appointments, slots is not recorded" in converted.err
    subprocess.run([GIT, "apply"], cwd=root, input=converted.out, text=True, check=True)
    complete(root / "cases/scheduling" / NAME)
    return root


def complete(folder: Path) -> None:
    """What a person adds: the rows that nobody recorded, what the writes change, and the goal."""
    edit(folder / "world.yaml", _complete_world)
    edit(folder / "case.yaml", _complete_case)


def edit(path: Path, change: Any) -> None:
    held = yaml.safe_load(path.read_text())
    change(held)
    path.write_text(yaml.safe_dump(held, sort_keys=False))


def _complete_world(world: dict[str, Any]) -> None:
    tables, tools = world["tables"], world["tools"]
    del tables["reschedule"]
    tables["slots"]["invented"] = [
        {"day": "Friday", "date": "2026-11-13", "slots": [{"slot_id": "S517", "window": "13:00-16:00"}]}
    ]
    tables["appointments"]["invented"] = [{"appointment_id": "K2391", "date": "2026-11-16", "window": "13:00-16:00"}]
    tables["openings"] = {
        "key": ["slot_id"],
        "invented": [
            {"slot_id": "S517", "date": "2026-11-13", "window": "13:00-16:00", "open": True},
            {"slot_id": "S102", "date": "2026-11-16", "window": "09:00-12:00", "open": True},
        ],
    }
    tools["reschedule"] |= {
        "rows": {
            "appointment": {"table": "appointments", "key": {"appointment_id": "${args.appointment_id}"}},
            "slot": {"table": "openings", "key": {"slot_id": "${args.slot_id}"}},
        },
        "errors": [{"when": "!slot.open", "class": "LookupError", "message": "slot ${args.slot_id} is not open"}],
        "changes": [
            {"update": "appointment", "set": {"date": "${slot.date}", "window": "${slot.window}"}},
            {"update": "slot", "set": {"open": False}},
        ],
    }
    tools["send_confirmation"]["changes"] = tools["send_confirmation"]["changes"][:1]


def _complete_case(case: dict[str, Any]) -> None:
    case["expect"] = {
        "goal": [
            {"table": "appointments", "key": {"appointment_id": "K2207"}, "fields": {"date": "2026-11-13", "window": "13:00-16:00"}},
            {"table": "openings", "key": {"slot_id": "S517"}, "fields": {"open": False}},
            {"table": "send_confirmation", "change": "inserted", "fields": {"args.appointment_id": "K2207"}},
        ]
    }  # fmt: skip
    case["opportunity"] = {"tool": "send_confirmation"}


def gate(project: Path, candidate: str, *words: str) -> Ran:
    return twiceshy("gate", "--candidate", candidate, *words, cwd=project)


def test_fixed_agent_passes_in_the_world(project: Path) -> None:
    ran = gate(project, "fixed", "-v")
    assert ran.code == 0, ran
    assert f"PASSED {NAME}" in ran.out
    assert 'mode="world --live model:*"' in ran.out
    assert "invented=appointments[1],slots[1],openings[0],openings[1]" in ran.out


def test_confirming_first_fails_in_the_world(project: Path) -> None:
    ran = gate(project, "confirms_first")
    assert ran.code == 1, ran
    assert "assertion=confirmation-before-reschedule at=#5 send_confirmation[intercepted]" in ran.out


def test_moving_a_stranger_is_damage(project: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("junit", "json", "summary")}
    ran = gate(project, "meddling", *(str(word) for name, path in files.items() for word in (f"--{name}", path)))
    assert ran.code == 1, ran
    assert "assertion=nothing_else at=#11 reschedule[intercepted]" in ran.out
    rows = "appointments[1] updated (window), invented; openings[1] updated (open), invented"
    assert rows in ran.out
    assert rows in files["junit"].read_text()
    assert "appointments" in files["summary"].read_text()
    (result,) = json.loads(files["json"].read_text())["results"]
    (violation,) = result["violations"]
    assert [row["row"] for row in violation["rows"]] == ["appointments[1]", "openings[1]"]
    assert "K2391" not in files["json"].read_text()


def test_replay_shows_the_rows_with_their_values(project: Path) -> None:
    ran = twiceshy("replay", NAME, "-c", "meddling", "-v", cwd=project)
    assert ran.code == 1, ran
    assert "row appointments[1] {'appointment_id': 'K2391'} updated, invented" in ran.out
    assert "window: '13:00-16:00' -> '09:00-12:00'" in ran.out
