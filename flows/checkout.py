"""What a flow works with, made once at its start: settings, stores, keys and rules. Nothing below a flow reads the environment."""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from tasks import workflows
from tasks.sign import ledger, overrides
from tasks.sign.ledger import Ledger
from tasks.sign.overrides import Overrides
from tasks.store import Corpus, Limits, Published, Shelf, Snapshot
from tasks.workflows import Workflow
from twiceshy import champion, configuration, judging, redaction
from twiceshy.casefile import LoadedCase
from twiceshy.champion import Champion
from twiceshy.configuration import Configuration
from twiceshy.errors import InputError, nearest
from twiceshy.invariants import Invariants
from twiceshy.policy import ToolsPolicy
from twiceshy.redaction import Keyring
from twiceshy.redaction import Policy as RedactionPolicy
from twiceshy.verdict import Policy


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """The folder that a flow works in, opened."""

    config: Configuration
    keyring: Keyring

    @classmethod
    def at(cls, root: str | Path, environment: Mapping[str, str] | None = None) -> Self:
        """The checkout at or above a folder. Raises ConfigurationError."""
        env = os.environ if environment is None else environment
        return cls(config=configuration.load(Path(root), env), keyring=Keyring.of(env))

    @property
    def policy(self) -> Policy:
        """What a gate or a nightly lets through."""
        settings = self.config.settings.gate
        return Policy(max_diverged=settings.max_diverged, min_cases=settings.min_cases)

    @cached_property
    def corpus(self) -> Corpus:
        """Generations of the corpus."""
        return Corpus(self.config.path("corpus"))

    @cached_property
    def published(self) -> Published:
        """Published runs."""
        return Published(self.config.path("published"))

    @cached_property
    def raw(self) -> Shelf:
        """Raw copies."""
        return Shelf(self.config.path("raw"))

    @cached_property
    def quarantine(self) -> Shelf:
        """Rows set aside."""
        return Shelf(self.config.path("quarantine"))

    @property
    def proposed(self) -> Path:
        """Cases that wait for a person."""
        return self.config.path("corpus") / "proposed"

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder beside the corpus, gone after the block: what is tried out there may hold what nobody has approved."""
        self.corpus.root.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".scratch-", dir=self.corpus.root) as made:
            yield Path(made)

    @property
    def limits(self) -> Limits:
        """What one query may take."""
        return Limits(spill=self.config.path("corpus") / "spill")

    @cached_property
    def workflows(self) -> dict[str, Workflow]:
        """What each workflow is judged by. Raises PolicyError or InvariantError with file and line."""
        return workflows.load(self.config.path("policies"))

    @property
    def tools(self) -> dict[str, ToolsPolicy]:
        """Workflow -> what its tools do."""
        return {name: held.policy for name, held in self.workflows.items()}

    @property
    def tool_names(self) -> dict[str, list[str]]:
        """Workflow -> the tools that it names."""
        return {name: list(tools.tools) for name, tools in self.tools.items()}

    @property
    def invariants(self) -> dict[str, Invariants]:
        """Workflow -> what must hold in it, where anything must."""
        return {name: held.invariants for name, held in self.workflows.items() if held.invariants}

    @cached_property
    def harness_state(self) -> str:
        """The digest of the rules that rows are made under."""
        return workflows.state_of(self.workflows)

    @cached_property
    def redaction(self) -> dict[str, redaction.Policy]:
        """Workflow -> what becomes of every field. Raises PolicyError with file and line."""
        found = sorted(self.config.path("policies").glob("*/redaction.yaml"))
        return {file.parent.name: redaction.load(file) for file in found}

    @property
    def redactable(self) -> dict[str, RedactionPolicy]:
        """Those of them whose tools are known too: what is a read, and what a call means, decides how its values may change."""
        return {name: policy for name, policy in self.redaction.items() if name in self.workflows}

    def lacking(self, workflow: str | None) -> list[Path]:
        """The files of a workflow that somebody has yet to write; of traces that no workflow claims, the one by which one would."""
        if workflow is None:
            return [self.config.path("policies") / "WORKFLOW" / "tools.yaml"]
        held, folder = self.workflows.get(workflow), self.config.path("policies") / workflow
        judged = held.invariants is not None if held else (folder / "invariants.yaml").exists()
        there = {
            "tools.yaml": held is not None,
            "redaction.yaml": workflow in self.redaction,
            "invariants.yaml": judged,
        }
        return [folder / name for name, found in there.items() if not found]

    @property
    def ledger_file(self) -> Path:
        """Where keys get their signatures for ever."""
        return self.config.path("signatures") / "ledger.jsonl"

    @cached_property
    def ledger(self) -> Ledger:
        """The lines so far. Raises FormatError with the line."""
        return ledger.read(self.ledger_file)

    @cached_property
    def overrides(self) -> Overrides:
        """What people decided about signatures."""
        file = self.config.path("signatures") / "overrides.yaml"
        return overrides.load(file) if file.exists() else Overrides()

    @cached_property
    def cases(self) -> dict[str, list[LoadedCase]]:
        """Workflow -> its cases in the catalog, by id. Raises InputError for one that cannot be used."""
        root = self.config.path("cases")
        found: dict[str, list[LoadedCase]] = defaultdict(list)
        for loaded in sorted(judging.load_cases(root) if root.is_dir() else [], key=lambda case: case.case.id):
            found[loaded.case.workflow].append(loaded)
        return dict(found)

    @property
    def unprotected(self) -> list[str]:
        """The workflows without a single case: nothing judges their candidates."""
        return sorted(self.workflows.keys() - self.cases.keys())

    def champions(self) -> dict[str, Champion]:
        """Workflow -> its pinned results, where somebody has pinned any."""
        found = [champion.load(file) for file in sorted(self.config.path("champion").glob("*.json"))]
        return {held.workflow: held for held in found}

    def generation(self) -> Snapshot:
        """The newest generation. Raises InputError where there is none yet."""
        head = self.corpus.head()
        if head is None:
            raise InputError(
                f"{self.corpus.root}: no generation of a corpus is here yet. Run `twiceshy refresh` first."
            )
        return head

    def is_sample(self, path: Path) -> bool:
        """Whether a file or folder is one of the committed samples."""
        return path.resolve().is_relative_to(self.config.path("samples").resolve())

    def known(self, workflow: str) -> str:
        """The workflow, if it has policies here. Raises InputError with the nearest one."""
        if workflow not in self.workflows:
            where = self.config.path("policies")
            raise InputError(
                f"workflow {workflow!r} has no tools.yaml under {where}. {nearest(workflow, self.workflows)}"
            )
        return workflow
