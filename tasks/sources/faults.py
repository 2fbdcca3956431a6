"""Errors of spans: the ladder of formats.md §7. The first rung that holds gives the code; which rung it was is kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.sources import templates
from twiceshy.envelope import RETURNED, UNKNOWN_ERROR

if TYPE_CHECKING:
    from collections.abc import Mapping

# The closed base vocabulary, and the names under which exceptions and gRPC-like codes say the same.
_BASE = {
    "parsing": ("JSONDecodeError", "ParseError", "parsing"),
    "timeout": ("TimeoutError", "Timeout", "ReadTimeout", "ConnectTimeout", "DeadlineExceeded", "DEADLINE_EXCEEDED", "timeout"),
    "unicode_decode": ("UnicodeDecodeError", "unicode_decode"),
    "permission": ("PermissionError", "PermissionDenied", "PERMISSION_DENIED", "Forbidden", "403", "permission"),
    "file_not_found": ("FileNotFoundError", "file_not_found"),
    "is_a_directory": ("IsADirectoryError", "is_a_directory"),
    "limit": ("RateLimitError", "RESOURCE_EXHAUSTED", "429", "limit"),
    "approval": ("approval",),
    "unknown": ("_OTHER", "unknown"),
    "output_limit": ("OutputLimitExceededError", "output_limit"),
}  # fmt: skip
_VOCABULARY = {name: code for code, names in _BASE.items() for name in names}
_TEXT = re.compile(
    r"^\s*(?:(?P<cls>[A-Z]\w*(?:Error|Exception))|error|exception)\s*:\s*(?P<message>.*)$", re.IGNORECASE | re.DOTALL
)
_FAILED = frozenset({"error", "failed", "failure"})


class Fault(NamedTuple):
    """An error of one span. `source` is the rung: typed, exception, structured, text, status."""

    cls: str
    code: str
    message: str
    source: str
    definite: bool | None = None


def typed(kind: str, message: str, *, cls: str | None = None, definite: bool | None = None) -> Fault:
    """Rung 1: `error.type`, or a source's own typed error."""
    return Fault(cls or kind, named(kind), message, "typed", definite)


def raised(kind: str, message: str) -> Fault:
    """Rung 2: an `exception` event."""
    return Fault(kind or "Exception", named(kind), message, "exception")


def returned(tool: str, result: Any) -> Fault | None:
    """Rungs 3 and 4: an error that the tool returned as its result, structured or as text; None for any other result."""
    if isinstance(result, dict):
        return _structured(tool, result)
    return _text(tool, result) if isinstance(result, str) else None


def bare(message: str) -> Fault:
    """Rung 5: a status that says ERROR and nothing more."""
    return Fault(UNKNOWN_ERROR, "unknown", message, "status")


def named(kind: str) -> str:
    """Our code for an error type: the base vocabulary where it says the same, else the type's last component."""
    short = kind.rsplit(".", 1)[-1]
    return _VOCABULARY.get(kind) or _VOCABULARY.get(short) or short or "unknown"


def _structured(tool: str, result: Mapping[str, Any]) -> Fault | None:
    """A member `error`, a failed exit code, or a result that calls itself one. A `status` is none of these: orders have one too."""
    if result.get("error"):
        return _error_member(tool, result["error"])
    exit_code = result.get("exit_code")
    if isinstance(exit_code, int) and not isinstance(exit_code, bool) and exit_code:
        return Fault(RETURNED, f"exit_{exit_code}", f"exit code {exit_code}", "structured")
    if result.get("is_error") is True or result.get("isError") is True or _failed(result.get("response_status")):
        texts = (result.get(name) for name in ("message", "content", "response"))
        return _told(tool, next((text for text in texts if isinstance(text, str)), "error"))
    return None


def _error_member(tool: str, held: Any) -> Fault:
    if not isinstance(held, dict):
        return _told(tool, held if isinstance(held, str) else "error")
    kind = held.get("code") or held.get("type")
    message = str(held.get("message") or kind or "error")
    return Fault(RETURNED, named(str(kind)), message, "structured") if kind else _told(tool, message)


def _told(tool: str, message: str) -> Fault:
    return Fault(RETURNED, templates.code(tool, message), message, "structured")


def _failed(status: Any) -> bool:
    return isinstance(status, str) and status.casefold() in _FAILED


def _text(tool: str, result: str) -> Fault | None:
    hit = _TEXT.match(result)
    if hit is None:
        return None
    known = _VOCABULARY.get(hit["cls"] or "")
    return Fault(RETURNED, known or templates.code(tool, hit["message"]), result, "text")
