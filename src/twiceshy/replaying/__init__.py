"""The replay engine: a backend that answers from the record, runs what the cut-point names live, intercepts every write, and ends at the first divergence.

Nothing here reaches a live system: a miss is written down and ends the run (semantics.md §4).
"""

from twiceshy.replaying.course import RunDiverged, RunFaulted, Terms
from twiceshy.replaying.engine import Replay

__all__ = ["Replay", "RunDiverged", "RunFaulted", "Terms"]
