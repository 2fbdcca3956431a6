"""Recorded errors raised again, with their class and text (semantics.md §4.6)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twiceshy.envelope import ErrorRecord


class RecordedError(Exception):
    """Stands for a recorded error whose own class cannot be found or built here. Subclasses are named like it."""


def raised_again(record: ErrorRecord) -> BaseException:
    """The exception a record tells of: its own class where that is loaded, a class caught as it where it does not take the message as it is, else a RecordedError of the same name.

    Only modules that are loaded already are looked at: a record imports nothing. `str()` of the exception is the recorded text.
    """
    module, _, name = record.cls.rpartition(".")
    found = getattr(sys.modules.get(module or "builtins"), name, None)
    error: BaseException | None = None
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            error = found(record.message)
        except Exception:  # noqa: BLE001 - a class that takes other arguments
            error = None
        if error is None or str(error) != record.message:
            error = _worded(found, record.message)
    if error is None:
        error = type(name or "RecordedError", (RecordedError,), {"__module__": module})(record.message)
    # Read back by `error_record`, so that an error that was served is recorded as the one it repeats.
    vars(error).update(code=record.type, definite=record.definite)
    return error


def _worded(found: type[Exception], message: str) -> Exception | None:
    """An exception that is caught as `found` and says this text, made without its constructor: KeyError quotes its text, others want more than one."""
    same = {"__module__": found.__module__, "__qualname__": found.__qualname__, "__str__": lambda _: message}
    try:
        kind: Any = type(found.__name__, (found,), same)
        made = kind.__new__(kind, message)
    except Exception:  # noqa: BLE001 - a class that cannot be built on
        return None
    return made if isinstance(made, found) else None
