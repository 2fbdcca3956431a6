import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from builders import a_crossing, an_envelope
from gatewaying import OFFER, UNKNOWN_OFFERS, a_call, a_turn, a_weather_case, an_output, serving
from twiceshy.envelope import ErrorRecord, Kind
from twiceshy.outcome import Divergence

CHAT_TOOLS: Any = [
    {"type": "function", "function": {name: OFFER[name] for name in ("name", "description", "parameters")}}
]
ASKED: Any = [{"role": "system", "content": "You know the weather."}, {"role": "user", "content": "Which is warmer?"}]


@pytest.mark.parametrize("streamed", [False, True])
def test_chat_replays_parallel_calls(monkeypatch: pytest.MonkeyPatch, *, streamed: bool) -> None:
    with serving(a_weather_case()) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client:
            messages = list(ASKED)
            turn = _turn(client, messages, streamed=streamed)
            assert turn["content"] == "Let me look."
            assert [json.loads(call["function"]["arguments"]) for call in turn["tool_calls"]] == [
                {"city": "Leith"},
                {"city": "Truro"},
            ]
            messages.append(turn)
            for call in turn["tool_calls"]:
                shown = _tool(client, served.origin, call)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(shown)})
            assert _turn(client, messages, streamed=streamed)["content"] == '{"warmer": "neither"}'
        told = served.transcript
    assert [(one.crossing.name, one.matched) for one in told.played] == [
        ("planner", "#1"), ("get_weather", "#2"), ("get_weather", "#3"), ("planner", "#4"),
    ]  # fmt: skip
    assert [one.crossing.group for one in told.played] == [None, 1, 1, None]
    assert told.divergence is None


def _turn(client: openai.OpenAI, messages: list[Any], *, streamed: bool) -> dict[str, Any]:
    if not streamed:
        answer = client.chat.completions.create(model="gpt", messages=messages, tools=CHAT_TOOLS)
        return answer.choices[0].message.model_dump(exclude_none=True)
    with client.chat.completions.stream(model="gpt", messages=messages, tools=CHAT_TOOLS) as stream:
        for _ in stream:
            pass
        return (
            stream.get_final_completion()
            .choices[0]
            .message.model_dump(
                exclude_none=True,
                exclude={"parsed": True, "tool_calls": {"__all__": {"function": {"parsed_arguments"}}}},
            )
        )


def _tool(client: openai.OpenAI, origin: str, call: dict[str, Any]) -> Any:
    body = json.loads(call["function"]["arguments"])
    return client.post(f"{origin}/tools/{call['function']['name']}", body=body, cast_to=object)


@pytest.mark.parametrize("streamed", [False, True])
def test_responses_go_on_from_the_last(monkeypatch: pytest.MonkeyPatch, *, streamed: bool) -> None:
    with serving(a_weather_case()) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client:
            tools: Any = [OFFER]
            first = _response(
                client,
                streamed=streamed,
                model="gpt",
                input="Which is warmer?",
                instructions="You know the weather.",
                tools=tools,
            )
            calls = [item for item in first.output if item.type == "function_call"]
            assert first.output_text == "Let me look."
            assert [json.loads(call.arguments)["city"] for call in calls] == ["Leith", "Truro"]
            told = [{"type": "function_call_output", "call_id": call.call_id, "output": "{}"} for call in calls]
            last = _response(
                client, streamed=streamed, model="gpt", input=told, previous_response_id=first.id, tools=tools
            )
            assert last.output_text == '{"warmer": "neither"}'
        request = served.transcript.played[1].crossing.seen
    assert isinstance(request, dict)
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "tool"]


def _response(client: openai.OpenAI, *, streamed: bool, **asked: Any) -> Any:
    if not streamed:
        return client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        for _ in stream:
            pass
        return stream.get_final_response()


class Warmer(BaseModel):
    warmer: str


def test_structured_outputs_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {
        "messages": [],
        "output_format": {
            "type": "json_schema",
            "name": "Warmer",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"warmer": {"title": "Warmer", "type": "string"}},
                "required": ["warmer"],
                "title": "Warmer",
                "additionalProperties": False,
            },
        },
    }
    record = an_envelope(
        a_turn(1, an_output('{"warmer": "neither"}'), seen=shape),
        a_turn(2, an_output('{"warmer": "Leith"}'), seen=shape),
    )
    with serving(record) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client:
            chat = client.chat.completions.parse(model="gpt", messages=ASKED, response_format=Warmer)
            assert chat.choices[0].message.parsed == Warmer(warmer="neither")
            response = client.responses.parse(model="gpt", input="?", text_format=Warmer)
            assert response.output_parsed == Warmer(warmer="Leith")


def test_another_output_format_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"messages": [], "output_format": {"type": "json"}}
    with serving(an_envelope(a_turn(1, an_output("{}"), seen=shape))) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client, pytest.raises(openai.ConflictError):
            client.chat.completions.parse(model="gpt", messages=ASKED, response_format=Warmer)
        assert served.transcript.divergence is not None
        assert served.transcript.divergence.kind is Divergence.MODEL_SHAPE


@pytest.mark.parametrize("face", ["chat", "responses", "tools", "files"])
def test_a_miss_costs_one_request(monkeypatch: pytest.MonkeyPatch, face: str) -> None:
    with serving(an_envelope()) as served:
        served.clients(monkeypatch)
        with openai.OpenAI(max_retries=5) as client:
            asked = {
                "chat": lambda: client.chat.completions.create(model="gpt", messages=ASKED),
                "responses": lambda: client.responses.create(model="gpt", input="?"),
                "tools": lambda: client.post(
                    f"{served.origin}/tools/get_weather", body={"city": "Leith"}, cast_to=object
                ),
                "files": lambda: client.moderations.create(input="?"),
            }
            with pytest.raises(openai.ConflictError):
                asked[face]()
            assert served.server.requests == 1
            with pytest.raises(openai.ConflictError):  # the run is over, whatever it asks for now
                client.models.list()
        assert served.transcript.divergence is not None
        assert served.transcript.played == []


def test_a_wrong_token_ends_the_run() -> None:
    with serving(a_weather_case()) as served:
        client = openai.OpenAI(base_url=f"{served.origin}/v1", api_key="sk-other", max_retries=0)
        with client, pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model="gpt", messages=ASKED, tools=CHAT_TOOLS)
        divergence = served.transcript.divergence
    assert divergence is not None
    assert (divergence.kind, divergence.boundary) == (Divergence.UNRECORDED_CALL, "gateway")
    assert "sk-other" not in str(served.lines)


def test_models_are_those_of_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"messages": [], "model": "gpt-9"}
    with serving(an_envelope(a_turn(1, an_output("yes"), seen=seen))) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client:
            assert [model.id for model in client.models.list()] == ["gpt-9", "planner"]
            assert client.models.retrieve("gpt-9").id == "gpt-9"


def test_the_model_that_was_recorded_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = {"messages": [], "model": "small"}, {"messages": [], "model": "large"}
    record = an_envelope(
        a_turn(1, an_output("large"), seen=large),
        a_crossing(2, "router", kind=Kind.MODEL, effect=None, seen=small, raw=an_output("small")),
    )
    with serving(record) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client:
            for name in ("small", "large"):
                answer = client.chat.completions.create(model=name, messages=ASKED)
                assert answer.choices[0].message.content == name
            with pytest.raises(openai.ConflictError):
                client.chat.completions.create(model="medium", messages=ASKED)


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings_of_just_that_text(monkeypatch: pytest.MonkeyPatch, encoding: Any) -> None:
    seen = {"embed": ["Leith"], "model": "embed-1"}
    record = an_envelope(
        a_crossing(1, "embedder", kind=Kind.MODEL, effect=None, seen=seen, raw={"vectors": [[0.5, -2.0]]})
    )
    with serving(record) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client:
            for _ in range(2):
                told = client.embeddings.create(model="embed-1", input="Leith", encoding_format=encoding)
                vector = told.data[0].embedding
                assert vector == [0.5, -2.0] or encoding == "base64"
            assert client.embeddings.create(model="embed-1", input="Leith").data[0].embedding == [0.5, -2.0]
            with pytest.raises(openai.ConflictError):
                client.embeddings.create(model="embed-1", input="Truro")
        assert served.transcript.divergence is not None
        assert served.transcript.divergence.kind is Divergence.ARGS_MISMATCH


def test_a_recorded_error_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = a_turn(1, None, error=ErrorRecord(cls="openai.RateLimitError", type="rate_limit", message="slow down"))
    record = an_envelope(
        a_crossing(**{name: getattr(limited, name) for name in ("seq", "name", "kind", "seen", "error")}, effect=None),
        a_turn(2, an_output("at last")),
    )
    with serving(record) as served:
        served.clients(monkeypatch)
        with openai.OpenAI(max_retries=1) as client:
            assert (
                client.chat.completions.create(model="gpt", messages=ASKED, tools=CHAT_TOOLS).choices[0].message.content
                == "at last"
            )
        assert served.server.requests == 2


def test_what_no_wire_can_carry_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(an_envelope(a_turn(1, {"route": "east"}, seen={"messages": []}))) as served:
        served.clients(monkeypatch)
        with openai.OpenAI(max_retries=3) as client, pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="gpt", messages=ASKED)
        assert served.server.requests == 1
        assert "without parts" in (served.transcript.fault or "")


def test_a_tool_that_is_not_offered_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    proposed = a_turn(1, an_output(a_call("Leith")), seen={"messages": []})
    with serving(an_envelope(proposed, grades=UNKNOWN_OFFERS)) as served:
        served.clients(monkeypatch)
        other: Any = [{"type": "function", "function": {"name": "get_tide", "parameters": {}}}]
        with openai.OpenAI() as client, pytest.raises(openai.ConflictError) as missed:
            client.chat.completions.create(model="gpt", messages=ASKED, tools=other)
        assert missed.value.code == "twiceshy_proposal_not_offered"
