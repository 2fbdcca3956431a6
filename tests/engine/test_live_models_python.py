"""Models that run live for a Python candidate: its own client, in its own process, at the only address there is (semantics.md §6.3)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from commanding import a_weather_agent, output, verdict
from living import LIVE, a_python_session, a_task, live_models, trials
from twiceshy.casefile import Judge
from twiceshy.envelope import Kind
from twiceshy.outcome import BoundaryState, Divergence, Outcome
from upstreaming import MODEL, a_service

pytestmark = pytest.mark.slow

AGENTS = """
import asyncio, threading
import anthropic, openai
from twiceshy import candidate

MESSAGES = [{"role": "user", "content": "warmer?"}]
EARLY = openai.OpenAI()

def output(text):
    return {"parts": [{"type": "text", "content": text}], "finish_reason": "stop"}

def asked(request=None):
    return output(EARLY.chat.completions.create(model="gpt-x", messages=MESSAGES).choices[0].message.content)

async def streamed(request):
    async with anthropic.AsyncAnthropic() as client:
        async with client.messages.stream(model="claude-x", max_tokens=9, messages=MESSAGES) as stream:
            async for text in stream.text_stream:
                yield {"type": "text", "content": text}
    yield {"finish_reason": "stop"}

def tried(ask):
    try:
        return ask()
    except Exception as failed:
        return type(failed).__name__

@candidate(workflow="weather")
def plain(boundary):
    planner = boundary.model("planner", asked)
    get_weather = boundary.tool("get_weather", lambda city: 1, effect="read")
    return lambda user: [planner({"messages": MESSAGES})["parts"][0]["content"], get_weather(city="Leith")["celsius"]]

@candidate(workflow="weather")
def later(boundary):
    planner = boundary.model("planner", streamed)
    async def agent(user):
        await asyncio.sleep(3600)
        async with planner({"messages": MESSAGES}) as said:
            return [chunk["content"] async for chunk in said if "content" in chunk]
    return agent

@candidate(workflow="weather")
def raises(boundary):
    planner = boundary.model("planner", asked)
    return lambda user: tried(lambda: planner({"messages": MESSAGES}))

@candidate(workflow="weather")
def past(boundary):
    boundary.model("planner", asked)
    return lambda user: tried(asked)

@candidate(workflow="weather")
def threads(boundary):
    planner = boundary.model("planner", asked)
    def agent(user):
        planner({"messages": MESSAGES})
        other = threading.Thread(target=tried, args=[asked])
        other.start()
        other.join()
        return 1
    return agent

@candidate(workflow="weather")
def reads(boundary):
    boundary.model("planner", asked)
    get_weather = boundary.tool("get_weather", lambda city: tried(asked), effect="read")
    return lambda user: get_weather(city="Leith")

@candidate(workflow="weather")
def elsewhere(boundary):
    client = openai.OpenAI(base_url="http://127.0.0.1:9/v1", max_retries=0)
    planner = boundary.model("planner", lambda _: tried(lambda: client.chat.completions.create(model="gpt-x", messages=MESSAGES)))
    return lambda user: planner({"messages": MESSAGES})
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        (made / "agents.py").write_text(AGENTS)
        yield made


def test_a_client_of_its_own_is_answered_by_the_service(folder: Path, tmp_path: Path) -> None:
    with a_service() as service, a_python_session(folder, live_models(service, tmp_path), "plain") as session:
        first, again, other = trials(session, folder, 0, 0, 1)
        frozen = session.play(a_task(folder, judge=Judge())).transcript
    assert [output(one.transcript) for one in (first, again, other)] == [["answer 1", 7], ["answer 1", 7], ["answer 2", 7]]  # fmt: skip
    assert first.transcript.digest == again.transcript.digest
    assert [(one.host in service.origin, one.asked, one.model) for one in first.asked] == [(True, "gpt-x", MODEL)]
    assert frozen.divergence is not None
    assert (frozen.divergence.kind, len(service.asked)) == (Divergence.MODEL_SHAPE, 2)


def test_an_async_client_streams_beside_a_frozen_clock(folder: Path, tmp_path: Path) -> None:
    with a_service(slow_s=1.5) as service, a_python_session(folder, live_models(service, tmp_path), "later") as session:
        first, again = trials(session, folder, 0, 0)
    assert output(first.transcript) == output(again.transcript) == ["answer", "1"]
    (model,) = [one for one in first.transcript.played if one.crossing.kind is Kind.MODEL]
    assert (model.boundary, len(model.crossing.chunks or ())) == (BoundaryState.LIVE, 3)


def test_a_refused_request_raises_in_its_own_client(folder: Path, tmp_path: Path) -> None:
    refusal = (400, {}, {"error": {"message": "too long", "type": "invalid_request_error"}})
    with a_service(troubles=[refusal]) as service, a_python_session(folder, live_models(service, tmp_path), "raises") as session:  # fmt: skip
        told = session.play(a_task(folder)).transcript
    assert output(told) == "BadRequestError"
    error = told.played[0].crossing.error
    assert error is not None
    assert (error.cls, "too long" in error.message) == ("openai.BadRequestError", True)


def test_a_platform_that_fails_is_an_error_whatever_is_swallowed(folder: Path, tmp_path: Path) -> None:
    down = [(503, {}, {"error": {"message": "overloaded"}})] * 9
    with a_service(troubles=down) as service, a_python_session(folder, live_models(service, tmp_path, retries=1), "raises") as session:  # fmt: skip
        told = session.play(a_task(folder)).transcript
        service.troubles.clear()
        (other,) = trials(session, folder, 1)
    found = verdict(told)
    assert (found.outcome, len(service.asked)) == (Outcome.ERROR, 3)
    assert "answered 503, 2 times" in (found.error or "")
    assert other.transcript.fault is None


@pytest.mark.parametrize(
    ("name", "boundary"), [("past", "run"), ("threads", "run"), ("reads", "tool:get_weather"), ("elsewhere", "model:planner")]
)  # fmt: skip
def test_a_model_that_is_asked_past_its_boundary_is_uncontrolled(
    folder: Path, tmp_path: Path, name: str, boundary: str
) -> None:
    judge = Judge(mode=LIVE.mode, live=["model:*", "tool:get_weather"])
    with a_service() as service, a_python_session(folder, live_models(service, tmp_path), name) as session:
        told = session.play(a_task(folder, judge=judge)).transcript
    assert told.divergence is not None
    assert (told.divergence.kind, told.divergence.boundary) == (Divergence.LIVE_UNCONTROLLED, boundary)
    assert len(service.asked) == (1 if name == "threads" else 0)


def test_without_upstream_a_remote_model_diverges(folder: Path) -> None:
    """A Python candidate may have a model of its own, so nothing can be refused before it dials; it is never frozen in silence."""
    with a_python_session(folder, None, "raises") as session:
        told = session.play(a_task(folder)).transcript
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.LIVE_UNCONTROLLED
