"""The case's tools as an MCP server on standard input and output: `python -m twiceshy.gateway.mcp_stdio`, started by the agent in place of its own server.

Each line goes to TWICESHY_MCP_URL, as the run's environment names it, and its answer comes back. Where the run has ended so does this server.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import BinaryIO

_OK, _ACCEPTED = 200, 202


def serve(lines: Iterable[bytes], out: BinaryIO, env: Mapping[str, str]) -> int:
    """Answer every line until there is none more. 0 at its end, 1 where the run ended first, 2 without an address."""
    address = urlsplit(env.get("TWICESHY_MCP_URL", ""))
    if not address.hostname:
        sys.stderr.write(
            "mcp_stdio: TWICESHY_MCP_URL is not set; start the agent as a command candidate, or by `twiceshy record`.\n"
        )
        return 2
    connection = HTTPConnection(address.hostname, address.port)
    headers = {"Authorization": f"Bearer {env.get('TWICESHY_TOKEN', '')}", "Content-Type": "application/json"}
    for line in filter(bytes.strip, lines):
        connection.request("POST", address.path, body=line.strip(), headers=headers)
        answer = connection.getresponse()
        told = answer.read()
        if answer.status == _OK:
            out.write(told + b"\n")
            out.flush()
        elif answer.status != _ACCEPTED:
            sys.stderr.write(f"mcp_stdio: the gateway answered {answer.status}; the run has ended.\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(serve(sys.stdin.buffer, sys.stdout.buffer, os.environ))  # noqa: TID251 - an edge: it is started by the agent
