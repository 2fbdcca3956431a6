from datetime import UTC, datetime
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXPIRY = datetime(2026, 11, 2, tzinfo=UTC)


def a_checkout(at: Path) -> Path:
    (at / "twiceshy.toml").write_text("", encoding="utf-8")
    return at


def test_retention_sweeps_what_expired(tmp_path: Path) -> None:
    from flows.checkout import Checkout
    from flows.retention import retention
    from tasks.store import Lock

    place = Checkout.at(a_checkout(tmp_path))
    kept = place.raw.put(
        b"{}", Lock("k1", b"k" * 32), source="otlp", name="a.jsonl", expires_at_ns=int(EXPIRY.timestamp()) * 10**9
    )
    assert retention.fn(root=str(tmp_path), as_of="2026-11-01T23:59:59+00:00")["raw"] == 0
    assert place.raw.get(kept.ref, lambda _: b"k" * 32, reader="ann", why="a test", at_ns=1) == b"{}"
    assert retention.fn(root=str(tmp_path), as_of="2026-11-02T00:00:00+00:00")["raw"] == 1
    assert list(place.raw.labels()) == []


def test_time_without_zone_is_refused(tmp_path: Path) -> None:
    from flows.retention import retention
    from twiceshy.errors import InputError

    with pytest.raises(InputError, match="zone"):
        retention.fn(root=str(a_checkout(tmp_path)), as_of="2026-11-02T00:00:00")
