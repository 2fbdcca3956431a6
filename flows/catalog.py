"""The nightly: the whole catalog is replayed against a candidate, compared with the champion, measured, published, and shown as a site."""

from datetime import UTC, datetime
from typing import Any

from prefect import flow

from flows.checkout import Checkout
from flows.publishing import published, site
from flows.replaying import replays
from flows.telling import leave_nightly, nightly_of
from flows.timing import timed
from flows.turns import trials_of, turns_of


@flow(name="catalog", timeout_seconds=6 * 3600, persist_result=False)
def catalog(
    night: str | None = None,
    nights: int = 1,
    candidates: list[str] | None = None,
    deployments: str | None = None,
    trials: int | None = None,
    root: str = ".",
) -> dict[str, Any]:
    """Every case x judging mode x trial, sealed; a regression that is found is a verdict, not a failure of this flow. Done twice it changes nothing.

    night: the newest night that is judged, today by default; nights: so many that end with it. candidates: names of twiceshy.toml, or `workflow=name`.
    deployments: a file that says which version was in production on which day, in place of candidates.
    """
    place = Checkout.at(root)
    generation = place.generation()
    asked = {"night": night, "nights": nights, "candidates": candidates, "deployments": deployments}
    playing = turns_of(place, asked, today=datetime.now(UTC).date())
    champions = place.champions()
    each = trials_of(place, trials)
    with timed(place, "catalog"):
        replayed = replays(place, playing, generation=generation.id, trials=each, champions=champions)
        shown = published(place, generation, playing, replayed, trials=each, champions=champions)
        index = site(place)
    account = nightly_of(shown, generation, index, unprotected=place.unprotected)
    leave_nightly(account)
    return account
