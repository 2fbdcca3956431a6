"""One run of a flow from the command line: what can be refused is refused before a server starts, then the flow runs and its result is put into lines."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flows import times
from flows.console import Steps, lines, unjudged
from flows.inputs import address, readable
from flows.surroundings import server, settle


def run_refresh(asked: Mapping[str, Any], root: str = ".") -> Iterator[str]:
    """The account of a refresh."""
    if asked.get("path") and address(asked["path"]) is None:
        readable(Path(asked["path"]))
    settle()
    from flows.checkout import Checkout
    from flows.request import Request

    day = times.night(asked["as_of"]) if asked.get("as_of") else datetime.now(UTC).date()
    Request.of(Checkout.at(root), **{**asked, "as_of": day})
    steps = _begun("refresh")
    from flows.refresh import refresh
    from tasks.prefect_tasks import heard_by

    with heard_by(steps):
        account = refresh(**asked, root=root)
    yield from accounted(account, Checkout.at(root).proposed)


def run_nightly(asked: Mapping[str, Any], root: str = ".") -> Iterator[str]:
    """What a nightly found."""
    settle()
    from flows.checkout import Checkout
    from flows.turns import turns_of

    place = Checkout.at(root)
    place.generation()
    turns_of(place, asked, today=datetime.now(UTC).date())
    steps = _begun("nightly")
    from flows.catalog import catalog
    from tasks.prefect_tasks import heard_by

    with heard_by(steps):
        account = catalog(**asked, root=root)
    yield from judged(account)


def run_site(to: Path | None, root: str = ".") -> str:
    """The path of the index."""
    from dashboards.build import build
    from flows.checkout import Checkout

    place = Checkout.at(root)
    out = to or place.config.path("site")
    build(place.published.root, out)
    return str(out / "index.html")


def run_retention(asked: Mapping[str, Any], root: str = ".") -> Iterator[str]:
    """What a sweep removed."""
    settle()
    if asked.get("as_of"):
        times.instant(asked["as_of"])
    steps = _begun("retain")
    from flows.retention import retention
    from tasks.prefect_tasks import heard_by

    with heard_by(steps):
        removed = retention(**asked, root=root)
    yield from lines([{"removed": count, "what": what.replace("_", " ")} for what, count in removed.items()])


def accounted(account: Mapping[str, Any], proposed: Path) -> Iterator[str]:
    """What came in and what became of it, why traces were not taken, errors of tools, signatures, proposals, and the corpus id."""
    for held in account["accounts"]:
        yield balance(held)
    for title, name in (("not taken", "refusals"), ("errors of tools", "tool_errors"), ("signatures", "signatures")):
        if account[name]:
            yield from ("", f"{title}:", *(f"  {line}" for line in lines(account[name])))
    yield ""
    yield from map(awaited, account["awaited"])
    if account["rejudged"]:
        yield f"{account['rejudged']} traces that were here already are flagged now; no rule takes a flag away"
    yield f"{len(account['proposed'])} cases proposed in {proposed}"
    yield f"corpus {account['corpus_id']}, generation {account['generation']}"


def awaited(held: Mapping[str, Any]) -> str:
    """One file that is not there, in one line."""
    what = "judged" if held["file"].endswith("invariants.yaml") else "kept"
    whose = f"{held['traces']} traces of {held['workflow'] or 'no workflow that is known here'}"
    return f"waiting for {held['file']}: without it nothing of {whose} is {what}. Write it, then run this again."


def balance(held: Mapping[str, Any]) -> str:
    """The account of one source in one line."""
    source, traces, *rest = held.items()
    return f"{source[1]}: {traces[1]} in = " + " + ".join(f"{count} {name}" for name, count in rest)


def judged(account: Mapping[str, Any]) -> Iterator[str]:
    """The verdict, every run, the outcomes of the newest night, signatures, corpus id and the path of the site."""
    yield f"verdict of the newest night: {account['verdict']}"
    for title, name in (
        ("runs", "runs"), ("newest night", "outcomes"), ("conversations", "conversations"), ("signatures", "signatures")
    ):  # fmt: skip
        if account[name]:
            yield from ("", f"{title}:", *(f"  {line}" for line in lines(account[name])))
    yield ""
    if account["unprotected"]:
        yield unjudged(account["unprotected"])
    yield f"corpus {account['corpus_id']}, publication {account['publication']}"
    yield f"site {account['site']}"


def _begun(run: str) -> Steps:
    steps = Steps(run)
    where = server()
    steps.say(f"on the server at {where}" if where else "on an embedded Prefect server; its start takes some 20 s")
    return steps
