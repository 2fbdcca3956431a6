from pathlib import Path

import pytest

from twiceshy.errors import ConfigurationError, KeyMissing, PolicyError
from twiceshy.redaction import SAMPLE_KEY_ID, Keyring, Policy, load, new_key, refuse_sample_key

HEAD = "policy: refunds\nversion: 1\nnamespace: corpus\nkey_id: k1\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "redaction.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def loaded(folder: Path, text: str = "") -> Policy:
    return load(written(folder, text))


@pytest.mark.parametrize(
    ("text", "line", "phrase"),
    [
        ("fields:\n  - {path: tool.a.args.b, actoin: drop}\n", 6, "'actoin'"),
        ("fields:\n  - {path: tool.a.args.b, action: keep}\n", 6, "keep needs a reason"),
        ("fields:\n  - {path: tool.a.args.b, action: synthesize}\n", 6, "synthesize needs a type"),
        ("fields:\n  - {path: tool.a.args.b, action: generalize}\n", 6, "generalize needs band or to"),
        ("fields:\n  - {path: tool.a.args.b, action: drop, to: year_band_5}\n", 6, "belong to generalize"),
        ("fields:\n  - {path: 'tool..b', action: drop}\n", 6, "is no path"),
        ("fields:\n  - {path: a.b, action: synthesize, type: order_id, pattern: '('}\n", 6, "no regular expression"),
        ("fields:\n  - {path: a.b, action: synthesize, type: email, pattern: 'x'}\n", 6, "only a business id"),
        ("fields:\n  - {path: a.b, action: synthesize, type: u, pattern: '(?P<nick>x)'}\n", 6, "a group 'nick'"),
        (
            "fields:\n  - {path: a.b, action: synthesize, type: u, pattern: '(?P<last_name>x)'}\n",
            6,
            "without the other half",
        ),
        ("detectors: {emial: synthesize}\n", 5, "Did you mean 'email'?"),
        ("detectors: {secret: synthesize}\n", 5, "cannot be synthesized"),
        ("subject: 'tool.{a'\n", 5, "is no path"),
        ("default: {unknown_field: keep}\n", 5, "keep"),
    ],
)
def test_wrong_policy_names_line(tmp_path: Path, text: str, line: int, phrase: str) -> None:
    with pytest.raises(PolicyError) as raised:
        loaded(tmp_path, text)
    assert f"redaction.yaml:{line}: " in str(raised.value)
    assert phrase in str(raised.value)


def test_presidio_2173_2174_2185_region_is_gb(tmp_path: Path) -> None:
    assert loaded(tmp_path, "default_region: GB\n").default_region == "GB"
    with pytest.raises(PolicyError, match=r"redaction\.yaml:5: 'UK' is no region.*Did you mean 'GB'"):
        loaded(tmp_path, "default_region: UK\n")


def test_first_matching_rule_wins(tmp_path: Path) -> None:
    rules = """fields:
  - {path: "tool.get_order.result.email", action: keep, reason: "shown to all"}
  - {path: "tool.*.result.**.{email,mail}", action: drop}
  - {path: "tool.*.args.items[].sku", action: keep, reason: "no person"}
  - {path: "tool.*.result.methods.<key>", action: synthesize, type: method_id}
"""
    policy = loaded(tmp_path, rules)
    actions = {
        place: rule and rule.action
        for place in (
            "tool.get_order.result.email",
            "tool.get_user.result.email",
            "tool.get_user.result.contact.[].mail",
            "tool.get_user.result.contact.phone",
            "tool.buy.args.items.[].sku",
            "tool.buy.args.items.sku",
            "tool.pay.result.methods.<key>",
            "tool.pay.result.methods.card_1",
        )
        for rule in [policy.rule(place)]
    }
    assert list(actions.values()) == ["keep", "drop", "drop", None, "keep", None, "synthesize", None]


def test_flattened_key_is_nested(tmp_path: Path) -> None:
    policy = loaded(tmp_path, "fields:\n  - {path: meta.metadata.apiKey, action: drop}\n")
    assert policy.rule("meta.metadata.apiKey") is not None


def test_digest_follows_meaning_not_spelling(tmp_path: Path) -> None:
    rule = "fields:\n  - {path: a.b, action: drop}\n"
    spaced = "\n# a comment\nfields:\n  - path: a.b\n    action: drop\n"
    assert loaded(tmp_path, rule).digest == loaded(tmp_path, spaced).digest
    assert loaded(tmp_path, rule).digest != loaded(tmp_path).digest


def test_keyring_hides_keys() -> None:
    key = new_key("k1")
    keyring = Keyring.of({key.variable: key.hex, "PATH": "/bin"})
    assert key.variable == "TWICESHY_KEY_K1"
    assert keyring.key("k1") == bytes.fromhex(key.hex)
    assert key.hex not in repr(keyring) + repr(key)
    with pytest.raises(KeyMissing, match="TWICESHY_KEY_K2"):
        keyring.key("k2")


def test_broken_key_is_not_echoed() -> None:
    with pytest.raises(ConfigurationError, match="TWICESHY_KEY_K1 holds no key") as raised:
        Keyring.of({"TWICESHY_KEY_K1": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_sample_key_for_samples_only() -> None:
    assert SAMPLE_KEY_ID in Keyring()
    refuse_sample_key(SAMPLE_KEY_ID, source_is_sample=True)
    refuse_sample_key("k1", source_is_sample=False)
    with pytest.raises(ConfigurationError, match="twiceshy keys new"):
        refuse_sample_key("Sample", source_is_sample=False)


def test_environment_cannot_replace_sample_key() -> None:
    forged = Keyring.of({"TWICESHY_KEY_SAMPLE": "00" * 32})
    assert forged.key(SAMPLE_KEY_ID) == Keyring().key(SAMPLE_KEY_ID)


@pytest.mark.parametrize("name", ["sample", "Up", "a b", "-x", ""])
def test_unusable_key_ids_refused(name: str) -> None:
    if name:
        with pytest.raises(ConfigurationError):
            new_key(name)
    assert new_key().key_id != new_key().key_id
