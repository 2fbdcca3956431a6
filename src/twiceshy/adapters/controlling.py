"""What every adapter needs: its framework installed, and every tool of the agent within its reach."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from twiceshy.errors import CandidateError, InfrastructureError, PackageMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from twiceshy.boundary import Boundary


class UncontrolledTool(InfrastructureError):
    """A tool that can write and does not go through the boundary: a replay could not keep it from running."""

    @classmethod
    def named(cls, name: str, agent: str, *, why: str) -> Self:
        """The tool, whose it is, why it is out of reach, and the ways out."""
        return cls(
            f"tool {name!r} of agent {agent!r} can write and does not go through the boundary: {why}. "
            "Nothing was run. Give the agent a function tool that does the same, or take the tool out."
        )


class UnrecordableResult(CandidateError):
    """A tool's result that has no plain value, so a replay could not give it back."""

    @classmethod
    def of(cls, tool: str, found: object) -> Self:
        """The tool, and what it returned."""
        return cls(
            f"tool {tool!r} returned a {type(found).__name__}, which changes the run and not only answers the model; no record can give it back. Return a plain value."
        )


def require(package: str, *, extra: str) -> None:
    """Import a framework. Raises PackageMissing with what to type."""
    try:
        import_module(package)
    except ImportError as missing:
        if missing.name is not None and missing.name.partition(".")[0] != package:
            raise
        raise PackageMissing(
            f'The adapter for {package} needs that package, which is not installed. Install it: pip install "twiceshy[{extra}]"'
        ) from None


def declare(boundary: Boundary, name: str, schema: Mapping[str, Any] | None, effects: Mapping[str, Any]) -> None:
    """Declare a tool whose function the framework holds. A tool without an effect is a write."""
    boundary.tool(name, effect=effects.get(name), schema=schema)


def refuse_unknown_effects(effects: Iterable[str], known: Iterable[str], agent: str) -> None:
    """Raise CandidateError for an effect of a tool that the agent does not have: the tool it means would count as a write."""
    stray = sorted(set(effects) - set(known))
    if stray:
        raise CandidateError(
            f"effects names {', '.join(stray)}, which agent {agent!r} does not have. It has {', '.join(sorted(known)) or 'none'}."
        )


def refusal(reason: str) -> dict[str, str]:
    """What a model is told where a guard of the boundary refused its call."""
    return {"blocked": reason}


def version_of(model: object) -> str:
    """What stands for a model's source in the digest of its layer: its class, its name, its settings and the functions that it holds."""
    said = [f"{type(model).__module__}.{type(model).__qualname__}"]
    for name in ("model_name", "model", "settings", "temperature"):
        value = getattr(model, name, None)
        said += [f"{name}={value!r}"] if isinstance(value, str | int | float | dict) else []
    said += [source for value in _held(model) if (source := _source(value)) is not None]
    return "\n".join(said)


def _held(model: object) -> list[Any]:
    held = vars(model).values() if hasattr(model, "__dict__") else ()
    return [type(model), *(value for value in held if callable(value))]


def _source(held: Any) -> str | None:
    """The source text of code that is the candidate's own, as a scripted model's; a class of an installed package is told by its name."""
    import inspect

    try:
        path = inspect.getsourcefile(held)
        return None if path is None or "site-packages" in path else inspect.getsource(held)
    except (OSError, TypeError):
        return None
