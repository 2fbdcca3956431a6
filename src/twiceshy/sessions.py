"""A pool of sealed sessions of one candidate, one a worker, each lent to one case at a time."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from twiceshy.running import Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from twiceshy.exchange import Ready
    from twiceshy.gateway.door import LiveModels
    from twiceshy.running import CandidateSpec


class SessionPool:
    """For the `with` block. `ready` is what the first session said of itself; all are started before the first is lent.

    Raises what Session raises: CandidateError, IsolationNotHeld, InfrastructureError.
    """

    def __init__(
        self,
        spec: CandidateSpec,
        *,
        env: Mapping[str, str],
        folder: Path,
        cases: Sequence[Path],
        workers: int = 1,
        weak: bool = False,
        live: LiveModels | None = None,
    ) -> None:
        self.size = max(1, workers)
        self._made = [
            Session(spec, env=env, folder=folder, cases=cases, weak=weak, live=live) for _ in range(self.size)
        ]
        self._free: SimpleQueue[Session] = SimpleQueue()
        self._stack = ExitStack()

    @property
    def ready(self) -> Ready:
        """Who the candidate is, and what isolation held."""
        return self._made[0].ready

    def __enter__(self) -> Self:
        """Start every session."""
        with ExitStack() as stack:
            for session in self._made:
                self._free.put(stack.enter_context(session))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every session."""
        self._stack.close()

    @contextmanager
    def lent(self) -> Iterator[Session]:
        """A free session, waited for where there is none."""
        session = self._free.get()
        try:
            yield session
        finally:
            self._free.put(session)
