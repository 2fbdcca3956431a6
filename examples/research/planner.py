"""The research agent's model, as a scripted policy: what it does next follows from the prompt, the user and the results it is shown."""

from __future__ import annotations

import re
from typing import Any

from examples.conversation import Conversation, final

MODEL = "research-planner-1"

TOPIC = re.compile(r"brief (?:on|about) ([\w -]+\w)")
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
SEARCH_AGAIN = "Search again"
DONE = "The work is done when the brief is saved"


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """The next output: a proposal or a final answer."""
    talk = Conversation.read(request)
    topic = TOPIC.search(talk.user)
    if topic is None:
        return final("needs_information", "What should the brief be about?")
    searches = [search for search in talk.all("search_papers") if search.ok]
    if talk.value("save_brief") is not None:
        return _after_saving(talk, topic[1])
    if _told_to_search(talk):
        return talk.propose(("search_papers", {"query": topic[1]}))
    if not searches or not searches[-1].response["papers"]:
        return final("nothing_found", f"I found no papers about {topic[1]}.")
    return _write(talk, topic[1], searches[-1].response["papers"])


def _told_to_search(talk: Conversation) -> bool:
    """Whether a search is due: the first one, and one for each time the workflow asks for more."""
    return len(talk.all("search_papers")) <= talk.user.count(SEARCH_AGAIN)


def _write(talk: Conversation, topic: str, papers: list[dict[str, Any]]) -> dict[str, Any]:
    opened = talk.value("open_paper")
    if opened is None:
        return talk.propose(("open_paper", {"paper_id": papers[0]["paper_id"]}))
    text = f"On {topic}: {opened['finding']} ({opened['authors'][0]}, {opened['year']})."
    return talk.propose(("count_words", {"text": text}), ("save_brief", {"topic": topic, "text": text}))


def _after_saving(talk: Conversation, topic: str) -> dict[str, Any]:
    """Without a done-condition in the prompt the policy looks for more to read, although nothing more is asked for."""
    if DONE not in talk.system:
        wider = f"{topic} survey"
        if all(search.arguments["query"] != wider for search in talk.all("search_papers")):
            return talk.propose(("search_papers", {"query": wider}))
        unread = _unread(talk)
        if unread and len(talk.all("open_paper")) < len(talk.all("search_papers")):
            return talk.propose(("open_paper", {"paper_id": unread[0]}))
    brief = talk.value("save_brief")["brief_id"]
    address = EMAIL.search(talk.user)
    if address is not None and talk.last("notify_requester") is None:
        return talk.propose(("notify_requester", {"to": address.group(), "brief_id": brief}))
    return final("saved", f"Your brief on {topic} is saved as {brief}.")


def _unread(talk: Conversation) -> list[str]:
    opened = {result.arguments["paper_id"] for result in talk.all("open_paper")}
    return [paper["paper_id"] for paper in talk.value("search_papers")["papers"] if paper["paper_id"] not in opened]
