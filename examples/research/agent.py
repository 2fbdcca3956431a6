"""The research agent's own code: its prompts, the router that asks for more sources, two hooks, and the guard against repeats."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import twiceshy
from examples.loop import Ended, Offer, arguments, as_told, converse
from examples.research.library import count_words
from examples.research.planner import plan
from twiceshy.envelope import Effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.research.library import Library
    from twiceshy import Boundary

    Record = dict[str, Any]

PROMPT_NAME = "research-agent"
_TASK = "You write short briefs. Search, open the newest paper, save the brief. End with JSON: status, message.\n"
PROMPTS = {
    "11": _TASK + "- The work is done when the brief is saved: tell the requester, then end.\n",
    "12": _TASK + "- Be thorough.\n",
}
"""The prompt by its version; 12 lost the done-condition in a clean-up."""

MAX_TURNS = 7
ENOUGH_SOURCES = 2
REPEATS = 2
_TEXT = {"type": "string"}

OFFERED: dict[str, Record] = {
    "search_papers": arguments(query=_TEXT),
    "open_paper": arguments(paper_id={"type": "string", "pattern": "^P[0-9]{3}$"}),
    "count_words": arguments(text=_TEXT),
    "save_brief": arguments(topic=_TEXT, text=_TEXT),
    "notify_requester": arguments(to=_TEXT, brief_id=_TEXT),
}
"""What the model may fill in."""
SCHEMAS = OFFERED | {
    "search_papers": arguments(query=_TEXT, request_id=_TEXT),
    "save_brief": arguments(topic=_TEXT, text=_TEXT, hits={"type": "integer", "minimum": 0}),
}
"""What the tools get: the hooks add the rest."""
EFFECTS = {"search_papers": Effect.READ, "open_paper": Effect.READ, "count_words": Effect.NONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What differs between the versions of this agent."""

    prompt: str = PROMPTS["11"]
    stops: bool = True
    """Whether the workflow stops asking for more sources when a search brings nothing new, and refuses repeats."""
    total_field: tuple[str, ...] = ("total_count", "total")
    """Under which names the hit count is looked for."""


@dataclass(slots=True)
class Searches:
    """What the searches of one run were, and what they showed."""

    seen: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    last: Record = field(default_factory=dict)

    def note(self, query: str, shown: Record) -> None:
        """Keep one answered search."""
        self.last = shown
        self.seen.append((query, tuple(paper["paper_id"] for paper in shown["papers"])))

    def repeats(self, query: str) -> int:
        """How often the latest answer to this query was given, in a row."""
        same = [hits for asked, hits in self.seen if asked == query]
        return next((at for at, hits in enumerate(reversed(same)) if hits != same[-1]), len(same))


def build(boundary: Boundary, library: Library, design: Design) -> Callable[[Record], Record]:
    """The agent: {"message": text} in, {"status", "message"} out."""
    searches = Searches()
    functions = {name: count_words if name == "count_words" else getattr(library, name) for name in SCHEMAS}
    tools = {
        name: boundary.tool(name, fn, effect=EFFECTS.get(name, Effect.WRITE), schema=SCHEMAS[name])
        for name, fn in functions.items()
    }
    boundary.hook("stamp_request", _stamp_request(boundary), before="search_papers")
    boundary.hook("add_hits", _add_hits(searches, design.total_field), before="save_brief")
    if design.stops:
        boundary.guard("no-progress", _no_progress(searches), before="search_papers")
    route = boundary.router("enough_sources", _stop_without_progress if design.stops else _until_enough)
    tools["search_papers"] = _noting(tools["search_papers"], searches)
    offers = {name: Offer(tools[name], schema) for name, schema in OFFERED.items()}
    planner = boundary.model("planner", plan, prompt=design.prompt)

    def nudge(called: list[str]) -> str | None:
        if called != ["search_papers"] or not searches.seen:
            return None
        query, hits = searches.seen[-1]
        found = {"sources": len(hits), "repeats": searches.repeats(query)}
        return "Search again: we need more sources." if route(found) == "search_again" else None

    def agent(user: Record) -> Record:
        system = f"{design.prompt}Now: {as_told(boundary.now())}."
        return converse(planner, offers, system=system, user=user["message"], nudge=nudge, max_turns=MAX_TURNS)

    return agent


def _until_enough(found: Record) -> str:
    """The bug of `looping`: it asks until there are enough sources, whether or not anything new comes."""
    return "search_again" if 0 < found["sources"] < ENOUGH_SOURCES else "go_on"


def _stop_without_progress(found: Record) -> str:
    return "search_again" if 0 < found["sources"] < ENOUGH_SOURCES and found["repeats"] < REPEATS else "go_on"


def _stamp_request(boundary: Boundary) -> Callable[[Record], Record]:
    """The hook that gives each search an id for the service's log."""

    def stamp_request(asked: Record) -> Record:
        return {**asked, "request_id": f"{boundary.rng.getrandbits(32):08x}"}

    return stamp_request


def _add_hits(searches: Searches, names: tuple[str, ...]) -> Callable[[Record], Record]:
    """The hook that adds the number of hits to a brief. Read under the old name alone, a renamed count becomes 0."""

    def add_hits(asked: Record) -> Record:
        return {**asked, "hits": next((searches.last[name] for name in names if name in searches.last), 0)}

    return add_hits


def _no_progress(searches: Searches) -> Callable[[Record], str | None]:
    """The guard against searching a third time for what twice brought the same papers."""

    def no_progress(asked: Record) -> str | None:
        if searches.repeats(asked["query"]) >= REPEATS:
            return "this search was answered twice with the same papers"
        return None

    return no_progress


def _noting(search: Callable[..., Record], searches: Searches) -> Callable[..., Record]:
    """The search, with its answers kept. A refused repeat ends the run: a model that repeats itself would only be refused again."""

    def call(**asked: Any) -> Record:
        try:
            shown = search(**asked)
        except twiceshy.Blocked as refused:
            raise Ended({"status": "stopped", "message": f"I stopped: {refused.reason}."}) from refused
        searches.note(asked["query"], shown)
        return shown

    return call
