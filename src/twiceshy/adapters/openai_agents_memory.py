"""A session of the OpenAI Agents SDK behind a boundary: what it remembers is read from the record in a replay, and what is put into it is intercepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.adapters import controlling

controlling.require("agents", extra="adapters-openai-agents")

from agents.memory import SessionABC

from twiceshy.adapters.openai_agents_messages import plain_of

if TYPE_CHECKING:
    from twiceshy.boundary import Boundary


class BoundSession(SessionABC):
    """The session as a candidate runs with it: four memories of the boundary, `name.get_items` a read and the others writes."""

    def __init__(self, session: Any, boundary: Boundary, name: str) -> None:
        self.session_id = session.session_id
        self.session_settings = getattr(session, "session_settings", None)
        self._session = session
        self._adding: dict[int, list[Any]] = {}
        self._get = boundary.memory(f"{name}.get_items", self._items, effect="read")
        self._add = boundary.memory(f"{name}.add_items", self._added, effect="write")
        self._pop = boundary.memory(f"{name}.pop_item", self._popped, effect="write")
        self._clear = boundary.memory(f"{name}.clear_session", self._cleared, effect="write")

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """What was said so far."""
        found: list[Any] = await self._get(limit=limit)
        return found

    async def add_items(self, items: list[Any]) -> None:
        """Remember these. The ids that a provider gives them are another matter each time, so they do not cross."""
        told = [{name: value for name, value in plain_of(item).items() if name != "id"} for item in items]
        self._adding[id(told)] = items
        try:
            await self._add(items=told)
        finally:
            del self._adding[id(told)]

    async def pop_item(self) -> Any:
        """Forget the last, and give it back."""
        return await self._pop()

    async def clear_session(self) -> None:
        """Forget everything."""
        await self._clear()

    async def _items(self, limit: int | None) -> Any:
        return plain_of(await self._session.get_items(limit))

    async def _added(self, items: list[Any]) -> None:
        await self._session.add_items(self._adding.get(id(items), items))

    async def _popped(self) -> Any:
        return plain_of(await self._session.pop_item())

    async def _cleared(self) -> None:
        await self._session.clear_session()
