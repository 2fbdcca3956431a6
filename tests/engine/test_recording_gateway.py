"""An unmodified agent in front of a scripted upstream: what it leaves is a record that its own replay is answered from."""

import json
from typing import Any

import httpx
import openai
import pytest
from msgspec import UNSET

from builders import a_policy
from gatewaying import OFFER, TOKEN, Served, a_weather_case, serving
from recording_services import POLICY, Weather, a_tool_server, weather
from twiceshy.envelope import Disposition, Envelope, RunInput
from twiceshy.gateway import mcp
from twiceshy.gateway.hosting import serve
from twiceshy.gateway.recorded import RecordingServer
from twiceshy.gateway.upstream import Upstreams
from twiceshy.recording import Recorder

CHAT_TOOLS: Any = [
    {"type": "function", "function": {name: OFFER[name] for name in ("name", "description", "parameters")}}
]


def converse(origin: str, token: str, *, streamed: bool, through: bool) -> str | None:
    """An agent that runs its tools itself, or through the gateway. The upstream that stands in for the real ones knows only its own token."""
    messages: list[Any] = [{"role": "system", "content": "S"}, {"role": "user", "content": "Which is warmer?"}]
    with openai.OpenAI(base_url=f"{origin}/v1", api_key=token, max_retries=0) as client:
        while True:
            if streamed:
                with client.chat.completions.stream(model="gpt", messages=messages, tools=CHAT_TOOLS) as stream:
                    turn = stream.get_final_completion().choices[0].message
            else:
                turn = (
                    client.chat.completions.create(model="gpt", messages=messages, tools=CHAT_TOOLS).choices[0].message
                )
            if not turn.tool_calls:
                return turn.content
            messages.append(
                {"role": "assistant", "content": turn.content, "tool_calls": [
                    {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}}
                    for call in turn.tool_calls
                ]}
            )  # fmt: skip
            for call in turn.tool_calls:
                asked = json.loads(call.function.arguments)
                shown = {"city": asked["city"], "celsius": 7}
                if through:
                    shown = httpx.post(f"{origin}/tools/get_weather", json=asked, headers={"x-api-key": token}).json()
                messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(shown)})


def recorded(upstream: Served, *, streamed: bool = False, tools: str | None = None) -> Envelope:
    recorder = Recorder(policy=a_policy("weather", get_weather="read"))
    upstreams = Upstreams(openai=f"{upstream.origin}/v1", openai_key=TOKEN, tools=tools)
    server = RecordingServer(recorder, upstreams, TOKEN)
    settle = serve(server)
    try:
        assert converse(server.origin, TOKEN, streamed=streamed, through=tools is not None) == '{"warmer": "neither"}'
    finally:
        settle()
        server.server_close()
    made = recorder.envelope(
        trace_id="0af7651916cd43dd8448eb211c80319c", source="record", workflow="weather", run_input=RunInput(user="?"),
        disposition=Disposition(output="neither"),
    )  # fmt: skip
    return server.finished(made)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_recorded_agent_replays_its_own_record(*, streamed: bool) -> None:
    with serving(a_weather_case()) as upstream:
        envelope = recorded(upstream, streamed=streamed)
    assert [(one.kind.value, one.name, one.group) for one in envelope.crossings] == [
        ("model", "gpt", None), ("tool", "get_weather", 1), ("tool", "get_weather", 1), ("model", "gpt", None),
    ]  # fmt: skip
    with serving(envelope) as replay:
        assert converse(replay.origin, TOKEN, streamed=streamed, through=True) == '{"warmer": "neither"}'
        told = replay.transcript
    assert [one.matched for one in told.played] == ["#1", "#2", "#3", "#4"]
    assert {one.drift for one in told.played} == {None}


def test_of_a_tool_that_passes_no_face_two_sides_are_unknown() -> None:
    with serving(a_weather_case()) as upstream:
        tool = recorded(upstream).crossings[1]
    assert (tool.proposed, tool.seen) == ({"city": "Leith"}, UNSET)
    assert (tool.raw, tool.shown) == (UNSET, {"city": "Leith", "celsius": 7})


def test_a_tool_that_passes_the_gateway_is_recorded_whole() -> None:
    with serving(a_weather_case()) as upstream, a_tool_server() as tools:
        envelope = recorded(upstream, tools=tools)
    assert [one.kind.value for one in envelope.crossings] == ["model", "tool", "tool", "model"]
    assert envelope.crossings[2].seen == {"city": "Truro"}
    assert envelope.crossings[2].raw == {"city": "Truro", "celsius": 7}


def test_an_upstreams_error_goes_back_and_is_recorded() -> None:
    recorder = Recorder()
    with serving(a_weather_case()) as upstream:
        server = RecordingServer(recorder, Upstreams(openai=f"{upstream.origin}/v1", openai_key="wrong"), TOKEN)
        settle = serve(server)
        with (
            openai.OpenAI(base_url=f"{server.origin}/v1", api_key=TOKEN, max_retries=0) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "?"}])
        settle()
        server.server_close()
    made = recorder.envelope(
        trace_id="t", source="record", workflow="weather", run_input=RunInput(), disposition=Disposition()
    )
    assert made.crossings[0].error is not None
    assert made.crossings[0].error.type == "http_401"


class Failing(Weather):
    """Services that answer in errors of their own."""

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/mcp":
            shown, status = mcp.answered(asked, (), weather, note=str, version="1"), 200
        else:
            shown, status = {"error": {"code": "no_such_city", "message": "there is none"}, "near": ["Ravenna"]}, 404
        content = json.dumps(shown).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tools/get_weather", {"city": "Rome"}),
        ("/v1/chat/completions", {"model": "gpt", "messages": []}),
        ("/v1/chat/completions", {"model": "gpt", "messages": [], "stream": True}),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_weather", "arguments": {"city": "Rome"}}}),
    ],
    ids=["tool", "model", "streamed", "mcp"],
)  # fmt: skip
def test_an_error_is_replayed_in_the_words_of_its_service(path: str, body: Any) -> None:
    """The agent that was recorded reads them; nobody has to write them into the record."""
    recorder = Recorder(policy=POLICY)
    headers = {"x-api-key": TOKEN}
    with a_tool_server(Failing) as origin:
        upstreams = Upstreams(openai=f"{origin}/v1", tools=f"{origin}/tools", mcp=f"{origin}/mcp")
        server = RecordingServer(recorder, upstreams, TOKEN)
        settle = serve(server)
        lived = httpx.post(f"{server.origin}{path}", json=body, headers=headers)
        settle()
        server.server_close()
    envelope = recorder.envelope(
        trace_id="t", source="record", workflow="weather", run_input=RunInput(), disposition=Disposition()
    )
    with serving(envelope, POLICY) as replay:
        again = httpx.post(f"{replay.origin}{path}", json=body, headers=headers)
    assert (again.status_code, again.json()) == (lived.status_code, lived.json())


def test_a_call_of_an_mcp_tool_is_recorded() -> None:
    recorder = Recorder()
    with a_tool_server() as tools:
        server = RecordingServer(recorder, Upstreams(mcp=f"{tools}/mcp"), TOKEN)
        settle = serve(server)
        told = [
            httpx.post(
                f"{server.origin}/mcp",
                headers={"x-api-key": TOKEN},
                json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
            ).json()["result"]
            for method, params in (
                ("tools/list", {}),
                ("tools/call", {"name": "get_weather", "arguments": {"city": "Leith"}}),
                ("tools/call", {"name": "get_weather", "arguments": {"city": "Rome"}}),
            )
        ]
        settle()
        server.server_close()
    made = recorder.envelope(
        trace_id="t", source="record", workflow="weather", run_input=RunInput(), disposition=Disposition()
    )
    assert told[1]["structuredContent"] == {"city": "Leith", "celsius": 7}
    assert told[2]["isError"] is True
    (found, failed) = made.crossings
    assert (found.seen, found.raw) == ({"city": "Leith"}, {"city": "Leith", "celsius": 7})
    assert failed.error is not None
    assert "no such city" in failed.error.message
