"""No request to the gateway of a replay is forgotten: each is a passage, a note, or the end of the run."""

import re
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import a_case, a_policy, some_invariants
from gatewaying import TOKEN, Served, a_weather_case, serving
from twiceshy.casefile import Opportunity
from twiceshy.cutpoint import CutPoint
from twiceshy.envelope import Disposition
from twiceshy.gateway.hosting import serve
from twiceshy.grading import TrialVerdict, case_grader
from twiceshy.journal import Journal
from twiceshy.outcome import Divergence, Failure, Outcome

AUTH = {"authorization": f"Bearer {TOKEN}"}
BEARING = f"authorization: Bearer {TOKEN}\r\n".encode()
LEITH = b'{"city": "Leith"}'
POLICY = a_policy("weather", get_weather="read", warn="write")


def a_request(
    *, line: bytes = b"POST /tools/get_weather HTTP/1.1", head: bytes = BEARING, body: bytes = LEITH
) -> bytes:
    """A request in the bytes of HTTP."""
    return line + b"\r\n" + head + b"content-length: %d\r\n\r\n" % len(body) + body


def sent(served: Served, *contents: bytes, reset: bool = False) -> bytes:
    """What comes back for these bytes on one connection. reset: the client gives up before it hears."""
    with socket.create_connection(("127.0.0.1", served.server.server_port), timeout=10) as client:
        client.sendall(b"".join(contents))
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b""))


def verdict(served: Served) -> TrialVerdict:
    """What the run comes to if the agent then ends it as if nothing had happened."""
    if served.server.gateway.ended is None:
        Journal(served.lines.append).ended(Disposition(output={"status": "ok"}))
    loaded = a_case(a_weather_case(), kind="positive", workflow="weather", opportunity=Opportunity(seq=2))
    grader = case_grader(loaded, some_invariants(workflow="weather"), POLICY)
    return grader.trial(served.transcript, CutPoint())


@pytest.fixture
def served() -> Iterator[Served]:
    """A replay that has reached its opportunity, so that only what follows keeps it from passing."""
    with serving(a_weather_case(), POLICY) as made:
        assert b" 200 " in sent(made, a_request())
        yield made


def test_a_run_that_forgets_nothing_passes(served: Served) -> None:
    assert verdict(served).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    "content",
    {
        "no token": a_request(line=b"POST /tools/warn HTTP/1.1", head=b""),
        "another token": a_request(line=b"POST /tools/warn HTTP/1.1", head=b"authorization: Bearer another\r\n"),
        "unknown path": a_request(line=b"POST /refunds HTTP/1.1"),
        "unknown path, read": a_request(line=b"GET /health HTTP/1.1", body=b""),
        "tool by GET": a_request(line=b"GET /tools/warn?city=Leith HTTP/1.1", body=b""),
        "arguments in the address": a_request(line=b"POST /tools/warn?city=Leith HTTP/1.1", body=b""),
        "unknown method": a_request(line=b"PUT /tools/warn HTTP/1.1"),
        "HEAD": a_request(line=b"HEAD /tools/warn HTTP/1.1", body=b""),
        "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        "an empty line": b"\r\n\r\n",
        "a version of HTTP that is none": a_request(line=b"POST /tools/warn HTTP/x"),
        "a long address": a_request(line=b"POST /tools/" + b"x" * 70_000 + b" HTTP/1.1"),
        "a broken address": a_request(line=b"POST //[/tools/warn HTTP/1.1"),
        "many headers": a_request(head=BEARING + b"x: y\r\n" * 200),
        "a length that is none": b"POST /tools/warn HTTP/1.1\r\n" + BEARING + b"content-length: many\r\n\r\n",
        "a negative length": b"POST /tools/warn HTTP/1.1\r\n" + BEARING + b"content-length: -1\r\n\r\n" + LEITH,
        "too long": b"POST /tools/warn HTTP/1.1\r\n" + BEARING + b"content-length: 99999999999\r\n\r\n",
        "chunks that are none": b"POST /tools/warn HTTP/1.1\r\n" + BEARING + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        "cut in its head": b"POST /tools/warn HTTP/1.1\r\n" + BEARING + b"content-le",
        "cut after a header": b"POST /tools/warn HTTP/1.1\r\n" + BEARING,
        "cut in its body": a_request(line=b"POST /tools/warn HTTP/1.1")[:-3],
        "cut between chunks": b"POST /tools/warn HTTP/1.1\r\n" + BEARING + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
        "cut in its first line": b"POST /tools/wa",
        "no JSON": a_request(line=b"POST /tools/warn HTTP/1.1", body=b"city=Leith"),
        "no object": a_request(body=b"[]"),
        "no messages": a_request(line=b"POST /v1/chat/completions HTTP/1.1", body=b"{}"),
        "no method of MCP": a_request(line=b"POST /mcp HTTP/1.1", body=b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read"}'),
        "no message of MCP": a_request(line=b"POST /mcp HTTP/1.1", body=b"[1]"),
        "no messages of MCP": a_request(line=b"POST /mcp HTTP/1.1", body=b"[]"),
        "a call without a name": a_request(line=b"POST /mcp HTTP/1.1", body=b'{"id": 1, "method": "tools/call", "params": {}}'),
        "a call that wants no answer": a_request(
            line=b"POST /mcp HTTP/1.1", body=b'{"method": "tools/call", "params": {"name": "warn", "arguments": {"city": "Rome"}}}'
        ),
        "a tool that nobody declared": a_request(line=b"POST /tools/pay HTTP/1.1"),
    }.items(),
    ids=lambda named: named[0],
)  # fmt: skip
def test_what_no_record_answers_is_not_forgotten(served: Served, content: tuple[str, bytes]) -> None:
    sent(served, content[1])
    found = verdict(served)
    assert found.outcome is not Outcome.PASSED
    assert found.outcome is not Outcome.ERROR, found.error
    assert found.divergence is not None or found.failure is Failure.INVARIANT


CHUNKED = (
    b"POST /tools/get_weather HTTP/1.1\r\n"
    + BEARING
    + b"transfer-encoding: chunked\r\n\r\n11\r\n"
    + LEITH
    + b"\r\n0\r\n\r\n"
)


@settings(max_examples=80, deadline=None)
@given(whole=st.sampled_from([CHUNKED, a_request()]), lost=st.integers(1, len(CHUNKED)))
@example(whole=CHUNKED, lost=1)
@example(whole=CHUNKED, lost=2)
def test_a_request_that_was_cut_anywhere_is_none(whole: bytes, lost: int) -> None:
    """A cut that leaves nothing is no request; any other ends the run before a passage."""
    content = whole[:-lost]
    with serving(a_weather_case(), POLICY) as served:
        sent(served, content)
        told = served.transcript
    assert told.played == []
    assert (told.divergence is None) is (content == b"")


def test_a_request_whose_sender_hung_up_is_a_passage(served: Served) -> None:
    sent(served, a_request(body=b'{"city": "Truro"}'), reset=True)
    httpx.get(f"{served.origin}/clock", headers=AUTH)
    assert "Truro" in str([one.crossing.seen for one in served.transcript.played])


def test_requests_at_the_same_time_are_all_there(served: Served) -> None:
    threads = [
        threading.Thread(
            target=sent, args=[served, a_request(line=b"POST /tools/warn HTTP/1.1", body=b'{"n": %d}' % n)]
        )
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    warned = [one.crossing.seen["n"] for one in served.transcript.played if one.crossing.name == "warn"]
    assert sorted(warned) == list(range(20))
    assert verdict(served).outcome is Outcome.FAILED


def test_requests_on_one_connection_are_all_there(served: Served) -> None:
    sent(served, *(a_request(line=b"POST /tools/warn HTTP/1.1", body=b'{"n": %d}' % n) for n in range(3)))
    assert [one.crossing.seen["n"] for one in served.transcript.played[1:]] == [0, 1, 2]


def test_what_waits_to_be_accepted_is_heard() -> None:
    """A command that ends with its last request under way: the request is there, and only has to be read."""
    with serving(a_weather_case(), POLICY) as served:
        served.server.shutdown()
        clients = [socket.create_connection(("127.0.0.1", served.server.server_port)) for _ in range(5)]
        for client in clients:
            client.sendall(a_request(line=b"POST /tools/warn HTTP/1.1"))
            client.close()
        assert serve(served.server)() is True
        assert [one.crossing.name for one in served.transcript.played] == ["warn"] * 5


def test_a_request_that_does_not_come_to_its_end_is_told() -> None:
    with serving(a_weather_case(), POLICY) as served:
        served.server.shutdown()
        with socket.create_connection(("127.0.0.1", served.server.server_port)) as client:
            client.sendall(a_request()[:-3])
            assert serve(served.server)() is False


def test_what_comes_after_the_end_is_refused(served: Served) -> None:
    sent(served, a_request(body=b'{"city": "Rome"}'))
    assert b" 409 " in sent(served, a_request())
    refused = sent(served, a_request(head=b""))
    assert b" 401 " in refused
    assert b"send Authorization: Bearer $TWICESHY_TOKEN" in refused
    divergence = served.transcript.divergence
    assert divergence is not None
    assert divergence.kind is Divergence.ARGS_MISMATCH


def test_a_write_that_cannot_be_read_is_an_intent(served: Served) -> None:
    sent(served, a_request(line=b"POST /tools/warn HTTP/1.1", body=b"city=Leith"))
    found = verdict(served)
    assert (found.outcome, [one.id for one in found.violations]) == (Outcome.FAILED, ["explained_writes"])
    assert found.violations[0].boundary == "tool:warn"


def test_a_read_that_cannot_be_read_is_none(served: Served) -> None:
    sent(served, a_request(body=b"city=Leith"))
    found = verdict(served)
    assert (found.outcome, found.divergence and found.divergence.kind) == (Outcome.DIVERGED, Divergence.ARGS_MISMATCH)


def test_a_person_is_told_what_was_asked_and_no_report(served: Served) -> None:
    sent(served, a_request(line=b"DELETE /accounts/ann@example.com HTTP/1.1", body=b""))
    divergence = served.transcript.divergence
    assert divergence is not None
    assert divergence.asked == {"method": "DELETE", "path": "/accounts/ann@example.com"}
    assert not re.search("ann|accounts", divergence.detail + divergence.boundary)


def test_what_is_no_passage_is_noted(served: Served) -> None:
    assert httpx.get(f"{served.origin}/v1/models", headers=AUTH).status_code == 200
    for message in (
        {"id": 1, "method": "tools/list"},
        {"id": 2, "method": "tools/list"},
        {"method": "notifications/initialized"},
    ):
        httpx.post(f"{served.origin}/mcp", headers=AUTH, json=message)
    assert httpx.delete(f"{served.origin}/mcp", headers=AUTH).status_code == 405
    found = verdict(served)
    assert found.outcome is Outcome.PASSED
    asked = "DELETE /mcp, GET /v1/models, notifications/initialized, tools/list (2 times)"
    assert f"asked of the gateway, and no passage: {asked}" in found.notes


def test_what_breaks_in_a_connection_is_our_fault(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(served.server, "answer", broken)
    sent(served, a_request())
    assert served.transcript.fault == "the gateway lost a request: AssertionError"
