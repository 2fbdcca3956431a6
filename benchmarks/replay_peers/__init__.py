"""What peers pay for the same crossings, each in an environment of its own."""

from typing import Any

from benchmarks import environments

PEERS = {
    "chronicle-0.5.0": ("chronicle05", ("agent-chronicle==0.5.0",)),
    "chronicle-1.1.1": ("chronicle11", ("agent-chronicle==1.1.1",)),
    "vcrpy-9.4.2": ("vcr_httpx", ("vcrpy==9.4.2", "httpx")),
}
"""Name -> its script here, and the packages that it needs."""


def measured(peer: str, sizes: list[int]) -> dict[str, Any]:
    """Microseconds a crossing of one peer, by what was done and N; `installed: false` and why, where it cannot be had."""
    script, packages = PEERS[peer]
    return environments.asked(f"benchmarks.replay_peers.{script}", *map(str, sizes), packages=packages)
