"""A small in-memory library of papers and briefs: what the research agent's tools work on when a run is live."""

from __future__ import annotations

import copy
from typing import Any

# Invented papers and authors.
PAPERS: dict[str, dict[str, Any]] = {
    "P118": {
        "paper_id": "P118", "title": "Ageing of perovskite cells under heat", "year": 2024, "topic": "perovskite stability",
        "authors": ["Ottilie Marchetti", "Goran Ilves"], "finding": "cells lose a tenth of their output in 900 hours at 85 C",
    },
    "P162": {
        "paper_id": "P162", "title": "Encapsulants for perovskite modules", "year": 2025, "topic": "perovskite stability",
        "authors": ["Sunniva Aasen"], "finding": "a butyl edge seal doubles the time to first failure",
    },
    "P204": {
        "paper_id": "P204", "title": "Tidal lagoons and silt", "year": 2023, "topic": "tidal lagoon silting",
        "authors": ["Bronagh Tierney"], "finding": "dredging is needed every fourth year",
    },
}  # fmt: skip


class Library:
    """Papers to search and open, and the briefs of one run. Every answer is a copy.

    renamed: whether the search service calls its count `total_count`, as it has since its version 2, or still `total`.
    """

    def __init__(self, *, papers: dict[str, dict[str, Any]] = PAPERS, renamed: bool = True) -> None:
        self._papers = papers
        self._count = "total_count" if renamed else "total"
        self.briefs: list[dict[str, Any]] = []
        self.notices: list[dict[str, Any]] = []

    def search_papers(self, *, query: str, request_id: str) -> dict[str, Any]:  # noqa: ARG002 - the service logs it
        """The papers whose topic shares a word with the query, newest first, and how many there are."""
        words = set(query.casefold().split())
        hits = [paper for paper in self._papers.values() if words & set(paper["topic"].split())]
        hits.sort(key=lambda paper: (-paper["year"], paper["paper_id"]))
        return {
            self._count: len(hits),
            "papers": [{"paper_id": hit["paper_id"], "title": hit["title"]} for hit in hits],
        }

    def open_paper(self, *, paper_id: str) -> dict[str, Any]:
        """One paper with its finding. Raises LookupError for an unknown id."""
        if paper_id not in self._papers:
            raise LookupError(f"paper {paper_id} not found")
        return copy.deepcopy(self._papers[paper_id])

    def save_brief(self, *, topic: str, text: str, hits: int) -> dict[str, Any]:
        """Keep a brief with the number of papers that were found for it."""
        self.briefs.append({"topic": topic, "text": text, "hits": hits})
        return {"brief_id": f"B-{len(self.briefs):03}", "status": "saved"}

    def notify_requester(self, *, to: str, brief_id: str) -> dict[str, Any]:
        """Tell whoever asked that the brief is there."""
        self.notices.append({"to": to, "brief_id": brief_id})
        return {"queued": True}


def count_words(*, text: str) -> dict[str, int]:
    """How many words a text has: a pure tool."""
    return {"words": len(text.split())}
