"""The sample files: a day of requests after another through the real boundary and recorder, exported, scored, and here and there damaged."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from examples.rehearsal import rehearse
from examples.samples import production
from examples.samples.blemishes import BLEMISHES, sound
from examples.samples.export import Trace, exported
from examples.samples.situations import Situation, drawn, original
from examples.samples.verdicts import scored, went_wrong
from twiceshy import policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date
    from pathlib import Path

    from examples.samples.export import Scored
    from twiceshy.policy import ToolsPolicy

SEED = "twiceshy samples 1"
# Conversations are numbered so that the failed refund of the documentation is this one.
_TOLD = 1042
_OPENS, _SECONDS_OPEN = time(7, 30), 12 * 3600


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of a day, before it is answered."""

    started: datetime
    workflow: str
    situation: Situation


@dataclass(slots=True)
class Answered:
    """One run, exported. told: it is one of the runs that the documentation tells of."""

    day: date
    trace: Trace
    scores: list[Scored]
    wrong: bool
    told: bool

    @property
    def flagged(self) -> bool:
        """Whether anything about it says that it went wrong: its status, a user, a grader or a person."""
        return self.trace.root["status"]["code"] != 1 or any(score.value < 0.5 for score in self.scores)  # noqa: PLR2004 - half


def write(out: Path, *, policies: Path) -> list[Path]:
    """Write a file a day and deployments.yaml into `out`; the same bytes on every machine. policies: the folder with a tools.yaml a workflow."""
    out.mkdir(parents=True, exist_ok=True)
    files = {
        f"traces-{day.isoformat()}.jsonl": b"".join(line + b"\n" for line in lines) for day, lines in _files(policies)
    }
    files["deployments.yaml"] = production.as_yaml().encode()
    for name, content in files.items():
        (out / name).write_bytes(content)
    return [out / name for name in files]


def answers(policies: Path) -> list[Answered]:
    """Every run of the fourteen days, in order, undamaged."""
    tools = {name: policy.load(policies / name / "tools.yaml") for name in production.WORKFLOWS}
    asked = [one for day in production.DAYS for one in _requests(day)]
    told = next(at for at, one in enumerate(asked) if (one.workflow, one.situation.kind) == ("refund", "original"))
    return [_answered(one, f"T-{number}", tools[one.workflow]) for number, one in enumerate(asked, start=_TOLD - told)]


def _files(policies: Path) -> Iterator[tuple[date, list[bytes]]]:
    files: dict[date, list[bytes]] = {day: [] for day in production.DAYS}
    runs = answers(policies)
    damage = _damage(runs)
    for at, run in enumerate(runs):
        _, blemish = BLEMISHES.get(damage.get(at, ""), (0, sound))
        for line in blemish(run.trace):
            files[min(run.day + timedelta(days=line.days_late), production.DAYS[-1])].append(line.content)
    yield from files.items()


def _requests(day: date) -> list[Asked]:
    """The requests of one day, by the hour. The first of a workflow is the told one, on the days that have one."""
    dice = random.Random(f"{SEED} {day}")  # noqa: S311 - invented traffic
    workflows = [name for name, count in production.requests(day).items() for _ in range(count)]
    dice.shuffle(workflows)
    opened = datetime.combine(day, _OPENS, tzinfo=UTC)
    moments = sorted(dice.sample(range(_SECONDS_OPEN), k=len(workflows)))
    told = {name: situation for name in workflows if (situation := original(day, name))}
    return [
        Asked(opened + timedelta(seconds=second), name, told.pop(name) if name in told else drawn(name, dice, day))
        for second, name in zip(moments, workflows, strict=True)
    ]


def _answered(asked: Asked, conversation: str, tools: ToolsPolicy) -> Answered:
    trace_id = hashlib.sha256(f"{SEED} {conversation}".encode()).hexdigest()[:32]
    day = asked.started.date()
    running = production.deployed(day, asked.workflow)
    envelope = rehearse(
        running.candidate, {"message": asked.situation.message}, started=asked.started, world=asked.situation.world,
        policy=tools, trace_id=trace_id, conversation_id=conversation,
    )  # fmt: skip
    told = asked.situation.kind == "original"
    scores = scored(envelope, random.Random(f"{SEED} scores {conversation}"), noticed=told)  # noqa: S311 - invented verdicts
    return Answered(day, exported(envelope, scores), scores, went_wrong(envelope), told)


def _damage(runs: list[Answered]) -> dict[int, str]:
    """Which runs get which blemish: flagged ones, since nobody pulls the others, and never one that the documentation tells of."""
    dice = random.Random(f"{SEED} damage")  # noqa: S311 - invented damage
    exposed = [at for at, run in enumerate(runs) if run.flagged and run.wrong and not run.told]
    names = [name for name, (count, _) in BLEMISHES.items() for _ in range(count)]
    return dict(zip(dice.sample(exposed, k=len(names)), names, strict=True))
