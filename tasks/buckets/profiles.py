"""Layer 3: how usual a value is against a frozen profile of its argument."""

from __future__ import annotations

from typing import Any

import msgspec

LABELS = ("below_p1", "above_p99", "rare_category", "new_category", "unprofiled")

ENOUGH = 300
"""Fewer observed values say nothing of a 1st percentile."""

RARE = 0.001


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The frozen baseline of one (tool, argument): n values, percentiles of the numeric ones, and how often each category was seen."""

    n: int
    p1: float | None = None
    p99: float | None = None
    categories: dict[str, int] = {}


def labels(value: Any, profile: Profile) -> tuple[str, ...]:
    """What a value is against its profile: nothing, or one label."""
    if profile.n < ENOUGH:
        return ("unprofiled",)
    if isinstance(value, bool | str) or value is None:
        return _category("null" if value is None else str(value).lower() if isinstance(value, bool) else value, profile)
    if isinstance(value, int | float) and profile.p1 is not None and profile.p99 is not None:
        return ("below_p1",) if value < profile.p1 else ("above_p99",) if value > profile.p99 else ()
    return ()


def _category(value: str, profile: Profile) -> tuple[str, ...]:
    if not profile.categories:
        return ()
    seen = profile.categories.get(value)
    if seen is None:
        return ("new_category",)
    return ("rare_category",) if seen / profile.n < RARE else ()
