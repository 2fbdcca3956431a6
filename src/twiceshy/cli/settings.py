"""`twiceshy keys`, `config` and `schema`: keys, the settings in force, and the shapes of what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from twiceshy.cli.options import configured
from twiceshy.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

keys_app = typer.Typer(help="Redaction keys.", no_args_is_help=True, rich_markup_mode=None)
config_app = typer.Typer(help="The settings in force.", no_args_is_help=True, rich_markup_mode=None)


@keys_app.command("new")
def new(
    key_id: Annotated[
        str | None, typer.Option("--id", help="Its id, where a redaction.yaml names one.", show_default="a fresh one")
    ] = None,
) -> None:
    """Make a redaction key. It is printed once and written nowhere: keep it as a secret, and name its id as `key_id` in redaction.yaml.

    For example:

      export "$(twiceshy keys new)"

      export "$(twiceshy keys new --id airline)"
    """
    from twiceshy.redaction import new_key

    made = new_key(key_id)
    typer.echo(f"{made.variable}={made.hex}")
    typer.echo(f"key_id: {made.key_id}    # in data/policies/<workflow>/redaction.yaml", err=True)


@config_app.command("show")
def show() -> None:
    """Every setting that is in force, with where it came from.

    For example:

      twiceshy config show
    """
    import msgspec

    config = configured()
    for path, value in _flat(msgspec.to_builtins(config.settings)):
        typer.echo(f"{path} = {value!r}    # {config.sources.get(path, 'default')}")


def schema(name: Annotated[str, typer.Argument(help="gate-result, case or envelope.", show_default=False)]) -> None:
    """Print the JSON Schema of a file that twiceshy writes.

    For example:

      twiceshy schema gate-result > gate-result.schema.json
    """
    import msgspec

    from twiceshy import verdict
    from twiceshy.casefile import Case
    from twiceshy.envelope import Envelope

    shapes: dict[str, Callable[[], dict[str, Any]]] = {
        "gate-result": verdict.schema,
        "case": lambda: msgspec.json.schema(Case),
        "envelope": lambda: msgspec.json.schema(Envelope),
    }
    if name not in shapes:
        raise InputError(f"there is no schema {name!r}. {nearest(name, shapes)}")
    typer.echo(msgspec.json.format(msgspec.json.encode(shapes[name]()), indent=2).decode())


def _flat(table: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in table.items():
        found += _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return found
