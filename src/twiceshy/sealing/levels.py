"""How much isolation there is, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from twiceshy.sealing import kernel


class Isolation(StrEnum):
    """The level that held, as every manifest records it."""

    HERMETIC = "hermetic"
    CLOCK_UNSEALED = "clock-unsealed"
    WEAK = "weak"

    @property
    def meaning(self) -> str:
        """What a reader of a manifest may rely on."""
        return _MEANING[self]


_MEANING = {
    Isolation.HERMETIC: "own namespaces, nothing of the host writable or reachable, proved by the canary",
    Isolation.CLOCK_UNSEALED: "sealed like hermetic, but a command reads the machine's clock (libfaketime is not installed or does not reach it); no gate accepts this run",
    Isolation.WEAK: "asked for with --allow-weak-isolation; no gate accepts this run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Protections:
    """The parts of a seal. All of them make it hermetic; tests take one away to see the canary catch it."""

    network: bool = True
    """A network namespace of its own with nothing but loopback."""
    processes: bool = True
    """A pid namespace of its own with a fresh /proc."""
    queues: bool = True
    """An ipc namespace of its own."""
    read_only: bool = True
    """The file system read-only but for private scratch folders, and a private /dev."""
    masked_sockets: bool = True
    """/dev/null laid over every unix socket of the host."""
    powerless: bool = True
    """Every capability dropped."""
    landlock: bool = True
    """Writes outside the scratch folders refused by the Landlock module too."""
    filtered: bool = True
    """The system call filter. Without a network namespace it refuses internet sockets outright."""

    @property
    def isolation(self) -> Isolation:
        """Hermetic only when nothing is missing."""
        return Isolation.HERMETIC if all(getattr(self, f.name) for f in fields(self)) else Isolation.WEAK

    @property
    def own_mounts(self) -> bool:
        """Whether a mount namespace is needed."""
        return self.processes or self.read_only or self.masked_sockets

    @property
    def namespaces(self) -> int:
        """The CLONE_NEW* flags, less the user namespace that goes with any of them."""
        wanted = {
            kernel.CLONE_NEWNET: self.network,
            kernel.CLONE_NEWPID: self.processes,
            kernel.CLONE_NEWIPC: self.queues,
            kernel.CLONE_NEWNS: self.own_mounts,
        }
        return sum(flag for flag, needed in wanted.items() if needed)


HERMETIC = Protections()
"""Everything: the only level a gate accepts."""

WEAK = Protections(network=False, processes=False, queues=False, read_only=False, masked_sockets=False, landlock=False)
"""For a caller that was told --allow-weak-isolation, and never chosen for one. No canary holds it. What needs no namespace: no capability, no new privilege, and a filter that refuses every socket but stream pairs."""
