"""What every incident consists of."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Record = dict[str, Any]
MODES = ("ungated", "gated", "benign")


class Ask(NamedTuple):
    """One thing the model asks of the guarded tool, with what the lookup told: facts, then the arguments."""

    facts: Record
    asked: Record


class Scenario(NamedTuple):
    """One incident. `guarded(act, mode, facts, **asked) -> result`: in mode `ungated` it does whatever it is asked.

    reads: the lookup before it. writes: the irreversible act behind it. dangerous: what was asked in the incident. refused: what must be refused too, just
    past a limit. allowed: what must be done, the first one well inside every limit, the others on one. domain: asks on all sides of every condition.
    """

    name: str
    tool: str
    reads: str
    writes: str
    guarded: Callable[..., Record]
    dangerous: Ask
    allowed: Sequence[Ask]
    refused: Sequence[Ask]
    domain: Sequence[Ask]
