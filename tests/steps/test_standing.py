from typing import Any

import msgspec
import polars as pl
import pytest

from tables import DIGEST, some_rows
from tasks.contracts import validated
from tasks.publish.proof import proof
from tasks.publish.schema import Standings
from tasks.publish.standing import of_signatures, standing, standings
from tasks.replay.schema import Replays
from tasks.sign.schema import Signatures
from tasks.store import Limits
from tasks.stratify.schema import Strata
from twiceshy.casefile import Case

SIG = "sig_0a1b2c3d4e5f"
FAILURE = Case(
    id="f", kind="failure", workflow="refund", trace_id="1" * 32, tool="pay", signature_id=SIG, breaks=["guard.off:g"]
)
POSITIVE = Case(id="p", kind="positive", workflow="refund", trace_id="2" * 32, tool="pay")


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> Limits:
    return Limits(spill=tmp_path_factory.mktemp("spill"))


def a_replay(number: int, case: str, **columns: Any) -> dict[str, Any]:
    own = {"replay_id": f"{number:064x}", "run_id": "now", "case_id": case, "workflow": "refund", "live": ""}
    return own | {"outcome": "passed", "transcript_digest": "a" * 64} | columns


def a_break(number: int, state: str) -> dict[str, Any]:
    red = {"outcome": "failed", "failure": "invariant"} if state == "killed" else {}
    return a_replay(number, "f", broken_by="guard.off:g", break_state=state, **red)


PROVEN = [a_replay(1, "f"), a_replay(2, "p"), a_break(3, "killed")]


def signatures(state: str = "open", traces: int = 3, case_id: str | None = "f") -> pl.DataFrame:
    return some_rows(
        Signatures, {"signature": SIG, "state": state, "traces": traces, "case_id": case_id, "case_trace_id": "1" * 32}
    )


def state(
    limits: Limits,
    replays: list[dict[str, Any]],
    *,
    now: pl.DataFrame | None = None,
    before: pl.DataFrame | None = None,
    case: Case = FAILURE,
    strata: pl.DataFrame | None = None,
) -> str:
    held = signatures() if now is None else now
    stood = None if before is None else of_signatures(before)
    stands = stand(limits, replays, now=held, before=stood, cases=[case], strata=strata)
    assert standing(held, stands)["state"].to_list() == stands["state"].to_list()
    return str(stands["state"].item())


def stand(
    limits: Limits,
    replays: list[dict[str, Any]],
    *,
    now: pl.DataFrame,
    before: pl.DataFrame | None = None,
    cases: list[Case],
    strata: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """How the signature stands, with what the next publication is told."""
    proven = proof(
        [*cases, POSITIVE], Strata.no_rows() if strata is None else strata, some_rows(Replays, *replays),
        runs=["now"], digests={"f": DIGEST, "g": DIGEST, "p": DIGEST}, limits=limits,
    )  # fmt: skip
    found = validated(standings(now, proven, limits=limits, before=before), Standings)
    assert found.set_aside.is_empty()
    return found.good


def test_proven_case_covers_its_signature(limits: Limits) -> None:
    assert state(limits, PROVEN) == "covered"


@pytest.mark.parametrize(
    "replays",
    [
        [PROVEN[0], PROVEN[2]],
        PROVEN[:2],
        [*PROVEN[:2], a_break(3, "survived")],
        [*PROVEN[:2], a_break(3, "inconclusive")],
        [*PROVEN, a_replay(4, "f", trial=2, outcome="diverged", divergence="exhausted")],
        [*PROVEN[1:], a_replay(1, "f", run_id="last year")],
        [PROVEN[0], PROVEN[2], a_replay(2, "p", outcome="failed", failure="invariant")],
    ],
    ids=["no positive", "no break", "survived", "inconclusive", "one trial diverged", "another run", "red positive"],
)
def test_unproven_case_covers_nothing(limits: Limits, replays: list[dict[str, Any]]) -> None:
    assert state(limits, replays) == "open"


def test_a_break_that_applied_nowhere_or_was_not_run_covers_nothing(limits: Limits) -> None:
    case = msgspec.structs.replace(FAILURE, breaks=["guard.off:g", "guard.off:gone"])
    gone = a_break(4, "error") | {"broken_by": "guard.off:gone"}
    assert state(limits, [*PROVEN, gone], case=case) == "open"
    assert state(limits, PROVEN, case=case) == "open"
    assert state(limits, [*PROVEN, a_break(4, "killed") | {"broken_by": "guard.off:gone"}], case=case) == "covered"


@pytest.mark.parametrize(("error_code", "state_then"), [("ok", "covered"), ("denied", "open")])
def test_a_positive_vouches_for_what_it_used_well(limits: Limits, error_code: str, state_then: str) -> None:
    case = msgspec.structs.replace(FAILURE, tool="find")
    strata = some_rows(
        Strata, {"trace_id": POSITIVE.trace_id, "workflow": "refund", "tool": "find", "error_code": error_code}
    )
    assert state(limits, PROVEN, case=case) == "open"
    assert state(limits, PROVEN, case=case, strata=strata) == state_then


def test_covered_signature_seen_again_has_escaped(limits: Limits) -> None:
    before = signatures("covered", traces=3)
    assert state(limits, PROVEN, now=signatures(traces=4), before=before) == "escaped"
    assert state(limits, PROVEN, now=signatures(traces=3), before=before) == "covered"


def test_escaped_stays_until_another_case_covers(limits: Limits) -> None:
    before = signatures("escaped")
    assert state(limits, PROVEN, before=before) == "escaped"
    assert state(limits, PROVEN, now=signatures(case_id="g"), before=before) == "escaped", (
        "nothing proves the other one"
    )
    other = msgspec.structs.replace(FAILURE, id="g")
    ran = [*PROVEN, a_replay(5, "g"), a_break(6, "killed") | {"case_id": "g"}]
    assert stand(limits, ran, now=signatures(case_id="g"), before=of_signatures(before), cases=[FAILURE, other])[
        "state"
    ].item() == "covered"  # fmt: skip


RED = [a_replay(1, "f", outcome="failed", failure="invariant"), *PROVEN[1:]]


@pytest.mark.parametrize("between", [{"replays": RED}, {"case_id": None}], ids=["red night", "case taken away"])
def test_an_open_publication_forgets_no_escape(limits: Limits, between: dict[str, Any]) -> None:
    """Covered at three traces; a publication said open; seen again since, or before."""
    then = {"cases": [FAILURE]}
    covered = stand(limits, PROVEN, now=signatures(traces=3), **then)
    replays, case_id = between.get("replays", PROVEN), between.get("case_id", "f")
    for seen in (3, 4):
        opened = stand(limits, replays, now=signatures(traces=seen, case_id=case_id), before=covered, **then)
        assert opened["state"].item() == ("escaped" if seen > 3 and case_id else "open")
        again = stand(limits, PROVEN, now=signatures(traces=4), before=opened, **then)
        assert again["state"].item() == "escaped"
        assert stand(limits, PROVEN, now=signatures(traces=2), before=again, **then)["state"].item() == "escaped"
        retired = stand(limits, PROVEN, now=signatures("retired", traces=4), before=again, **then)
        assert stand(limits, PROVEN, now=signatures(traces=4), before=retired, **then)["state"].item() == "covered"


def test_traces_that_retention_took_are_not_waited_for(limits: Limits) -> None:
    covered = stand(limits, PROVEN, now=signatures(traces=9), cases=[FAILURE])
    fewer = stand(limits, RED, now=signatures(traces=2), before=covered, cases=[FAILURE])
    assert stand(limits, PROVEN, now=signatures(traces=3), before=fewer, cases=[FAILURE])["state"].item() == "escaped"
    assert stand(limits, PROVEN, now=signatures(traces=2), before=fewer, cases=[FAILURE])["state"].item() == "covered"


LIVE = {"mode": "cut-point", "live": "model:*"}


@pytest.mark.parametrize(
    ("more", "covered_in"),
    [
        ([], ["full"]),
        ([a_replay(5, "f", **LIVE)], ["full"]),
        ([a_replay(5, "f", **LIVE), a_break(6, "inconclusive") | LIVE], ["full"]),
        ([a_replay(5, "f", **LIVE), a_break(6, "killed") | LIVE], ["cut-point live model:*", "full"]),
        ([a_replay(5, "f", **LIVE, outcome="failed", failure="invariant"), a_break(6, "killed") | LIVE], []),
    ],
    ids=["one mode", "no break there", "not killed there", "both", "red there"],
)
def test_a_signature_is_covered_in_the_modes_it_was_proven_in(
    limits: Limits, more: list[dict[str, Any]], covered_in: list[str]
) -> None:
    assert (
        stand(limits, [*PROVEN, *more], now=signatures(), cases=[FAILURE])["covered_in"].item().to_list() == covered_in
    )


def test_modes_prove_nothing_together(limits: Limits) -> None:
    """One break that only the one mode kills, and one that only the other does."""
    case = msgspec.structs.replace(FAILURE, breaks=["guard.off:g", "guard.off:h"])
    other = {"broken_by": "guard.off:h"}
    split = [*PROVEN, a_replay(5, "f", **LIVE), a_break(6, "survived") | other, a_break(7, "killed") | other | LIVE]
    assert state(limits, split, case=case) == "open"
    assert state(limits, [*split, a_break(8, "killed") | LIVE], case=case) == "covered"


@pytest.mark.parametrize("before", [signatures("covered", traces=2), signatures("escaped")], ids=["covered", "escaped"])
def test_red_night_does_not_hide_an_escape(limits: Limits, before: pl.DataFrame) -> None:
    red = [a_replay(1, "f", outcome="failed", failure="invariant"), *PROVEN[1:]]
    assert state(limits, red, before=before) == "escaped"
    assert state(limits, red, now=signatures(case_id=None), before=before) == "open"


def test_retired_stays_retired(limits: Limits) -> None:
    assert state(limits, PROVEN, now=signatures("retired")) == "retired"
