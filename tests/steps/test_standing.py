from typing import Any

import msgspec
import polars as pl
import pytest

from tables import DIGEST, some_rows
from tasks.publish.proof import proof
from tasks.publish.standing import standing
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
    proven = proof(
        [case, POSITIVE], Strata.no_rows() if strata is None else strata, some_rows(Replays, *replays),
        runs=["now"], digests={"f": DIGEST, "p": DIGEST}, limits=limits,
    )  # fmt: skip
    return str(standing(held, proven, limits=limits, before=before)["state"].item())


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
    assert state(limits, PROVEN, now=signatures(case_id="g"), before=before) == "covered"


@pytest.mark.parametrize("before", [signatures("covered", traces=2), signatures("escaped")], ids=["covered", "escaped"])
def test_red_night_does_not_hide_an_escape(limits: Limits, before: pl.DataFrame) -> None:
    red = [a_replay(1, "f", outcome="failed", failure="invariant"), *PROVEN[1:]]
    assert state(limits, red, before=before) == "escaped"
    assert state(limits, red, now=signatures(case_id=None), before=before) == "open"


def test_retired_stays_retired(limits: Limits) -> None:
    assert state(limits, PROVEN, now=signatures("retired")) == "retired"
