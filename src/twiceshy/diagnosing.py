"""What stands between a project and a gate that can be believed: isolation, clock, policies, cases, champions, candidates. Nothing of the project is changed.

Each check says ok, warning (it runs, and something of it is not what it could be) or problem (a gate would refuse it, or could not be believed), with what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from twiceshy import champion, documents, judging
from twiceshy.envelope import Kind, Record
from twiceshy.errors import InputError, IsolationNotHeld, TwiceshyError
from twiceshy.narrowing import refutations
from twiceshy.redaction import Keyring
from twiceshy.sealing import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from twiceshy.casefile import LoadedCase
    from twiceshy.configuration import Configuration
    from twiceshy.judging import Rules
    from twiceshy.sealing import Probe

State = Literal["ok", "warning", "problem"]


class Check(Record, frozen=True, kw_only=True):
    """One line of a diagnosis: what was looked at, how it stands, what was found, what to do."""

    name: str
    state: State = "ok"
    found: str
    todo: str = ""


class Catalog(NamedTuple):
    """What of the catalog can be used: every case that loads, and by workflow the rules that do."""

    cases: Sequence[LoadedCase]
    rules: Mapping[str, Rules]


def isolation(had: Probe) -> Check:
    """The level of isolation to be had here."""
    if had.isolation is Isolation.HERMETIC:
        return Check(name="isolation", found=f"{had.isolation}: {had.isolation.meaning}")
    todo = "allow user namespaces without root (kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), or run in a container that does"
    return Check(name="isolation", state="problem", found=f"{had.isolation} only: {had.reason}", todo=todo)


def clock(library: Path | None, *, needed: bool) -> Check:
    """Whether the clock of commands can be sealed. library: libfaketime, where it is installed; needed: a candidate is a command."""
    if library is not None:
        return Check(name="clock", found=f"libfaketime is {library}")
    found = "libfaketime is not installed, so no command has a sealed clock"
    return Check(name="clock", state="problem" if needed else "warning", found=found, todo="apt-get install faketime")


def settings(config: Configuration) -> Iterator[Check]:
    """The file of settings, and the folders that it names."""
    where = sorted(set(config.sources.values()))
    if where:
        yield Check(name="configuration", found=", ".join(where))
    else:
        found = "no twiceshy.toml and no [tool.twiceshy] here or above; every setting is the default"
        yield Check(
            name="configuration", state="warning", found=found, todo="write a twiceshy.toml with the candidates"
        )
    for name in ("policies", "cases"):
        if not config.path(name).is_dir():
            todo = f"make it, or name it: paths.{name} in twiceshy.toml"
            yield Check(name=name, state="problem", found=f"{config.path(name)}: no such folder", todo=todo)


def catalog(config: Configuration, env: Mapping[str, str]) -> tuple[Catalog, list[Check]]:
    """The catalog, and how its cases and the rules of each workflow stand: policies, redaction keys, narrowings, champions."""
    checks: list[Check] = []
    try:
        keyring = Keyring.of(env)
    except InputError as broken:
        keyring = Keyring()
        checks.append(Check(name="keys", state="problem", found=str(broken)))
    cases = list(_cases(config, keyring, checks))
    rules: dict[str, Rules] = {}
    for folder in sorted(path.parent for path in config.path("policies").glob("*/tools.yaml")):
        of_workflow = [loaded for loaded in cases if loaded.case.workflow == folder.name]
        if not of_workflow and not (folder / "invariants.yaml").exists():
            found = "no invariants.yaml and no case yet: nothing of it is judged"
            checks.append(Check(name=f"policies {folder.name}", state="warning", found=found))
            continue
        try:
            rules[folder.name] = judging.rules_of(config.path("policies"), folder.name, keyring)
        except InputError as broken:
            checks.append(Check(name=f"policies {folder.name}", state="problem", found=str(broken)))
            continue
        checks += _rules(folder, rules[folder.name], of_workflow)
        checks.append(_champion(config, folder.name, rules[folder.name], of_workflow))
    return Catalog(cases, rules), checks


def _cases(config: Configuration, keyring: Keyring, checks: list[Check]) -> Iterator[LoadedCase]:
    """The cases that load. A line for those that a gate would take, and one for each that it would not."""
    from twiceshy import casefile

    root = config.path("cases")
    found = list(casefile.find(root)) if root.is_dir() else []
    faults = [fault for path in found if (fault := judging.fault(path, config.path("policies"), keyring)) is not None]
    checks += [Check(name="cases", state="problem", found=fault) for fault in dict.fromkeys(faults)]
    good = len(found) - len(faults)
    if good:
        checks.append(Check(name="cases", found=f"{good} of {len(found)} are valid"))
    elif root.is_dir():
        todo = "take some over from a refresh, or draft one: twiceshy case from-run"
        checks.append(
            Check(name="cases", state="warning", found=f"no valid case in {root}: a gate judges nothing", todo=todo)
        )
    for path in found:
        try:
            yield casefile.load(path)
        except InputError:
            continue  # it has its line


def _rules(folder: Path, rules: Rules, cases: Sequence[LoadedCase]) -> Iterator[Check]:
    """tools.yaml held against the recorded runs, and the redaction key of a workflow."""
    document = documents.Document(folder / "tools.yaml")
    refuted = [found for loaded in cases for found in refutations(loaded.envelope, rules.policy)]
    for found in refuted:
        line = document.line(f"$.tools.{found.tool}") or 1
        told = f"{document.path}:{line}: what {found.tool} reads is too narrow for trace {found.trace_id} ({found.before}, {found.after})"
        yield Check(
            name=f"policies {folder.name}", state="problem", found=told, todo=f"twiceshy tools lint {folder.name}"
        )
    unlisted = sorted(judging.tools_of(cases) - rules.policy.tools.keys())
    if unlisted:
        told = f"not in tools.yaml, and so a write that touches everything: {', '.join(unlisted)}"
        yield Check(
            name=f"policies {folder.name}", state="warning", found=told, todo=f"twiceshy tools suggest {folder.name}"
        )
    if not refuted and not unlisted:
        told = f"{len(rules.policy.tools)} tools, {len(rules.invariants.invariants)} invariants, held against {len(cases)} recorded runs"
        yield Check(name=f"policies {folder.name}", found=told)
    if rules.redaction is not None and rules.key is None and any(loaded.envelope.redaction for loaded in cases):
        told = f"redaction key {rules.redaction.key_id!r} is not here, so a raw argument that a rule would redact ends a replay in ERROR"
        yield Check(
            name=f"key {folder.name}", state="warning", found=told, todo="export it: see `twiceshy keys new --help`"
        )


def _champion(config: Configuration, workflow: str, rules: Rules, cases: Sequence[LoadedCase]) -> Check:
    """Whether a result can be compared with that of the version in production."""
    name, path = f"champion {workflow}", config.path("champion") / f"{workflow}.json"
    todo = f"twiceshy champion pin -c NAME, with the version of {workflow} that is in production"
    if not path.exists():
        told = "none is pinned: no result is a regression, and no changed layer is missed"
        return Check(name=name, state="warning", found=told, todo=todo)
    try:
        pinned = champion.load(path)
    except InputError as broken:
        return Check(name=name, state="problem", found=str(broken))
    held = {(pin.case_digest, pin.harness) for pin in pinned.pins}
    lacking = [loaded.case.id for loaded in cases if (loaded.digest, rules.harness) not in held]
    if lacking:
        told = f"{pinned.ref}, without {len(lacking)} of {len(cases)} cases as they and their rules are now: {', '.join(lacking)}"
        return Check(name=name, state="warning", found=told, todo=todo)
    return Check(name=name, found=f"{pinned.ref}, {len(pinned.pins)} results")


def refused(name: str, why: TwiceshyError) -> Check:
    """A candidate that does not start: its own fault, a tool of it that is out of reach, or isolation that cannot be had."""
    todo = "see the check of isolation" if isinstance(why, IsolationNotHeld) and "canary" in str(why) else ""
    return Check(name=name, state="problem", found=" ".join(str(why).split()), todo=todo)


def tool_calls(loaded: LoadedCase) -> int:
    """How many tool calls its record holds."""
    return sum(crossing.kind is Kind.TOOL for crossing in loaded.envelope.crossings)
