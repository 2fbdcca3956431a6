import copy
import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twiceshy.redaction import spellings, walking

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


class Replacing:
    """A visitor that replaces one text everywhere, and drops the places that end in a name."""

    def __init__(self, old: str = "secret", new: str = "S", gone: str | None = None) -> None:
        self.old, self.new, self.gone = old, new, gone
        self.seen: list[str] = []

    def dropped(self, place: str) -> bool:
        return self.gone is not None and place.endswith(f".{self.gone}")

    def whole(self, place: str) -> bool:
        return False

    def leaf(self, place: str, value: Any, depth: int) -> Any:
        self.seen.append(place)
        return value.replace(self.old, self.new) if isinstance(value, str) else value

    def name(self, place: str, key: str) -> str:
        return key.replace(self.old, self.new)


def walked(value: Any, visitor: Replacing | None = None, **options: Any) -> Any:
    return walking.walked(value, "t", visitor or Replacing(), **options)


@given(JSON)
def test_untouched_value_is_equal(value: Any) -> None:
    before = copy.deepcopy(value)
    assert walked(value, Replacing(old="\u0000never")) == value
    assert value == before


@given(JSON, st.sampled_from([None, 1, 2]), st.sampled_from(["ascii", "plain"]))
def test_untouched_json_text_keeps_bytes(value: Any, indent: int | None, escapes: str) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escapes == "ascii")
    assert walked(text, Replacing(old="\u0000never")) == text


@given(JSON, st.sampled_from([None, 2]))
def test_edited_json_text_stays_json(value: Any, indent: int | None) -> None:
    text = json.dumps({"secret": value, "say": 'a "secret" \\ line\\'}, indent=indent)
    edited = walked(text)
    assert json.loads(edited)["say"] == 'a "S" \\ line\\'
    assert "secret" not in json.loads(edited)


def test_paperclip_9856_openclaw_113709_codex_security_221_hermes_agent_42846_json_text_stays_json() -> None:
    text = r'{"q": "say \"secret\"", "path": "C:\\secret\\", "deep": "{\"a\": \"secret \\\"x\\\"\"}"}'
    edited = json.loads(walked(text))
    assert edited["q"] == 'say "S"'
    assert edited["path"] == "C:\\S\\"
    assert json.loads(edited["deep"]) == {"a": 'S "x"'}


def test_presidio_2272_list_leaves_one_by_one() -> None:
    value = {"mails": ["secret", "b", ["secret"]]}
    before = copy.deepcopy(value)
    assert walked(value) == {"mails": ["S", "b", ["S"]]}
    assert value == before


def test_separators_and_escapes_survive() -> None:
    text = '{ "a" : "secret\\u003c\\/b" ,\n\t"n":1.50,"e":1E5 , "big": 123456789012345678901234567890 }'
    assert walked(text) == text.replace("secret", "S")


def test_dropped_member_leaves_valid_json() -> None:
    for text in ('{"x": 1}', '{"x": 1, "a": 2}', '{"a": 2, "x": {"b": 1}}', '{"a":[{"x":1}, {"x":2,"c":3}], "x" : 5}'):
        edited = json.loads(walked(text, Replacing(gone="x")))
        assert '"x"' not in json.dumps(edited)
    assert walked({"a": 1, "x": 2}, Replacing(gone="x")) == {"a": 1}


def test_dropped_item_keeps_list_length() -> None:
    visitor = Replacing(gone="[]")
    assert walked([1, 2], visitor) == [None, None]


def test_depth_bound_is_enforced() -> None:
    deep: Any = "x"
    for _ in range(30):
        deep = [deep]
    assert walked(deep, limits=walking.Limits(depth=30)) == deep
    with pytest.raises(walking.BoundExceeded, match="depth_exceeded"):
        walked(deep, limits=walking.Limits(depth=29))
    text = json.dumps(deep)
    for _ in range(2):
        text = json.dumps([text])
    with pytest.raises(walking.BoundExceeded, match="depth_exceeded"):
        walked(text, limits=walking.Limits(depth=33))


def test_size_bound_is_enforced() -> None:
    with pytest.raises(walking.BoundExceeded, match="size_exceeded"):
        walked({"a": "x" * 11}, limits=walking.Limits(characters=10))


def test_key_cannot_pose_as_path() -> None:
    visitor = Replacing()
    walked({"[]": 1, "**": 2, "<key>": 3, "": 4}, visitor)
    assert visitor.seen == ["t.'[]'", "t.'**'", "t.'<key>'", "t.''"]


def test_duplicate_keys_are_both_seen() -> None:
    assert walked('{"a": "secret", "a": "secret"}') == '{"a": "S", "a": "S"}'


LETTERS = st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cs", "Cc"])


@given(st.text(LETTERS, min_size=9, max_size=40).filter(str.isprintable))
def test_encoded_text_round_trips(text: str) -> None:
    raw = text.encode()
    spelled = [
        b64encode(raw).decode(),
        urlsafe_b64encode(raw).decode(),
        urlsafe_b64encode(raw).decode().rstrip("="),
        quote(text),
    ]
    for one in spelled:
        if one != text:
            assert one in {found.back(text) for found in spellings.find(one) if found.plain == text}


def test_form_encoding_keeps_plus() -> None:
    (found,) = spellings.find("name=Mia+Li&mail=mia%40shop.example")
    assert found.plain == "name=Mia Li&mail=mia@shop.example"
    assert found.back(found.plain.replace("Mia Li", "Ada Q")) == "name=Ada+Q&mail=mia%40shop.example"


def test_escape_spellings_come_back() -> None:
    (found,) = spellings.find("see \\u003cmia\\u003e \\n there")
    assert found.plain == "<mia>"
    assert found.back("<ada\U0001f600>") == "\\u003cada\\ud83d\\ude00\\u003e"
