"""The champion's pinned results as rows, for the comparison that publish makes."""

import polars as pl

from twiceshy.champion import Champion

_TEXTS = ("case_id", "case_digest", "label", "champion_digest", "champion_outcome")

PINS = pl.Schema(
    [*((name, pl.String()) for name in _TEXTS), ("champion_violated", pl.List(pl.String)), ("waiver", pl.String())]
)
"""One pinned result: (`case_id`, `case_digest`, `label`), the judging mode by its label, such as `cut-point --after 3`."""


def pins(champion: Champion | None, *, harness: str, today: str) -> pl.DataFrame:
    """The results that are pinned under the rules in force, as `PINS`. harness: of `ReadyLine`; under other rules a result says nothing.

    today: ISO 8601 date; beside the results of a case stands its waiver, while one is in force that covers all that is violated.
    """
    if champion is None:
        return pl.DataFrame(schema=PINS)
    rows = [
        (pin.case, pin.case_digest, pin.mode, champion.reference.digest, pin.outcome.value, sorted(pin.violated), _waiver(champion, pin.case, pin.violated, today))
        for pin in champion.pins
        if pin.harness == harness
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=PINS, orient="row").sort("case_id", "case_digest", "label")


def _waiver(champion: Champion, case: str, violated: list[str], today: str) -> str | None:
    for waiver in champion.waivers:
        in_force = waiver.date <= today and (waiver.until is None or today <= waiver.until)
        if waiver.case == case and in_force and violated and set(violated) <= set(waiver.assertions):
            return waiver.id
    return None
