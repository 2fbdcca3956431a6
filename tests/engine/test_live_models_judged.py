"""Verdicts on models that run live: who answered, what is judged of the request, and that a trial comes to the same on its own replies (semantics.md §6.3, §7)."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import some_invariants
from commanding import POLICY, a_weather_agent
from gatewaying import OFFER, a_call, a_reading, a_turn, an_output
from living import PLAIN, READS, SAYS, a_live_session, a_python_session, live_models, request_of, saved
from sample_cases import twiceshy
from twiceshy import casefile
from twiceshy.grading import case_grader
from twiceshy.judging import Judged, Rules, Terms, judge_case
from twiceshy.outcome import BoundaryState, Divergence, Outcome
from twiceshy.results import Candidacy
from twiceshy.shards import ResultLine, ShardRequest, TrialLine, lines_of, main
from twiceshy.specs import Floor
from upstreaming import KEY, MODEL, Service, a_service

pytestmark = pytest.mark.slow

RULES = Rules(policy=POLICY, invariants=some_invariants(workflow="weather"), harness="h1")
UPTIME = READS.replace("MADE", "open('/proc/uptime').read()")
"""What no seal holds still: the real time in /proc/uptime."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        yield made


def judged(folder: Path, service: Service, replies: Path, code: str, *, trials: int = 2, **case: Any) -> Judged:
    loaded = casefile.load(saved(folder, "judged", **case))
    terms = Terms(trials=trials)
    grader = case_grader(loaded, RULES.invariants, RULES.policy)
    with a_live_session(folder, live_models(service, replies), code) as session:
        return judge_case(session, grader, RULES, terms, Candidacy())


def test_the_manifest_names_who_answered(folder: Path, tmp_path: Path) -> None:
    with a_service() as service:
        first = judged(folder, service, tmp_path, SAYS).result
        again = judged(folder, service, tmp_path, SAYS).result
    assert (first.outcome, len(service.asked)) == (Outcome.PASSED, 2)
    (mode,) = first.modes
    assert (mode.manifest["model:planner"], mode.manifest["tool:get_weather"]) == (BoundaryState.LIVE, BoundaryState.FROZEN)  # fmt: skip
    (model,) = mode.live_models
    assert (model.host in service.origin, model.asked, model.model) == (True, "gpt-x", MODEL)
    assert (model.replies, model.again) == (2, 0)
    assert again.modes[0].live_models == [msgspec.structs.replace(model, again=2)]
    assert len(set(mode.transcripts)) == 2


def test_a_trial_that_differs_on_its_own_replies_is_an_error(folder: Path, tmp_path: Path) -> None:
    with a_service() as service:
        result = judged(folder, service, tmp_path, UPTIME).result
    assert result.outcome is Outcome.ERROR
    assert "run again on its own replies, the trial came to another transcript, first at end" in (result.error or "")
    assert len(service.asked) == 2


def test_a_trial_that_asks_otherwise_the_second_time_is_an_error(folder: Path, tmp_path: Path) -> None:
    code = SAYS.replace("got = said()", "got = said(user=open('/proc/uptime').read())")
    with a_service() as service:
        result = judged(folder, service, tmp_path, code).result
    assert (result.outcome, len(service.asked)) == (Outcome.ERROR, 2)


def test_a_scripted_policy_is_held_to_it_too(folder: Path) -> None:
    (folder / "agents.py").write_text("""
from twiceshy import candidate
import random

def built(said):
    @candidate(workflow="weather")
    def build(boundary):
        planner = boundary.model("planner", lambda _: {"parts": [{"type": "text", "content": said()}], "finish_reason": "stop"})
        get_weather = boundary.tool("get_weather", effect="read")
        return lambda user: [planner({"messages": []})["parts"], [get_weather(city=city) for city in ("Leith", "Truro")]]
    return build

drawn = built(lambda: str(random.random()))
timed = built(lambda: open("/proc/uptime").read())
""")
    loaded = casefile.load(saved(folder, "scripted"))
    grader = case_grader(loaded, RULES.invariants, RULES.policy)
    outcomes = {}
    for name in ("drawn", "timed"):
        with a_python_session(folder, None, name) as session:
            outcomes[name] = judge_case(session, grader, RULES, Terms(trials=2), Candidacy()).result.outcome
    assert outcomes == {"drawn": Outcome.PASSED, "timed": Outcome.ERROR}


def test_chance_is_judged_as_a_rate(folder: Path, tmp_path: Path) -> None:
    """Every second answer makes the agent forget to read: with a floor half of the trials may, without one none."""
    code = PLAIN + "\nif '1' in said()['choices'][0]['message']['content']:\n    tool('get_weather', city='Leith')\nprint(1)"  # fmt: skip
    with a_service(says=lambda n: str(n % 2)) as service:
        half = judged(folder, service, tmp_path / "a", code, floor=Floor(k=1, rate=0.5), enforce_counts=False).result
        none = judged(folder, service, tmp_path / "b", code, enforce_counts=False).result
    assert (half.outcome, half.modes[0].passed) == (Outcome.PASSED, 1)
    assert none.outcome is Outcome.DIVERGED
    assert none.divergence is not None
    assert none.divergence.kind is Divergence.OPPORTUNITY_NOT_REACHED
    assert none.modes[0].rate is not None


def test_a_live_request_must_bear_the_recorded_date(folder: Path, tmp_path: Path) -> None:
    dated = {"messages": [{"role": "user", "parts": [{"type": "text", "content": "It is 2026-06-02."}]}], "tools": [OFFER]}  # fmt: skip
    turns = (
        a_turn(1, an_output(a_call("Leith")), seen=dated),
        a_reading(2, "Leith", group=1),
        a_reading(3, "Truro", group=1),
    )
    loaded = casefile.load(saved(folder, "dated", *turns))
    grader = case_grader(loaded, RULES.invariants, RULES.policy)
    with a_service() as service:
        outcomes = []
        for code in (SAYS, SAYS.replace("warmer?", "It is 2026-06-02. Warmer?")):
            with a_live_session(folder, live_models(service, tmp_path), code) as session:
                outcomes.append(judge_case(session, grader, RULES, Terms(trials=2), Candidacy()).result)
    assert [one.outcome for one in outcomes] == [Outcome.DIVERGED, Outcome.PASSED]
    assert outcomes[0].divergence is not None
    assert outcomes[0].divergence.kind is Divergence.CLOCK_NOT_IN_PROMPT
    assert len(service.asked) == 2


def shard(request: ShardRequest, **env: str) -> tuple[int, bytes]:
    out = io.BytesIO()
    code = main(io.BytesIO(msgspec.json.encode(request)), out, env)
    return code, out.getvalue()


def test_every_night_asks_anew_and_a_night_that_is_done_again_does_not(folder: Path, tmp_path: Path) -> None:
    with a_service() as service:
        request = request_of(folder, service, tmp_path, times=2, occasions=["2026-11-16", "2026-11-17"])
        code, out = shard(request, REAL_KEY=KEY)
        once = len(service.asked)
        again, _ = shard(request, REAL_KEY=KEY)
    assert (code, again, once, len(service.asked)) == (0, 0, 4, 4)
    lines = list(lines_of(out))
    said = [line.transcript.disposition.output for line in lines if isinstance(line, TrialLine) and line.transcript.disposition]  # fmt: skip
    assert said == ["answer 1", "answer 2", "answer 3", "answer 4"]
    results = [line.result for line in lines if isinstance(line, ResultLine)]
    assert [one.outcome for one in results] == [Outcome.PASSED] * 2
    assert [one.modes[0].live_models[0].model for one in results] == [MODEL] * 2
    assert KEY.encode() not in out


@pytest.mark.parametrize(
    ("given", "said"),
    [({"upstream": {}}, "nothing says where it is asked"), ({}, "$REAL_KEY, which is not set")],
    ids=["no upstream", "no key"],
)
def test_a_shard_that_cannot_ask_is_refused_before_it_runs(folder: Path, tmp_path: Path, given: Any, said: str) -> None:  # fmt: skip
    with a_service() as service:
        code, out = shard(request_of(folder, service, tmp_path, **given))
    assert (code, service.asked) == (2, [])
    assert said in json.loads(out)["message"]


TOML = """
[paths]
cases = "prompt"
policies = "policies"
champion = "champion"
replies = "kept"

[candidate.weather]
command = [{python}, "agent.py", {code}]
workflow = "weather"
tools = ["http"]
"""
UPSTREAM = """
[upstream.openai]
base_url = "{origin}"
key_env = "REAL_KEY"
"""


def a_project(folder: Path, service: Service, upstream: str = UPSTREAM) -> None:
    """The command as a candidate of a project that has one prompt case."""
    request_of(folder, service, folder)
    toml = TOML.format(python=json.dumps(sys.executable), code=json.dumps(SAYS))
    (folder / "twiceshy.toml").write_text(toml + upstream.format(origin=service.origin))


def test_a_gate_asks_the_model_of_a_prompt_case(folder: Path) -> None:
    with a_service() as service:
        a_project(folder, service)
        ran = twiceshy("gate", "-c", "weather", "--json", "-", cwd=folder, env={"REAL_KEY": KEY})
        shown = twiceshy("replay", "prompt", "-c", "weather", "-v", cwd=folder, env={"REAL_KEY": KEY})
        assert (ran.code, shown.code, len(service.asked)) == (0, 0, 2), (ran, shown)
    (result,) = json.loads(ran.out)["results"]
    (mode,) = result["modes"]
    assert (mode["mode"], mode["manifest"]["model:planner"]) == ("cut-point --live model:*", "live")
    assert [(one["model"], one["replies"]) for one in mode["live_models"]] == [(MODEL, 2)]
    assert f"{MODEL} at {service.origin.removeprefix('http://')}: 1 replies, 1 of them as before" in shown.out
    assert KEY not in ran.out + ran.err + shown.out + shown.err


@pytest.mark.parametrize(
    ("upstream", "said"), [("", "nothing says where it is asked"), (UPSTREAM, "$REAL_KEY, which is not set")]
)
def test_a_gate_that_cannot_ask_is_refused_before_it_runs(folder: Path, upstream: str, said: str) -> None:
    with a_service() as service:
        a_project(folder, service, upstream)
        for verb in (["gate"], ["replay", "prompt"], ["champion", "pin"]):
            ran = twiceshy(*verb, "-c", "weather", cwd=folder)
            assert (ran.code, ran.out) == (2, "")
            assert said in ran.err
        assert service.asked == []
