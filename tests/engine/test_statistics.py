import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy.statistics import binomial_tail, mcnemar, pass_hat_k, wilson


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_as_published(hits: int, n: int, low: float, high: float) -> None:
    # Newcombe 1998, table I, method 3.
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


def test_wilson_without_hits() -> None:
    # signatures.md §10.2: 0 of 30 still allows 11 %.
    assert wilson(0, 30).high == pytest.approx(0.1135, abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


@given(st.integers(0, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate(counted: tuple[int, int]) -> None:
    hits, n = counted
    low, high = wilson(hits, n)
    assert 0 <= low <= high <= 1
    if n:
        assert low <= hits / n <= high
    mirrored = wilson(n - hits, n)
    assert (low, high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low), abs=1e-12)


def test_five_regressions_and_four() -> None:
    # signatures.md §10.3: 5 reach p = .031 one-sided.
    assert mcnemar(5, 0) == pytest.approx(0.03125)
    assert mcnemar(4, 0) > 0.05
    assert mcnemar(0, 0) == 1.0


def test_many_draws_stay_finite() -> None:
    assert binomial_tail(2000, 4000) == pytest.approx(0.5 + math.comb(4000, 2000) / 2**4001, abs=1e-9)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.01, 0.99))
def test_tails_cover_everything(counted: tuple[int, int], rate: float) -> None:
    hits, n = counted
    below = 1 - binomial_tail(hits, n, rate)
    other = binomial_tail(n - hits + 1, n, 1 - rate) if hits else 0.0
    assert below == pytest.approx(other, abs=1e-9)


def test_pass_hat_k_is_unbiased() -> None:
    # Four trials each, as in tau-bench: all pass, half pass, none.
    trials = [(4, 4), (4, 2), (4, 0)]
    assert pass_hat_k(trials, 1) == pytest.approx(0.5)
    assert pass_hat_k(trials, 2) == pytest.approx((1 + 1 / 6 + 0) / 3)
    assert pass_hat_k(trials, 4) == pytest.approx(1 / 3)


@given(st.lists(st.integers(0, 6).map(lambda passed: (6, passed)), min_size=1, max_size=5), st.integers(1, 5))
def test_pass_hat_k_never_grows(trials: list[tuple[int, int]], k: int) -> None:
    assert pass_hat_k(trials, k + 1) <= pass_hat_k(trials, k) + 1e-12
    assert pass_hat_k(trials, 1) == pytest.approx(math.fsum(passed / n for n, passed in trials) / len(trials))


@pytest.mark.parametrize("wrong", [([], 1), ([(2, 1)], 3), ([(2, 3)], 1), ([(2, 1)], 0)], ids=str)
def test_pass_hat_k_refuses(wrong: tuple[list[tuple[int, int]], int]) -> None:
    with pytest.raises(ValueError, match=r"pass\^|is no count"):
        pass_hat_k(*wrong)
