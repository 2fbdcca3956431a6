"""Cases on disk: those that stand in the catalog, and those that wait for a person."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tasks.admit.proposals import Proposal
from tasks.prefect_tasks import Standing
from twiceshy import casefile


def catalogued(cases: Path) -> dict[str, Standing]:
    """Signature -> its case in the catalog. Raises InputError for a case that cannot be used."""
    if not cases.is_dir():
        return {}
    held = [casefile.load(path).case for path in casefile.find(cases)]
    return {case.signature_id: Standing(case.id, case.trace_id) for case in held if case.signature_id}


def propose(folder: Path, proposals: Sequence[Proposal]) -> None:
    """The folder holds exactly these cases; each is written whole, and nothing outside the folder is touched."""
    wanted = {folder / proposal.folder for proposal in proposals}
    for stale in [path for path in casefile.find(folder) if path not in wanted] if folder.is_dir() else []:
        shutil.rmtree(stale)
    for proposal in proposals:
        casefile.save(folder / proposal.folder, proposal.case, proposal.envelope)
