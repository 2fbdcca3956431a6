"""Nightly replays of a prompt case: its model runs live, every night anew."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from commanding import a_weather_agent
from living import request_of
from tasks.replay.step import Occasion, replay
from upstreaming import KEY, a_service

pytestmark = pytest.mark.slow

NIGHTS = [Occasion(generation="c" * 64, night=night, candidate="weather") for night in ("2026-11-16", "2026-11-17")]


@pytest.fixture
def folder() -> Iterator[Path]:
    with a_weather_agent() as made:
        yield made


def test_a_prompt_case_is_judged_every_night(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAL_KEY", KEY)
    with a_service() as service:
        request = request_of(folder, service, tmp_path)
        told = replay(request, NIGHTS, harness_state="h1")
        again = replay(request, NIGHTS[1:], harness_state="h1")
        assert len(service.asked) == 4
    rows = pl.concat([night.replays for night in told])
    assert rows.select("night", "live", "outcome").rows() == [
        (night.night, "model:*", "passed") for night in NIGHTS for _ in range(2)
    ]
    assert [night.results[0].modes[0].live_models[0].replies for night in told] == [2, 2]
    assert again[0].replays["transcript_digest"].equals(told[1].replays["transcript_digest"])
    assert not told[0].replays["transcript_digest"].equals(told[1].replays["transcript_digest"])
