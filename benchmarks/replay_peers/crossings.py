"""The crossings that we and our peers are timed on, and the clock: CPU seconds, the collector off, the median of a few rounds."""

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

_LONG = 1000


def lookup(order_id: str, currency: str, include: list[str]) -> dict[str, Any]:
    """What the tool does live: as good as nothing."""
    return {"order_id": order_id, "total": 750.0, "currency": currency, "include": include, "status": "delivered"}


def calls(find: Callable[..., Any], many: int) -> None:
    """An ordinary lookup, so many times, each of another order."""
    for at in range(many):
        find(order_id=f"A{at}", currency="GBP", include=["lines", "customer"])


def rounds(many: int) -> int:
    """How often a peer is timed on so many calls: once where it takes seconds."""
    return 3 if many < _LONG else 1


def timed(run: Callable[..., object], *args: object) -> float:
    """CPU seconds of one run."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        run(*args)
        return time.process_time() - start
    finally:
        gc.enable()


def us(times: list[float], many: int) -> float:
    """Microseconds a crossing, the median."""
    return round(statistics.median(times) / many * 1e6, 2)
