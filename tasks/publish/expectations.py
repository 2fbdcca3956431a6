"""What a published generation must be like, and the one Great Expectations suite that says so. It repeats no type and no domain: the contracts hold those."""

import logging
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl


class Bounds(NamedTuple):
    """The least and the most a metric may be; None where that side is open."""

    low: float | None = None
    high: float | None = None


EXPECTED: Mapping[str, Bounds] = {
    "traces": Bounds(low=1),
    # A corpus grows; one that lost a fifth overnight was made from a broken pull, or swept too far.
    "traces_against_last": Bounds(low=0.8),
    "orphan_spans": Bounds(high=0.25),
    "spans_quarantined": Bounds(high=0.2),
    "spans_unaccounted": Bounds(low=0, high=0),
    "invariants_unjudged": Bounds(high=0.2),
    "promoted_inconsistent": Bounds(high=0),
    # Above this a night says more about our machine than about any candidate.
    "replays_in_error": Bounds(high=0.5),
}
"""Metric of scope `all` -> its bounds. What is not here is stated only."""

SUITE = "published-generation"


def unmet(quality: pl.DataFrame) -> list[str]:
    """The metrics of scope `all` that a validated suite finds out of bounds, each with its value and bounds; none means that the generation may be published.

    quality: rows of `Quality`. The suite runs on one wide row, a column a metric. Importing Great Expectations takes seconds, so only this does.
    """
    held = quality.filter(pl.col("scope") == "all", pl.col("metric").is_in(list(EXPECTED)))
    if held.is_empty():
        return []
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.expectations.core.expect_column_values_to_be_between import (
        ExpectColumnValuesToBeBetween,
    )

    # Its import sets the level of this one, which tells of temporary folders.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    asset = context.data_sources.add_pandas("metrics").add_dataframe_asset("quality")
    expectations = [
        ExpectColumnValuesToBeBetween(column=metric, min_value=EXPECTED[metric].low, max_value=EXPECTED[metric].high)
        for metric in held["metric"]
    ]
    suite = context.suites.add(gx.ExpectationSuite(SUITE, expectations=expectations))
    definition = gx.ValidationDefinition(
        data=asset.add_batch_definition_whole_dataframe("all"), suite=suite, name=SUITE
    )
    context.validation_definitions.add(definition)
    wide = dict(held.select("metric", "value").iter_rows())
    found = definition.run(batch_parameters={"dataframe": pl.DataFrame([wide]).to_pandas()})
    broken = [result.expectation_config for result in found.results if not result.success]
    return sorted(_said(config.kwargs["column"], wide) for config in broken if config is not None)


def _said(metric: str, wide: Mapping[str, float]) -> str:
    low, high = EXPECTED[metric]
    sides = [f"at least {low:g}"] if low is not None else []
    sides += [f"at most {high:g}"] if high is not None else []
    return f"{metric} is {wide[metric]:g}, expected {' and '.join(sides)}"
