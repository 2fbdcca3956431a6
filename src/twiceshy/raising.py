"""Recorded errors raised again, with their class and text (semantics.md §4.6)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twiceshy.envelope import ErrorRecord


class RecordedError(Exception):
    """Stands for a recorded error whose own class cannot be found or built here. Subclasses are named like it."""


def raised_again(record: ErrorRecord) -> BaseException:
    """The exception a record tells of: its own class where that is loaded and takes the message, else a RecordedError of the same name.

    Only modules that are loaded already are looked at: a record imports nothing. `str()` of the exception is the recorded text.
    """
    module, _, name = record.cls.rpartition(".")
    found = getattr(sys.modules.get(module or "builtins"), name, None)
    error: BaseException | None = None
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            error = found(record.message)
        except Exception:  # noqa: BLE001 - a class that takes other arguments: fall back
            error = None
    if error is None or str(error) != record.message:
        error = type(name or "RecordedError", (RecordedError,), {"__module__": module})(record.message)
    # Read back by `error_record`, so that an error that was served is recorded as the one it repeats.
    vars(error).update(code=record.type, definite=record.definite)
    return error
