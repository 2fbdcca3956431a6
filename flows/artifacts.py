"""What a run leaves in Prefect for people to look at: short tables, a text, a link. Outside a flow run nothing is left."""

import re
from collections.abc import Mapping, Sequence

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.context import FlowRunContext

ROWS = 50
"""Of a table; Prefect drops the event of one with 500 rows or 1.5 MB, and nobody reads that many there."""


def table(name: str, rows: Sequence[Mapping[str, object]], *, about: str) -> None:
    """A table under a key made of the name; of more than 50 rows the first are shown and the rest counted."""
    left = len(rows) - ROWS
    told = about if left <= 0 else f"{about} {left} more rows are in the published tables."
    if _in_a_flow():
        create_table_artifact(table=[dict(row) for row in rows[:ROWS]], key=key(name), description=told)


def text(name: str, markdown: str) -> None:
    """A text in Markdown."""
    if _in_a_flow():
        create_markdown_artifact(markdown=markdown, key=key(name))


def link(name: str, address: str, *, label: str) -> None:
    """A link."""
    if _in_a_flow():
        create_link_artifact(link=address, link_text=label, key=key(name))


def key(name: str) -> str:
    """The name as a key that Prefect takes: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _in_a_flow() -> bool:
    return FlowRunContext.get() is not None
