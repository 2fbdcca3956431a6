"""The replay requirements R1..R11 of one trace (formats.md §6): recorded, derived by a named rule, or missing. A trace is as good as its worst crossing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tasks.normalize.sides import RECORDED
from tasks.normalize.tree import holed
from tasks.sources.records import CONTRADICTED
from twiceshy.envelope import Grade, Kind
from twiceshy.matching import CALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tasks.normalize.blocks import Pinned
    from tasks.normalize.crossings import Passage
    from tasks.normalize.tree import Node, Tree
    from twiceshy.envelope import Versions
    from twiceshy.policy import ToolsPolicy

_HELD = Grade(grade="recorded")
_MISSING = Grade(grade="missing")
_RANK = {"recorded": 0, "derived": 1, "missing": 2}


class Facts(NamedTuple):
    """What the grades of one trace rest on. labelled: whether a score, status or tag says how the run went."""

    tree: Tree
    passages: Sequence[Passage]
    pinned: Pinned
    versions: Versions
    policy: ToolsPolicy
    labelled: bool


def graded(facts: Facts) -> dict[str, Grade]:
    """All eleven grades, R1 to R11."""
    return {f"R{number}": rule(facts) for number, rule in enumerate(_RULES, start=1)}


def _arguments(facts: Facts) -> Grade:
    return _worst(_argument(passage) for passage in _calls(facts))


def _argument(passage: Passage) -> Grade:
    origin = passage.origin
    if "seen" in origin:
        if passage.node.row["seen_encoding"] == "pyrepr":
            return _derived("Python repr, read as a literal")
        return _by(origin["seen"])
    return _derived("the arguments as proposed") if "proposed" in origin else _MISSING


def _results(facts: Facts) -> Grade:
    if holed(facts.tree.nodes):
        return _MISSING
    return _worst(_result(passage) for passage in _calls(facts))


def _result(passage: Passage) -> Grade:
    origin = passage.origin
    for side in ("raw", "shown"):
        if side in origin:
            return _by(origin[side])
    return _HELD if passage.crossing.error is not None else _MISSING


def _outputs(facts: Facts) -> Grade:
    models = [passage for passage in facts.passages if passage.crossing.kind is Kind.MODEL]
    return (
        _worst(
            _HELD if "raw" in passage.origin or passage.crossing.error is not None else _MISSING for passage in models
        )
        if models
        else _MISSING
    )


def _clock(facts: Facts) -> Grade:
    return _MISSING if facts.pinned.origin is None else _by(facts.pinned.origin)


def _model_version(facts: Facts) -> Grade:
    models = [node for node in facts.tree.nodes if node.kind == "model"]
    if models and all(node.row["model_answered"] for node in models):
        return _HELD
    if models and all(node.row["model_answered"] or node.row["model_requested"] for node in models):
        return _derived("the requested model, or source metadata")
    return (
        _by("the recorded layer versions") if facts.versions.model.version or facts.versions.model.digest else _MISSING
    )


def _prompt_version(facts: Facts) -> Grade:
    prompt = facts.versions.prompt
    if prompt.name and prompt.version:
        return _HELD
    return _derived("the digest of the system text") if prompt.digest or _hashed(facts.tree.nodes) else _MISSING


def _tool_schemas(facts: Facts) -> Grade:
    called = {passage.crossing.name for passage in _calls(facts) if passage.crossing.kind is Kind.TOOL}
    if facts.versions.tools and called <= set(facts.versions.tools):
        return _HELD
    pinned = {name for name, tool in facts.policy.tools.items() if tool.schema is not None}
    return _derived("schemas pinned in tools.yaml") if pinned and called <= pinned else _MISSING


def _label(facts: Facts) -> Grade:
    return _HELD if facts.labelled else _MISSING


def _order(facts: Facts) -> Grade:
    if facts.tree.integrity == "unordered":
        return _MISSING
    if facts.tree.integrity == "intact":
        contradicted = any(CONTRADICTED in node.row["flags"] for node in facts.tree.nodes)
        return (
            _derived("the parents as named, which another order of the source contradicts") if contradicted else _HELD
        )
    timed = any(node.row["start_ns"] is not None for node in facts.tree.nodes)
    return _derived(
        "a synthetic root; order from parents and times" if timed else "a synthetic root; order from the message index"
    )


def _hook_split(facts: Facts) -> Grade:
    return _worst(_split(passage) for passage in _calls(facts))


def _split(passage: Passage) -> Grade:
    needed = ("proposed", "seen") if passage.crossing.error is not None else ("proposed", "seen", "raw", "shown")
    if any(side not in passage.origin for side in needed):
        return _MISSING
    return _worst(_by(passage.origin[side]) for side in needed)


def _effects(facts: Facts) -> Grade:
    called = {passage.crossing.name for passage in facts.passages if passage.crossing.kind is Kind.TOOL}
    return _derived("tools.yaml") if called <= set(facts.policy.tools) else _MISSING


_RULES: tuple[Callable[[Facts], Grade], ...] = (
    _arguments, _results, _outputs, _clock, _model_version, _prompt_version, _tool_schemas, _label, _order, _hook_split, _effects,
)  # fmt: skip


def _calls(facts: Facts) -> list[Passage]:
    return [passage for passage in facts.passages if passage.crossing.kind in CALLS]


def _hashed(nodes: Iterable[Node]) -> bool:
    return any(node.row["prompt_hash"] for node in nodes)


def _by(origin: str) -> Grade:
    return _HELD if origin == RECORDED else _derived(origin)


def _derived(how: str) -> Grade:
    return Grade(grade="derived", how=how)


def _worst(grades: Iterable[Grade]) -> Grade:
    """The worst of them; nothing to grade is nothing missing."""
    return max(grades, key=lambda grade: _RANK[grade.grade], default=_HELD)


def columns(grades: Mapping[str, Grade]) -> dict[str, str]:
    """r1..r11 as the columns of `traces` hold them."""
    return {name.lower(): grade.grade for name, grade in grades.items()}
