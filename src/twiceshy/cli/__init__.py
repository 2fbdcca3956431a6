"""The command line. stdout carries only what was asked for; progress and messages go to stderr; every error is one line and an exit code."""

from __future__ import annotations

import sys

from twiceshy.cli.app import mounted
from twiceshy.errors import InputError, TwiceshyError

__all__ = ["main"]

REPOSITORY_VERBS = ("refresh", "nightly", "site", "retain", "deploy")
"""Verbs that a pipeline checkout mounts through `commands` in twiceshy.toml; the wheel alone has no tables to work on."""

FAULT = 4
"""The exit code of what is our fault or the machine's."""


def main() -> None:
    """Run one command and end the process with its exit code."""
    try:
        _run()
    except TwiceshyError as error:
        raise SystemExit(_told(str(error), error.exit_code)) from None
    except KeyboardInterrupt:
        raise SystemExit(_told("interrupted", 130)) from None
    except OSError as broken:
        if broken.filename is None:
            raise SystemExit(_crashed()) from None
        raise SystemExit(_told(f"{broken.filename}: {broken.strerror}.", FAULT)) from None
    except Exception:  # noqa: BLE001 - our own fault; Python would end with 1, which says that a case FAILED
        raise SystemExit(_crashed()) from None


def _run() -> None:
    app = mounted()
    names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    if len(sys.argv) > 1 and sys.argv[1] in REPOSITORY_VERBS and sys.argv[1] not in names:
        raise InputError(f"`twiceshy {sys.argv[1]}` works in a pipeline checkout: no twiceshy.toml here mounts it.")
    app()


def _crashed() -> int:
    import traceback

    traceback.print_exc()
    return FAULT


def _told(message: str, code: int) -> int:
    print(f"twiceshy: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201 - the command line's own voice
    return code
