"""What a replay will answer to a call, before it does. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twiceshy.envelope import ErrorRecord
    from twiceshy.matching import Recording
    from twiceshy.outcome import AnsweredBy
    from twiceshy.transcript import RowChange


@dataclass(frozen=True, slots=True)
class Answered:
    """A value or an error to raise, and where it comes from.

    matched: the recording that was served. returned: the error that the value tells of, where a tool returns its errors. changes: the rows of a world.
    unsettled: tables of it that were changed, or may have been, in a way that nobody knows.
    """

    value: Any = None
    error: BaseException | None = None
    by: AnsweredBy | None = None
    matched: Recording | None = None
    returned: ErrorRecord | None = None
    changes: Sequence[RowChange] = ()
    unsettled: Sequence[str] = ()
