"""The replays of a nightly: a shard a version, as many at a time as there are cores."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from flows.checkout import Checkout
from flows.turns import Turn
from tasks.prefect_tasks import Occasion, Replayed, replay, together
from twiceshy.champion import Champion
from twiceshy.sealing import Limits, scrubbed_environment
from twiceshy.shards import ShardRequest


def replays(
    place: Checkout, turns: Sequence[Turn], *, generation: str, trials: int, champions: Mapping[str, Champion]
) -> list[Replayed]:
    """What each turn came to, in the order of the turns. A version that has several nights replays each of them anew, in one session.

    The newest night of a workflow runs its breaks too: coverage is claimed for that one alone.
    """
    shards: dict[tuple[str, str], list[Turn]] = defaultdict(list)
    for turn in sorted(turns, key=lambda turn: (turn.night, turn.workflow)):
        shards[turn.workflow, turn.name].append(turn)
    newest = {turn.workflow: turn.night for turn in sorted(turns, key=lambda turn: turn.night)}
    calls = [
        partial(
            replay,
            _request(place, held[-1], trials, champions.get(workflow), breaks=held[-1].night == newest[workflow]),
            [_occasion(turn, generation, champions.get(workflow)) for turn in held],
            harness_state=place.harness_state,
        )
        for (workflow, _), held in shards.items()
    ]
    done = together(calls, at_once=os.cpu_count() or 1)
    came = {
        (turn.night, turn.workflow): one
        for held, nights in zip(shards.values(), done, strict=True)
        for turn, one in zip(held, nights, strict=True)
    }
    return [came[turn.night, turn.workflow] for turn in turns]


def _occasion(turn: Turn, generation: str, champion: Champion | None) -> Occasion:
    digest = champion.reference.digest if champion else None
    return Occasion(generation=generation, night=turn.night.isoformat(), candidate=turn.name, champion_digest=digest)


def _request(place: Checkout, turn: Turn, trials: int, champion: Champion | None, *, breaks: bool) -> ShardRequest:
    loaded, spec = place.cases[turn.workflow], turn.spec
    stamps = {case.envelope.redaction.key_id for case in loaded if case.envelope.redaction}
    return ShardRequest(
        factory=spec.factory,
        command=spec.command,
        python=spec.python,
        path=[str(Path(part).resolve()) for part in spec.path],
        allow_env=list(spec.allow_env),
        env=scrubbed_environment(os.environ, allow=spec.allow_env),
        folder=str(place.config.root),
        policies=str(place.config.path("policies")),
        cases=[str(case.path.resolve()) for case in loaded],
        trials=trials,
        breaks=breaks,
        limits=Limits(wall_s=place.config.settings.gate.timeout_case),
        keys={key_id: place.keyring.key(key_id).hex() for key_id in sorted(stamps)},
        judge=place.config.settings.judge,
        replies=str(place.config.path("replies")),
        upstream=place.config.settings.upstream,
        live=str(place.config.path("replies") / "live"),
        pinned=champion,
    )
