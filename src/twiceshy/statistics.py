"""Rates with their uncertainty, on `math` alone: the engine carries no scipy (signatures.md §9)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Z95 = 1.959963984540054
"""The two-sided 95 % quantile of the normal distribution."""


class Interval(NamedTuple):
    """The bounds of a rate, each a ratio 0-1."""

    low: float
    high: float


def wilson(hits: int, n: int, *, z: float = Z95) -> Interval:
    """The Wilson score interval of hits/n; (0, 1) where nothing was counted. Wilson 1927; Newcombe 1998, method 3.

    Raises ValueError unless 0 <= hits <= n.
    """
    _check(hits, n)
    if n == 0:
        return Interval(0.0, 1.0)
    rate, spread = hits / n, z * z / n
    middle = rate + spread / 2
    reach = z * math.sqrt(rate * (1 - rate) / n + spread / (4 * n))
    low = 0.0 if hits == 0 else (middle - reach) / (1 + spread)
    high = 1.0 if hits == n else (middle + reach) / (1 + spread)
    return Interval(low, high)


def binomial_tail(hits: int, n: int, rate: float = 0.5) -> float:
    """The chance of at least so many hits in n draws, 0 < rate < 1: the one-sided exact binomial test."""
    _check(hits, n)
    return math.fsum(_chance(k, n, rate) for k in range(hits, n + 1))


def mcnemar(regressions: int, improvements: int) -> float:
    """One-sided exact McNemar on discordant pairs: the chance of so many regressions if both versions were alike; 1.0 without any pair."""
    return binomial_tail(regressions, regressions + improvements)


def pass_hat_k(trials: Sequence[tuple[int, int]], k: int) -> float:
    """pass^k: the mean over tasks of C(c, k) / C(n, k), for (n trials, c passed) a task. Unbiased, unlike (c/n)^k.

    Raises ValueError where a task has fewer than k trials, or there is none.
    """
    if not trials or k < 1:
        raise ValueError("pass^k needs at least one task and k >= 1")
    for n, passed in trials:
        _check(passed, n)
        if n < k:
            raise ValueError(f"pass^{k} needs at least {k} trials a task, found {n}")
    return math.fsum(math.comb(passed, k) / math.comb(n, k) for n, passed in trials) / len(trials)


def _chance(hits: int, n: int, rate: float) -> float:
    """In logarithms: beyond n = 1029 a binomial coefficient is no float."""
    return math.exp(math.log(math.comb(n, hits)) + hits * math.log(rate) + (n - hits) * math.log1p(-rate))


def _check(hits: int, n: int) -> None:
    if not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is no count")
