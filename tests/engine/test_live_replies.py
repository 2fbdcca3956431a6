"""What a live model replied, and where it is asked: kept by trial, configured without a key, sent on with ours (semantics.md §6.3)."""

import json
import tempfile
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from twiceshy import configuration
from twiceshy.configuration import UpstreamSettings
from twiceshy.errors import ConfigurationError, FormatError
from twiceshy.gateway.asking import Upstream, ends, model_of, upstreams
from twiceshy.gateway.listening import Request
from twiceshy.replies import LiveReply, TrialId, TrialReplies

ONE = TrialId(candidate="c", case="a", envelope="e", mode="cut-point --live model:*", number=0)
OTHERS = [{"candidate": "d"}, {"case": "b"}, {"envelope": "f"}, {"mode": "world"}, {"number": 1}, {"occasion": "2026-11-16"}, {"upstreams": {"openai": "h"}}]  # fmt: skip
TRIALS = [ONE, *(structs.replace(ONE, **other) for other in OTHERS)]


def asked(replies: TrialReplies, request: str, fresh: Any) -> str:
    """What a trial is told: what it was told when it ran before, else something new."""
    nth = replies.turn(request)
    kept = replies.of(request, nth)
    if kept is None:
        kept = LiveReply(request=request, candidate="", trial="", nth=nth, host="h", status=200, chunks=[str(next(fresh))])  # fmt: skip
        replies.keep(kept)
    return kept.chunks[0]


@given(st.lists(st.tuples(st.sampled_from(range(len(TRIALS))), st.sampled_from("ab")), max_size=12))
def test_a_trial_gets_its_own_replies_again_and_no_other_does(asks: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fresh = count()
        told: list[dict[int, list[str]]] = []
        for _ in range(2):
            opened = [TrialReplies(Path(folder), trial) for trial in TRIALS]
            heard: dict[int, list[str]] = defaultdict(list)
            for at, request in asks:
                heard[at].append(asked(opened[at], request, fresh))
            told.append(heard)
    assert told[0] == told[1]
    said = [reply for heard in told[0].values() for reply in heard]
    assert len(set(said)) == len(said) == len(asks)


def test_a_file_that_is_no_reply_of_this_trial_is_refused(tmp_path: Path) -> None:
    replies = TrialReplies(tmp_path, ONE)
    asked(replies, "a", count())
    (path,) = tmp_path.rglob("*.json")
    whole = json.loads(path.read_text())
    for broken in ({"trial": "another"}, {"format": "twiceshy/live-reply/2"}, {"request": "b"}):
        path.write_text(json.dumps({**whole, **broken}))
        with pytest.raises(FormatError, match="Remove the file"):
            replies.of("a", 0)
    path.write_text("{")
    with pytest.raises(FormatError):
        replies.of("a", 0)


def test_upstreams_are_read_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "twiceshy.toml").write_text('[upstream.openai]\nbase_url = "https://api.example/v1"\nkey_env = "MY_KEY"\nretries = 1\n')  # fmt: skip
    stated = configuration.load(tmp_path, {}).settings.upstream
    assert stated == {"openai": UpstreamSettings(base_url="https://api.example/v1", key_env="MY_KEY", retries=1)}
    made = upstreams(stated, {"MY_KEY": "sk-1"})["openai"]
    assert (made.host, made.secure, made.retries) == ("api.example", True, 1)
    assert "sk-1" not in repr(made)
    made.refuse_keyless()
    with pytest.raises(ConfigurationError, match=r"\$MY_KEY, which is not set"):
        upstreams(stated, {})["openai"].refuse_keyless()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[upstream.openai]\nbase_url = "https://h"\nkey = "sk-secret-1"\n', "unknown setting 'upstream.openai.key'"),
        ('[upstream.gemini]\nbase_url = "https://h"\n', "upstream"),
        ('[upstream.openai]\nkey_env = "K"\n', "base_url"),
    ],
)
def test_unknown_settings_of_an_upstream_are_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "twiceshy.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=said) as refused:
        configuration.load(tmp_path, {})
    assert "sk-secret-1" not in str(refused.value)


@pytest.mark.parametrize(
    "stated",
    [
        {"base_url": "https://h", "key_env": "sk-secret-1"},
        {"base_url": "ftp://h"},
        {"base_url": "https://me:sk-secret-1@h"},
        {"base_url": "https://h?key=sk-secret-1"},
        {"base_url": "https://h:port"},
        {"base_url": "h"},
    ],
)
def test_addresses_that_are_none_are_refused_unquoted(stated: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"\[upstream.openai\]") as refused:
        upstreams({"openai": UpstreamSettings(**stated)}, {})
    assert "secret" not in str(refused.value)


def an_upstream(face: Any, **given: Any) -> Upstream:
    return Upstream(**{"face": face, "secure": False, "name": "h", "port": None, "path": "/v1" if face == "openai" else "", "key": "sk-1", **given})  # fmt: skip


@pytest.mark.parametrize(
    ("face", "path", "target", "key"),
    [
        ("openai", "/v1/responses", "/v1/responses", ("authorization", "Bearer sk-1")),
        ("anthropic", "/v1/messages", "/v1/messages", ("x-api-key", "sk-1")),
    ],
)
def test_a_request_goes_on_with_our_key_in_place_of_its_own(face: Any, path: str, target: str, key: Any) -> None:
    held = {"authorization": "Bearer token", "x-api-key": "token", "host": "here", "anthropic-version": "2023-06-01"}
    request = Request("POST", path, held, b"{}", "beta=true")
    upstream = an_upstream(face)
    assert upstream.target(request) == f"{target}?beta=true"
    assert upstream.headers(request) == {"anthropic-version": "2023-06-01", key[0]: key[1]}
    assert upstream.headers(request).keys() - an_upstream(face, key=None).headers(request).keys() == {key[0]}


@pytest.mark.parametrize(
    ("face", "event", "expected"),
    [
        ("openai", {"choices": [{"delta": {}, "finish_reason": None}]}, False),
        ("openai", {"choices": [{"delta": {}, "finish_reason": "stop"}]}, True),
        ("openai", {"type": "response.completed", "response": {}}, True),
        ("openai", {"type": "response.incomplete", "response": {}}, True),
        ("anthropic", {"type": "message_stop"}, True),
        ("anthropic", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, False),
    ],
)
def test_a_stream_knows_its_end(face: Any, event: Any, expected: Any) -> None:
    assert ends(face, b"data: " + json.dumps(event).encode() + b"\n\n") is expected
    assert ends(face, b"data: [DONE]\n\n")


@pytest.mark.parametrize("block", [b'data: {"error": {"message": "a"}}\n\n', b'event: error\ndata: {"type": "error"}\n\n', b'data: {"type": "response.failed"}\n\n', b"data: {cut\n\n"])  # fmt: skip
def test_an_error_in_a_stream_is_no_end(block: bytes) -> None:
    with pytest.raises(ValueError, match=r"error|JSON"):
        ends("openai", block)


def test_a_reply_says_its_model() -> None:
    assert model_of({"model": "a"}) == model_of({"message": {"model": "a"}}) == model_of({"response": {"model": "a"}}) == "a"  # fmt: skip
    assert model_of({"model": 1}) is model_of([]) is model_of("text") is None
