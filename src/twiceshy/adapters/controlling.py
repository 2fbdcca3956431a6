"""What every adapter needs: its framework installed, and every tool of the agent within its reach."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from inspect import getclosurevars
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Self

from twiceshy.errors import CandidateError, InfrastructureError, PackageMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from twiceshy.boundary import Boundary


class UncontrolledTool(InfrastructureError):
    """A tool that can write and does not go through the boundary: a replay could not keep it from running."""

    @classmethod
    def named(cls, name: str, agent: str, *, why: str) -> Self:
        """The tool, whose it is, why it is out of reach, and the ways out."""
        return cls(
            f"tool {name!r} of agent {agent!r} can write and does not go through the boundary: {why}. "
            "It was not run. Give the agent a function tool that does the same, or take the tool out."
        )

    @classmethod
    def served(cls, name: str, agent: str) -> Self:
        """The same for a server, whose tools are known only to itself."""
        return cls.named(name, agent, why="a live server lists and runs its tools")


class UncontrolledModel(InfrastructureError):
    """A model that does not go through the boundary: what it says would be in no record, and no replay could freeze it."""

    @classmethod
    def given(cls, how: str, agent: str) -> Self:
        """How it was given, and to whose run."""
        return cls(
            f"{how} of a run of agent {agent!r} leads past the boundary, so what it does is uncontrolled. Give it to the agent."
        )

    @classmethod
    def named(cls, name: str, agent: str, *, why: str) -> Self:
        """The model, whose it is, why it is out of reach, and the way out."""
        return cls(f"model {name!r} of agent {agent!r} does not go through the boundary: {why}. It was not asked.")


class UncontrolledState(InfrastructureError):
    """State that a run would read and write outside of its process, past the boundary."""

    @classmethod
    def named(cls, kind: str, agent: str, *, part: str) -> Self:
        """What keeps it, whose it is, and the way out."""
        return cls(
            f"{part} {kind!r} of agent {agent!r} keeps state outside of the process, past the boundary: no record holds what was read from it. "
            "Give the run an in-memory one, and what it must know with its input or by boundary.memory()."
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


def require_hooks(owner: type, *hooks: str, extra: str) -> None:
    """Raise PackageMissing where a framework is too old to call these methods: an end that it never calls would see nothing, and say nothing of it."""
    missing = [hook for hook in hooks if not hasattr(owner, hook)]
    if missing:
        package = owner.__module__.partition(".")[0]
        raise PackageMissing(
            f'The adapter for {package} needs a newer one: {owner.__name__} has no {missing[0]} here. Install it: pip install --upgrade "twiceshy[{extra}]"'
        )


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


def held_by(function: Any, depth: int = 3) -> list[Any]:
    """What a tool's function can run by name: what it closes over, the globals it names, its defaults, the object it is a method of, and so on for functions of the candidate's own among these."""
    found = [*_named_in(function)]
    if depth:
        for inner in [held for held in found if isinstance(held, FunctionType | MethodType | partial) and _own(held)]:
            found += [held for held in held_by(inner, depth - 1) if all(held is not known for known in found)]
    return found


def _named_in(function: Any) -> Iterator[Any]:
    if isinstance(function, partial):
        yield from (function.func, *function.args, *function.keywords.values())
    elif isinstance(function, MethodType):
        yield function.__func__
        yield from _attributes(function.__self__)
    elif isinstance(function, FunctionType):
        named = getclosurevars(function)
        modules = [value for value in named.globals.values() if isinstance(value, ModuleType)]
        within = [getattr(module, name, None) for module in modules for name in named.unbound]
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for value in (*named.nonlocals.values(), *named.globals.values(), *within, *defaults):
            yield value
            yield from _items(value)
    else:
        yield from _attributes(function)


def _attributes(held: Any) -> Iterator[Any]:
    for value in list(vars(held).values()) if hasattr(held, "__dict__") else ():
        yield value
        yield from _items(value)


def _items(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()


def _own(function: Any) -> bool:
    """Whether a function is the candidate's own, and not a package's."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or "site-packages" not in code.co_filename


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
