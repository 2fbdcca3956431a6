"""First-order mutants of a function: one small change of its source each, the standard operators of mutation testing. Standard library only.

relational: another comparison. logical: `and` for `or`. dropped: an operand of them left out. negated: an `if` turned round. constant: another value.
Text inside f-strings only words messages, and is left alone.
"""

from __future__ import annotations
import __future__

import ast
import copy
import inspect
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Path = tuple[tuple[str, int | None], ...]

_ORDERED: tuple[type[ast.cmpop], ...] = (ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.Eq, ast.NotEq)
_OTHERS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    **{
        operator: tuple(other for other in _ORDERED if other is not operator)
        for operator in (ast.Gt, ast.GtE, ast.Lt, ast.LtE)
    },
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed function, what was changed, and the part of the source it stands in: `guard`, `benign test`, `benign`, or `body`."""

    function: Callable[..., Any]
    operator: str
    change: str
    region: str


def mutants(function: Callable[..., Any]) -> list[Mutant]:
    """Every first-order mutant of a plain function, in the order of its source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return [
        _mutant(function, tree, path, operator, made)
        for path, node in _sites(tree)
        for operator, made in _alternatives(node)
    ]


def _mutant(function: Callable[..., Any], tree: ast.Module, path: Path, operator: str, made: ast.AST) -> Mutant:
    changed = copy.deepcopy(tree)
    parent: Any = changed
    for field, at in path[:-1]:
        parent = getattr(parent, field) if at is None else getattr(parent, field)[at]
    field, at = path[-1]
    old = getattr(parent, field) if at is None else getattr(parent, field)[at]
    ast.copy_location(made, old)
    if at is None:
        setattr(parent, field, made)
    else:
        getattr(parent, field)[at] = made
    names = dict(function.__globals__)
    code = compile(ast.fix_missing_locations(changed), "<mutant>", "exec", flags=__future__.annotations.compiler_flag)
    exec(code, names)  # noqa: S102 - our own source, one operator changed
    shown = f"{ast.unparse(_head(old))} -> {ast.unparse(_head(made))}"
    inside = (*path, ("test", None)) if isinstance(old, ast.If) else path
    return Mutant(names[function.__name__], operator, shown, _region(inside))


def _head(node: ast.AST) -> ast.AST:
    return node.test if isinstance(node, ast.If) else node


def _sites(tree: ast.Module) -> Iterator[tuple[Path, ast.AST]]:
    """Every node of the body, parents first, with the way to it from the module; not the signature, the docstring, or the inside of an f-string."""
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        raise TypeError("only a plain function can be mutated")
    documented = ast.get_docstring(function) is not None
    for at, statement in enumerate(function.body):
        if not (documented and at == 0):
            yield from _below(statement, (("body", 0), ("body", at)))


def _below(node: ast.AST, path: Path) -> Iterator[tuple[Path, ast.AST]]:
    yield path, node
    if isinstance(node, ast.JoinedStr):
        return
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield from _below(value, (*path, (field, None)))
        elif isinstance(value, list):
            for at, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _below(item, (*path, (field, at)))


def _alternatives(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare():
            yield from (("relational", made) for made in _compared(node))
        case ast.BoolOp():
            yield "logical", ast.BoolOp(op=ast.Or() if isinstance(node.op, ast.And) else ast.And(), values=node.values)
            yield from (("dropped", _without(node, at)) for at in range(len(node.values)))
        case ast.If():
            yield (
                "negated",
                ast.If(test=ast.UnaryOp(op=ast.Not(), operand=node.test), body=node.body, orelse=node.orelse),
            )
        case ast.Constant():
            yield from (("constant", ast.Constant(value=value)) for value in _values(node.value))
        case _:
            return


def _compared(node: ast.Compare) -> Iterator[ast.Compare]:
    for at, operator in enumerate(node.ops):
        for other in _OTHERS.get(type(operator), ()):
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield ast.Compare(left=node.left, ops=ops, comparators=node.comparators)


def _without(node: ast.BoolOp, at: int) -> ast.expr:
    rest = [*node.values[:at], *node.values[at + 1 :]]
    return rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest)


def _values(value: object) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    return [f"XX{value}XX"] if isinstance(value, str) else []


def _region(path: Path) -> str:
    """Where it stands in a guarded tool: `if <guard>: refused = ...; if <benign test>: <benign>; return refused`, then what is done."""
    fields = [field for field, _ in path]
    if len(path) > 2 and fields[2] == "test":  # noqa: PLR2004 - the module, the function, and the guard's own test
        return "guard"
    if "test" in fields[3:]:
        return "benign test"
    nested = sum(field == "body" for field in fields)
    return "benign" if nested > 3 else "body"  # noqa: PLR2004 - the module, the function, the guard's body, the benign body
