"""The research agent and its three failures: a workflow that loops, a renamed field read as a default, a prompt without a done-condition.

`fixed` repairs each of them; every other version has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import twiceshy
from examples.research.agent import PROMPTS, Design, build
from examples.research.library import Library
from examples.research.planner import MODEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from examples.research.agent import Record

    Agent = Callable[[Record], Record]

__all__ = ["fixed", "looping", "misreads_total", "no_done_condition"]

TWO_PAPERS = {"message": "Please write a brief on perovskite stability. Tell lena.vogt@example.org when it is there."}
ONE_PAPER = {"message": "A brief about tidal lagoon silting, please. I am at f.adeyemi@example.com."}


_VERSIONS = {"model": MODEL, "routing": "2"}


@twiceshy.candidate(workflow="research", versions={"model": MODEL, "routing": "1", "harness": "3.0.0"})
def looping(boundary: twiceshy.Boundary, library: Library | None = None) -> Agent:
    """Its workflow repeats a search until there are enough sources, although nothing new comes."""
    return build(boundary, library or Library(), Design(stops=False))


@twiceshy.candidate(workflow="research", versions={**_VERSIONS, "harness": "3.1.0"})
def misreads_total(boundary: twiceshy.Boundary, library: Library | None = None) -> Agent:
    """It reads the hit count under its old name only, so a brief says 0 hits whatever was found."""
    return build(boundary, library or Library(), Design(total_field=("total",)))


@twiceshy.candidate(workflow="research", versions={**_VERSIONS, "harness": "3.2.0"})
def no_done_condition(boundary: twiceshy.Boundary, library: Library | None = None) -> Agent:
    """Its prompt does not say when the work is done, so calls go on after it is."""
    return build(boundary, library or Library(), Design(prompt=PROMPTS["12"]))


@twiceshy.candidate(workflow="research", versions={**_VERSIONS, "harness": "3.2.0"})
def fixed(boundary: twiceshy.Boundary, library: Library | None = None) -> Agent:
    """All three repaired."""
    return build(boundary, library or Library(), Design())
