"""Builds the site: published tables in, static pages out. Equal tables give equal bytes; nothing reads a clock or reaches anywhere."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dashboards import catalog, charts, published, wording
from dashboards.casepage import case_pages
from dashboards.catalog import Entry, slug
from dashboards.coverage import grids
from dashboards.escaping import visible
from dashboards.published import Publication, Queries
from dashboards.quality import stated
from dashboards.writing import MANIFEST, TOOL, Manifest, Writer, replacing
from tasks.contracts import SEVERITIES

HERE = Path(__file__).parent
ASSETS = ("app.css", "steps.css", "app.js")
ROWS_A_PAGE = 1000
"""Of the catalog: some 600 bytes each, so that the index stays under 2 MB."""

NIGHTS = 14
"""Shown beside each row of the catalog; the page of a case has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the pages are made from, read once."""

    publication: Publication
    queries: Queries
    writer: Writer
    pages: Environment
    standing: catalog.Standing
    entries: list[Entry]

    def write(self, name: str, template: str, /, **shown: Any) -> None:
        """One page; pages in a folder find the rest of the site one level up."""
        root = "../" if "/" in name else ""
        text = self.pages.get_template(f"{template}.html.j2").render(root=root, **shown)
        self.writer.write(name, text)


def build(published_at: Path, out: Path, *, rows_a_page: int = ROWS_A_PAGE) -> Manifest:
    """The site of the latest published run, written to `out` whole; an earlier site there is replaced.

    published_at: the directory that holds LATEST.json. Raises HalfPublished, FormatError or NoSite, and then leaves `out` as it was.
    """
    publication = published.latest(published_at)
    with publication.queried() as queries, replacing(out) as writer:
        site = _site(publication, queries, writer)
        for name in ASSETS:
            writer.write(f"assets/{name}", (HERE / "assets" / name).read_text(encoding="utf-8"))
        _index(site, rows_a_page)
        for entry, shown in case_pages(queries, site.entries):
            site.write(entry.page, "signature", entry=entry, **shown)
        _moved(site)
        nights = _nights(site)
        manifest = _manifest(site, nights)
        writer.write(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1).decode() + "\n")
        return manifest


def _site(publication: Publication, queries: Queries, writer: Writer) -> Site:
    current = queries.rows("current", latest=publication.run_id)
    runs = [run["run_id"] for run in current]
    entries = catalog.entries(queries, publication, runs=runs)
    standing = catalog.standing(current, (entry.result for entry in entries if entry.result))
    pages = Environment(
        loader=FileSystemLoader(HERE / "pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=visible,
    )  # fmt: skip
    pages.globals |= {
        "publication": publication, "nights": standing.nights, "version": metadata.version(TOOL), "outcomes": wording.OUTCOMES,
        "verdicts": wording.VERDICT_WORDS, "changes": wording.CHANGE_WORDS, "cells": wording.CELLS, "boundaries": wording.BOUNDARIES,
        "alignments": wording.ALIGNMENTS, "signature_words": wording.SIGNATURE_WORDS, "sides": wording.SIDES, "divergences": wording.DIVERGENCES, "chart": charts,
        "severities": {name: rank for rank, name in enumerate(SEVERITIES)},
    }  # fmt: skip
    return Site(
        publication=publication, queries=queries, writer=writer, pages=pages, standing=standing, entries=entries
    )


def _index(site: Site, rows_a_page: int) -> None:
    """index.html, and a page for each further `rows_a_page` rows of the catalog."""
    queries, runs = site.queries, [run["run_id"] for run in site.standing.runs]
    cells = queries.rows("coverage")
    divergence = queries.asked("select * from divergence order by workflow, mode, night")
    differing = _changes(site, runs)
    settled = [row for row in differing if row["change"] == "new" and row["candidate_outcome"] == "passed"]
    shown = {
        "conversations": queries.rows("conversations", runs=runs), "new_cases": len({row["case_id"] for row in settled}), "standing": site.standing, "entries": site.entries, "coverage": grids(cells), "cell_counts": Counter(cell["state"] for cell in cells),
        "panels": charts.panels(divergence), "champion_diff": [row for row in differing if row not in settled], "decisions": queries.rows("decisions"),
        "admissions": queries.rows("admissions"), "quality": [stated(row) for row in queries.asked("select * from quality order by met nulls last, scope, metric")],
    }  # fmt: skip
    last_nights = sorted({row["night"] for entry in site.entries for row in entry.nights})[-NIGHTS:]
    pages = [site.entries[at : at + rows_a_page] for at in range(0, len(site.entries), rows_a_page)] or [[]]
    for number, rows in enumerate(pages, 1):
        name, template = ("index.html", "index") if number == 1 else (f"catalog-{number}.html", "catalog")
        counts = Counter(entry.status for entry in rows)
        numbers = {
            "page_number": number,
            "page_count": len(pages),
            "total": len(site.entries),
            "last_nights": last_nights,
        }
        site.write(name, template, rows=rows, row_counts=counts, **numbers, **(shown if number == 1 else {}))


def _changes(site: Site, runs: Sequence[str]) -> list[Mapping[str, Any]]:
    """What differs from the champion, the worst first, each with the page of its case."""
    pages = _pages(site.entries)
    rank = {change: at for at, change in enumerate(wording.CHANGE_WORDS)}
    query = "select * from champion_diff where run_id in (select unnest($runs)) order by workflow, case_id, mode, live"
    found = [{**row, "page": pages.get(row["case_id"])} for row in site.queries.asked(query, runs=list(runs))]
    return sorted(found, key=lambda row: rank[row["change"]])


def _nights(site: Site) -> list[str]:
    """A page a night; the nights, oldest first."""
    runs = site.queries.rows("nights", latest=site.publication.run_id)
    nights = sorted({run["night"] for run in runs})
    pages = _pages(site.entries)
    for at, night in enumerate(nights):
        ran = [run for run in runs if run["night"] == night]
        results = site.queries.rows("results", runs=[run["run_id"] for run in ran])
        order = {outcome: rank for rank, outcome in enumerate(wording.OUTCOMES)}
        found = sorted(results, key=lambda row: (order[row["outcome"]], row["case_id"]))
        site.write(
            f"runs/{night}.html", "night", night=night, runs=ran, results=[{**row, "page": pages.get(row["case_id"])} for row in found],
            counts={name: sum(run[name] for run in ran) for name in wording.OUTCOMES if name != "no_case"},
            conversations=site.queries.rows("conversations", runs=[run["run_id"] for run in ran]),
            before=nights[at - 1] if at else None, after=nights[at + 1] if at + 1 < len(nights) else None,
        )  # fmt: skip
    return nights


def _pages(entries: Sequence[Entry]) -> dict[str, str]:
    """case_id -> page."""
    return {case_id: entry.page for entry in entries if (case_id := entry.case_id)}


def _moved(site: Site) -> None:
    """A page under every former name of a signature, so that links stay alive."""
    taken = {entry.page for entry in site.entries}
    for entry, alias in _aliases(site.entries):
        page = f"sig/{slug(alias)}.html"
        if page not in taken:
            site.write(page, "moved", to=entry.page.removeprefix("sig/"), name=entry.name)


def _aliases(entries: Sequence[Entry]) -> Iterator[tuple[Entry, str]]:
    for entry in entries:
        for alias in entry.signature["aliases"] if entry.signature else ():
            yield entry, alias


def _manifest(site: Site, nights: Sequence[str]) -> Manifest:
    statuses = Counter(entry.status for entry in site.entries)
    return Manifest(
        tool=TOOL, version=metadata.version(TOOL), publication=site.publication.publication, generation=site.publication.generation,
        run_id=site.publication.run_id, files=dict(sorted(site.writer.files.items())),
        counts={**{name: statuses[name] for name in wording.OUTCOMES}, "catalog": len(site.entries), "nights": len(nights)},
    )  # fmt: skip
