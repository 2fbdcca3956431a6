"""Streams through the gateway: in the chunks they were recorded in, and left where the client hangs up."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_crossing, an_envelope
from gatewaying import OFFER, TOKEN, Served, a_reading, an_output, serving
from twiceshy.envelope import Crossing, ErrorRecord, Kind
from twiceshy.gateway import anthropic as messages_wire
from twiceshy.gateway import openai_chat, openai_responses, peers
from twiceshy.gateway.answers import events
from twiceshy.gateway.messages import said
from twiceshy.gateway.peers import Peer
from twiceshy.gateway.pieces import Pieces
from twiceshy.gateway.upstream import Reply
from twiceshy.outcome import Divergence
from twiceshy.streaming import joined, split

AUTH = {"authorization": f"Bearer {TOKEN}"}
ASKED: Any = [{"role": "user", "content": "Which is warmer?"}]
CHUNKS = [
    {"index": "text", "type": "text", "content": "Let "},
    {"index": "text", "type": "text", "content": "me "},
    {"index": "text", "type": "text", "content": "look."},
    {"index": "call 0", "type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": ""},
    {"index": "call 0", "type": "tool_call", "name": "get_weather", "arguments": '{"city": '},
    {"index": "call 0", "type": "tool_call", "name": "get_weather", "arguments": '"Leith"}'},
    {"finish_reason": "tool_calls", "usage": {"input_tokens": 3, "output_tokens": 5}},
]


def a_stream(seq: int, chunks: list[Any], **given: Any) -> Crossing:
    """A recorded stream; without a raw, one that its agent left there."""
    output = joined(chunks)
    sides = {"seen": {"messages": []}, "raw": output, "shown": output, **given}
    return a_crossing(seq, "planner", kind=Kind.MODEL, effect=None, chunks=chunks, **sides)


def left_at(seq: int, count: int) -> Crossing:
    """A recorded stream that its agent left after so many chunks."""
    made = a_stream(seq, CHUNKS[:count])
    return Crossing(**{name: getattr(made, name) for name in made.__struct_fields__ if name != "raw"})


def chat(served: Served, client: openai.OpenAI) -> Iterator[tuple[str, str]]:
    for chunk in client.chat.completions.create(model="m", messages=ASKED, stream=True):
        delta = chunk.choices[0].delta
        if delta.content:
            yield "text", delta.content
        for call in delta.tool_calls or ():
            assert call.function is not None
            yield "call", call.function.arguments or ""


def responses(served: Served, client: openai.OpenAI) -> Iterator[tuple[str, str]]:
    for event in client.responses.create(model="m", input="Which is warmer?", stream=True):
        if event.type == "response.output_text.delta":
            yield "text", event.delta
        elif event.type == "response.function_call_arguments.delta":
            yield "call", event.delta


def messages(served: Served, _: openai.OpenAI) -> Iterator[tuple[str, str]]:
    with anthropic.Anthropic(base_url=served.origin, api_key=TOKEN) as client:
        for event in client.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                yield "text", event.delta.text
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                yield "call", event.delta.partial_json


@pytest.mark.parametrize("wire", [chat, responses, messages])
def test_a_stream_comes_in_its_recorded_chunks(wire: Callable[..., Iterator[tuple[str, str]]]) -> None:
    with serving(an_envelope(a_stream(1, CHUNKS))) as served:
        with openai.OpenAI(base_url=f"{served.origin}/v1", api_key=TOKEN, max_retries=0) as client:
            told = [piece for piece in wire(served, client) if piece[1]]
        (played,) = served.transcript.played
    assert told == [("text", "Let "), ("text", "me "), ("text", "look."), ("call", '{"city": '), ("call", '"Leith"}')]
    assert (played.crossing.chunks, played.crossing.raw) == (CHUNKS, joined(CHUNKS))


def test_without_chunks_a_part_is_one() -> None:
    output = an_output(
        "Let me look.", {"type": "tool_call", "id": "c", "name": "get_weather", "arguments": {"city": "Leith"}}
    )
    record = an_envelope(a_crossing(1, "planner", kind=Kind.MODEL, effect=None, seen={}, raw=output, shown=output))
    with serving(record) as served:
        with openai.OpenAI(base_url=f"{served.origin}/v1", api_key=TOKEN) as client:
            told = [piece for piece in chat(served, client) if piece[1]]
        (played,) = served.transcript.played
    assert told == [("text", "Let me look."), ("call", '{"city":"Leith"}')]
    assert played.crossing.raw == output


@contextmanager
def a_reader(served: Served, **body: Any) -> Iterator[Iterator[str]]:
    """The lines of a streamed chat completion; at the end of the block the client hangs up."""
    asked = {"model": "m", "messages": ASKED, "stream": True, **body}
    with (
        httpx.Client(headers=AUTH, timeout=20) as client,
        client.stream("POST", f"{served.origin}/v1/chat/completions", json=asked) as answer,
    ):
        yield (line for line in answer.iter_lines() if line)


@pytest.mark.parametrize("taken", [1, 2, 5])
def test_a_stream_is_left_where_its_client_hangs_up(taken: int) -> None:
    digests = set()
    for _ in range(3):
        with serving(an_envelope(a_stream(1, CHUNKS), a_stream(2, [*CHUNKS[:3], {"finish_reason": "stop"}]))) as served:
            with a_reader(served) as lines:
                for _ in range(taken):
                    next(lines)
            httpx.post(
                f"{served.origin}/v1/chat/completions",
                json={"model": "m", "messages": [], "stream": True},
                headers=AUTH,
            )
            first, second = served.transcript.played
        assert first.crossing.chunks == CHUNKS[:taken]
        assert (first.crossing.raw is not first.crossing.shown, first.crossing.shown) == (True, joined(CHUNKS[:taken]))
        assert json.dumps(str(first.crossing.raw)) == '"UNSET"'
        assert (first.stale, second.stale) == (False, True)  # less was shown than in the record
        digests.add(served.transcript.digest)
    assert len(digests) == 1


def test_a_stream_that_nobody_reads_is_left_at_once() -> None:
    with serving(an_envelope(a_stream(1, CHUNKS))) as served:
        with a_reader(served):
            pass
        httpx.get(f"{served.origin}/clock", headers=AUTH)
        assert served.transcript.played[0].crossing.chunks in (None, [])


def test_tools_may_be_called_while_a_stream_comes() -> None:
    with serving(an_envelope(a_stream(1, CHUNKS), a_reading(2, "Leith", group=1))) as served:
        with a_reader(served) as lines:
            next(lines)
            assert (
                httpx.post(f"{served.origin}/tools/get_weather", json={"city": "Leith"}, headers=AUTH).status_code
                == 200
            )
            assert list(lines)[-1] == "data: [DONE]"
        stream, reading = served.transcript.played
    assert (stream.crossing.chunks, reading.matched) == (CHUNKS, "#2")


def test_a_stream_that_was_left_is_replayed_as_such() -> None:
    with serving(an_envelope(left_at(1, 2), a_stream(2, [*CHUNKS[:1], {"finish_reason": "stop"}]))) as served:
        with a_reader(served) as lines:
            assert [json.loads(next(lines)[6:])["choices"][0]["delta"]["content"] for _ in range(2)] == ["Let ", "me "]
        httpx.post(
            f"{served.origin}/v1/chat/completions", json={"model": "m", "messages": [], "stream": True}, headers=AUTH
        )
        told = served.transcript
    assert told.divergence is None
    assert [one.crossing.chunks for one in told.played] == [CHUNKS[:2], [*CHUNKS[:1], {"finish_reason": "stop"}]]
    assert [one.stale for one in told.played] == [False, False]


def test_more_than_was_taken_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PATIENCE_S", 0.3)
    with serving(an_envelope(left_at(1, 2))) as served:
        with a_reader(served) as lines, pytest.raises(httpx.RemoteProtocolError):
            list(lines)
        divergence = served.transcript.divergence
    assert divergence is not None
    assert divergence.kind is Divergence.MODEL_EXHAUSTED


def test_asked_whole_for_what_was_left_diverges() -> None:
    with serving(an_envelope(left_at(1, 2))) as served:
        missed = httpx.post(
            f"{served.origin}/v1/chat/completions", json={"model": "m", "messages": ASKED}, headers=AUTH
        )
        assert (missed.status_code, served.transcript.divergence and served.transcript.divergence.kind) == (
            409,
            Divergence.SIDE_UNKNOWN,
        )


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
@pytest.mark.parametrize("before", [0, 1])
def test_a_recorded_error_of_a_stream_comes_again(path: str, before: int) -> None:
    error = ErrorRecord(cls="openai.RateLimitError", type="rate_limit", message="slow down")
    made = a_stream(1, CHUNKS[:before], error=error)
    record = Crossing(**{name: getattr(made, name) for name in made.__struct_fields__ if name not in ("raw", "shown")})
    asked = {"model": "m", "stream": True, "max_tokens": 9, "messages": ASKED, "input": "?"}
    with serving(an_envelope(record)) as served:
        told = httpx.post(f"{served.origin}/v1/{path}", json=asked, headers=AUTH)
        (played,) = served.transcript.played
    assert told.status_code == (200 if before else 429)
    assert ("slow down" in told.text, "rate_limit" in told.text) == (True, True)
    assert (played.crossing.chunks or [], played.crossing.error and played.crossing.error.message) == (
        CHUNKS[:before],
        "slow down",
    )


def test_a_chunk_that_no_wire_can_carry_is_our_fault() -> None:
    with serving(an_envelope(a_stream(1, [CHUNKS[0], {"route": "east"}]))) as served:
        with a_reader(served) as lines, pytest.raises(httpx.RemoteProtocolError):
            list(lines)
        assert "without parts" in (served.transcript.fault or "")


WIRES = [(openai_chat, {}), (openai_responses, {}), (messages_wire, {})]
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
values = st.dictionaries(st.text(max_size=3), st.integers() | texts, max_size=3)
calls = st.builds(lambda name, arguments: {"type": "tool_call", "name": name, "arguments": arguments}, texts, values)
parts = st.one_of(
    calls,
    *(
        st.builds(lambda kind, text: {"type": kind, "content": text}, st.just(kind), texts)
        for kind in ("text", "reasoning")
    ),
)


@pytest.mark.parametrize(("wire", "body"), WIRES, ids=["chat", "responses", "messages"])
@given(drawn=st.lists(parts, max_size=4), cut=st.integers(1, 3))
def test_what_goes_out_over_a_wire_comes_in_as_it_was(
    wire: Any, body: dict[str, Any], drawn: list[Any], cut: int
) -> None:
    told = [{**part, "id": f"c{at}"} if part["type"] == "tool_call" else part for at, part in enumerate(drawn)]
    output = {"parts": told, "finish_reason": "stop"}
    chunks = [piece for at, part in enumerate(told) for piece in pieces_of(part, at, cut)] + [{"finish_reason": "stop"}]
    assert joined(chunks) == output
    back = over(wire, body, chunks)
    assert everything(wire, back) == everything(wire, output)
    assert everything(wire, over(wire, body, split(output))) == everything(wire, output)


def pieces_of(part: dict[str, Any], at: int, cut: int) -> list[Any]:
    """A part in pieces of so many characters."""
    name = "arguments" if part["type"] == "tool_call" else "content"
    text = json.dumps(part[name]) if name == "arguments" else part[name]
    rest = {key: value for key, value in part.items() if key != name}
    return [{"index": at, **rest, name: text[start : start + cut]} for start in range(0, len(text), cut)]


def over(wire: Any, body: dict[str, Any], chunks: list[Any]) -> Any:
    """The output that a client of the wire hears, as our own end of it reads it back."""
    out, made = wire.Outflow(body, 1, 0), Pieces()
    sent = [
        *out.begin(),
        *(event for chunk in chunks for piece in made.of(chunk) for event in out.piece(piece)),
        *out.end(made.said()),
    ]
    reply = Reply(status=200, body=events(sent), headers={"content-type": "text/event-stream"})
    inflow = wire.Inflow()
    return joined([chunk for event in reply.events() for chunk in inflow.chunks(event)])


def everything(wire: Any, output: Any) -> Any:
    """What a wire tells of an output: chat completions know one text, and responses no text of a thought on its way."""
    whole = said(output)
    told = [(part["name"], part["arguments"], part["id"]) for part in whole.calls]
    if wire is messages_wire:
        return [(part["type"], part.get("content"), part.get("arguments")) for part in whole.parts]
    thoughts = "".join(part["content"] for part in whole.of("reasoning")) if wire is openai_chat else None
    return whole.text, thoughts, told


def test_how_far_a_client_has_come() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, address = listener.accept()
        with server:
            peer = Peer(address, listener.getsockname())
            assert (peer.reach().left, peer.reach().read) == (False, True)
            server.sendall(b"abc")
            assert reached(peer, lambda reach: not reach.read)
            client.recv(2)
            assert not peer.reach().read
            client.recv(1)
            assert reached(peer, lambda reach: reach.read and not reach.left)
            client.shutdown(socket.SHUT_WR)  # it still listens
            assert not peer.reach().left
            client.close()
            assert reached(peer, lambda reach: reach.left and reach.read)


@pytest.mark.parametrize("how", ["unread", "reset"])
def test_a_client_that_hangs_up_on_something_has_not_read_it(how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, address = listener.accept()
        with server:
            server.sendall(b"abc")
            peer = Peer(address, listener.getsockname())
            assert reached(peer, lambda reach: not reach.read)
            if how == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            assert reached(peer, lambda reach: reach.left and not reach.read)


def reached(peer: Peer, wanted: Callable[[Any], bool]) -> bool:
    """Whether the kernel comes to show this within a second."""
    deadline = time.monotonic() + 1
    while not wanted(peer.reach()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def test_an_offer_stands_in_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A streamed request is keyed as a whole one is."""
    tools: Any = [
        {"type": "function", "function": {name: OFFER[name] for name in ("name", "description", "parameters")}}
    ]
    seen = {"messages": [], "tools": [OFFER]}
    with serving(an_envelope(a_stream(1, CHUNKS, seen=seen), a_stream(2, CHUNKS, seen=seen))) as served:
        served.clients(monkeypatch)
        with openai.OpenAI() as client:
            client.chat.completions.create(model="m", messages=ASKED, tools=tools)
            list(client.chat.completions.create(model="m", messages=ASKED, tools=tools, stream=True))
        first, second = served.transcript.played
    assert first.crossing.seen == second.crossing.seen
