"""An MCP client behind a boundary: a replay answers its calls and never starts the server.

    @twiceshy.candidate(workflow="refund")
    def build(boundary):
        async def agent(user):
            async with Client(boundary, lambda: mcp.Client("https://shop.example/mcp")) as client:
                order = await client.call_tool("get_order", {"order_id": user["order"]})
                ...

The server is reached at the first call that runs live. What it hints of its tools may only tighten: a tool that it calls destructive is a write,
whatever tools.yaml says; one that it calls read-only is still a write until a person lists it (`twiceshy tools suggest` proposes the line).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any, Self

from twiceshy.adapters import controlling
from twiceshy.boundary import Blocked
from twiceshy.passing import Passage, apassing

controlling.require("mcp", extra="adapters-mcp")

from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import CallToolResult, ListToolsResult, TextContent
from pydantic_core import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from twiceshy.boundary import Boundary

LISTING = "tools/list"
"""The boundary of `list_tools`: a read."""

_MARK = "mcp_result"


class ToolFailedError(Exception):
    """An error that a server answered with (`is_error`): recorded and raised again, then answered again."""

    code = "tool_error"


class Client:
    """For `async with`. opened: makes the real client, an `mcp.Client` or a context that gives a `ClientSession`; called only where a call runs live.

    tools: those that the agent knows by name, declared while the candidate is built; others are declared when they are first called. effects: tool -> read, write or none.
    """

    def __init__(
        self, boundary: Boundary, opened: Callable[[], AbstractAsyncContextManager[Any]], *, tools: Sequence[str] = (),
        effects: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self._boundary = boundary
        self._opened = opened
        self._effects = dict(effects or {})
        self._server: _Server | None = None
        boundary.tool(LISTING, effect="read")
        for name in tools:
            controlling.declare(boundary, name, None, self._effects)

    async def __aenter__(self) -> Self:
        """Nothing is connected yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the real client where there was one."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def list_tools(self) -> ListToolsResult:
        """The server's tools, as recorded in a replay."""

        async def run(_: dict[str, Any]) -> Any:
            listed = await (await self._live()).list_tools()
            return listed.model_dump(mode="json", by_alias=True, exclude_none=True)

        passage = Passage(self._boundary, LISTING, {}, middleware=False)
        answered = await apassing(passage, lambda: passage.areach({}, run))
        listed = ListToolsResult.model_validate(passage.returned(answered))
        for tool in listed.tools:
            hints = tool.annotations
            writes = hints is not None and (hints.destructive_hint is True or hints.read_only_hint is False)
            effect = self._effects.get(tool.name)
            self._boundary.tool(tool.name, effect=effect, schema=tool.input_schema, tightened=writes)
        return listed

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> CallToolResult:
        """The server's answer, as recorded in a replay; a write is intercepted there. Whoever answers, a JSON object comes as text and as structured content."""
        if name not in self._boundary.tools:
            controlling.declare(self._boundary, name, None, self._effects)

        async def run(seen: dict[str, Any]) -> Any:
            return value_of(await (await self._live()).call_tool(name, seen))

        asked = dict(arguments or {})
        passage = Passage(self._boundary, name, asked, middleware=False, waits=(UrlElicitationRequiredError,))

        async def through() -> CallToolResult:
            try:
                return result_of(passage.returned(await passage.areach(asked, run)))
            except ToolFailedError as failed:
                passage.returned({"error": str(failed)})
                return _error(str(failed))
            except Blocked as refused:
                return result_of(passage.returned(controlling.refusal(refused.reason)))

        result: CallToolResult = await apassing(passage, through)
        return result

    async def _live(self) -> Any:
        if self._server is None:
            self._server = _Server(self._opened)
        return await self._server.client()


class _Server:
    """The real client, opened and closed by one task of its own, as its cancel scopes ask; calls come from any task."""

    def __init__(self, opened: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._done = asyncio.Event()
        self._client: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold(opened))

    async def client(self) -> Any:
        return await asyncio.shield(self._client)

    async def close(self) -> None:
        self._done.set()
        await asyncio.wait([self._task])

    async def _hold(self, opened: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        try:
            async with opened() as client:
                self._client.set_result(client)
                await self._done.wait()
        except Exception as broken:  # noqa: BLE001 - handed to whoever waits for the client
            if not self._client.done():
                self._client.set_exception(broken)


def value_of(result: CallToolResult) -> Any:
    """What a tool returned: its one text, read where it is JSON; a result of more than that, whole. Raises ToolFailedError for an error."""
    if result.is_error:
        raise ToolFailedError("\n".join(block.text for block in result.content if isinstance(block, TextContent)))
    structured = result.structured_content
    if len(result.content) == 1 and isinstance(result.content[0], TextContent):
        text = result.content[0].text
        if structured is not None and _spelt(structured) == text:
            return structured
        if structured is None:
            return _read(text)
    return {_MARK: result.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})}


def _read(text: str) -> Any:
    """Text as the value it spells, where it would be spelt so again."""
    with contextlib.suppress(ValueError):
        value = json.loads(text)
        if _spelt(value) == text:
            return value
    return text


def result_of(value: Any) -> CallToolResult:
    """The result that a value says."""
    if isinstance(value, dict) and value.keys() == {_MARK}:
        return CallToolResult.model_validate(value[_MARK])
    text = value if isinstance(value, str) else _spelt(value)
    structured = value if isinstance(value, dict) else None
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def _error(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _spelt(value: Any) -> str:
    """JSON as the reference server writes it."""
    return to_json(value, indent=2).decode()
