"""Simulated answers: for exploration only, labelled wherever they stand, and accepted by no gate (semantics.md §4.5, §6)."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_case, an_envelope, recorded, replayed
from small_worlds import POLICY, build_with
from twiceshy import gate
from twiceshy.casefile import Judge
from twiceshy.cli.options import judges
from twiceshy.errors import ConfigurationError, FormatError, InfrastructureError
from twiceshy.exploring import Exploration, examples, explore
from twiceshy.identity import digest
from twiceshy.outcome import AnsweredBy, Divergence, Mode, Outcome
from twiceshy.registry import PluginError
from twiceshy.running import Played, Task
from twiceshy.simulators import Asked, CannotSimulate, Example, Settings, simulator
from twiceshy.simulators.nearest import Nearest
from twiceshy.simulators.served import SimulatedAnswer
from twiceshy.transcript import Transcript
from twiceshy.verdict import CaseRef, Policy, Result

ONCE = recorded(build_with(lambda slots, **_: slots(day="thu")), policy=POLICY)


def an_answer(tool: str = "slots", value: Any = "made up", **args: Any) -> SimulatedAnswer:
    return SimulatedAnswer(tool=tool, asked=digest(args), value=value)


def run_with(body: Any, *answers: SimulatedAnswer) -> Transcript:
    return replayed(build_with(body), ONCE, policy=POLICY, simulated=answers)


def test_simulated_answer_is_labelled_in_the_record_and_not_in_the_value() -> None:
    told = run_with(lambda slots, **_: [slots(day="thu"), slots(day="fri")], an_answer(day="fri"))
    assert told.disposition is not None
    assert told.disposition.output[1] == "made up"
    assert [played.answered_by for played in told.played] == [AnsweredBy.RECORDED, AnsweredBy.SIMULATED]
    assert told.simulated == 1


def test_record_comes_before_a_simulated_answer() -> None:
    told = run_with(lambda slots, **_: slots(day="thu"), an_answer(day="thu"))
    assert told.simulated == 0


@pytest.mark.parametrize("answer", [an_answer(day="sat"), an_answer("look", day="fri")])
def test_answer_made_for_another_call_is_not_served(answer: SimulatedAnswer) -> None:
    told = run_with(lambda slots, **_: slots(day="fri"), answer)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.ARGS_MISMATCH


def test_unrecorded_write_is_never_simulated() -> None:
    told = run_with(lambda tell, **_: tell(body="x"), an_answer("tell", body="x"))
    assert told.simulated == 0
    assert told.played[0].answered_by is AnsweredBy.TEMPLATE


# exploring


class InProcess:
    """A session that plays in this process."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def play(self, task: Task) -> Played:
        transcript = replayed(
            build_with(self._body), task.loaded.envelope, policy=task.policy, simulated=task.simulated
        )
        return Played(transcript=transcript, applied=frozenset())


def explored(body: Any) -> Exploration:
    task = Task(loaded=a_case(ONCE), judge=Judge(mode=Mode.EXPLORE), policy=POLICY)
    return explore(InProcess(body), task, Nearest(Settings()))  # type: ignore[arg-type]


def test_every_miss_gets_an_answer_in_turn() -> None:
    found = explored(lambda slots, **_: [slots(day=day)["day"] for day in ("thu", "fri", "sat")])
    assert found.played.transcript.disposition is not None
    assert found.played.transcript.disposition.output == ["thu", "fri", "sat"]
    assert [(told.place, told.tool, told.by) for told in found.told] == [
        ("#2", "slots", "nearest v1"),
        ("#3", "slots", "nearest v1"),
    ]
    assert found.stopped is None


def test_exploration_stops_where_nothing_is_known() -> None:
    found = explored(lambda look, **_: look(id="K1"))
    assert found.stopped == "no call of look was recorded that succeeded"
    assert found.played.transcript.divergence is not None


def test_candidate_that_asks_otherwise_stops_it() -> None:
    days = iter(["fri", "sat", "sun", "mon"])
    found = explored(lambda slots, **_: slots(day=next(days)))
    assert found.stopped == "the candidate asks otherwise on the same answers"


@given(st.lists(st.sampled_from(["thu", "fri", "sat"]), max_size=4))
def test_exploring_twice_comes_to_the_same(days: list[str]) -> None:
    runs = [explored(lambda slots, **_: [slots(day=day) for day in days]) for _ in range(2)]
    assert runs[0].played.transcript.digest == runs[1].played.transcript.digest
    assert runs[0].told == runs[1].told


# nearest


def test_nearest_example_comes_first_and_is_worded_for_what_is_asked() -> None:
    body = lambda slots, **_: [slots(day="thu"), slots(day="fri")]  # noqa: E731 - a body of an agent
    held = examples("slots", {"day": "fri"}, [recorded(build_with(body), policy=POLICY)])
    assert [example.args["day"] for example in held] == ["fri", "thu"]
    asked = Asked(tool="slots", args={"day": "sun"}, examples=held)
    assert simulator("nearest", Settings()).answer(asked) == {"day": "sun", "free": ["S1"], "count": 1}


def test_errors_and_blocked_calls_are_no_examples() -> None:
    from builders import a_crossing
    from twiceshy.envelope import ErrorRecord

    failed = a_crossing(1, "slots", error=ErrorRecord(cls="builtins.LookupError"))
    assert examples("slots", {}, [an_envelope(failed, a_crossing(2, "slots", blocked_by="guard"))]) == []


# openai


class Endpoint(HTTPServer):
    """A chat endpoint that replies the same to everything and keeps what it was asked."""

    def __init__(self, reply: str, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Chat)
        self.reply, self.status = reply, status
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Chat(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append({"path": self.path, "key": self.headers.get("authorization"), **json.loads(body)})
        said = json.dumps({"choices": [{"message": {"content": self.server.reply}}]}).encode()
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint('{"day": "fri", "free": []}')
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


ASKED = Asked(tool="slots", args={"day": "fri"}, examples=[Example({"day": "thu"}, {"day": "thu", "free": ["S1"]})])


def test_model_plays_the_tool_and_its_reply_is_kept(endpoint: Endpoint, tmp_path: Path) -> None:
    settings = Settings(url=endpoint.url, model="m", key="k", replies=tmp_path / "replies.jsonl")
    for _ in range(2):
        assert simulator("openai", settings).answer(ASKED) == {"day": "fri", "free": []}
    (request,) = endpoint.asked
    assert (request["path"], request["key"], request["temperature"]) == ("/v1/chat/completions", "Bearer k", 0)
    assert "S1" in request["messages"][1]["content"]
    (kept,) = map(json.loads, (tmp_path / "replies.jsonl").read_text().splitlines())
    assert kept["simulated"] is True


def test_other_question_is_asked_anew(endpoint: Endpoint, tmp_path: Path) -> None:
    made = simulator("openai", Settings(url=endpoint.url, model="m", replies=tmp_path / "r"))
    made.answer(ASKED)
    made.answer(Asked(tool="slots", args={"day": "sat"}))
    assert len(endpoint.asked) == 2
    assert endpoint.asked[0]["key"] is None


def test_reply_that_is_no_value_simulates_nothing(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.reply = "I would rather not"
    with pytest.raises(CannotSimulate, match="no JSON value"):
        simulator("openai", Settings(url=endpoint.url, model="m", replies=tmp_path / "r")).answer(ASKED)


def test_endpoint_that_refuses_is_our_fault_and_tells_no_payload(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.status = 401
    with pytest.raises(InfrastructureError, match="answered 401") as refused:
        simulator("openai", Settings(url=endpoint.url, model="m", key="secret", replies=tmp_path / "r")).answer(ASKED)
    assert "secret" not in str(refused.value)
    assert not (tmp_path / "r").exists()


def test_openai_needs_its_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--replies"):
        simulator("openai", Settings(url="http://127.0.0.1:9/v1", model="m"))
    with pytest.raises(ConfigurationError, match="no http"):
        simulator("openai", Settings(url="file:///etc/passwd", model="m", replies=tmp_path / "r"))
    (tmp_path / "r").write_text("{}\n")
    with pytest.raises(FormatError, match="r:1: no kept reply"):
        simulator("openai", Settings(url="http://127.0.0.1:9/v1", model="m", replies=tmp_path / "r"))


def test_unknown_simulator_is_refused() -> None:
    with pytest.raises(PluginError, match="Did you mean 'nearest'"):
        simulator("nearst", Settings())


# no gate accepts it


def test_gate_refuses_a_result_that_rests_on_simulated_answers() -> None:
    case = CaseRef(
        id="a", path="a", kind="positive", severity="low", digest="d", envelope_digest="e", redaction_review="promoted"
    )
    result = Result(
        signature=None, case=case, trace_id="t", outcome=Outcome.PASSED, mode="full", modes=[], isolation="hermetic"
    )
    assert gate.summary([result], Policy()).exit_code == 0
    refused = gate.summary([msgspec.structs.replace(result, simulated=True)], Policy())
    assert refused.exit_code == 4
    assert "simulated answers, which no gate accepts" in refused.reasons[0]


def test_gate_takes_no_exploring_mode() -> None:
    with pytest.raises(ConfigurationError, match="no gate and no break accepts it"):
        judges("explore", None, None, None)
