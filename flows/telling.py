"""What a run did, in numbers and names that a person reads: returned to the caller, and left as artifacts."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows import artifacts
from flows.checkout import Checkout
from flows.console import unjudged
from flows.publishing import Published
from tasks.admit.accounts import accounts, by_workflow, refusals, tool_errors
from tasks.draft import Draft
from tasks.prefect_tasks import Admitted
from tasks.publish import summary
from tasks.store import Snapshot

if TYPE_CHECKING:
    import polars as pl


def account_of(
    place: Checkout, draft: Draft, admitted: Admitted, signatures: "pl.DataFrame", generation: Snapshot
) -> dict[str, Any]:
    """Plain values: corpus id, accounts by source, refusals, files that traces wait for, errors of tools, signatures, proposals."""
    shown = ("slug", "workflow", "severity", "state", "traces", "case_id")
    return {
        "corpus_id": generation.id,
        "generation": generation.number,
        "accounts": [held._asdict() for held in accounts(admitted.admissions, draft.traces, draft.quarantine)],
        "refusals": refusals(admitted.admissions),
        "awaited": [
            {"file": str(path), "workflow": name, "traces": traces}
            for name, traces in by_workflow(draft.traces).items()
            for path in place.lacking(name)
        ],
        "tool_errors": tool_errors(draft.traces, draft.crossings),
        "signatures": [{name: row[name] for name in shown} for row in signatures.iter_rows(named=True)],
        "proposed": [
            {"case": held.case.id, "kind": held.case.kind, "signature": held.case.signature, "folder": str(held.folder)}
            for held in admitted.proposals
        ],
    }


def leave(account: dict[str, Any]) -> None:
    """The artifacts of a refresh."""
    artifacts.table(
        "corpus-account",
        account["accounts"],
        about=f"Generation {account['generation']}, corpus {account['corpus_id']}.",
    )
    artifacts.table("corpus-refusals", account["refusals"], about="Why traces were not taken.")
    artifacts.table("corpus-awaited", account["awaited"], about="Files that somebody has yet to write.")
    artifacts.table("corpus-tool-errors", account["tool_errors"], about="Errors that tools answered with.")
    artifacts.table("corpus-signatures", account["signatures"], about="Failure signatures of the corpus.")
    artifacts.table("corpus-proposed", account["proposed"], about="Cases that wait for a person.")


def nightly_of(made: Published, generation: Snapshot, index: Path, *, unprotected: Sequence[str]) -> dict[str, Any]:
    """Plain values: verdict and outcomes of the newest night that was judged now, all runs, signatures, corpus id, publication, path of the site.

    unprotected: the workflows without a case, which no nightly judges.
    """
    runs, results = made.tables["runs"], made.tables["results"]
    return {
        "verdict": summary.verdict(runs, made.shown.judged),
        "runs": summary.nights(runs),
        "outcomes": summary.outcomes(results, made.shown.judged),
        "conversations": summary.conversations(made.tables["conversations"], made.shown.judged),
        "signatures": summary.signatures(made.tables["signatures"], results, made.shown.current),
        "unprotected": list(unprotected),
        "corpus_id": generation.id,
        "publication": made.publication.run_id,
        "site": str(index),
    }


def leave_nightly(account: dict[str, Any]) -> None:
    """The artifacts of a nightly."""
    artifacts.text(
        "catalog-verdict",
        f"# {account['verdict']}\n\nPublication {account['publication']}, corpus {account['corpus_id']}. {unjudged(account['unprotected'])}".rstrip(),
    )
    artifacts.table("catalog-runs", account["runs"], about="One run a workflow and night, the newest first.")
    artifacts.table(
        "catalog-outcomes", account["outcomes"], about="Cases of the newest night, what did not pass first."
    )
    artifacts.table(
        "catalog-conversations", account["conversations"], about="Conversations whose turns are cases, as a whole."
    )
    artifacts.table(
        "catalog-signatures", account["signatures"], about="Failure signatures and what their cases came to."
    )
    artifacts.link("catalog-site", Path(account["site"]).as_uri(), label="The site")
