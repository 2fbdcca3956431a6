"""Runs in every Python that a command candidate starts: under libfaketime 0.9.10 `time.sleep` raises EINVAL, because Python sleeps until an instant of a clock that is not faked.

It sleeps for a span instead. A sitecustomize that the candidate brings runs after this one.
"""  # noqa: INP001 - a folder for PYTHONPATH, no package

import importlib.machinery
import importlib.util
import select
import sys
import time
from pathlib import Path


def sleep(seconds: float, /) -> None:
    """Wait, as time.sleep does."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], seconds)


time.sleep = sleep  # type: ignore[assignment]  # takes what answers to __index__ too

_others = [place for place in sys.path if Path(place) != Path(__file__).parent]
_next = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _next is not None and _next.loader is not None:
    _next.loader.exec_module(importlib.util.module_from_spec(_next))
