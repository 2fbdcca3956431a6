import json
from typing import Any

import anthropic
import httpx
import pytest

from builders import a_crossing, an_envelope
from gatewaying import OFFER, TOKEN, UNKNOWN_OFFERS, a_turn, a_weather_case, an_output, serving
from twiceshy.envelope import Kind

TOOLS: Any = [
    {
        "name": OFFER["name"],
        "description": OFFER["description"],
        "input_schema": OFFER["parameters"],
        "cache_control": {"type": "ephemeral"},
    }
]


@pytest.mark.parametrize("streamed", [False, True])
def test_messages_replay_tool_use(monkeypatch: pytest.MonkeyPatch, *, streamed: bool) -> None:
    with serving(a_weather_case()) as served:
        served.clients(monkeypatch)
        with anthropic.Anthropic() as client:
            messages: list[Any] = [{"role": "user", "content": "Which is warmer?"}]
            turn = _turn(client, messages, streamed=streamed)
            assert (turn.content[0].text, turn.stop_reason) == ("Let me look.", "tool_use")
            uses = [block for block in turn.content if block.type == "tool_use"]
            assert [use.input for use in uses] == [{"city": "Leith"}, {"city": "Truro"}]
            shown = [_tool(served.origin, use.name, use.input) for use in uses]
            messages += [
                {"role": "assistant", "content": turn.content},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": json.dumps(value)} for use, value in zip(uses, shown, strict=True)]},
            ]  # fmt: skip
            last = _turn(client, messages, streamed=streamed)
            assert (last.content[0].text, last.stop_reason) == ('{"warmer": "neither"}', "end_turn")
        told = served.transcript
    assert [one.matched for one in told.played] == ["#1", "#2", "#3", "#4"]
    request = told.played[3].crossing.seen
    assert isinstance(request, dict)
    assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool"]
    assert request["messages"][3]["parts"][0] == {
        "type": "tool_call_response",
        "id": "call_1",
        "response": {"city": "Leith", "celsius": 7},
    }


def _turn(client: anthropic.Anthropic, messages: list[Any], *, streamed: bool) -> Any:
    asked: Any = {
        "model": "claude",
        "max_tokens": 100,
        "system": "You know the weather.",
        "messages": messages,
        "tools": TOOLS,
    }
    if not streamed:
        return client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        return stream.get_final_message()


def _tool(origin: str, name: str, arguments: Any) -> Any:
    answer = httpx.post(f"{origin}/tools/{name}", json=arguments, headers={"x-api-key": TOKEN})
    return answer.raise_for_status().json()


def test_thinking_is_told_with_its_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    thought = {"type": "reasoning", "content": "Hm.", "signature": "sig"}
    with serving(an_envelope(a_turn(1, an_output(thought, "yes"), seen={"messages": []}))) as served:
        served.clients(monkeypatch)
        with (
            anthropic.Anthropic() as client,
            client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "?"}]) as stream,
        ):
            told = stream.get_final_message()
    assert [block.model_dump(exclude_none=True) for block in told.content] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"}, {"type": "text", "text": "yes"},
    ]  # fmt: skip


def test_a_miss_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(an_envelope()) as served:
        served.clients(monkeypatch)
        with anthropic.Anthropic(max_retries=5) as client, pytest.raises(anthropic.ConflictError):
            client.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": "?"}])
        assert served.server.requests == 1
        assert served.transcript.divergence is not None


def test_both_wires_ask_one_model_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A case recorded over one wire is answered over the other, by the same request."""
    import openai

    asked = "Which is warmer?"
    with serving(
        an_envelope(a_turn(1, an_output("a"), seen={}), a_turn(2, an_output("b"), seen={}), grades=UNKNOWN_OFFERS)
    ) as served:
        served.clients(monkeypatch)
        with anthropic.Anthropic() as client, openai.OpenAI() as other:
            client.messages.create(
                model="m", max_tokens=9, system="S", messages=[{"role": "user", "content": asked}], tools=TOOLS
            )
            other.chat.completions.create(
                model="m", max_tokens=9, messages=[{"role": "system", "content": "S"}, {"role": "user", "content": asked}],
                tools=[{"type": "function", "function": {name: OFFER[name] for name in ("name", "description", "parameters")}}],  # type: ignore[list-item,typeddict-item]
            )  # fmt: skip
        first, second = (one.crossing.seen for one in served.transcript.played)
    assert first == second


def test_other_content_keeps_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    image: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    record = an_envelope(a_crossing(1, "planner", kind=Kind.MODEL, effect=None, seen={}, raw="a cat"))
    with serving(record) as served:
        served.clients(monkeypatch)
        with anthropic.Anthropic() as client:
            told = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": [image]}])
        assert told.content[0].model_dump()["text"] == "a cat"
        request = served.transcript.played[0].crossing.seen
    assert isinstance(request, dict)
    assert request["messages"] == [{"role": "user", "parts": [image]}]
