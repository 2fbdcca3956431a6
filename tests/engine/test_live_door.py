"""The door of live models by itself: who may come through, what ends a trial, and what is kept of an answer that nobody waited for."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from builders import a_model, a_played, a_transcript
from living import kept, live_models
from twiceshy.answerers import Asked
from twiceshy.errors import ConfigurationError
from twiceshy.gateway.door import Door, LiveTrial
from twiceshy.gateway.lives import ended
from twiceshy.outcome import BoundaryState, Divergence
from twiceshy.replies import TrialId, TrialReplies
from twiceshy.running import CandidateSpec, Session
from twiceshy.transcript import Diverged
from upstreaming import KEY, Service, a_service

TOKEN = "of-this-session"  # noqa: S105 - of a door that stands for one test
ONE = TrialId(candidate="c", case="a", envelope="e", mode="cut-point", number=0)
ASKED = {"model": "gpt-x", "messages": []}


@contextmanager
def a_door() -> Iterator[Door]:
    door = Door(socket.create_server(("127.0.0.1", 0)), TOKEN)
    try:
        yield door
    finally:
        door.close()


def a_trial(service: Service, replies: Path, end: Callable[[], object] = int, **given: Any) -> LiveTrial:
    live = live_models(service, replies, retries=0)
    return LiveTrial(upstreams=live.upstreams, replies=TrialReplies(replies, ONE), end=end, **given)


def asks(door: Door, body: Any = ASKED, path: str = "/v1/chat/completions", token: str = TOKEN) -> tuple[int, bytes]:
    request = Request(door.origin + path, json.dumps(body).encode(), {"authorization": f"Bearer {token}"})  # noqa: S310 - loopback
    try:
        with urlopen(request, timeout=20) as answer:  # noqa: S310 - as above
            return answer.status, answer.read()
    except HTTPError as refused:
        return refused.code, refused.read()


@pytest.mark.parametrize(
    "asked", [{"token": "another"}, {"path": "/v1/files"}, {"path": "/v1/models"}], ids=["token", "files", "models"]
)
def test_what_is_no_request_for_a_model_ends_the_trial(tmp_path: Path, asked: dict[str, str]) -> None:
    ends: list[int] = []
    with a_service() as service, a_door() as door:
        trial = a_trial(service, tmp_path, lambda: ends.append(1))
        door.begin(trial)
        assert [asks(door, **asked)[0] for _ in range(2)] == [401 if "token" in asked else 503] * 2
    assert isinstance(trial.ended, Diverged)
    assert (trial.ended.kind, ends, service.asked) == (Divergence.LIVE_UNCONTROLLED, [1], [])


def test_nobody_is_answered_between_trials(tmp_path: Path) -> None:
    with a_service() as service, a_door() as door:
        trial = a_trial(service, tmp_path)
        door.begin(trial)
        assert asks(door)[0] == 200
        door.settle()
        told: list[int] = []
        waiting = threading.Thread(target=lambda: told.append(asks(door)[0]))
        waiting.start()
        time.sleep(0.2)
        door.begin(a_trial(service, tmp_path, only=True))
        waiting.join()
    assert (trial.ended, told, len(service.asked)) == (None, [503], 1)


def test_a_trial_that_is_run_again_is_not_asked_for_anew(tmp_path: Path) -> None:
    with a_service() as service, a_door() as door:
        first, again = a_trial(service, tmp_path), a_trial(service, tmp_path, only=True)
        door.begin(first)
        said = asks(door)
        door.settle()
        door.begin(again)
        assert asks(door) == said
        assert again.ended is None
        assert asks(door, {**ASKED, "user": "other"})[0] == 503
    assert again.ended == "the trial, run again, asks its model what it had not asked"
    assert (first.ended, len(service.asked)) == (None, 1)


def test_what_a_trial_did_not_wait_for_is_known(tmp_path: Path) -> None:
    """It ended while a request was on its way: that is part of the trial, and ends the waiting of nobody."""
    with a_service(slow_s=30) as service, a_door() as door:
        trial = a_trial(service, tmp_path)
        door.begin(trial)
        waiting = threading.Thread(target=asks, args=[door])
        waiting.start()
        while not service.asked:
            time.sleep(0.01)
        door.settle()
        waiting.join()
        again = a_trial(service, tmp_path, only=True)
        door.begin(again)
        waiting = threading.Thread(target=asks, args=[door])
        waiting.start()
        time.sleep(0.2)
        door.settle()
        waiting.join()
        service.slow_s = 0
    assert (trial.ended, again.ended, len(service.asked)) == (None, None, 1)
    assert [(reply["status"], reply["whole"]) for reply in kept(tmp_path)] == [(0, False)]


@pytest.mark.slow
def test_a_trial_that_wants_more_than_it_had_taken_is_no_repetition(tmp_path: Path) -> None:
    stream = {**ASKED, "stream": True}
    with a_service(says=lambda _: " ".join(["warm"] * 400), gap_s=0.02) as service, a_door() as door:
        first, again = a_trial(service, tmp_path), a_trial(service, tmp_path, only=True)
        door.begin(first)
        with socket.create_connection(door.server_address[:2]) as client:
            body = json.dumps(stream).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert b"warm" in client.recv(65536) + client.recv(65536) + client.recv(65536)
        door.settle()
        door.begin(again)
        with pytest.raises(HTTPException):
            asks(door, stream)
    assert again.ended == "the trial, run again, wants more of a reply than it had taken"
    assert (kept(tmp_path)[0]["whole"], len(service.asked)) == (False, 1)


LIVE = a_model(1, boundary=BoundaryState.LIVE)
ANSWER = Asked("h", "gpt-x", "gpt-x", again=False)


@pytest.mark.parametrize(
    ("asked", "passed", "commanded", "diverges"),
    [
        (1, 1, True, False),
        (0, 1, True, False),
        (2, 1, True, True),
        (2, 1, False, False),
        (1, 0, True, True),
        (1, 0, False, True),
        (0, 0, False, False),
    ],
)
def test_more_answers_than_passages_prove_nothing(tmp_path: Path, asked: int, passed: int, commanded: Any, diverges: Any) -> None:  # fmt: skip
    with a_service() as service:
        trial = a_trial(service, tmp_path)
    trial.asked += [ANSWER] * asked
    told = ended(trial, a_transcript(*[LIVE] * passed, a_played(9)), commanded=commanded)
    assert (told.divergence is not None and told.divergence.kind is Divergence.LIVE_UNCONTROLLED) == diverges
    assert (told.disposition is None) == diverges


def test_a_candidate_that_would_see_the_key_is_not_started(tmp_path: Path) -> None:
    """`allow_env` knows a credential by its name alone, and a key may have any."""
    spec = CandidateSpec(factory="agents:plain", path=[tmp_path], allow_env=["MODEL_ACCESS"])
    with a_service() as service:
        live = live_models(service, tmp_path / "replies")
        session = Session(spec, env={**os.environ, "MODEL_ACCESS": KEY}, folder=tmp_path, live=live)
        with pytest.raises(ConfigurationError, match=r"would see its key in \$MODEL_ACCESS") as told:
            session.__enter__()
    assert KEY not in str(told.value)
