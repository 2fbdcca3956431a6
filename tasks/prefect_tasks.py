"""Every step as a Prefect task, in one table; the one module here that imports Prefect.

Inside a flow run a step is a task run with the retries, timeout and limit of its row. Anywhere else (a test, a notebook, a pool) it is the plain step, and no
server is asked for. Nothing is cached and no result is kept: results are frames of redacted traces, and their place is the store.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from prefect import Task
from prefect.cache_policies import NO_CACHE
from prefect.concurrency.sync import concurrency
from prefect.context import FlowRunContext
from prefect.settings import get_current_settings

from tasks.admit import step as admitting
from tasks.admit.step import Admitted
from tasks.admit.step import Tables as AdmitTables
from tasks.attribute import step as attributing
from tasks.attribute.step import Tables as AttributeTables
from tasks.detect import step as detecting
from tasks.normalize import step as normalizing
from tasks.normalize.step import unredacted
from tasks.publish import step as publishing
from tasks.publish.step import Corpus as Measurable
from tasks.publish.step import Measured
from tasks.publish.step import Terms as MeasureTerms
from tasks.pull import step as pulling
from tasks.pull.step import Known, Pulled
from tasks.pull.step import Terms as PullTerms
from tasks.redact import step as redacting
from tasks.redact.step import Options as RedactOptions
from tasks.redact.step import Redacted
from tasks.replay import step as replaying
from tasks.replay.step import Occasion, Replayed
from tasks.retain import step as retaining
from tasks.retain.step import Retention
from tasks.sign import step as signing
from tasks.sign.step import Standing
from tasks.stratify import step as stratifying

P = ParamSpec("P")
R = TypeVar("R")

__all__ = [
    "LIMITS",
    "TABLE",
    "AdmitTables",
    "Admitted",
    "AttributeTables",
    "Known",
    "Measurable",
    "MeasureTerms",
    "Measured",
    "Occasion",
    "PullTerms",
    "Pulled",
    "RedactOptions",
    "Redacted",
    "Replayed",
    "Retention",
    "Standing",
    "StepTask",
    "heard_by",
    "together",
    "unredacted",
]

LIMITS: Mapping[str, int] = {"twiceshy-replay": 2}
"""Global concurrency limits by name: how many task runs may hold one at a time. `twiceshy deploy` makes them on a server; a missing one is refused."""


class Listener(Protocol):
    """Told of every step as it begins (seconds: None) and as it ends."""

    def __call__(self, step: str, seconds: float | None) -> object:
        """The step's name, and how long it took."""
        ...


_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Steps that are called in the block tell a listener, besides those that listen already."""
    token = _LISTENERS.set((*_LISTENERS.get(), listener))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def together(calls: Sequence[Callable[[], R]], *, at_once: int) -> list[R]:
    """What the calls give, in their order; so many run at a time, each in a thread of its own that knows the flow run. For steps that wait for processes."""
    with ThreadPoolExecutor(max(1, at_once)) as pool:
        running = [pool.submit(copy_context().run, call) for call in calls]
        return [one.result() for one in running]


class StepTask(Task[P, R], Generic[P, R]):
    """A step that is a task run inside a flow run, and itself (`fn`) anywhere else."""

    def __init__(
        self,
        step: Callable[P, R],
        *,
        timeout: float | None,
        tags: Sequence[str],
        waits: Sequence[float] = (),
        limit: str | None = None,
    ) -> None:
        """timeout: seconds; None where the step keeps its own. waits: the seconds before each retry. limit: the name of a global concurrency limit."""
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
        with self._announced():
            if FlowRunContext.get() is None:
                return self.fn(*args, **kwargs)
            with self._slot():
                return super().__call__(*args, **kwargs)

    @contextmanager
    def _announced(self) -> Iterator[None]:
        listeners = _LISTENERS.get()
        for listener in listeners:
            listener(self.name, None)
        start = time.monotonic()
        yield
        for listener in listeners:
            listener(self.name, time.monotonic() - start)

    def _slot(self) -> AbstractContextManager[Any]:
        """Strict: a limit that does not exist would else be no limit, silently. The embedded server has one client, which limits itself."""
        if self.limit is None or get_current_settings().api.url is None:
            return nullcontext()
        return concurrency(self.limit, strict=True)


# fmt: off
pull      = StepTask(pulling.pull,          timeout=3600, tags=["io"], waits=[10, 60, 300])
redact    = StepTask(redacting.redact,      timeout=3600, tags=["cpu"])
normalize = StepTask(normalizing.normalize, timeout=1800, tags=["cpu"])
detect    = StepTask(detecting.detect,      timeout=1800, tags=["cpu"])
stratify  = StepTask(stratifying.stratify,  timeout=600,  tags=["sql"])
sign      = StepTask(signing.sign,          timeout=1800, tags=["cpu"])
attribute = StepTask(attributing.attribute, timeout=1800, tags=["cpu"])
admit     = StepTask(admitting.admit,       timeout=3600, tags=["cpu"])
replay    = StepTask(replaying.replay,      timeout=None, tags=["replay"], limit="twiceshy-replay")
measure   = StepTask(publishing.measure,    timeout=1800, tags=["sql"])
publish   = StepTask(publishing.publish,    timeout=600,  tags=["io"])
retain    = StepTask(retaining.retain,      timeout=600,  tags=["io"], waits=[10, 60])
# fmt: on

TABLE: Mapping[str, StepTask[Any, Any]] = {
    task.name: task
    for task in (pull, redact, normalize, detect, stratify, sign, attribute, admit, replay, measure, publish, retain)
}
"""Step name -> its task, in the order in which a trace meets them."""
