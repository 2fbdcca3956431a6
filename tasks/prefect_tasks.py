"""Every step as a Prefect task, in one table; the one module here that imports Prefect.

Inside a flow run a step is a task run with the retries, timeout and limit of its row. Anywhere else (a test, a notebook, a pool) it is the plain step, and no
server is asked for. Nothing is cached and no result is kept: results are frames of redacted traces, and their place is the store.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, ParamSpec, TypeVar

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.concurrency.sync import concurrency
from prefect.context import FlowRunContext

from tasks.attribute import step as attributing
from tasks.detect import step as detecting
from tasks.normalize import step as normalizing
from tasks.pull import step as pulling
from tasks.retain import step as retaining
from tasks.retain.step import Retention
from tasks.sign import step as signing
from tasks.stratify import step as stratifying

P = ParamSpec("P")
R = TypeVar("R")

__all__ = ["LIMITS", "TABLE", "Retention", "StepTask"]

LIMITS: Mapping[str, int] = {"twiceshy-replay": 1}
"""Global concurrency limits by name: how many task runs may hold one at a time. `twiceshy deploy` makes them on a server; a missing one is refused."""


class StepTask(Task[P, R], Generic[P, R]):
    """A step that is a task run inside a flow run, and itself (`fn`) anywhere else."""

    def __init__(
        self,
        step: Callable[P, R],
        *,
        timeout: float,
        tags: Sequence[str],
        waits: Sequence[float] = (),
        limit: str | None = None,
    ) -> None:
        """timeout: seconds. waits: the seconds before each retry. limit: the name of a global concurrency limit."""
        super().__init__(
            step,
            name=step.__name__,
            tags=tags,
            cache_policy=NO_CACHE,
            persist_result=False,
            retries=len(waits),
            retry_delay_seconds=list(waits),
            timeout_seconds=timeout,
        )
        self.limit = limit

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override] # Prefect's overloads also give states
        """What the step gives."""
        if FlowRunContext.get() is None:
            return self.fn(*args, **kwargs)
        with self._slot():
            return super().__call__(*args, **kwargs)

    def _slot(self) -> AbstractContextManager[Any]:
        """Strict: a limit that does not exist would else be no limit, silently."""
        return nullcontext() if self.limit is None else concurrency(self.limit, strict=True)


# fmt: off
pull      = StepTask(pulling.pull,          timeout=3600, tags=["io"], waits=[10, 60, 300])
normalize = StepTask(normalizing.normalize, timeout=1800, tags=["cpu"])
detect    = StepTask(detecting.detect,      timeout=1800, tags=["cpu"])
stratify  = StepTask(stratifying.stratify,  timeout=600,  tags=["sql"])
sign      = StepTask(signing.sign,          timeout=1800, tags=["cpu"])
attribute = StepTask(attributing.attribute, timeout=1800, tags=["cpu"])
retain    = StepTask(retaining.retain,      timeout=600,  tags=["io"], waits=[10, 60])
# fmt: on

TABLE: Mapping[str, StepTask[Any, Any]] = {
    task.name: task for task in (pull, normalize, detect, stratify, sign, attribute, retain)
}
"""Step name -> its task, in the order in which a trace meets them."""
