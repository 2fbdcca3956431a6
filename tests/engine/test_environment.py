"""What of the caller's environment a sealed process sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy.sealing import NotAllowable, scrubbed_environment

SECRET = [
    "OPENAI_API_KEY",
    "MY_SERVICE_TOKEN",
    "DB_PASSWORD",
    "HTTPS_PROXY",
    "no_proxy",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBERNETES_SERVICE_HOST",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "LANGFUSE_HOST",
    "SENTRY_DSN",
    "SSH_AUTH_SOCK",
    "LD_PRELOAD",
]


@pytest.mark.parametrize("name", SECRET)
def test_secret_never_enters(name: str) -> None:
    assert scrubbed_environment({name: "real"}).get(name) != "real"
    with pytest.raises(NotAllowable, match=name):
        scrubbed_environment({name: "real"}, allow=[name])


@given(st.dictionaries(st.text("ABCXYZ_", min_size=1), st.just("real")))
def test_unknown_names_stay_out(env: dict[str, str]) -> None:
    assert "real" not in scrubbed_environment(env).values()


def test_allowed_name_wins() -> None:
    env = {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "AGENT_REGION": "eu", "PATH": "/bin", "OTHER": "x"}
    seen = scrubbed_environment(env, allow=["PYTHONHASHSEED", "AGENT_REGION", "NOT_SET"])
    assert {name: seen.get(name) for name in [*env, "NOT_SET"]} == {
        "PYTHONHASHSEED": "7",
        "TZ": "UTC",
        "AGENT_REGION": "eu",
        "PATH": "/bin",
        "OTHER": None,
        "NOT_SET": None,
    }


def test_harmless_words_are_allowable() -> None:
    names = ["MAX_TOKENS", "AUTHOR", "PATTERN", "AGENT_MODE"]
    assert scrubbed_environment(dict.fromkeys(names, "x"), allow=names).keys() >= set(names)


def test_clients_find_a_dummy_key() -> None:
    seen = scrubbed_environment({})
    assert seen["OPENAI_API_KEY"] == seen["ANTHROPIC_API_KEY"] == "twiceshy-sealed"
    assert seen["OTEL_SDK_DISABLED"] == "true"
