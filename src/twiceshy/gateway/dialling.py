"""What a command reached for past its gateway: the seal stops it, and the kernel counts it for each network namespace.

Seen are TCP and UDP over IPv4 and IPv6: what has no route (any other machine, and so the name server), and what nobody answers on this namespace's own loopback.
Blocked but not seen are sockets of other kinds, which the system call filter refuses before they exist.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_IPV4, _IPV6 = Path("/proc/self/net/snmp"), Path("/proc/self/net/snmp6")
_NO_ROUTE = ("IpOutNoRoutes", "Ip6OutNoRoutes")
_NOBODY = ("TcpAttemptFails", "UdpNoPorts", "UdpLiteNoPorts", "Udp6NoPorts", "UdpLite6NoPorts")


class Dials(NamedTuple):
    """How many attempts failed: to reach another machine, and a port of this one where nobody listens."""

    elsewhere: int
    nobody: int

    def since(self, before: Dials) -> Dials:
        """Those that were not counted before."""
        return Dials(self.elsewhere - before.elsewhere, self.nobody - before.nobody)

    def __str__(self) -> str:
        told = [(self.elsewhere, "another machine"), (self.nobody, "a port on which nobody listens")]
        said = " and ".join(f"{many} to reach {what}" for many, what in told if many)
        return f"attempts past the gateway, {said}: the seal stopped them, and in production they may have got through"


def dials() -> Dials:
    """The attempts in this namespace so far. Raises OSError where the kernel does not count them."""
    found = _counted(_IPV4.read_text(encoding="ascii"))
    if _IPV6.exists():  # not where IPv6 is switched off, and then nothing can be sent over it
        pairs = (line.split() for line in _IPV6.read_text(encoding="ascii").splitlines())
        found |= {name: int(count) for name, count in pairs}
    return Dials(*(sum(found.get(name, 0) for name in names) for names in (_NO_ROUTE, _NOBODY)))


def _counted(text: str) -> dict[str, int]:
    """The counters of /proc/net/snmp: of each protocol a line of names, then one of numbers."""
    lines = text.splitlines()
    found: dict[str, int] = {}
    for names, numbers in zip(lines[::2], lines[1::2], strict=True):
        protocol = names.partition(":")[0]
        found |= {
            protocol + name: int(number) for name, number in zip(names.split()[1:], numbers.split()[1:], strict=True)
        }
    return found
