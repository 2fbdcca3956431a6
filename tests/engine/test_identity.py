import json
import math
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec
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
    back = identity.untagged(json.loads(json.dumps(identity.tagged(value), allow_nan=False)))
    assert repr(back) == repr(value)


@given(names, values)
def test_both_ways_to_a_key_are_one(name: str, seen: object) -> None:
    key, text = identity.keyed(name, seen)
    assert key == identity.key(name, seen)
    assert text is None or text == identity.canonical(seen) == identity.encoded(identity.tagged(seen))


PLAIN = {"a": [1, 1.5, "x", None, True, {"b": []}]}
PLAIN_JSON = b'{"a":[1,1.5,"x",null,true,{"b":[]}]}'


def test_a_plain_value_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_normal", None)
    monkeypatch.setattr(identity, "_stored", None)
    assert identity.canonical(PLAIN) == identity.plain(PLAIN) == PLAIN_JSON
    assert identity.tagged(PLAIN) is PLAIN
    assert identity.equal({"amount": 750.0}, {"amount": 750.0})


def test_only_a_plain_call_brings_its_json() -> None:
    assert identity.keyed("t", PLAIN) == (identity.key("t", PLAIN), PLAIN_JSON)
    assert identity.keyed("\u00e9", PLAIN) == (identity.key("\u00e9", PLAIN), None)
    assert identity.keyed("t", [2.0]) == (identity.key("t", [2]), None)


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


def nested(levels: int, within: Callable[[object], object], core: object) -> object:
    for _ in range(levels):
        core = within(core)
    return core


@pytest.fixture
def deep_stack() -> Iterator[None]:
    """Room for the frames that mutmut puts between ours."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(limit)


# A 1.0 is walked, and a 1 is plain.
@pytest.mark.usefixtures("deep_stack")
@pytest.mark.parametrize("core", [1, 1.0])
@pytest.mark.parametrize("form", [identity.canonical, identity.tagged])
@pytest.mark.parametrize(
    ("kind", "within"),
    [("list", lambda held: [held]), ("tuple", lambda held: (held,)), ("frozenset", lambda held: frozenset({held})), ("dict", lambda held: {"a": held})],
)  # fmt: skip
def test_two_hundred_levels_are_the_last(
    kind: str, within: Callable[[object], object], form: Callable[[object], object], core: object
) -> None:
    assert form(nested(200, within, core))
    with pytest.raises(Unrecordable, match=f"^a {kind} has no canonical form, or is nested deeper than 200"):
        form(nested(201, within, core))


@pytest.mark.usefixtures("deep_stack")
@pytest.mark.parametrize("form", [identity.canonical, identity.tagged])
def test_depth_counts_names_and_mixed_containers(form: Callable[[object], object]) -> None:
    assert form({nested(199, lambda held: (held,), 1): 1})
    with pytest.raises(Unrecordable, match=r"^a tuple "):
        form({nested(200, lambda held: (held,), 1): 1})
    with pytest.raises(Unrecordable, match=r"^a dict "):
        form([nested(200, lambda held: {"a": held}, 1)])


def test_two_hundred_levels_are_still_plain() -> None:
    assert identity.plain(nested(200, lambda held: [held], 1)) == b"[" * 200 + b"1" + b"]" * 200


@pytest.mark.usefixtures("deep_stack")
def test_a_bottomless_value_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(Unrecordable):
        identity.canonical(endless)
    with pytest.raises(Unrecordable):
        identity.tagged({"a": endless})


@pytest.mark.parametrize(
    ("stored", "broken"),
    [({"$bytes": "?"}, "Error"), ({"$date": "July 32"}, "ValueError"), ({"$decimal": "x"}, "InvalidOperation"), ({"$map": 3}, "TypeError")],
)  # fmt: skip
def test_a_wrong_tag_is_refused(stored: dict[str, object], broken: str) -> None:
    with pytest.raises(FormatError) as refused:
        identity.untagged(stored)
    assert str(refused.value) == f"a {next(iter(stored))!r} tag holds what it cannot hold ({broken})."


def test_an_unknown_tag_is_refused() -> None:
    with pytest.raises(FormatError) as refused:
        identity.untagged({"$new": 1})
    assert str(refused.value) == (
        "unknown value tag '$new'. "
        "Known: $bytes, $date, $datetime, $decimal, $float, $map, $seconds, $set, $str, $time, $tuple, $uuid."
    )


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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": b"a", "a": [1.5, None]}, '{"a":[1.5,null],"b":{"$bytes":"YQ=="}}'),
        ([math.nan, -math.inf, 2.0, -0.0], '[{"$float":"nan"},{"$float":"-inf"},2,0]'),
        (["e\u0301", "\ud800"], '["\u00e9",{"$str":"00d8"}]'),
        ((1, ()), "[1,[]]"),
        ({3, (2, 1.0), "b", None}, '{"$set":["b",3,[2,1],null]}'),
        ({2: "b", 1.0: "a", "$c": None}, '{"$map":[["$c",null],[1,"a"],[2,"b"]]}'),
        ([date(2026, 6, 2), time(10, 30), timedelta(days=1, microseconds=3)], '[{"$date":"2026-06-02"},{"$time":"10:30:00"},{"$seconds":[1,0,3]}]'),
        ([datetime(2026, 6, 2, 10, tzinfo=UTC), Decimal("1.10")], '[{"$datetime":"2026-06-02T10:00:00+00:00"},{"$decimal":"1.10"}]'),
        (UUID(int=7), '{"$uuid":"00000000-0000-0000-0000-000000000007"}'),
    ],
)  # fmt: skip
def test_the_canonical_form_never_moves(value: object, text: str) -> None:
    assert identity.canonical(value) == text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([math.nan, 1.5, 2.0], '[{"$float":"nan"},1.5,2.0]'),
        (["e\u0301", "\ud800"], '["e\u0301",{"$str":"00d8"}]'),
        ((1, ()), '{"$tuple":[1,{"$tuple":[]}]}'),
        ({3, (2, 1.0), "b", None}, '{"$set":["b",3,null,{"$tuple":[2,1.0]}]}'),
        ({2: "b", 1: "a"}, '{"$map":[[2,"b"],[1,"a"]]}'),
    ],
)  # fmt: skip
def test_the_stored_form_never_moves(value: object, text: str) -> None:
    assert identity.encoded(identity.tagged(value)) == text.encode()


class _Text(str):
    """As frameworks give texts: of a class of their own."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class _Count(int):
    pass


class _Share(float):
    pass


def dressed(value: object) -> object:
    """The same value, its texts and numbers of classes of their own."""
    if isinstance(value, dict):
        return {dressed(name): dressed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [dressed(item) for item in value]
    made = {str: _Text, int: _Count, float: _Share}.get(type(value))
    return value if made is None else made(value)


@given(values)
def test_class_of_a_text_or_number_does_not_matter(value: object) -> None:
    assert identity.key("t", dressed(value)) == identity.key("t", value)
    assert msgspec.json.encode(identity.tagged(dressed(value))) == msgspec.json.encode(identity.tagged(value))
