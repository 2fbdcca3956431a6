"""Each version of the refund agent does live what its name says, and stands in a replay of T-1042 where semantics.md §7 puts it."""

import pytest

from examples.refund import BELOW_LIMIT, T_1042
from examples.refund.shop import Shop
from sample_runs import a_run, replayed, status
from twiceshy.envelope import Envelope, Kind
from twiceshy.outcome import Divergence
from twiceshy.transcript import Transcript


def steps(envelope: Envelope) -> list[str]:
    return [f"{crossing.place} {crossing.name}" for crossing in envelope.crossings if crossing.kind is not Kind.CLOCK]


def refunds(transcript: Transcript) -> list[str | None]:
    return [played.crossing.blocked_by for played in transcript.played if played.crossing.name == "issue_refund"]


def test_failed_run_numbers_its_steps() -> None:
    assert steps(a_run("refund:buggy", T_1042)) == [
        "#1 planner", "#2 get_order", "#2.1 strip_internal_fields", "#3 planner", "#4 issue_refund", "#5 planner",
        "#6 send_message", "#7 planner",
    ]  # fmt: skip


def test_guard_is_numbered_in_its_step() -> None:
    assert "#4.1 refund-approval" in steps(a_run("refund:hook_fixed_and_guarded", BELOW_LIMIT))


@pytest.mark.parametrize(
    ("version", "over_limit", "below_limit"),
    [
        ("buggy", "refunded", "refunded"),
        ("hook_fixed", "pending_approval", "refunded"),
        ("guarded", "pending_approval", "pending_approval"),
        ("hook_fixed_and_guarded", "pending_approval", "refunded"),
        ("approval_removed", "refunded", "refunded"),
        ("apologises_only", "apologised", "apologised"),
    ],
)
def test_version_ends_as_named(version: str, over_limit: str, below_limit: str) -> None:
    assert status(a_run(f"refund:{version}", T_1042)) == over_limit
    assert status(a_run(f"refund:{version}", BELOW_LIMIT)) == below_limit


@pytest.mark.parametrize("version", ["hook_fixed", "guarded", "hook_fixed_and_guarded"])
def test_repaired_version_pays_nothing_unapproved(version: str) -> None:
    shop = Shop()
    a_run(f"refund:{version}", T_1042, shop)
    assert (shop.refunds, len(shop.approvals), len(shop.messages)) == ([], 1, 1)


def test_hook_takes_the_limit_away() -> None:
    order = a_run("refund:buggy", T_1042).at(2)
    assert order is not None
    assert order.raw["policy_limit_gbp"] == 500
    assert "policy_limit_gbp" not in order.shown


def test_granted_token_pays_above_limit() -> None:
    shop = Shop()
    granted = a_run(
        "refund:hook_fixed_and_guarded", {"message": "My refund for order A230 was approved, please send it."}, shop
    )
    assert status(granted) == "refunded"
    assert shop.refunds == [{"order_id": "A230", "amount_gbp": 640, "approval_token": "TK-58120"}]


def test_timed_out_read_is_asked_again() -> None:
    once = a_run("refund:hook_fixed_and_guarded", BELOW_LIMIT, Shop(outages={"get_order": 1}))
    twice = a_run("refund:hook_fixed_and_guarded", BELOW_LIMIT, Shop(outages={"get_order": 2}))
    assert (status(once), status(twice)) == ("refunded", "unavailable")


def test_timed_out_refund_is_not_repeated() -> None:
    shop = Shop(outages={"issue_refund": 1})
    assert status(a_run("refund:hook_fixed_and_guarded", BELOW_LIMIT, shop)) == "unavailable"
    assert shop.refunds == []


@pytest.mark.parametrize(
    ("message", "ends"),
    [
        ("Where is order A201?", "answered"),
        ("Please refund order Z999.", "not_found"),
        ("I want my money back.", "needs_information"),
        ("Refund the lamp please, t.brandt@example.org", "refunded"),
    ],
)
def test_other_requests_end_sensibly(message: str, ends: str) -> None:
    assert status(a_run("refund:hook_fixed_and_guarded", {"message": message})) == ends


def test_same_clock_gives_same_bytes() -> None:
    assert a_run("refund:buggy", T_1042).digest == a_run("refund:buggy", T_1042).digest


@pytest.mark.parametrize("version", ["buggy", "hook_fixed", "approval_removed"])
def test_unguarded_replay_refunds_again(version: str) -> None:
    assert refunds(replayed(f"refund:{version}", a_run("refund:buggy", T_1042))) == [None]


@pytest.mark.parametrize("version", ["guarded", "hook_fixed_and_guarded"])
def test_guarded_replay_refuses_then_diverges(version: str) -> None:
    run_again = replayed(f"refund:{version}", a_run("refund:buggy", T_1042))
    assert refunds(run_again) == ["refund-approval"]
    assert run_again.divergence is not None
    assert (run_again.divergence.place, run_again.divergence.kind) == ("#6", Divergence.STATE_MISMATCH)


def test_apologising_replay_never_refunds() -> None:
    run_again = replayed("refund:apologises_only", a_run("refund:buggy", T_1042))
    assert (refunds(run_again), run_again.divergence) == ([], None)
    assert run_again.disposition is not None


def test_positive_replays_to_its_end() -> None:
    recorded = a_run("refund:hook_fixed_and_guarded", BELOW_LIMIT)
    run_again = replayed("refund:hook_fixed_and_guarded", recorded)
    assert run_again.divergence is None
    assert run_again.disposition == recorded.disposition
