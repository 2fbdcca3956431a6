import base64
import json
import math
import os
import subprocess
import sys
import unicodedata
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy import identity
from twiceshy.errors import FormatError, Unrecordable

texts = (
    st.text(max_size=8)
    | st.text(alphabet=st.characters(codec="utf-8"), max_size=4)
    | st.sampled_from(["\u00e9", "e\u0301", "$bytes", "\ud800"])
)
numbers = st.integers() | st.floats() | st.booleans()
scalars = st.none() | numbers | texts | st.binary(max_size=6)
# Two names that are one in NFC are a value of their own kind, tested apart.
names = texts.map(lambda name: unicodedata.normalize("NFC", name))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)  # fmt: skip


def respelled(value: object) -> object:
    """The same JSON value in another spelling: keys reversed, integral numbers as the other type, text in NFD."""
    if isinstance(value, dict):
        return {respelled(name): respelled(item) for name, item in reversed(value.items())}
    if isinstance(value, list):
        return tuple(respelled(item) for item in value)
    if isinstance(value, str) and value.isprintable():
        return unicodedata.normalize("NFD", value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value


@given(values)
def test_spelling_does_not_matter(value: object) -> None:
    assert identity.key("t", respelled(value)) == identity.key("t", value)


@given(values, values)
def test_equal_keys_mean_equal_values(left: object, right: object) -> None:
    assert identity.equal(left, right) == (identity.key("t", left) == identity.key("t", right))


@given(values)
def test_storing_gives_the_value_back(value: object) -> None:
    back = identity.untagged(json.loads(json.dumps(identity.tagged(value))))
    assert repr(back) == repr(value)


@given(values)
def test_stored_and_canonical_agree(value: object) -> None:
    assert identity.equal(identity.untagged(identity.tagged(value)), value)


@given(values)
def test_canonical_bytes_are_a_fixed_point(value: object) -> None:
    canonical = identity.canonical(value)
    assert identity.canonical(identity.untagged(json.loads(canonical))) == canonical


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, "1"), (1, True), (0, False), (0, None), ([1, 2], [2, 1]), ({}, None), ({}, {"a": None}), (2**70, 2**70 + 1), (b"a", "a"),
     (math.nan, None), (math.inf, -math.inf), ({"$bytes": "YQ=="}, b"a"), ("\ud800", "\ufffd"), (date(2026, 1, 1), "2026-01-01"), ("a", "A"), ("a ", "a")],
)  # fmt: skip
def test_different_values_keep_different_keys(left: object, right: object) -> None:
    assert identity.key("t", left) != identity.key("t", right)


@pytest.mark.parametrize(
    ("left", "right"),
    [(750, 750.0), (0, -0.0), (math.nan, float("nan")), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ("\u00e9", "e\u0301"), ((1, 2), [1, 2]), (1e22, 10**22)],
)  # fmt: skip
def test_equal_values_share_a_key(left: object, right: object) -> None:
    assert identity.key("t", left) == identity.key("t", right)


def test_the_name_is_in_the_key() -> None:
    assert identity.key("a", 1) != identity.key("b", 1)


def test_names_that_are_one_in_nfc_stay_apart() -> None:
    both = {"\u00e9": 1, "e\u0301": 2}
    assert len(both) == 2
    assert identity.canonical(both) != identity.canonical({"\u00e9": 2})


@pytest.mark.parametrize(
    "value",
    [datetime(2026, 6, 2, 10, tzinfo=UTC), date(2026, 6, 2), time(10, 30), timedelta(days=1, microseconds=3), Decimal("1.10"), UUID(int=7), {1, 2}, (1, (2,)), {1: "a", (2,): "b"}],
)  # fmt: skip
def test_types_beyond_json_come_back(value: object) -> None:
    back = identity.untagged(json.loads(json.dumps(identity.tagged(value))))
    assert type(back) is type(value)
    assert back == value


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(Unrecordable, match="object has no canonical form"):
        identity.canonical({"a": [object()]})


def test_a_bottomless_value_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(Unrecordable):
        identity.canonical(endless)
    with pytest.raises(Unrecordable):
        identity.tagged({"a": endless})


@pytest.mark.parametrize("stored", [{"$new": 1}, {"$bytes": "?"}, {"$date": "July 32"}, {"$decimal": "x"}, {"$map": 3}])
def test_a_wrong_tag_is_refused(stored: object) -> None:
    with pytest.raises(FormatError):
        identity.untagged(stored)


def test_keys_agree_across_processes() -> None:
    program = "from twiceshy.identity import key; print(key('t', {'b': [1.0, 'é', {2, 3}], 'a': b'x'}))"
    keys = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "src"}, check=True, capture_output=True
        ).stdout
        for seed in ("0", "1", "77")
    }  # fmt: skip
    assert len(keys) == 1


def test_the_known_key_never_moves() -> None:
    assert identity.key("issue_refund", {"amount_gbp": 750.0, "order_id": "A184"}) == (
        "c1:a98a6eaff4a7deede7c6499b2d314349ee0e16ea8c119d7336f82c35631394d3"
    )
    assert (
        identity.canonical({"b": base64.b64decode("YQ=="), "a": [1.5, None]})
        == b'{"a":[1.5,null],"b":{"$bytes":"YQ=="}}'
    )
