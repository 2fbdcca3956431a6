"""A refresh from the API of a trace store: what can be refused is refused at once, pages lie sealed until they are taken in, and a second run changes nothing."""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from checkouts import AS_OF, ROOT, a_checkout
from flows.checkout import Checkout
from flows.inputs import address
from flows.request import Request
from langfuse_rows import a_run, a_score
from trace_stores import ALangfuse, AStore, serving
from twiceshy.errors import ConfigurationError, InputError

DAY = date.fromisoformat(AS_OF)
ENVIRONMENT = {"LANGFUSE_PUBLIC_KEY": "pk-1", "LANGFUSE_SECRET_KEY": "sk-1"}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGFUSE_HOST", "LANGSMITH_ENDPOINT", "LANGSMITH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (ENVIRONMENT | {"TWICESHY_KEY_OWN": "ab" * 32}).items():
        monkeypatch.setenv(name, value)


def a_place(at: Path) -> Checkout:
    """A checkout with a key of its own in the policy of refund."""
    policies = at / "policies"
    shutil.copytree(ROOT / "data/policies/refund", policies / "refund")
    policy = policies / "refund/redaction.yaml"
    policy.write_text(policy.read_text().replace("key_id: sample", "key_id: own"))
    place = a_checkout(at, policies=policies)
    return Checkout.at(place.config.root, {"TWICESHY_KEY_OWN": "ab" * 32})


def asked(place: Checkout, path: str | None, source: str = "langfuse", **more: Any) -> Request:
    return Request.of(place, source=source, path=path, as_of=DAY, **more)


@pytest.mark.parametrize(
    ("path", "problem"),
    [("https://pk:sk@host/", "keys in it"), ("https://host/?key=sk", "keys in it"), ("https://:443/", "names no host")],
)
def test_address_with_keys_is_refused_and_never_repeated(path: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as told:
        address(path)
    assert "sk" not in str(told.value)
    assert (address("traces/"), address("http://127.0.0.1:3000/")) == (None, "http://127.0.0.1:3000")


def test_address_is_of_the_option_or_of_the_variable(
    tmp_path: Path, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = a_checkout(tmp_path)
    with pytest.raises(InputError, match=r"--path: name the file or folder.*LANGFUSE_HOST"):
        asked(place, None)
    monkeypatch.setenv("LANGFUSE_HOST", "https://one")
    for path, url in ((None, "https://one"), ("https://two/", "https://two")):
        api = asked(place, path).window.api
        assert api is not None
        assert (api.url, dict(api.keys)) == (url, ENVIRONMENT)
    with pytest.raises(InputError, match="source 'otlp' is read from files"):
        asked(place, "https://one", source="otlp")
    with pytest.raises(ConfigurationError, match="LANGSMITH_API_KEY not set"):
        asked(place, "https://one", source="langsmith")
    monkeypatch.delenv("LANGFUSE_SECRET_KEY")
    with pytest.raises(ConfigurationError, match="LANGFUSE_SECRET_KEY not set"):
        asked(place, "https://one")


def test_pages_lie_sealed_until_they_are_taken_in(tmp_path: Path, keys: None) -> None:
    place = a_place(tmp_path)
    with serving(ALangfuse(rows=a_run(), page=1)) as store:
        first = asked(place, store.url)
        begun = first.source.fetch(first.window)
        pages = [next(begun), next(begun)]
        begun.close()
        kept = [file.read_bytes() for file in place.raw.root.rglob("*") if file.is_file()]
        assert len(kept) == 5, "two copies, their labels, and the journal"
        assert not any(b"get_order" in content or b"sk-1" in content for content in kept)
        store.asked.clear()
        again = asked(place, store.url)
        whole = list(again.source.fetch(again.window))
        assert (whole[:2], len(whole), len(store.asked)) == (pages, 3, 2)
        assert {reading.why for reading in place.raw.readings()} == {"an interrupted pull goes on"}
        again.taken_in()
        assert not list((place.raw.root / "pulls").iterdir())


def test_without_a_key_nothing_is_kept(tmp_path: Path, keys: None) -> None:
    place = a_checkout(tmp_path)
    with serving(ALangfuse(rows=a_run())) as store:
        request = asked(place, store.url)
        assert len(list(request.source.fetch(request.window))) == 2
        assert len(list(request.source.fetch(request.window))) == 2
        assert (len(store.asked), place.raw.root.exists()) == (3, False)


@pytest.fixture
def store() -> Any:
    with serving(ALangfuse(rows=a_run(), scores=[a_score(value=0)])) as held:
        yield held


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_refresh_of_an_api_takes_in_what_is_new(tmp_path: Path, keys: None, store: AStore) -> None:
    from flows.refresh import refresh

    place = a_place(tmp_path)

    def refreshed() -> dict[str, Any]:
        found: dict[str, Any] = refresh.fn(
            "langfuse", store.url, as_of=AS_OF, workflow="refund", root=str(place.config.root)
        )
        return found

    first = refreshed()
    assert (first["accounts"][0]["source"], first["accounts"][0]["traces"], first["generation"]) == ("langfuse", 1, 1)
    again = refreshed()
    assert again["corpus_id"] == first["corpus_id"]
    store.rows = [*store.rows, *(row | {"traceId": "b" * 32} for row in a_run())]
    assert refreshed()["accounts"][0]["traces"] == 2
