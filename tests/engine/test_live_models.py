"""Models that run live for a command: asked by the parent, kept by trial, and no network for anybody else (semantics.md §6.3)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commanding import a_weather_agent, output, verdict
from living import CALL, LIVE, OPENAI, PLAIN, a_live_session, a_task, kept, live_models, trials
from twiceshy.casefile import Judge
from twiceshy.doors import UnreachedModel
from twiceshy.envelope import Kind
from twiceshy.outcome import BoundaryState, Divergence, Outcome
from twiceshy.transcript import Transcript
from upstreaming import KEY, MODEL, Service, Trouble, a_service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        yield made


def played(folder: Path, service: Service, replies: Path, code: str, **given: Any) -> Transcript:
    with a_live_session(folder, live_models(service, replies, **given), code) as session:
        return session.play(a_task(folder)).transcript


def models(told: Transcript) -> list[BoundaryState]:
    return [one.boundary for one in told.played if one.crossing.kind is Kind.MODEL]


def test_a_real_client_is_answered_by_the_service(folder: Path, tmp_path: Path) -> None:
    with a_service(calls=[CALL]) as service:
        told = played(folder, service, tmp_path, OPENAI)
    assert output(told) == ["answer 2", MODEL]
    assert [one.crossing.name for one in told.played] == ["planner", "get_weather", "planner"]
    assert models(told) == [BoundaryState.LIVE] * 2
    assert told.played[2].crossing.raw["parts"] == [{"type": "text", "content": "answer 2"}]
    assert [headers["authorization"] for _, headers, _ in service.asked] == [f"Bearer {KEY}"] * 2
    assert json.loads(service.bodies[1]["messages"][-1]["content"]) == {"city": "Leith", "celsius": 7}


def test_a_trial_keeps_its_replies_and_another_asks_anew(folder: Path, tmp_path: Path) -> None:
    with a_service() as service, a_live_session(folder, live_models(service, tmp_path), PLAIN + "print(json.dumps(said()['choices']))") as session:  # fmt: skip
        first, again, other = trials(session, folder, 0, 0, 1)
        night = session.play(a_task(folder, occasion="2026-11-16"))
    assert first.transcript.digest == again.transcript.digest
    said = [output(one.transcript)[0]["message"]["content"] for one in (first, again, other, night)]
    assert said == ["answer 1", "answer 1", "answer 2", "answer 3"]
    assert [one.asked[0].again for one in (first, again, other, night)] == [False, True, False, False]
    assert len(service.asked) == len(kept(tmp_path)) == 3
    assert {reply["request"] for reply in kept(tmp_path)} == {kept(tmp_path)[0]["request"]}


def test_the_same_question_twice_in_a_trial_is_two_questions(folder: Path, tmp_path: Path) -> None:
    code = PLAIN + "print(json.dumps([said()['choices'][0]['message']['content'] for _ in range(2)]))"
    with a_service() as service, a_live_session(folder, live_models(service, tmp_path), code) as session:
        first, again = trials(session, folder, 0, 0)
    assert output(first.transcript) == output(again.transcript) == ["answer 1", "answer 2"]


def test_the_key_stays_outside(folder: Path, tmp_path: Path) -> None:
    code = PLAIN + "said(); print(json.dumps([dict(os.environ), open('/proc/self/environ').read()]))"
    with a_service() as service:
        told = played(folder, service, tmp_path, code)
    assert KEY not in json.dumps(output(told))
    assert "41185" not in json.dumps(output(told))
    assert all(KEY not in path.read_text() for path in tmp_path.rglob("*.json"))
    assert all((path.stat().st_mode & 0o077) == 0 for path in tmp_path.rglob("*.json"))


STREAMS = {
    "openai": """
import openai
stream = openai.OpenAI().chat.completions.create(model="gpt-x", messages=[{"role": "user", "content": "?"}], stream=True)
words = []
for event in stream:
    words += [choice.delta.content for choice in event.choices if choice.delta.content]
    if len(words) == LEAVES:
        stream.close()
        break
print(json.dumps(words))
""",
    "anthropic": """
import anthropic
words = []
with anthropic.Anthropic().messages.stream(model="claude-x", max_tokens=9, messages=[{"role": "user", "content": "?"}]) as stream:
    for text in stream.text_stream:
        words.append(text)
        if len(words) == LEAVES:
            break
print(json.dumps(words))
""",
}


@pytest.mark.parametrize("client", STREAMS)
def test_a_stream_comes_and_is_kept_in_its_chunks(folder: Path, tmp_path: Path, client: str) -> None:
    with a_service(says=lambda n: f"so warm {n}") as service:
        live = live_models(service, tmp_path)
        with a_live_session(folder, live, f"LEAVES = 99\n{STREAMS[client]}") as session:
            first, again = trials(session, folder, 0, 0)
    assert output(first.transcript) == output(again.transcript) == ["so", "warm", "1"]
    (crossing,) = [one.crossing for one in first.transcript.played]
    texts = [chunk["content"] for chunk in crossing.chunks or () if chunk.get("type") == "text" and chunk["content"]]
    assert texts == ["so", "warm", "1"]
    (reply,) = kept(tmp_path)
    assert (reply["whole"], reply["model"], len(service.asked)) == (True, MODEL, 1)
    assert len(reply["chunks"]) > len(texts)
    assert first.transcript.digest == again.transcript.digest


@pytest.mark.parametrize("client", STREAMS)
def test_a_stream_that_is_left_is_left_again(folder: Path, tmp_path: Path, client: str) -> None:
    with a_service(says=lambda _: " ".join(["warm"] * 400), gap_s=0.02) as service:
        live = live_models(service, tmp_path)
        with a_live_session(folder, live, f"LEAVES = 2\n{STREAMS[client]}") as session:
            first, again = trials(session, folder, 0, 0)
    assert output(first.transcript) == output(again.transcript) == ["warm", "warm"]
    assert (kept(tmp_path)[0]["whole"], len(service.asked)) == (False, 1)


BUSY: Trouble = (429, {"retry-after": "0"}, {"error": {"message": "slow down", "type": "rate_limit_error"}})
DOWN: Trouble = (500, {}, {"error": {"message": "a secret of theirs", "type": "server_error"}})
SWALLOWS = PLAIN + "\ntry:\n    print(json.dumps(said()['model']))\nexcept Exception:\n    print('1')"


@pytest.mark.parametrize("trouble", [BUSY, DOWN])
def test_a_service_that_recovers_answers(folder: Path, tmp_path: Path, trouble: Trouble) -> None:
    with a_service(troubles=[trouble]) as service:
        told = played(folder, service, tmp_path, SWALLOWS)
    assert (output(told), len(service.asked)) == (MODEL, 2)


@pytest.mark.parametrize(
    ("given", "settings", "asked", "said"),
    [
        ({"troubles": [BUSY] * 9}, {"retries": 2}, 3, "answered 429, 3 times"),
        ({"troubles": [DOWN] * 9}, {"retries": 1}, 2, "answered 500, 2 times"),
        ({"troubles": [(429, {"retry-after": "86400"}, {})]}, {}, 1, "answered 429, 1 times"),
        ({"troubles": [(401, {}, {})]}, {}, 1, "refuses our key (401)"),
        ({"troubles": [(302, {"location": "http://127.0.0.1:1/"}, {})]}, {"retries": 0}, 1, "answered 302"),
        ({"slow_s": 3.0}, {"retries": 0, "timeout": 0.3}, 1, "gave no answer (TimeoutError)"),
    ],
    ids=["limited", "down", "tomorrow", "our key", "moved", "silent"],
)
def test_what_the_platform_cannot_do_is_an_error(
    folder: Path, tmp_path: Path, given: dict[str, Any], settings: dict[str, Any], asked: int, said: str
) -> None:
    with a_service(**given) as service:
        told = played(folder, service, tmp_path, SWALLOWS, **settings)
        assert len(service.asked) == asked
    found = verdict(told)
    assert (found.outcome, told.disposition) == (Outcome.ERROR, None)
    assert said in (found.error or "")
    assert "secret" not in (found.error or "")
    assert kept(tmp_path) == []


def test_a_stream_that_breaks_off_is_an_error_and_the_next_trial_stands(folder: Path, tmp_path: Path) -> None:
    with a_service(cut=3) as service, a_live_session(folder, live_models(service, tmp_path), f"LEAVES = 99\n{STREAMS['openai']}") as session:  # fmt: skip
        told = session.play(a_task(folder)).transcript
        service.cut = None
        (other,) = trials(session, folder, 1)
    assert "broke off its answer" in (told.fault or "")
    assert output(other.transcript) == ["answer", "2"]


def test_a_request_that_is_refused_is_the_candidates_matter(folder: Path, tmp_path: Path) -> None:
    code = OPENAI.replace("while True:", "try:\n  client.chat.completions.create(model='none', messages=messages)\nexcept Exception as refused:\n  print(json.dumps([type(refused).__name__, refused.body['message']]))\nwhile False:").replace("print(json.dumps([said.content, got.model]))", "")  # fmt: skip
    refusal = {"error": {"message": "no such model", "type": "invalid_request_error", "code": "model_not_found"}}
    with a_service(troubles=[(404, {}, refusal)]) as service, a_live_session(folder, live_models(service, tmp_path), code) as session:  # fmt: skip
        first, again = trials(session, folder, 0, 0)
    assert output(first.transcript) == ["NotFoundError", "no such model"]
    assert first.transcript.digest == again.transcript.digest
    error = first.transcript.played[0].crossing.error
    assert error is not None
    assert (error.type, json.loads(error.message)) == ("http_404", refusal)
    assert len(service.asked) == 1


def test_nobody_else_comes_through_the_door(folder: Path, tmp_path: Path) -> None:
    """The command knows the address, which is a fixed one, and not the token."""
    code = "try:\n    ask('http://127.0.0.1:41185/v1/chat/completions', {'model': 'gpt-x', 'messages': []})\nexcept Exception:\n    pass\nprint('1')"
    with a_service() as service:
        told = played(folder, service, tmp_path, code)
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.LIVE_UNCONTROLLED
    assert (service.asked, verdict(told).outcome) == ([], Outcome.DIVERGED)


def test_a_command_without_upstream_is_refused(folder: Path) -> None:
    with a_live_session(folder, None, PLAIN) as session, pytest.raises(UnreachedModel, match=r"\[upstream.openai\]"):
        session.play(a_task(folder))


def test_a_face_without_upstream_is_an_error(folder: Path, tmp_path: Path) -> None:
    with a_service() as service:
        live = live_models(service, tmp_path)
        only = {"anthropic": live.upstreams["anthropic"]}
        with a_live_session(folder, type(live)(upstreams=only, replies=tmp_path), SWALLOWS) as session:
            told = session.play(a_task(folder)).transcript
    assert "no [upstream.openai] is configured" in (told.fault or "")


def test_frozen_models_are_never_asked(folder: Path, tmp_path: Path) -> None:
    code = PLAIN + "print(json.dumps(said()['choices'][0]['finish_reason']))"
    with a_service() as service, a_live_session(folder, live_models(service, tmp_path), code) as session:
        frozen = session.play(a_task(folder, judge=Judge())).transcript
        prefix = session.play(a_task(folder, judge=Judge(mode=LIVE.mode, live=LIVE.live, after=1))).transcript
    assert (models(frozen), models(prefix), service.asked) == ([BoundaryState.FROZEN], [BoundaryState.FROZEN], [])


def test_responses_and_embeddings_are_asked_too(folder: Path, tmp_path: Path) -> None:
    code = """
base = os.environ["OPENAI_BASE_URL"]
said = ask(base + "/responses", {"model": "gpt-x", "input": "?"})
on = ask(base + "/responses", {"model": "gpt-x", "input": "and?", "previous_response_id": said["id"]})
print(json.dumps([on["output"][0]["content"][0]["text"], ask(base + "/embeddings", {"model": "gpt-x", "input": "a"})["data"][0]["embedding"]]))
"""
    with a_service() as service:
        told = played(folder, service, tmp_path, code)
    assert output(told) == ["answer 2", [0.5, 0.25]]
    assert [path for path, _, _ in service.asked] == ["/responses", "/responses", "/embeddings"]
    assert service.bodies[1]["previous_response_id"] == "resp_theirs"
