import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sources import payloads
from tasks.sources.payloads import Payload, parsed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def flags(text: str) -> set[str]:
    return set(parsed(text).flags)


def test_langfuse_6517_cut_json_is_kept_and_flagged() -> None:
    cut = json.dumps([{"role": "user", "content": "x" * 2000}])[:1028]
    assert parsed(cut) == Payload(cut, "text", frozenset({"truncated"}))
    assert flags(cut[:700]) == {"truncated"}  # no known cap, yet a prefix of JSON
    assert flags('{"a": NaN, "b": "unfini') == {"truncated"}
    assert flags("a long answer ... [truncated]") == {"truncated"}
    assert flags("[note] this was never JSON") == set()


def test_openinference_2827_python_repr_is_read_as_literal() -> None:
    assert parsed("{'q': \"it's\"}") == Payload({"q": "it's"}, "pyrepr", frozenset({"pyrepr"}))
    assert parsed("[None, True, 1.5]").value == [None, True, 1.5]
    opaque = "HumanMessage(content='hi', additional_kwargs={})"
    assert parsed(opaque) == Payload(opaque, "text", frozenset({"opaque_repr"}))
    assert parsed("{'a': __import__('os').getcwd()}").encoding == "text"


def test_langfuse_8464_nested_json_is_decoded_until_stable() -> None:
    once = json.dumps({"a": 1})
    twice = json.dumps(once)
    assert parsed(once) == Payload({"a": 1}, "json")
    assert parsed(twice) == Payload({"a": 1}, "json", frozenset({"nested_json:2"}))
    assert parsed(json.dumps(twice)).flags == {"nested_json:3"}
    assert [parsed(text).value for text in ("123", "true", "null", '"text"', json.dumps("123"))] == [
        "123",
        "true",
        "null",
        '"text"',
        '"123"',
    ]
    deep = once
    for _ in range(payloads.MAX_NESTING):
        deep = json.dumps(deep)
    assert parsed(deep) == Payload(deep, "text")


def test_future_agi_1028_non_finite_tokens_and_nul_are_read() -> None:
    held = parsed('{"a": NaN, "b": -Infinity, "c": "x\\u0000y"}').value
    assert math.isnan(held["a"])
    assert (held["b"], held["c"]) == (-math.inf, "x\0y")
    assert flags('{"a": 1e400}') == {"precision_lost"}


def test_opentelemetry_collector_11449_bad_text_is_replaced() -> None:
    assert payloads.loads(b'{"a": "x\xffy"}') == Payload({"a": "x\ufffdy"}, "json", frozenset({"lossy_text"}))
    assert parsed('{"a": "\\ud800"}') == Payload({"a": "\ufffd"}, "json", frozenset({"lossy_text"}))


def test_mergecraft_298_digest_in_place_of_content_is_flagged() -> None:
    assert flags("sha256:" + "ab" * 32) == {"hashed_content"}


def test_nesting_too_deep_is_text() -> None:
    assert parsed("[" * 100_000).encoding == "text"
    with pytest.raises(ValueError, match="deep"):
        payloads.loads("[" * 100_000 + "]" * 100_000)


@given(JSON)
def test_json_round_trips(value: object) -> None:
    held = payloads.loads(json.dumps(value)).value
    assert json.dumps(held) == json.dumps(value)


@given(st.text())
def test_any_text_is_read_without_error(text: str) -> None:
    held = parsed(text)
    assert held.encoding in ("json", "pyrepr") or held.value == text
