"""The arguments of a tool by their names: what a boundary knows of a call, however it was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


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
