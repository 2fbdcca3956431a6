"""The break tests as a scheduled or triggered run: every candidate is broken as the cases of its workflow declare, and each case must go red."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
from prefect import flow

from flows import artifacts
from flows.checkout import Checkout
from tasks.store import write_whole
from twiceshy import breakage, gate
from twiceshy.breakage import BrokenCase
from twiceshy.casefile import Judge
from twiceshy.cli import breaks as verb
from twiceshy.cli.options import candidate_spec, judges
from twiceshy.errors import ConfigurationError, InfrastructureError, TwiceshyError
from twiceshy.identity import digest

NOT_TRIED, NOTHING = 4, 5

_WORDS = {0: "killed", 1: "not_killed", NOT_TRIED: "error", NOTHING: "nothing_judged"}
VERDICTS: Mapping[int, str] = {code: _WORDS[code] for code in gate.PRECEDENCE if code in _WORDS}
"""Exit code -> what this flow says, the worst first. `error`: a candidate could not be tried."""


class NotTried(InfrastructureError):
    """Candidates that could not be broken: nothing is known of them."""

    @classmethod
    def because(cls, faults: Sequence[str]) -> Self:
        """Every candidate with its fault."""
        return cls(f"not every candidate could be broken: {'; '.join(faults)}")


class Tried(NamedTuple):
    """What became of one candidate. fault: why it could not be tried."""

    candidate: str
    cases: Sequence[BrokenCase] = ()
    fault: str = ""
    code: int = NOT_TRIED


@flow(name="breaks", timeout_seconds=2 * 3600, persist_result=False)
def breaks(candidate: str | None = None, select: str = "", mode: str = "auto", root: str = ".") -> dict[str, Any]:
    """Break every candidate of twiceshy.toml, or the one that is named; a break that is not killed is a verdict, not a failure of this flow.

    select: only cases that fit, as tool:issue_refund. All that was found is kept as JSON. A candidate that cannot be tried keeps none of the others from being
    tried, and fails the flow at its end. Raises NotTried; ConfigurationError, before anything runs, for a candidate or a mode that nobody knows.
    """
    place = Checkout.at(root)
    chosen = judges(mode, None, None, None)
    started = datetime.now(UTC).isoformat(timespec="microseconds")
    tried = [_tried(place, name, chosen, select) for name in _named(place, candidate)]
    account = told(tried, keep(place, tried, started))
    leave(account)
    if faults := [f"{one.candidate}: {one.fault}" for one in tried if one.code == NOT_TRIED]:
        raise NotTried.because(faults)
    return account


def keep(place: Checkout, tried: Sequence[Tried], started: str) -> Path:
    """The file that holds what `twiceshy break --all --json` writes, of each candidate."""
    held = [{"candidate": one.candidate, "fault": one.fault, **verb.told(one.cases)} for one in tried]
    run = digest([started, [one.candidate for one in tried]])[:16]
    file = place.published.root / "breaks" / f"{run}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, msgspec.json.format(msgspec.json.encode({"started": started, "candidates": held}), indent=1))
    return file


def told(tried: Sequence[Tried], kept: Path) -> dict[str, Any]:
    """Plain values: verdict, exit code, a row a candidate with its mutation score, a row a case (what covers nothing first), and where the whole of it is."""
    cases = [_case_row(one, case) for one in tried for case in one.cases]
    code = next(code for code in VERDICTS if code in {one.code for one in tried})
    return {
        "verdict": VERDICTS[code],
        "exit_code": code,
        "scores": [_score_row(one) for one in tried],
        "cases": sorted(cases, key=lambda row: not row["uncovered"]),
        "result": str(kept),
    }


def leave(account: dict[str, Any]) -> None:
    """The artifacts of a run."""
    lines = [f"- {row['candidate']}: {row['said']}" for row in account["scores"]]
    artifacts.text("breaks-verdict", "\n".join([f"# {account['verdict']}", "", *lines]))
    artifacts.table(
        "breaks-scores", account["scores"], about="Killed of all declared, and of those not shown equivalent."
    )
    artifacts.table("breaks-cases", account["cases"], about="Breaks of each case, what covers nothing first.")


def _named(place: Checkout, candidate: str | None) -> list[str]:
    """The candidates, each known. Raises ConfigurationError."""
    named = [candidate] if candidate else sorted(place.config.settings.candidate)
    if not named:
        raise ConfigurationError("twiceshy.toml names no candidate; name one, as package.module:factory.")
    for name in named:
        candidate_spec(name, place.config)
    return named


def _tried(place: Checkout, candidate: str, chosen: Sequence[Judge], select: str) -> Tried:
    try:
        done = verb.broken_run(place.config, candidate, chosen=chosen, select=select)
    except verb.NothingToBreak as nothing:
        return Tried(candidate, fault=str(nothing), code=NOTHING)
    except TwiceshyError as fault:
        return Tried(candidate, fault=str(fault))
    return Tried(candidate, done, code=verb.exit_code(done))


def _score_row(one: Tried) -> dict[str, Any]:
    score = breakage.score(one.cases)
    return {
        "candidate": one.candidate, "verdict": VERDICTS[one.code], "cases": len(one.cases), **score._asdict(), "of_all": score.of_all,
        "of_reachable": score.of_reachable, "said": one.fault or verb.said(score),
    }  # fmt: skip


def _case_row(one: Tried, case: BrokenCase) -> dict[str, Any]:
    states = list(case.states.values())
    counts = {state: states.count(state) for state in ("killed", "inconclusive", "survived", "error")}
    name = {"candidate": one.candidate, "case": case.loaded.case.id, "signature": case.loaded.case.signature}
    return {**name, **counts, "equivalent": len(case.equivalent), "uncovered": breakage.uncovered(case, one.cases)}
