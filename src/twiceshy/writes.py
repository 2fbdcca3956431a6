"""What an intercepted write answers when it was not recorded here (semantics.md §5.2), in the order in which it is tried."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from twiceshy import paths
from twiceshy.envelope import Crossing, ErrorRecord, Record
from twiceshy.identity import canonical
from twiceshy.matching import fresh
from twiceshy.outcome import AnsweredBy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twiceshy.policy import ToolPolicy

_UNANSWERED = ErrorRecord(cls="twiceshy.Unanswered", type="unanswered", message="the run diverged here")

_INSERT = re.compile(r"\$\{args\.([^}]+)\}")


class InvalidArguments(ValueError):
    """Raised in the candidate: the arguments violate the tool's schema, so nothing happened."""

    code = "validation"
    definite = True


class DeclaredWrite(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A write that a case expects, with the answer it gets. `args` holds the paths that must be equal; none means any."""

    tool: str
    args: dict[str, Any] | None = None
    answer: Any | msgspec.UnsetType = UNSET
    times: int | None = None
    """How often exactly it must be made; None leaves that open."""

    def fits(self, tool: str, seen: Any) -> bool:
        """Whether a call is this write: the same tool, and every listed argument equal by identity rules."""
        return tool == self.tool and paths.leads_to(seen, self.args or {})


class DeclaredGrant(Record, frozen=True, kw_only=True, omit_defaults=True):
    """An answer of a person that a case declares, good for one request. `args` holds the paths of the request that must be equal; none means any."""

    human: str
    args: dict[str, Any] | None = None
    answer: Any

    def fits(self, human: str, seen: Any) -> bool:
        """Whether a request is the one it answers."""
        return DeclaredWrite(tool=self.human, args=self.args).fits(human, seen)


def violation(schema: Mapping[str, Any] | None, seen: Any) -> str | None:
    """The first violation of a JSON Schema, as `keyword at path` without the value; None where the arguments are valid or there is no schema."""
    if schema is None:
        return None
    import jsonschema

    instance = msgspec.json.decode(canonical(seen))  # as JSON has it: a tuple is an array
    errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(instance), key=lambda error: error.json_path)
    return f"{errors[0].validator} at {errors[0].json_path}" if errors else None


def answer(
    tool: str, seen: Any, *, declared: Sequence[DeclaredWrite], policy: ToolPolicy, result_schema: Mapping[str, Any] | None
) -> tuple[Any, AnsweredBy]:  # fmt: skip
    """The answer of a write nobody recorded at this state, and where it came from; the last two are improvised."""
    for write in declared:
        if write.answer is not UNSET and write.fits(tool, seen):
            return fresh(write.answer), AnsweredBy.DECLARED
    if policy.answer is not UNSET:
        return filled(policy.answer, seen), AnsweredBy.TEMPLATE
    schema = result_schema if result_schema is not None else policy.result_schema
    if schema is not None:
        return made(schema), AnsweredBy.OUTPUT_SCHEMA
    return {"ok": True}, AnsweredBy.OK


def unanswered(crossing: Crossing) -> Crossing:
    """The intent of a write at which the run diverges: it was asked for, so what must not be is judged on it; nothing may rest on its having happened."""
    return msgspec.structs.replace(crossing, error=_UNANSWERED)


def went_unanswered(crossing: Crossing) -> bool:
    """Whether it is such an intent."""
    return crossing.error == _UNANSWERED


def filled(template: Any, seen: Any) -> Any:
    """The template with "${args.path}" replaced: a string that is nothing else becomes the argument itself, with its type."""
    if isinstance(template, dict):
        return {name: filled(item, seen) for name, item in template.items()}
    if isinstance(template, list):
        return [filled(item, seen) for item in template]
    if not isinstance(template, str):
        return template
    whole = _INSERT.fullmatch(template)
    if whole:
        return fresh(_argument(seen, whole[1]))
    return _INSERT.sub(lambda insert: str(_argument(seen, insert[1])), template)


def made(schema: Mapping[str, Any]) -> Any:
    """The smallest plain value a JSON Schema describes: its default, constant or first choice, else an empty value of its type."""
    for given in ("default", "const"):
        if given in schema:
            return fresh(schema[given])
    if schema.get("enum"):
        return fresh(schema["enum"][0])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: made(properties.get(name, {"type": "null"})) for name in schema.get("required", ())}
    return {"array": [], "string": "", "integer": 0, "number": 0, "boolean": True}.get(kind)


def _argument(seen: Any, path: str) -> Any:
    return next(paths.found(seen, paths.parse(path)), None)
