import asyncio
import json
import os
import sys
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from builders import a_crossing, a_policy, an_envelope
from gatewaying import OFFER, TOKEN, a_reading, a_weather_case, serving
from twiceshy.envelope import Crossing, Effect, ErrorRecord
from twiceshy.outcome import AnsweredBy, BoundaryState, Divergence
from twiceshy.policy import ToolPolicy

AUTH = {"authorization": f"Bearer {TOKEN}"}


def post(origin: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    return httpx.post(f"{origin}{path}", json=body, headers=AUTH | headers)


def an_error(seq: int, name: str = "get_weather") -> Crossing:
    return Crossing(
        seq=seq, kind=a_reading(1, "x").kind, name=name, effect=Effect.READ, seen={"city": "Leith"},
        error=ErrorRecord(cls="builtins.LookupError", type="not_found", message="no such city"),
    )  # fmt: skip


def test_a_tool_answers_over_http() -> None:
    with serving(a_weather_case()) as served:
        told = post(served.origin, "/tools/get_weather", {"city": "Leith"})
        assert (told.status_code, told.json()) == (200, {"city": "Leith", "celsius": 7})
        missed = post(served.origin, "/tools/get_weather", {"city": "Rome"})
        assert (missed.status_code, missed.headers["x-should-retry"]) == (409, "false")
        assert post(served.origin, "/tools/get_weather", {"city": "Leith"}).status_code == 409
        divergence = served.transcript.divergence
    assert divergence is not None
    assert (divergence.kind, divergence.nearest[0].place) == (Divergence.ARGS_MISMATCH, "#2")
    assert "Rome" not in missed.text


def test_a_write_becomes_an_intent() -> None:
    policy = a_policy("weather", warn=ToolPolicy(answer={"warned": "${args.city}"}))
    with serving(an_envelope(), policy) as served:
        assert post(served.origin, "/tools/warn", {"city": "Leith"}).json() == {"warned": "Leith"}
        (played,) = served.transcript.played
    assert (played.boundary, played.answered_by) == (BoundaryState.INTERCEPTED, AnsweredBy.TEMPLATE)


def test_a_recorded_error_is_told_as_one() -> None:
    with serving(an_envelope(an_error(1))) as served:
        told = post(served.origin, "/tools/get_weather", {"city": "Leith"})
    assert told.status_code == 422
    assert told.json() == {"error": {"class": "LookupError", "type": "not_found", "message": "no such city"}}


def test_a_refusal_of_the_agents_own_guard_is_recorded() -> None:
    with serving(an_envelope()) as served:
        headers = {"x-twiceshy-blocked-by": "limit", "x-twiceshy-reason": "above the limit"}
        assert post(served.origin, "/tools/pay", {"gbp": 900}, **headers).json() == {"blocked": "above the limit"}
        assert post(served.origin, "/tools/pay", {"gbp": 9}).json() == {"ok": True}
        told = [
            (one.crossing.kind.value, one.crossing.name, one.crossing.blocked_by) for one in served.transcript.played
        ]
    assert told == [("tool", "pay", "limit"), ("guard", "limit", None), ("tool", "pay", None), ("guard", "limit", None)]


def test_the_clock_is_the_pinned_one() -> None:
    with serving(a_weather_case()) as served:
        told = httpx.get(f"{served.origin}/clock", headers=AUTH).json()
    assert told == {"now": "2026-06-02T10:00:00+00:00", "unix_ms": 1_780_394_400_000, "tz": "UTC"}


def test_a_chunked_body_is_read() -> None:
    with serving(a_weather_case()) as served:
        told = httpx.post(f"{served.origin}/tools/get_weather", content=iter([b'{"city": ', b'"Leith"}']), headers=AUTH)
    assert told.json()["celsius"] == 7


async def over_http(origin: str) -> list[Any]:
    async with httpx2_client() as http, Client(streamable_http_client(f"{origin}/mcp", http_client=http)) as client:
        return await asked(client)


def httpx2_client() -> Any:
    import httpx2

    return httpx2.AsyncClient(headers=AUTH)


async def over_stdio(origin: str) -> list[Any]:
    env = {"TWICESHY_MCP_URL": f"{origin}/mcp", "TWICESHY_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(sys.path)}
    server = StdioServerParameters(command=sys.executable, args=["-P", "-m", "twiceshy.gateway.mcp_stdio"], env=env)
    async with Client(server) as client:
        return await asked(client)


async def asked(client: Client) -> list[Any]:
    """The names listed, a value, an error that was recorded, and a call that nobody recorded."""
    listed = await client.list_tools()
    shown = await client.call_tool("get_weather", {"city": "Truro"})
    failed = await client.call_tool("get_weather", {"city": "Leith"})
    try:
        await client.call_tool("get_weather", {"city": "Rome"})
    except MCPError:
        return [{tool.name: tool.input_schema for tool in listed.tools}, shown.structured_content, failed.is_error]
    raise AssertionError("the miss was answered")


@pytest.mark.parametrize("face", [over_http, over_stdio])
def test_an_mcp_client_gets_the_tools_of_the_case(face: Any) -> None:
    record = an_envelope(an_error(1), a_reading(2, "Truro"))
    with serving(
        record, a_policy("weather", get_weather=ToolPolicy(effect=Effect.READ, schema=OFFER["parameters"]))
    ) as served:
        told = asyncio.run(face(served.origin))
        assert told == [{"get_weather": OFFER["parameters"]}, {"city": "Truro", "celsius": 7}, True]
        divergence = served.transcript.divergence
    assert divergence is not None
    assert divergence.kind is Divergence.ARGS_MISMATCH


def test_a_tool_is_listed_as_the_model_was_told() -> None:
    with serving(a_weather_case()) as served:
        told = post(served.origin, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json()
    (tool,) = told["result"]["tools"]
    assert (tool["description"], tool["inputSchema"], tool["annotations"]) == (
        OFFER["description"],
        OFFER["parameters"],
        {"readOnlyHint": True},
    )


def test_a_value_that_json_lacks_is_tagged() -> None:
    record = an_envelope(a_crossing(1, seen={}, raw=b"\x00", shown=b"\x00"))
    with serving(record, a_policy(get_order="read")) as served:
        assert json.loads(post(served.origin, "/tools/get_order", {}).text) == {"$bytes": "AA=="}
