"""An unmodified agent in front of a scripted upstream: what it leaves is a record that its own replay is answered from."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from msgspec import UNSET

from builders import a_crossing, a_policy, an_envelope
from gatewaying import OFFER, TOKEN, Served, a_weather_case, an_output, serving
from twiceshy.envelope import Crossing, Disposition, Envelope, ErrorRecord, Kind, RunInput
from twiceshy.gateway import mcp, spans
from twiceshy.gateway.hosting import serve
from twiceshy.gateway.recorded import RecordingServer
from twiceshy.gateway.upstream import Upstreams
from twiceshy.recording import Recorder
from twiceshy.streaming import joined

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


def weather(_: str, asked: Any) -> dict[str, Any]:
    if asked["city"] == "Rome":
        raise LookupError("no such city")
    return {"city": asked["city"], "celsius": 7}


class Weather(BaseHTTPRequestHandler):
    """A tool server, plain and MCP, that asks for no token."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        shown = (
            mcp.answered(asked, (), weather, note=str, version="1")
            if self.path == "/mcp"
            else weather("get_weather", asked)
        )
        content = json.dumps(shown).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def a_tool_server(answers: type[BaseHTTPRequestHandler] = Weather) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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


@contextmanager
def recording(origin: str) -> Iterator[tuple[RecordingServer, Callable[[], Crossing]]]:
    """A gateway in front of a service, and what it has recorded of the first request."""
    recorder = Recorder()
    server = RecordingServer(recorder, Upstreams(openai=f"{origin}/v1", openai_key=TOKEN), TOKEN)
    settle = serve(server)

    def first() -> Crossing:
        settle()
        made = recorder.envelope(
            trace_id="t", source="record", workflow="weather", run_input=RunInput(), disposition=Disposition()
        )
        return made.crossings[0]

    try:
        yield server, first
    finally:
        server.server_close()


STREAMED: list[Any] = [
    {"index": "text", "type": "text", "content": "Let "},
    {"index": "text", "type": "text", "content": "me look."},
    {"index": "call 0", "type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": '{"city": '},
    {"index": "call 0", "type": "tool_call", "name": "get_weather", "arguments": '"Leith"}'},
    {"finish_reason": "tool_calls"},
]


@contextmanager
def reading(server: RecordingServer) -> Iterator[Iterator[str]]:
    """The lines of a streamed completion; at the end of the block the client hangs up."""
    asked = {"model": "gpt", "messages": [], "stream": True}
    with (
        httpx.Client(headers={"x-api-key": TOKEN}, timeout=20) as client,
        client.stream("POST", f"{server.origin}/v1/chat/completions", json=asked) as answer,
    ):
        yield (line for line in answer.iter_lines() if line)


def a_streamed_case(*chunks: Any, **given: Any) -> Envelope:
    output = joined(chunks)
    sides = {"raw": output, "shown": output, **given}
    return an_envelope(a_crossing(1, "planner", kind=Kind.MODEL, effect=None, seen={}, chunks=list(chunks), **sides))


def test_a_stream_is_recorded_in_its_chunks() -> None:
    with serving(a_streamed_case(*STREAMED)) as upstream, recording(upstream.origin) as (server, first):
        with reading(server) as lines:
            told = list(lines)
        made = first()
    assert told[-1] == "data: [DONE]"
    assert [json.loads(line[6:])["choices"][0]["delta"].get("content") for line in told[:2]] == ["Let ", "me look."]
    assert made.chunks == STREAMED
    assert made.raw == made.shown == joined(STREAMED)


@pytest.mark.parametrize("taken", [1, 3])
def test_a_stream_that_its_client_leaves_is_recorded_as_such(taken: int) -> None:
    with serving(a_streamed_case(*STREAMED)) as upstream, recording(upstream.origin) as (server, first):
        with reading(server) as lines:
            for _ in range(taken):
                next(lines)
        made = first()
        assert made.chunks == STREAMED[:taken]
        assert (made.raw, made.shown, made.error) == (UNSET, joined(STREAMED[:taken]), None)


def test_a_stream_that_breaks_off_is_recorded_as_an_error() -> None:
    error = ErrorRecord(cls="openai.APIError", type="overloaded", message="come back later")
    case = a_streamed_case(STREAMED[0], error=error, raw=UNSET, shown=UNSET)
    with serving(case) as upstream, recording(upstream.origin) as (server, first):
        with reading(server) as lines:
            assert "come back later" in list(lines)[-1]
        made = first()
    assert (made.raw, made.chunks) == (UNSET, STREAMED[:1])
    assert made.error is not None
    assert (made.error.type, made.error.message) == ("overloaded", "come back later")


def test_a_service_that_does_not_stream_is_recorded_whole() -> None:
    class Plain(Weather):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            content = json.dumps({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with a_tool_server(Plain) as origin, recording(origin) as (server, first):
        with reading(server) as lines:
            assert json.loads("".join(lines))["choices"][0]["message"]["content"] == "yes"
        made = first()
    assert made.raw == an_output("yes")


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


AGENT = """
import json, os, sys, urllib.request
user = json.load(sys.stdin)
body = {"model": "gpt", "messages": [{"role": "user", "content": user}], "tools": json.loads(sys.argv[1])}
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", data=json.dumps(body).encode(), headers=headers)
print(json.dumps(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]))
"""


def read_back(content: bytes) -> Envelope:
    from tasks.contracts import validated
    from tasks.envelopes import envelopes
    from tasks.normalize.step import normalize, unredacted
    from tasks.sources import otlp
    from tasks.sources.schema import SpanRecords
    from traces import HARNESS, a_raw

    mapped = otlp.spans(a_raw(content), harness_state=HARNESS)
    validated(mapped.spans, SpanRecords)
    read = normalize(
        unredacted(mapped.spans),
        mapped.scores,
        policies={"weather": a_policy("weather", get_weather="read")},
        harness_state=HARNESS,
    )
    (envelope,) = envelopes(read.traces, read.crossings)
    return envelope


@pytest.mark.slow
def test_a_stream_that_was_left_is_read_back_as_such() -> None:
    with serving(a_streamed_case(*STREAMED)) as upstream, recording(upstream.origin) as (server, first):
        with reading(server) as lines:
            next(lines)
        made = first()
    envelope = an_envelope(made, workflow="weather")
    (turn,) = read_back(spans.request(envelope) + b"\n").crossings
    taken = {"type": "text", "content": "Let "}
    assert (turn.raw, turn.shown, turn.chunks) == (UNSET, {"parts": [taken]}, [taken])
    (whole,) = read_back(spans.request(an_envelope(a_crossing(**whole_of(made)), workflow="weather")) + b"\n").crossings
    assert (whole.raw, whole.chunks) == (joined(STREAMED), None)


def whole_of(left: Crossing) -> dict[str, Any]:
    output = joined(STREAMED)
    return {name: getattr(left, name) for name in left.__struct_fields__} | {"raw": output, "shown": output}


@pytest.mark.slow
def test_what_the_command_records_the_source_reads(tmp_path: Path) -> None:

    with serving(a_weather_case()) as upstream:
        words = [
            "record",
            "-w",
            "weather",
            "-o",
            str(tmp_path / "run.jsonl"),
            "--input",
            '"Which?"',
            "--openai-upstream",
            f"{upstream.origin}/v1",
        ]
        done = subprocess.run(
            [sys.executable, "-c", "from twiceshy.cli import main; main()", *words, "--", sys.executable, "-c", AGENT, json.dumps(CHAT_TOOLS)],
            capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "OPENAI_API_KEY": TOKEN},
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, '"Let me look."\n'), done.stderr
    envelope = read_back((tmp_path / "run.jsonl").read_bytes())
    assert (envelope.input.user, envelope.disposition.output) == ("Which?", "Let me look.")
    (turn,) = envelope.crossings
    assert isinstance(turn.seen, dict)
    assert (turn.name, turn.seen["model"], turn.seen["tools"]) == ("gpt", "gpt", [OFFER])
    assert isinstance(turn.raw, dict)
    assert [part["type"] for part in turn.raw["parts"]] == ["text", "tool_call", "tool_call"]
