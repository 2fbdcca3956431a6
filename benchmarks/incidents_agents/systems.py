"""The systems behind the incident agents' tools: a server that counts who comes, and the way in. A tool that runs live reaches it before it answers.

The count is taken where the harm would be done, not from what the engine says of itself.
"""

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any

PORT = "INCIDENT_SYSTEMS_PORT"
"""The variable that names the port on which the systems listen; without it nothing is behind the tools."""


class Systems:
    """What arrived, by the name of the tool."""

    def __init__(self, listener: socket.socket) -> None:
        self.arrived: Counter[str] = Counter()
        self._listener = listener
        self._guard = Lock()  # calls of several workers may come at once

    @property
    def port(self) -> int:
        """Where they listen."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Count each caller until the listener is closed."""
        while True:
            try:
                caller, _ = self._listener.accept()
            except OSError:
                return
            with caller, caller.makefile("rb") as said:
                tool = said.readline().decode().strip()
                with self._guard:
                    self.arrived[tool] += 1
                caller.sendall(b"done\n")


@contextmanager
def systems() -> Iterator[Systems]:
    """Systems that listen on this host, named in the environment, for the `with` block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Systems(listener)
        thread = Thread(target=made.serve, daemon=True)
        thread.start()
        os.environ[PORT] = str(made.port)
        try:
            yield made
        finally:
            del os.environ[PORT]
            listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def reached(tool: str, answer: Any) -> Any:
    """The answer of a tool that runs live, once its system has counted it. Raises OSError where the system cannot be reached."""
    port = os.environ.get(PORT)
    if port is not None:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as system:
            system.sendall(tool.encode() + b"\n")
            system.recv(16)
    return answer
