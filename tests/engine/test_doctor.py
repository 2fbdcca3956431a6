"""`twiceshy doctor`: each thing that keeps a gate from judging has its line, with what to do, and nothing is changed."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_case, a_divergence, a_model, a_played, a_policy, a_transcript, an_envelope
from commanding import HAS_FAKETIME
from gatewaying import OFFER, a_weather_case
from sample_cases import ROOT, Ran, save_catalog, twiceshy
from sealed import a_host_folder, skip_without_namespaces
from twiceshy import casefile, diagnosing, examining
from twiceshy.casefile import Case
from twiceshy.configuration import Configuration, Settings
from twiceshy.outcome import Divergence
from twiceshy.sealing import Isolation, Probe
from twiceshy.transcript import Transcript

POLICY = a_policy("weather", get_weather="read", add="none")
WEATHER = a_case(a_weather_case(), workflow="weather")

Checks = list[dict[str, Any]]


def lines(checks: Checks, name: str, state: str) -> list[str]:
    return [
        f"{one['found']} -> {one.get('todo', '')}" for one in checks if (one["name"], one["state"]) == (name, state)
    ]


def found(ran: Ran) -> Checks:
    checks: Checks = json.loads(ran.out)["checks"]
    assert ran.code == (2 if any(one["state"] == "problem" for one in checks) else 0)
    return checks


# what a run of a command shows of its tools


@pytest.mark.parametrize(
    ("told", "state", "says"),
    [
        (a_transcript(a_model(1), a_played(2, "get_weather")), "ok", "1 tool calls came through MCP or /tools"),
        (a_transcript(a_model(1)), "problem", "no tool call came through MCP or /tools, and 1 model requests; its record holds 2"),
        (a_transcript(), "problem", "no tool call came through MCP or /tools, and 0 model requests"),
        (a_transcript(divergence=a_divergence(Divergence.LIVE_UNCONTROLLED)), "problem", "it reached past its gateway"),
        (a_transcript(divergence=a_divergence(Divergence.MODEL_SHAPE)), "warning", "it came to no tool call (model_shape), so nothing shows"),
        (a_transcript(crash="cpu"), "warning", "it came to no tool call (cpu), so nothing shows"),
        (a_transcript(fault="the gateway failed"), "problem", "the gateway failed"),
    ],
)  # fmt: skip
def test_where_the_tools_of_a_command_go(told: Transcript, state: str, says: str) -> None:
    check = examining.where_tools_go("candidate x", WEATHER, told)
    assert check.state == state
    assert says in check.found
    assert state != "problem" or check.todo or told.fault


# what a machine and a project lack


def test_weak_isolation_is_a_problem_with_its_reason() -> None:
    check = diagnosing.isolation(Probe(isolation=Isolation.WEAK, reason="unshare: Operation not permitted"))
    assert (check.state, check.found) == ("problem", "weak only: unshare: Operation not permitted")
    assert "user namespaces" in check.todo
    assert diagnosing.isolation(Probe(isolation=Isolation.HERMETIC)).state == "ok"


@pytest.mark.parametrize(
    ("library", "needed", "state"),
    [(None, True, "problem"), (None, False, "warning"), (Path("/lib/libfaketime.so.1"), True, "ok")],
)
def test_a_clock_that_cannot_be_sealed_matters_to_commands(library: Path | None, needed: Any, state: str) -> None:
    assert diagnosing.clock(library, needed=needed).state == state


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with cases of the sample agents, one of them broken, and candidates that start or do not."""
    save_catalog(tmp_path / "cases")
    path = json.dumps([".", str(ROOT)])
    (tmp_path / "twiceshy.toml").write_text(
        f'[paths]\ncases = "cases"\nchampion = "champion"\npolicies = {json.dumps(str(ROOT / "data/policies"))}\n'
        f'[candidate.good]\nfactory = "examples.refund:hook_fixed_and_guarded"\npath = {path}\n'
        f'[candidate.gone]\nfactory = "examples.refund:nobody"\npath = {path}\n'
        f'[candidate.stray]\nfactory = "strays:build"\npath = {path}\n'
        '[candidate.elsewhere]\ncommand = ["node", "agent.mjs"]\nworkflow = "refund"\n'
    )
    (tmp_path / "strays.py").write_text(
        'import twiceshy\n\n@twiceshy.candidate(workflow="refund")\ndef build(boundary):\n    boundary.tool("wire_money", print)\n'
        '    boundary.memory("notes", print)\n    return lambda user: user\n'
    )
    return tmp_path


def everything(root: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_candidate_is_started_and_told_of(project: Path) -> None:
    skip_without_namespaces()
    before = everything(project)
    checks = found(twiceshy("doctor", "--json", cwd=project))
    assert everything(project) == before
    assert lines(checks, "candidate good", "ok") == ["starts with 9 boundaries; workflow refund, hermetic -> "]
    assert lines(checks, "candidate good", "problem") == []
    assert "module 'examples.refund' has no 'nobody'" in lines(checks, "candidate gone", "problem")[0]
    assert "a base URL alone is not hermetic" in lines(checks, "candidate elsewhere", "problem")[0]
    assert lines(checks, "candidate stray", "warning") == [
        "declares tools that tools.yaml lacks: wire_money -> twiceshy tools suggest refund",
        "of no stated version, which compares as changed: memory -> state them as `versions` in twiceshy.toml or of the factory",
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_catalog_and_its_champions_are_told_of(project: Path) -> None:
    skip_without_namespaces()
    checks = found(twiceshy("doctor", "--json", "-c", "good", cwd=project))
    assert lines(checks, "cases", "ok") == ["3 of 3 are valid -> "]
    assert "none is pinned" in lines(checks, "champion refund", "warning")[0]
    case = project / "cases/refund/refund-t-1042/case.yaml"
    case.write_text(case.read_text() + "surprise: 1\n")
    (project / "champion").mkdir()
    (project / "champion/refund.json").write_text(
        '{"format": "twiceshy/champion/1", "workflow": "refund", "ref": "v1"}'
    )
    (project / "champion/scheduling.json").write_text("{")
    checks = found(twiceshy("doctor", "--json", "-c", "good", cwd=project))
    assert "unknown key 'surprise'" in lines(checks, "cases", "problem")[0]
    assert lines(checks, "cases", "ok") == ["2 of 3 are valid -> "]
    assert "v1, without 1 of 1 cases" in lines(checks, "champion refund", "warning")[0]
    assert "champion/scheduling.json" in lines(checks, "champion scheduling", "problem")[0]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_project_without_anything_is_told_what_to_write(tmp_path: Path) -> None:
    ran = twiceshy("doctor", cwd=tmp_path, env={"TWICESHY_KEY_SHOP": "hunter2"})
    assert ran.code == 2
    assert "warning  configuration: no twiceshy.toml" in ran.out
    assert f"problem  cases: {tmp_path}/data/cases: no such folder\n         -> make it, or name it" in ran.out
    assert "problem  keys: " in ran.out
    assert "hunter2" not in ran.out + ran.err
    assert "warning  candidates: none is named" in ran.out


def test_rules_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    (tmp_path / "data/policies/desk").mkdir(parents=True)
    (tmp_path / "data/policies/desk/tools.yaml").write_text("workflow: desk\ntools: {look: {efect: read}}\n")
    (tmp_path / "data/policies/desk/invariants.yaml").write_text("workflow: desk\n")
    _, checks = diagnosing.catalog(Configuration(settings=Settings(), root=tmp_path), {})
    (broken,) = [check for check in checks if check.name == "policies desk"]
    assert broken.state == "problem"
    assert "tools.yaml:2: unknown key 'efect'" in broken.found


def test_a_narrowing_that_a_case_refutes_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "data/policies/desk"
    folder.mkdir(parents=True)
    (folder / "tools.yaml").write_text(
        "workflow: desk\ntools:\n  look: {effect: read, reads: [a]}\n  put: {touches: [b]}\n"
    )
    (folder / "invariants.yaml").write_text("workflow: desk\n")
    calls = [
        a_played(1, "look", seen={}, raw=1).crossing,
        a_played(2, "put", effect="write", seen={}, raw=1).crossing,
        a_played(3, "look", seen={}, raw=2).crossing,
        a_played(4, "other", effect="write", seen={}, raw=2).crossing,
    ]
    envelope = an_envelope(*calls, workflow="desk")
    case = Case(id="d", kind="positive", workflow="desk", trace_id=envelope.trace_id)
    casefile.save(tmp_path / "data/cases/d", case, envelope)
    _, checks = diagnosing.catalog(Configuration(settings=Settings(), root=tmp_path), {})
    told = [(check.state, check.found) for check in checks if check.name == "policies desk"]
    assert told[0][0] == "problem"
    assert "tools.yaml:3: what look reads is too narrow" in told[0][1]
    assert told[1] == ("warning", "not in tools.yaml, and so a write that touches everything: other")


# a command, really started

AGENT = """
import json, os, sys, urllib.request

def ask(url, body):
    head = {"authorization": "Bearer " + os.environ["TWICESHY_TOKEN"], "content-type": "application/json"}
    return json.load(urllib.request.urlopen(urllib.request.Request(url, data=json.dumps(body).encode(), headers=head)))

def tool(city):
    if sys.argv[1] == "elsewhere":
        return {"city": city, "celsius": 7}
    return ask(f"{os.environ['TWICESHY_TOOLS_URL']}/get_weather", {"city": city})

json.load(sys.stdin)
messages = [{"role": "user", "content": "hello"}]
offer = {"type": "function", "function": OFFERED}
while True:
    said = ask(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {"model": "planner", "messages": messages, "tools": [offer]})
    message = said["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        answer = tool(**json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(answer)})
print(json.dumps("done"))
""".replace("OFFERED", json.dumps({name: value for name, value in OFFER.items() if name != "type"}))


@pytest.fixture(scope="module")
def commanded() -> Iterator[Path]:
    skip_without_namespaces()
    with a_host_folder() as root:
        (root / "agent.py").write_text(AGENT)
        policies = root / "data/policies/weather"
        policies.mkdir(parents=True)
        (policies / "tools.yaml").write_text("workflow: weather\ntools: {get_weather: {effect: read}}\n")
        (policies / "invariants.yaml").write_text("workflow: weather\n")
        envelope = a_weather_case()
        case = Case(id="warmer", kind="positive", workflow="weather", trace_id=envelope.trace_id)
        casefile.save(root / "data/cases/warmer", case, envelope)
        (root / "twiceshy.toml").write_text(
            "".join(
                f'[candidate.{name}]\ncommand = {json.dumps([sys.executable, "agent.py", name])}\nworkflow = "weather"\ntools = ["http"]\n'
                for name in ("through", "elsewhere")
            )
        )
        yield root


@pytest.mark.slow
@pytest.mark.timeout(300)
@HAS_FAKETIME
def test_a_command_shows_where_its_tools_go(commanded: Path) -> None:
    checks = found(twiceshy("doctor", "--json", cwd=commanded, env={"HOME": os.environ.get("HOME", "/")}))
    assert "in a run of warmer 2 tool calls came through MCP or /tools" in lines(checks, "candidate through", "ok")[1]
    assert "model, prompt, tool:get_weather" in lines(checks, "candidate through", "warning")[0]
    (problem,) = lines(checks, "candidate elsewhere", "problem")
    assert "the model was told results of get_weather, and no such call came through MCP or /tools" in problem
    assert "a base URL alone is not hermetic" in problem
