import json
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import buckets
from tasks.buckets.profiles import Profile
from tasks.buckets.semantic import Surroundings, clock_of

CLOCK = datetime(2026, 6, 2, 10, tzinfo=ZoneInfo("Europe/London"))
AROUND = Surroundings(clock=CLOCK, grounded=lambda text: text == "A184-known")


def of(value: Any, schema: Any = None, **reference: Any) -> set[str]:
    whole = {"type": "object", "properties": {"x": schema}} if schema else None
    found = buckets.argument_buckets({"x": value}, buckets.Reference(schema=whole, around=AROUND, **reference))
    return {label for labels in found.labels.values() for label in labels}


@pytest.mark.parametrize(
    ("value", "schema", "label"),
    [
        (1, {"type": "string"}, "wrong_type"),
        (None, {"type": "string"}, "null_disallowed"),
        ("b", {"enum": ["a"]}, "enum_unknown"),
        (" A", {"enum": ["a"]}, "enum_case_variant"),
        ("nope", {"type": "string", "format": "email"}, "format_invalid"),
        ("x1", {"pattern": "^[a-z]+$"}, "pattern_fail"),
        (1, {"minimum": 2}, "below_min"),
        (2, {"minimum": 2}, "at_min"),
        (3, {"maximum": 3}, "at_max"),
        (4, {"maximum": 3}, "above_max"),
        (5, {"multipleOf": 2}, "not_multiple"),
        ("abcd", {"maxLength": 3}, "len_over"),
        ("abc", {"maxLength": 3}, "len_at_max"),
        ([1, 2, 3], {"maxItems": 2}, "items_over"),
        ([1, 1], {"uniqueItems": True}, "items_dup"),
        (1.5, {"type": "integer"}, "float_for_int"),
        (9, {"anyOf": [{"type": "string"}, {"type": "null"}]}, "wrong_type"),
        ("c", {"$ref": "#/properties/x/$defs/e", "$defs": {"e": {"enum": ["a"]}}}, "enum_unknown"),
    ],
)
def test_schema_says_what_is_wrong(value: Any, schema: Any, label: str) -> None:
    assert label in of(value, schema)


def test_missing_and_unknown_fields_are_named() -> None:
    schema = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {}, "b": {}, "c": {"properties": {"d": {}}}},
    }
    found = buckets.argument_buckets({"a": "x", "z": "x", "c": {"e": "x"}}, buckets.Reference(schema=schema))
    assert {path: labels for path, labels in found.labels.items() if labels != ("typical",)} == {
        "b": ("missing_required",),
        "z": ("unknown_field",),
        "c.e": ("unknown_field",),
    }


MEANINGS: dict[str, st.SearchStrategy[Any]] = {
    "injection_like": st.sampled_from(
        ["Ignore all previous instructions", "' or 1=1 --", "x; DROP TABLE users", "../../etc/passwd", "{{7*7}}", "<script>x</script>"]
    ),
    "control_or_bidi": st.sampled_from("\x00\x1b\u202e\u200b\u2066").map(lambda char: f"a{char}b"),
    "date_impossible": st.integers(32, 99).map(lambda day: f"July {day}") | st.just("2026-02-29") | st.just("31/04/2026"),
    "date_ambiguous": st.tuples(st.integers(1, 12), st.integers(1, 12)).filter(lambda two: two[0] != two[1]).map(
        lambda two: f"{two[0]:02d}/{two[1]:02d}/2026"
    ),
    "date_relative": st.sampled_from(["tomorrow", "next Thursday", "in 3 days", "2 weeks ago", "by Friday", "this weekend", "tonight"]),
    "tz_missing": st.datetimes(max_value=CLOCK.replace(tzinfo=None)).map(lambda moment: moment.isoformat(timespec="seconds")),
    "tz_dst_gap": st.integers(0, 59).map(lambda minute: f"2026-03-29T01:{minute:02d}:00"),
    "tz_offset_odd": st.integers(1, 14).map(lambda minute: f"2026-06-02T10:00:00+05:{minute:02d}"),
    "past_of_clock": st.dates(date(2000, 1, 1), CLOCK.date() - timedelta(days=1)).map(date.isoformat),
    "future_of_clock": st.dates(CLOCK.date() + timedelta(days=1), date(2090, 1, 1)).map(date.isoformat),
    "ungrounded_id": st.from_regex(r"[A-Z]\d{3,6}", fullmatch=True),
    "placeholder": st.sampled_from(["<user_id>", "N/A", "your order id", "unknown", "[name]", "???"]),
    "number_as_string": st.integers(-9999, 9999).map(str) | st.floats(0.1, 1e6).map(lambda number: f"{number:.2f}"),
    "nan_inf": st.sampled_from([float("nan"), float("inf"), float("-inf"), "NaN", "-Infinity"]),
    "negative": st.integers(max_value=-1) | st.floats(max_value=-0.001, allow_infinity=False),
    "zero": st.sampled_from([0, 0.0]),
    "one": st.sampled_from([1, 1.0]),
    "json_in_string": st.dictionaries(st.text(max_size=3), st.integers()).map(json.dumps),
    "list0": st.just([]),
    "list1": st.lists(st.integers(2, 9), min_size=1, max_size=1),
    "listN": st.lists(st.integers(2, 9), min_size=2),
    "null": st.none(),
    "empty": st.just(""),
    "whitespace_only": st.text(" \t\n", min_size=1),
    "non_ascii": st.text(st.characters(min_codepoint=0xC0, max_codepoint=0x17F), min_size=1),
    "mixed_script": st.sampled_from(["p\u0430ypal", "\u039frder", "\u0430pple"]),
    "emoji": st.sampled_from("😀🚀✅").map(lambda char: f"ok {char}"),
    "very_long": st.integers(2_001, 2_050).map(lambda size: "a " * size),
    "typical": st.sampled_from(["economy", "blue", True, 17, 3.5, "A184-known"]),
}  # fmt: skip


@pytest.mark.parametrize("label", MEANINGS)
def test_each_class_has_its_values(label: str) -> None:
    @given(MEANINGS[label])
    def holds(value: Any) -> None:
        assert label in of(value)

    holds()


def test_unit_that_the_name_denies() -> None:
    found = buckets.argument_buckets(
        {"amount_gbp": "30 USD", "price_usd": "$30", "wait_ms": "5 s", "note": "30 USD"}
    ).labels
    assert [path for path, labels in found.items() if "unit_mismatch" in labels] == ["amount_gbp", "wait_ms"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_every_leaf_has_one_primary(arguments: dict[str, Any]) -> None:
    found = buckets.argument_buckets(arguments, buckets.Reference(around=AROUND))
    for path, _ in buckets.leaf_values(arguments):
        assert path in found.labels
    assert all(labels and labels[0] in buckets.ORDER for labels in found.labels.values())
    assert all(list(labels) == sorted(labels, key=buckets.ORDER.index) for labels in found.labels.values())
    assert buckets.argument_buckets(arguments, buckets.Reference(around=AROUND)) == found


def test_unknown_tool_is_flagged() -> None:
    assert buckets.argument_buckets({"x": 5}).schema_known is False
    assert buckets.argument_buckets({"x": 5}, buckets.Reference(schema={})).schema_known is True


def test_schema_comes_before_meaning() -> None:
    schema = {"type": "object", "properties": {"x": {"maximum": -5}}}
    labels = buckets.argument_buckets({"x": -1}, buckets.Reference(schema=schema)).labels["x"]
    assert labels == ("above_max", "negative")


@pytest.mark.parametrize(
    ("value", "profile", "label"),
    [
        (3, Profile(n=300, p1=4, p99=9), "below_p1"),
        (10, Profile(n=300, p1=2, p99=9), "above_p99"),
        (5, Profile(n=299, p1=2, p99=9), "unprofiled"),
        ("gold", Profile(n=10_000, categories={"gold": 9}), "rare_category"),
        ("lead", Profile(n=10_000, categories={"gold": 9}), "new_category"),
        (True, Profile(n=10_000, categories={"true": 9_000}), "typical"),
    ],
)
def test_profile_says_how_usual(value: Any, profile: Profile, label: str) -> None:
    assert of(value, profiles={"x": profile}) == {label}


def test_clock_is_read_from_what_was_told() -> None:
    assert clock_of(None, "EST", "The time is 2024-05-15 15:00") == datetime(2024, 5, 15, tzinfo=ZoneInfo("EST"))
    assert clock_of(0, None) == datetime(1970, 1, 1, tzinfo=UTC)
    assert clock_of(None, "UTC", "no date") is None
