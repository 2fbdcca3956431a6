"""What can stop a seal, each with what was found and what to do.

IsolationNotHeld (twiceshy.errors, exit code 4)
|- ThreadsRunning        the process to be sealed has more than one thread
|- StepRefused           the kernel refused one step of the seal
|- UnsafeDescriptor      a descriptor that would lead out of the seal was to be kept
|- CanaryEscaped         an attempt that must fail succeeded inside
`- LeftoversRemain       a trial left something that cannot be removed
InputError (exit code 2)
`- NotAllowable          an environment name that may never enter a sealed process
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Self

from twiceshy.errors import InputError, IsolationNotHeld

if TYPE_CHECKING:
    from collections.abc import Sequence

_WEAK = "Run on a machine that allows it, or accept a labelled run that no gate accepts: --allow-weak-isolation."


class ThreadsRunning(IsolationNotHeld):
    """A process with threads cannot enter a user namespace, and forking one is unsafe."""

    @classmethod
    def counted(cls, threads: int) -> Self:
        """How many threads there are."""
        return cls(
            f"cannot seal a process that has {threads} threads; seal before anything starts one "
            "(no polars, duckdb or numpy import, no executor), or declare `warm = false`."
        )


class StepRefused(IsolationNotHeld):
    """The kernel, or the container around us, refused one step of the seal."""

    @classmethod
    def at(cls, step: str, error: OSError) -> Self:
        """The step and the kernel's word, with the usual cause of a refusal."""
        word = errno.errorcode.get(error.errno or 0, "unknown")
        return cls(f"cannot {step}: {word} ({os.strerror(error.errno or 0)}). {_likely_cause(error)} {_WEAK}")

    @classmethod
    def unsupported(cls, step: str, reason: str) -> Self:
        """The step and what this machine lacks for it."""
        return cls(f"cannot {step}: {reason}. {_WEAK}")


class UnsafeDescriptor(IsolationNotHeld):
    """A directory handle reaches the file system from outside the seal's own view of it."""

    @classmethod
    def directory(cls, descriptor: int) -> Self:
        """Which descriptor was to be kept."""
        return cls(
            f"descriptor {descriptor} is a directory and would lead out of the seal; keep sockets and pipes only."
        )


class CanaryEscaped(IsolationNotHeld):
    """The canary got out: nothing that ran here may be believed."""

    @classmethod
    def by(cls, escapes: Sequence[str]) -> Self:
        """The attempts that succeeded."""
        return cls(f"isolation does not hold: {'; '.join(escapes)}. No candidate was run. {_WEAK}")

    @classmethod
    def silent(cls, status: int) -> Self:
        """The canary ended without a report."""
        return cls(f"the canary ended with wait status {status} and no report, so isolation is not proved. {_WEAK}")


class LeftoversRemain(IsolationNotHeld):
    """Something that one trial left would be seen by the next one."""

    @classmethod
    def at(cls, path: str, error: OSError) -> Self:
        """The path and why it stays."""
        word = errno.errorcode.get(error.errno or 0, "unknown")
        return cls(f"cannot empty {path} after a trial: {word}; end this session and start a fresh one.")


class NotAllowable(InputError):
    """A credential, proxy, cloud or telemetry variable was named as one to pass on."""

    @classmethod
    def named(cls, name: str) -> Self:
        """The name; never its value."""
        return cls(
            f"environment variable {name!r} may not enter a sealed process: it looks like a credential, proxy, cloud "
            "or telemetry setting. Give the candidate a dummy value through the case's `env` instead."
        )


def _likely_cause(error: OSError) -> str:
    match error.errno:
        case errno.ENOSPC:
            return "The limit in /proc/sys/user/max_user_namespaces (or a sibling of it) is reached or zero."
        case errno.EINVAL | errno.ENOSYS:
            return "This kernel lacks the call (Linux 5.12 or newer is needed)."
        case errno.EPERM | errno.EACCES:
            return (
                "A container (its seccomp profile, or a /proc with hidden parts), AppArmor or a sysctl forbids it here."
            )
        case _:
            return "The kernel gives no further reason."
