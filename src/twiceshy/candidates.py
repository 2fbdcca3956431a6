"""Candidates: agent versions under test, found by `package.module:factory`, described by the digests of their layers."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from twiceshy import arguments
from twiceshy.boundary import Answer, Boundary, Call
from twiceshy.envelope import Kind, LayerVersion, Versions
from twiceshy.errors import CandidateError, TwiceshyError, nearest
from twiceshy.identity import digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Agent = Callable[[Any], Any]
    Factory = Callable[[Boundary], Agent]

_MARK = "__twiceshy_candidate__"


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What a factory says about itself: its workflow, versions of layers by name, and whether one warmed process may serve many trials."""

    workflow: str
    versions: Mapping[str, str] = {}
    warm: bool = True


def candidate(
    *, workflow: str, versions: Mapping[str, str] | None = None, warm: bool = True
) -> Callable[[Factory], Factory]:
    """Mark a factory `build(boundary) -> agent` as a candidate of a workflow.

    versions: layer name (model, prompt, harness, tool:NAME, ...) -> version. `warm=False` asks for a fresh process a trial: for code that reads clock or chance at import.
    """

    def mark(factory: Factory) -> Factory:
        setattr(factory, _MARK, Candidate(workflow=workflow, versions=dict(versions or {}), warm=warm))
        return factory

    return mark


def load(spec: str) -> tuple[Factory, Candidate]:
    """The factory named by `package.module:attribute`, with what it says about itself. Raises CandidateError."""
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise CandidateError.not_importable(spec, "a candidate is written package.module:factory")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as broken:  # whatever the candidate's own import raises
        raise CandidateError.not_importable(spec, f"{type(broken).__name__}: {_first_line(broken)}") from broken
    factory = getattr(module, attribute, None)
    known = [name for name, value in vars(module).items() if hasattr(value, _MARK)]
    if not callable(factory):
        raise CandidateError.not_importable(
            spec, f"module {module_name!r} has no {attribute!r}. {nearest(attribute, known)}"
        )
    said = getattr(factory, _MARK, None)
    if not isinstance(said, Candidate):
        raise CandidateError.not_importable(spec, "the factory is not marked with @twiceshy.candidate(workflow=...)")
    return factory, said


class _Refusing:
    """A backend for building an agent only to look at it: building must cross no boundary."""

    def cross(self, call: Call) -> Answer:
        raise CandidateError(f"the factory crosses {call.kind} {call.name!r} while it builds; it may only declare.")


class Description(NamedTuple):
    """What a candidate is made of: the version of each layer, and what its factory declares, as `kind:name`."""

    versions: Versions
    boundaries: frozenset[str]


def described(factory: Factory, said: Candidate) -> Description:
    """The description of a candidate, by building it once. Raises CandidateError where it cannot be built."""
    boundary = Boundary(_Refusing())
    try:
        agent = factory(boundary)
    except TwiceshyError:
        raise
    except (Exception, SystemExit) as broken:  # whatever the candidate's own code raises
        raise CandidateError(
            f"the candidate's factory raised {type(broken).__name__} while it was built: {_first_line(broken)}"
        ) from broken
    if not callable(agent):
        raise CandidateError(
            f"the candidate's factory returned {type(agent).__name__} and no agent, which is a callable of the run's input."
        )
    return Description(_versions(boundary, agent, said), _declared(boundary))


def layers(factory: Factory, said: Candidate) -> Versions:
    """The version and digest of each layer of a candidate: from `versions`, else from prompts, the source text of hooks, guards and routers, and tools' schemas.

    A tool without a schema is known by what its function takes. A layer about which nothing is known has no name, version or digest, which compares as changed.
    """
    return described(factory, said).versions


def same(boundaries: frozenset[str], built: Boundary) -> None:
    """Raise CandidateError where a factory declared less this time: what it kept from an earlier build leads past the boundary of this run."""
    missing = sorted(boundaries - _declared(built))
    if missing:
        raise CandidateError(
            f"the factory declared {', '.join(missing)} when it was loaded and not for this run. It must declare everything each time it is called."
        )


def _declared(boundary: Boundary) -> frozenset[str]:
    called = (boundary.tools, boundary.models, boundary.people)
    own = {f"{declared.kind}:{declared.name}" for held in called for declared in held.values()}
    code = {f"{code.kind}:{code.name}" for code in boundary.code}
    return frozenset(own | code).union(*(_declared(inner) for inner in boundary.inner.values()))


def _versions(boundary: Boundary, agent: Agent, said: Candidate) -> Versions:
    named = {
        name: LayerVersion(name=name, version=version, digest=digest(version))
        for name, version in said.versions.items()
    }
    agents = list(_agents(boundary))
    asked = {f"{path}{model.name}": model for path, one in agents for model in one.models.values()}
    models = {name: model.version or _source(model.fn) for name, model in asked.items()}
    prompts = {name: model.prompt for name, model in asked.items() if model.prompt is not None}
    held = {f"{path}{code.kind}:{code.name}@{code.at}": code for path, one in agents for code in one.code}
    code = {name: _source(one.fn) for name, one in held.items()}
    routing = {name: code[name] for name, one in held.items() if one.kind is Kind.ROUTER}
    schemas: dict[str, dict[str, object]] = {}
    for path, one in agents:
        for tool in one.tools.values():
            schemas.setdefault(tool.name, {}).update({f"{path}schema": tool.schema or arguments.signature(tool.fn)})
    return Versions(
        model=named.get("model") or _layer("model", models),
        prompt=named.get("prompt") or _layer("prompt", prompts),
        tools={name: named.get(f"tool:{name}") or _schemas(name, content) for name, content in schemas.items()},
        routing=named.get("routing") or _layer("routing", routing),
        memory=named.get("memory", LayerVersion()),
        skills=named.get("skills", LayerVersion()),
        harness=named.get("harness") or _layer("harness", {**code, "agent": _source(agent)}),
    )


def _agents(boundary: Boundary, path: str = "") -> Iterator[tuple[str, Boundary]]:
    """What every agent declares, with its path below the first: `helper/`."""
    yield path, boundary
    for name, inner in boundary.inner.items():
        yield from _agents(inner, f"{path}{name}/")


def _layer(name: str, content: Mapping[str, object]) -> LayerVersion:
    return LayerVersion(name=name, digest=digest(content)) if content else LayerVersion()


def _schemas(name: str, content: Mapping[str, object]) -> LayerVersion:
    """A tool by the schemas that its agents declare it with; unknown where one of them has neither a schema nor a function that says what it takes."""
    return LayerVersion() if None in content.values() else _layer(name, content)


def _source(fn: Callable[..., Any] | None) -> str:
    """The source text of a function; of what cannot be read, a digest that never equals another."""
    import inspect

    try:
        return inspect.getsource(inspect.unwrap(fn)) if fn is not None else ""
    except (OSError, TypeError):
        return f"unreadable {hashlib.sha256(repr(fn).encode()).hexdigest()}"


def _first_line(broken: BaseException) -> str:
    return (str(broken).splitlines() or [""])[0]
