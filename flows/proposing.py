"""What the catalog holds of each signature."""

from pathlib import Path

from tasks.prefect_tasks import Standing
from twiceshy import casefile


def catalogued(cases: Path) -> dict[str, Standing]:
    """Signature -> its case in the catalog. Raises InputError for a case that cannot be used."""
    if not cases.is_dir():
        return {}
    held = [casefile.load(path).case for path in casefile.find(cases)]
    return {case.signature_id: Standing(case.id, case.trace_id) for case in held if case.signature_id}
