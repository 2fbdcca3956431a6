"""The command line. stdout carries only what was asked for; progress and messages go to stderr; every error is one line and an exit code."""

from __future__ import annotations

import sys

from twiceshy.cli.app import mounted

__all__ = ["main"]

REPOSITORY_VERBS = ("refresh", "nightly", "site", "retain")
"""Verbs that a pipeline checkout mounts through `commands` in twiceshy.toml; the wheel alone has no tables to work on."""


def main() -> None:
    """Run one command and end the process with its exit code."""
    from twiceshy.errors import TwiceshyError

    try:
        app = mounted()
        names = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
        if len(sys.argv) > 1 and sys.argv[1] in REPOSITORY_VERBS and sys.argv[1] not in names:
            raise SystemExit(
                _told(f"`twiceshy {sys.argv[1]}` works in a pipeline checkout: no twiceshy.toml here mounts it.", 2)
            )
        app()
    except TwiceshyError as error:
        raise SystemExit(_told(str(error), error.exit_code)) from None
    except KeyboardInterrupt:
        raise SystemExit(_told("interrupted", 130)) from None


def _told(message: str, code: int) -> int:
    print(f"twiceshy: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201 - the command line's own voice
    return code
