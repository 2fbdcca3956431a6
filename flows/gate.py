"""The replay gate as a scheduled or triggered run: the command line's gate, with its verdict kept where others can read it."""

from pathlib import Path
from typing import Any

import msgspec
from prefect import flow

from flows import artifacts
from flows.checkout import Checkout
from tasks.publish.summary import PRECEDENCE
from tasks.store import write_whole
from twiceshy.cli.gating import judged_run
from twiceshy.cli.options import bench, judges
from twiceshy.judging import Terms
from twiceshy.reporting import markdown
from twiceshy.sealing import Limits
from twiceshy.verdict import Verdict


@flow(name="gate", flow_run_name="gate-{candidate}", timeout_seconds=2 * 3600, persist_result=False)
def gate(candidate: str, select: str = "", mode: str = "auto", root: str = ".") -> dict[str, Any]:
    """Judge a candidate by the cases of its workflow; a regression that is found is a verdict, not a failure of this flow.

    candidate: a name of twiceshy.toml, or package.module:factory. select: only cases that fit, as tool:issue_refund. The verdict object is kept as JSON.
    """
    place = Checkout.at(root)
    settings = place.config.settings.gate
    terms = Terms(
        judges=judges(mode, None, None, None), trials=settings.trials, limits=Limits(wall_s=settings.timeout_case), bench=bench(place.config)
    )  # fmt: skip
    run = judged_run(place.config, candidate, terms=terms, policy=place.policy, cases=None, select=select, quiet=True)
    kept = keep(place, run.verdict)
    account = told(run.verdict, kept)
    artifacts.text("gate-verdict", markdown.summary(run.verdict))
    artifacts.table("gate-outcomes", account["outcomes"], about=f"{candidate}: {account['verdict']}.")
    return account


def keep(place: Checkout, verdict: Verdict) -> Path:
    """The file that holds the verdict object: what `--via-prefect` and other readers take the exit code from."""
    file = place.published.root / "gates" / f"{verdict.run.id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, msgspec.json.format(msgspec.json.encode(verdict), indent=1))
    return file


def told(verdict: Verdict, kept: Path) -> dict[str, Any]:
    """Plain values: verdict, exit code, a row a case, and where the whole of it is."""
    rows = [
        {
            "case": result.case.id,
            "signature": result.signature,
            "outcome": result.outcome.value,
            "change": result.change,
            "mode": result.mode,
        }
        for result in verdict.results
    ]
    code = verdict.summary.exit_code
    return {"verdict": PRECEDENCE[code], "exit_code": code, "outcomes": rows, "result": str(kept)}
