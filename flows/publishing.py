"""From replays to what everybody sees: measured, published whole or not at all, and the site built from it."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from dashboards import build
from flows import times
from flows.checkout import Checkout
from flows.turns import Turn
from tasks.admit.proposing import with_reproduced
from tasks.admit.schema import Admissions
from tasks.attribute.schema import Attributions
from tasks.contracts import Quarantine
from tasks.detect.schema import Findings
from tasks.normalize.schema import Traces
from tasks.prefect_tasks import Measurable, Measured, MeasureTerms, Replayed, measure, publish
from tasks.publish.history import Run, Shown, shown
from tasks.publish.judged import Judging
from tasks.publish.proof import proof
from tasks.publish.schema import Quality, Standings
from tasks.publish.standing import of_signatures, standing, standings
from tasks.pull.schema import Pulls
from tasks.sign.schema import Signatures
from tasks.store import Publication, Snapshot
from tasks.stratify.schema import Strata
from twiceshy import identity
from twiceshy.champion import Champion
from twiceshy.errors import InfrastructureError
from twiceshy.verdict import Policy

if TYPE_CHECKING:
    import polars as pl

ABOUT = "publication.json"


class NotPublished(InfrastructureError):
    """A generation that does not keep the expectations, or that rows are missing from: the last good publication stays the latest."""

    @classmethod
    def because(cls, unmet: Sequence[str]) -> Self:
        """Every expectation that it misses, or table that lacks rows."""
        return cls(f"nothing was published, the last good run stays the latest: {'; '.join(unmet)}.")


class Published(NamedTuple):
    """What was published, and all rows it was made from. signatures: with the state that the replays prove."""

    publication: Publication
    measured: Measured
    shown: Shown
    tables: "Mapping[str, pl.DataFrame]"


def published(
    place: Checkout, generation: Snapshot, turns: Sequence[Turn], replayed: Sequence[Replayed], *, trials: int,
    champions: Mapping[str, Champion],
) -> Published:  # fmt: skip
    """The nights replayed now, beside those that were published before. Raises NotPublished."""
    latest = place.published.latest()
    runs = [Run(one.run_id, one.workflow, turn.night.isoformat()) for turn, one in zip(turns, replayed, strict=True)]
    held = shown(latest, replayed, runs)
    named = _named(runs)
    previous = _previous(place, latest, named)
    proven = _proven(place, generation, held)
    stand = standings(generation.frame(Signatures), proven, limits=place.limits, before=_stood(previous))
    known = standing(generation.frame(Signatures), stand)
    measured = measure(
        _measurable(generation, known), held.replays, _judgings(turns, replayed, trials, champions, place.policy), proven=proven, current=held.current,
        terms=_terms(place, max(turn.night for turn in turns)), last=previous.frame(Quality.named()) if previous else None,
    )  # fmt: skip
    if aside := set_aside(replayed, measured):
        raise NotPublished.because(aside)
    tables = held.tables(measured) | _of_generation(generation, held, known, measured) | {Standings.named(): stand}
    outcome = publish(
        place.published, named, generation=generation.id, tables=tables, quality=measured.quality,
        files={ABOUT: identity.canonical({"previous": previous.run_id if previous else None})},
    )  # fmt: skip
    if outcome.publication is None:
        raise NotPublished.because(outcome.unmet)
    return Published(outcome.publication, measured, held, tables)


def set_aside(replayed: Sequence[Replayed], measured: Measured) -> list[str]:
    """Which tables rows were set aside from, how many and why: without them a page would show a night as better than it was."""
    return [
        f"{table}: {rows['set_aside_for'].len()} rows broke their contract ({', '.join(sorted(set(rows['set_aside_for'])))})"
        for aside in (*(one.set_aside for one in replayed), measured.set_aside)
        for table, rows in sorted(aside.items())
    ]


def site(place: Checkout) -> Path:
    """The index of the site, built from the latest publication."""
    out = place.config.path("site")
    build.build(place.published.root, out)
    return out / "index.html"


def _proven(place: Checkout, generation: Snapshot, held: Shown) -> "pl.DataFrame":
    """What the current replays prove of the cases as they stand today."""
    catalog = [loaded for cases in place.cases.values() for loaded in cases]
    return proof(
        [loaded.case for loaded in catalog], generation.frame(Strata), held.replays, runs=held.current,
        digests={loaded.case.id: loaded.digest for loaded in catalog}, limits=place.limits,
    )  # fmt: skip


def _judgings(
    turns: Sequence[Turn], replayed: Sequence[Replayed], trials: int, champions: Mapping[str, Champion], policy: Policy
) -> "list[Judging]":
    return [
        Judging(
            run_id=one.run_id, night=turn.night.isoformat(), workflow=one.workflow, candidate=turn.name,
            candidate_digest=one.candidate_digest, harness=one.harness, results=one.results, conversations=one.conversations, champion=champions.get(one.workflow),
            policy=policy, trials=trials, not_run=one.not_run,
        )
        for turn, one in zip(turns, replayed, strict=True)
    ]  # fmt: skip


def _measurable(generation: Snapshot, signatures: "pl.DataFrame") -> Measurable:
    return Measurable(
        pulls=generation.frame(Pulls), traces=generation.frame(Traces), strata=generation.frame(Strata), findings=generation.frame(Findings),
        signatures=signatures, attributions=generation.frame(Attributions), admissions=generation.frame(Admissions),
        quarantine=generation.frame(Quarantine),
    )  # fmt: skip


def _terms(place: Checkout, night: date) -> MeasureTerms:
    """Measured as of the end of the newest night."""
    as_of = times.start_of(night) + times.DAY_NS
    return MeasureTerms(place.workflows, as_of, place.limits, place.harness_state)


def _of_generation(
    generation: Snapshot, held: Shown, signatures: "pl.DataFrame", measured: Measured
) -> "dict[str, pl.DataFrame]":
    """What the generation says, with what the replays added to it."""
    return {
        Attributions.named(): generation.frame(Attributions),
        Admissions.named(): with_reproduced(generation.frame(Admissions), held.replays),
        Signatures.named(): signatures,
        "coverage": measured.coverage,
        "divergence": measured.divergence,
    }


def _stood(previous: Publication | None) -> "pl.DataFrame | None":
    """How the signatures stood in the publication before, as far as that one says."""
    if previous is None:
        return None
    if Standings.named() in previous.files():
        return previous.frame(Standings.named())
    return of_signatures(previous.frame(Signatures.named()))


def _named(runs: Sequence[Run]) -> str:
    """A publication's own id: its newest night, and which runs it brings. The same runs again are the same publication."""
    night = max(run.night for run in runs)
    return f"{night}-{identity.digest(sorted(run.run_id for run in runs))[:16]}"


def _previous(place: Checkout, latest: Publication | None, named: str) -> Publication | None:
    """The publication before this one: what it is measured against does not change when it is made again."""
    if latest is None or latest.run_id != named:
        return latest
    before = msgspec.json.decode((latest.directory / ABOUT).read_bytes())["previous"]
    return next((run for run in place.published.runs() if run.run_id == before), None)
