"""The arguments of a tool by their names: what a boundary knows of a call, however it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twiceshy.errors import Unrecordable
from twiceshy.identity import canonical

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Iterator


def bound(fn: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, as they were given: no defaults yet. Raises TypeError like the function itself would, and for one that has no name."""
    if not args:
        return kwargs
    if fn is None:
        raise TypeError("a tool without a function takes keyword arguments only")
    import inspect

    signature = inspect.signature(fn)
    named = dict(signature.bind_partial(*args, **kwargs).arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            named |= named.pop(name, {})
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY) and name in named:
            raise TypeError(
                f"argument {name!r} of a tool is given by position only; a boundary knows arguments by name"
            )
    return named


def defaults(fn: Callable[..., Any] | None) -> dict[str, Any]:
    """The function's own defaults by parameter name: they are part of what the boundary gets."""
    if fn is None:
        return {}
    import inspect

    parameters = inspect.signature(fn).parameters.items()
    return {name: parameter.default for name, parameter in parameters if parameter.default is not parameter.empty}


def signature(fn: Callable[..., Any] | None) -> list[list[str | None]] | None:
    """What a function takes: of each parameter, and of the result, its name, kind, annotation, default, and the source of the classes that annotate it.

    It stands for the schema of a tool that has none. None where there is nothing to read, or a default that has no value to compare.
    """
    if fn is None:
        return None
    import inspect

    try:
        read = inspect.signature(fn)
        classes = _annotating(fn)
        rows: list[list[str | None]] = [_parameter(one, classes.get(one.name)) for one in read.parameters.values()]
    except (TypeError, ValueError, Unrecordable):
        return None
    return [*rows, ["return", None, _said(read.return_annotation), None, classes.get("return")]]


def _parameter(one: inspect.Parameter, classes: str | None) -> list[str | None]:
    default = None if one.default is one.empty else _value(one.default)
    return [one.name, one.kind.name, _said(one.annotation), default, classes]


def _said(annotation: Any) -> str | None:
    """An annotation as it is written; None where there is none."""
    import inspect

    if annotation is inspect.Parameter.empty:
        return None
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _value(default: Any) -> str:
    """A default by its value, code by its name. Raises Unrecordable for another object: its text may be the same for two that differ."""
    named = callable(default) and hasattr(default, "__qualname__")
    return f"{default.__module__}.{default.__qualname__}" if named else canonical(default).hex()


def _annotating(fn: Callable[..., Any]) -> dict[str, str]:
    """The source of the classes that annotate each parameter, as far as it can be read: a field added to one of them changes what the tool takes."""
    import inspect
    import typing

    try:
        hints = typing.get_type_hints(inspect.unwrap(fn), include_extras=True)
    except Exception:  # noqa: BLE001 - a name that only the type checker sees, or whatever evaluating it raises
        return {}
    found: dict[str, str] = {}
    for name, hint in hints.items():
        sources = []
        for held in _classes(hint):
            try:
                sources.append(inspect.getsource(held))
            except (OSError, TypeError):
                continue  # built in, or made at run time
        if sources:
            found[name] = "\n".join(sources)
    return found


def _classes(hint: Any) -> Iterator[type]:
    import typing

    if isinstance(hint, type):
        yield hint
    for part in typing.get_args(hint):
        yield from _classes(part)
