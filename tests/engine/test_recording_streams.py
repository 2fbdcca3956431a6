"""Streams through a recording gateway: passed on as they come, recorded as far as their client read them."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from msgspec import UNSET

from builders import a_crossing, an_envelope
from gatewaying import TOKEN, an_output, serving
from recording_services import Weather, a_tool_server, read_back
from twiceshy.envelope import Crossing, Disposition, Envelope, ErrorRecord, Kind, RunInput
from twiceshy.gateway import spans
from twiceshy.gateway.hosting import serve
from twiceshy.gateway.recorded import RecordingServer
from twiceshy.gateway.upstream import Upstreams
from twiceshy.recording import Recorder
from twiceshy.streaming import joined


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
        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
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
