"""YAML files that people review, read into closed shapes: unknown keys refused with a did-you-mean, every error with file and line."""

from __future__ import annotations

import re
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from twiceshy.errors import FormatError, InputError, nearest

if TYPE_CHECKING:
    from pathlib import Path

    import yaml

T = TypeVar("T")

_QUOTE = "Quote a text that holds ': ', as conditions with a selector do."
_UNENDED = "\\ No newline at end of file"
_AT = re.compile(r" - at `(?:key in )?(?P<path>\$[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`")


class Document:
    """A parsed YAML file: its value, and the line on which each part of it begins (`$.tools.get_order.effect`).

    text: what it would hold, in place of what it holds.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.lines: dict[str, int] = {}
        self.value = self._parsed(text)

    def line(self, path: str) -> int | None:
        """The line where a part begins; `[...]` in a path stands for any key; None where that fits several places."""
        if path in self.lines:
            return self.lines[path]
        pattern = re.compile(re.escape(path).replace(re.escape("[...]"), r"(?:\.[^.\[]+|\[\d+\])") + "$")
        hits = [line for known, line in self.lines.items() if pattern.match(known)]
        return hits[0] if len(hits) == 1 else None

    def into(self, shape: type[T], *, error: type[InputError] = FormatError) -> T:
        """The value as `shape`. Raises `error` with file, line and what to write instead."""
        try:
            return msgspec.convert(self.value, shape, strict=True)
        except msgspec.ValidationError as broken:
            raise self._explained(str(broken), shape, error) from None

    def _explained(self, message: str, shape: type, error: type[InputError]) -> InputError:
        place = _AT.search(message)
        path = place["path"] if place else "$"
        text = _AT.sub("", message)
        unknown = _UNKNOWN.search(text)
        if unknown is None:
            return error.at(self.path, f"{text} at {path}", line=self.line(path))
        name = unknown["name"]
        known = sorted(_field_names(shape))
        return error.at(
            self.path, f"unknown key {name!r} at {path}.", line=self.line(f"{path}.{name}"), hint=nearest(name, known)
        )

    def _parsed(self, text: str | None) -> Any:
        import yaml

        try:
            text = self.path.read_text(encoding="utf-8") if text is None else text
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except FileNotFoundError:
            raise InputError.missing(self.path) from None
        except UnicodeDecodeError as broken:
            raise FormatError.at(self.path, f"not UTF-8 at byte {broken.start}.") from None
        except yaml.MarkedYAMLError as broken:
            line = broken.problem_mark.line + 1 if broken.problem_mark else None
            hint = _QUOTE if broken.problem == "mapping values are not allowed here" else ""
            raise FormatError.at(self.path, f"not YAML: {broken.problem}.", line=line, hint=hint) from None
        if node is None:
            raise FormatError.at(self.path, "the file is empty.")
        return self._built(node, "$")

    def _built(self, node: yaml.Node, path: str) -> Any:
        import yaml

        self.lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return self._built_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._built(item, f"{path}[{at}]") for at, item in enumerate(node.value)]
        return _scalar(node)

    def _built_mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = str(key_node.value)
            line = key_node.start_mark.line + 1
            if name in built:
                raise FormatError.at(self.path, f"the key {name!r} stands twice.", line=line)
            built[name] = self._built(value_node, f"{path}.{name}")
            self.lines[f"{path}.{name}"] = line
        return built


def read(path: Path, shape: type[T], *, error: type[InputError] = FormatError) -> T:
    """The YAML file at `path` as `shape`. Raises `error` (or FormatError, InputError) with file and line."""
    return Document(path).into(shape, error=error)


def patch(path: str, before: str | None, after: str) -> str:
    """What `git apply` makes `after` of the file at `path` with; `before` is None where there is none yet."""
    head = f"diff --git a/{path} b/{path}\n" + ("new file mode 100644\n" if before is None else "")
    named = "/dev/null" if before is None else f"a/{path}"
    lines = unified_diff((before or "").splitlines(keepends=True), after.splitlines(keepends=True), named, f"b/{path}")
    return head + "".join(line if line.endswith("\n") else f"{line}\n{_UNENDED}\n" for line in lines)


def _scalar(node: yaml.Node) -> Any:
    """YAML 1.2 in spirit: only true and false are booleans, and a date stays the text that was written."""
    import yaml

    if node.tag == "tag:yaml.org,2002:timestamp":
        return node.value
    if node.tag == "tag:yaml.org,2002:bool" and node.value.lower() not in ("true", "false"):
        return node.value
    return yaml.SafeLoader("").construct_object(node)


def _field_names(shape: type) -> set[str]:
    """The names of all fields of a shape and of the shapes inside it: the pool a did-you-mean draws from."""
    names: set[str] = set()
    pending: list[Any] = [msgspec.inspect.type_info(shape)]
    seen: set[int] = set()
    while pending:
        info = pending.pop()
        cls = getattr(info, "cls", None)
        if id(cls) in seen and cls is not None:
            continue
        seen.add(id(cls))
        fields = getattr(info, "fields", ())
        names |= {field.encode_name for field in fields}
        pending += [field.type for field in fields]
        pending += [
            inner for inner in (getattr(info, name, None) for name in ("item_type", "value_type")) if inner is not None
        ]
        pending += getattr(info, "types", ())
    return names
