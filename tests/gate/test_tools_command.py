"""`twiceshy tools` on folders as a person has them."""

import json
from pathlib import Path

from builders import a_crossing, an_envelope
from sample_cases import twiceshy
from twiceshy import casefile
from twiceshy.envelope import Effect

NARROW = "workflow: shop\ntools:\n  get_order: {effect: read, reads: [orders]}\n  add_note: {effect: write, touches: [notes]}\n"


def a_checkout(folder: Path, tools: str = NARROW) -> Path:
    (folder / "twiceshy.toml").write_text("", encoding="utf-8")
    (folder / "data/cases").mkdir(parents=True)
    (folder / "data/policies/shop").mkdir(parents=True)
    (folder / "data/policies/shop/tools.yaml").write_text(tools, encoding="utf-8")
    run = an_envelope(
        a_crossing(1, "get_order", raw=1), a_crossing(2, "add_note", effect=Effect.WRITE), a_crossing(3, "get_order", raw=2), workflow="shop"
    )  # fmt: skip
    (folder / "traces/one").mkdir(parents=True)
    casefile.save_envelope(folder / "traces/one/envelope.jsonl", run)
    return folder


def test_lint_names_file_trace_and_writes(tmp_path: Path) -> None:
    ran = twiceshy("tools", "lint", "shop", "--traces", "traces", cwd=a_checkout(tmp_path))
    assert ran.code == 1
    assert "tools.yaml:3: get_order reads [orders]" in ran.out
    assert "at #1 and #3, with #2 add_note (touches [notes]) between" in ran.out


def test_lint_without_traces_is_not_green(tmp_path: Path) -> None:
    assert twiceshy("tools", "lint", "shop", cwd=a_checkout(tmp_path)).code == 5


def test_suggest_writes_nothing(tmp_path: Path) -> None:
    root = a_checkout(tmp_path, "workflow: shop\ntools:\n  get_order: {effect: read}\n")
    listing = {"tools": [{"name": "pay", "annotations": {"destructiveHint": True}}]}
    (root / "listing.json").write_text(json.dumps(listing), encoding="utf-8")
    before = (root / "data/policies/shop/tools.yaml").read_bytes()
    ran = twiceshy("tools", "suggest", "shop", "--traces", "traces", "--mcp", "listing.json", cwd=root)
    assert ran.code == 0, ran.err
    assert "\n--- a/data/policies/shop/tools.yaml\n" in ran.out
    assert "+  pay: {effect: write}  # its server hints that it writes; 0 calls in 0 traces\n" in ran.out
    assert "+  add_note:" in ran.out
    assert (root / "data/policies/shop/tools.yaml").read_bytes() == before


def test_own_policies_hold_against_the_samples() -> None:
    for workflow in ("refund", "research", "scheduling"):
        assert twiceshy("tools", "lint", workflow).code == 0, workflow
    assert twiceshy("tools", "lint", "refnd").code == 2


def test_a_first_policy_needs_no_catalog(tmp_path: Path) -> None:
    root = a_checkout(tmp_path)
    (root / "data/cases").rmdir()
    (root / "data/policies/shop/tools.yaml").unlink()
    ran = twiceshy("tools", "suggest", "shop", "--traces", "traces", cwd=root)
    assert ran.code == 0, ran.err
    assert "+  add_note:" in ran.out
    lost = twiceshy("tools", "suggest", "shop", "--cases", "nowhere", cwd=root)
    assert (lost.code, lost.err) == (2, "twiceshy: nowhere: no such folder of recorded runs.\n")


def test_nothing_to_go_by_is_not_green(tmp_path: Path) -> None:
    root = a_checkout(tmp_path)
    (root / "empty").mkdir()
    ran = twiceshy("tools", "suggest", "shop", "--traces", "empty", cwd=root)
    assert (ran.code, ran.out) == (5, "")
    assert "no recorded run of shop and no hint" in ran.err


def test_a_listing_that_is_none_is_refused(tmp_path: Path) -> None:
    root = a_checkout(tmp_path)
    for wrong in ([1, 2], {"result": {"tools": []}}, {"tools": [{"annotations": {"destructiveHint": True}}]}):
        (root / "listing.json").write_text(json.dumps(wrong), encoding="utf-8")
        ran = twiceshy("tools", "suggest", "shop", "--traces", "traces", "--mcp", "listing.json", cwd=root)
        assert (ran.code, ran.out) == (2, ""), wrong
        assert ran.err.startswith("twiceshy: listing.json: no tools/list result"), wrong
