"""Who answered for the models that ran live outside of a candidate. Data only."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from twiceshy.envelope import Record

if TYPE_CHECKING:
    from collections.abc import Iterable


class Asked(NamedTuple):
    """One request of a trial: where it was sent, the model that it named, the one that answered, and whether that was in an earlier run of the trial."""

    host: str
    asked: str | None
    model: str | None
    again: bool


class LiveModel(Record, frozen=True, kw_only=True):
    """A model that ran live outside of the candidate: the host that answered, the model that was asked for, and the one that the replies say they are of.

    again: how many of the replies the same trials had got in an earlier run.
    """

    host: str
    asked: str | None
    model: str | None
    replies: int
    again: int = 0

    @property
    def text(self) -> str:
        """As people read it; the names are the candidate's and the service's own."""
        again = f", {self.again} of them as before" if self.again else ""
        return f"{self.model or 'a model without a name'} at {self.host}: {self.replies} replies{again}"


def answering(asked: Iterable[Asked]) -> list[LiveModel]:
    """Everybody who answered these requests."""
    everything = list(asked)
    counted = Counter(one[:3] for one in everything)
    again = Counter(one[:3] for one in everything if one.again)
    return [
        LiveModel(host=host, asked=named, model=model, replies=many, again=again[host, named, model])
        for (host, named, model), many in sorted(counted.items(), key=lambda held: tuple(map(str, held[0])))
    ]
