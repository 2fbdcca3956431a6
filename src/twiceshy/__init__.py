"""twiceshy replays catalogued failures of LLM agents against a candidate version, frozen and graded."""

from typing import TYPE_CHECKING

from twiceshy.boundary import Blocked, Boundary
from twiceshy.candidates import candidate

if TYPE_CHECKING:
    from twiceshy.recording import live, record

__all__ = ["Blocked", "Boundary", "candidate", "live", "record"]


def __getattr__(name: str) -> object:
    """`live` and `record`, imported when they are asked for: a replay needs neither."""
    if name not in ("live", "record"):
        raise AttributeError(f"module 'twiceshy' has no attribute {name!r}")
    from twiceshy import recording

    return vars(recording)[name]
