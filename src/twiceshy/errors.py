"""Every error twiceshy raises on purpose; each class builds its own message.

TwiceshyError
|- InputError              bad input found before anything ran          exit code 2
|  |- FormatError          unknown format, broken JSON or YAML, wrong shape
|  |- DigestMismatch       a file says other bytes than it holds
|  |- PolicyError          tools.yaml, redaction.yaml
|  |- InvariantError       invariants.yaml and its CEL conditions
|  |- CaseError            case.yaml, world.yaml
|  |- ConfigurationError   twiceshy.toml, TWICESHY_*, flags
|  |  `- KeyMissing        a redaction key that a rule needs is not at hand
|  |- CandidateError       a candidate that cannot be imported or described
|  `- Unrecordable         a value that has no canonical form
`- InfrastructureError     our fault or the machine's, never the candidate's   exit code 4
   |- IsolationNotHeld     a canary got out, or the level cannot be had
   |- PackageMissing       an optional package that a rule needs is not installed
   `- KeyMismatch          two key ids met that may not be joined
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Collection


def nearest(name: str, known: Collection[str]) -> str:
    """A hint for a wrong name: the nearest known one, else all of them."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"Known: {', '.join(sorted(known)) or 'none'}."


class TwiceshyError(Exception):
    """The base of every error raised on purpose; `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class InputError(TwiceshyError):
    """Something given to us is wrong; nothing has run and nothing was written."""

    exit_code: ClassVar[int] = 2

    @classmethod
    def at(cls, where: object, problem: str, *, line: int | None = None, hint: str = "") -> Self:
        """The problem with its file and line, and what to do about it."""
        place = f"{where}:{line}" if line else f"{where}"
        return cls(f"{place}: {problem}" + (f" {hint}" if hint else ""))

    @classmethod
    def missing(cls, where: object, *, what: str = "file") -> Self:
        """A path that is not there."""
        return cls(f"{where}: no such {what}.")


class FormatError(InputError):
    """A format we do not know, or content that does not have the shape its format asks for."""

    @classmethod
    def unknown(cls, where: object, found: object, *, known: str, upgrade: str) -> Self:
        """A format version this release does not read."""
        return cls(f"{where}: format {found!r} is not {known!r}, the one this release reads. {upgrade}")


class DigestMismatch(InputError):
    """A file whose stated digest is not the digest of what it holds."""

    @classmethod
    def of(cls, where: object, *, stated: str, actual: str) -> Self:
        """Both digests, and the way out."""
        return cls(
            f"{where}: the stated digest {stated[:16]} is not the digest of its content, {actual[:16]}. "
            "Restore the file from version control, or validate and re-seal the case."
        )


class PolicyError(InputError):
    """A policy that cannot be applied as written."""


class UnknownTool(PolicyError):
    """A tool named in a policy that nothing else knows, or called without an entry."""

    @classmethod
    def among(cls, where: object, name: str, known: Collection[str]) -> Self:
        """The unknown name with the nearest known one."""
        return cls(f"{where}: tool {name!r} is not known here. {nearest(name, known)}")


class InvariantError(InputError):
    """An invariant that cannot be read or whose condition cannot be evaluated."""


class CaseError(InputError):
    """A case directory that cannot be used as written."""


class ConfigurationError(InputError):
    """A setting that is unknown or has a value we cannot use."""

    @classmethod
    def unknown(cls, where: object, name: str, known: Collection[str]) -> Self:
        """An unknown key with a did-you-mean."""
        return cls(f"{where}: unknown setting {name!r}. {nearest(name, known)}")


class CandidateError(InputError):
    """A candidate that cannot be found, imported or described."""

    @classmethod
    def not_importable(cls, spec: str, reason: str) -> Self:
        """The candidate as named, with the first line of why."""
        return cls(f"candidate {spec!r} cannot be imported: {reason}")


class Unrecordable(InputError):
    """A value without a canonical form: it can be neither keyed nor stored."""

    @classmethod
    def of(cls, value: object) -> Self:
        """The type that stood in the way, never the value itself."""
        return cls(
            f"a {type(value).__qualname__} has no canonical form, or is nested deeper than 200. "
            "Use JSON values, bytes, tuples, sets, dates, Decimal or UUID."
        )


class InfrastructureError(TwiceshyError):
    """The harness or the machine is at fault; the candidate was not judged."""

    exit_code: ClassVar[int] = 4


class IsolationNotHeld(InfrastructureError):
    """The isolation asked for cannot be had, or its canary got out."""


class KeyMissing(ConfigurationError):
    """A rule would transform a value and the key for it is not at hand."""

    @classmethod
    def named(cls, key_id: str) -> Self:
        """Which key is missing and how one is given."""
        return cls(
            f"redaction key {key_id!r} is not available (redaction_key_missing). "
            f'Export TWICESHY_KEY_{key_id.upper().replace("-", "_")}, or make it: export "$(twiceshy keys new --id {key_id})".'
        )


class PackageMissing(InfrastructureError):
    """An optional package is not installed and the work cannot be done without it."""

    @classmethod
    def named(cls, package: str, *, needed_for: str) -> Self:
        """The package, what it is for, and what to type."""
        return cls(
            f"{needed_for} need the package {package!r}, which is not installed. Install it: pip install {package}"
        )


class KeyMismatch(InfrastructureError):
    """Entries made under different key ids may not be joined nor matched."""

    @classmethod
    def between(cls, ours: str, theirs: str) -> Self:
        """Both key ids."""
        return cls(f"key id {ours!r} met key id {theirs!r}: entries of different keys are never joined.")
