"""From cases on disk to a page: the real engine replays them, publish measures and publishes, the site is built from that."""

import os
import re
import sys
from pathlib import Path

import polars as pl
import pytest

from dashboards.build import build
from dashboards.catalog import slug
from sample_cases import ROOT, SIGNATURE, save_catalog
from tasks import workflows
from tasks.admit.schema import Admissions
from tasks.attribute.schema import Attributions
from tasks.contracts import Quarantine
from tasks.detect.schema import Findings
from tasks.normalize.schema import Traces
from tasks.publish.judged import Judging
from tasks.publish.proof import proof
from tasks.publish.step import Corpus, Terms, measure
from tasks.pull.schema import Pulls
from tasks.replay.step import Occasion, Replayed, replay
from tasks.sign.schema import Signatures
from tasks.store import Limits, Published
from tasks.stratify.schema import Strata
from twiceshy import casefile
from twiceshy.shards import ShardRequest

pytestmark = pytest.mark.slow

NIGHTS = {"2026-11-10": "buggy", "2026-11-11": "hook_fixed_and_guarded"}
NOTHING = Corpus(
    *(table.no_rows() for table in (Pulls, Traces, Strata, Findings, Signatures, Attributions, Admissions, Quarantine))
)


def replayed(cases: Path, night: str, version: str) -> Replayed:
    request = ShardRequest(
        factory=f"examples.refund:{version}", python=sys.executable, path=[str(ROOT)], env=dict(os.environ), folder=str(ROOT),
        policies=str(ROOT / "data/policies"), cases=[str(path) for path in sorted(cases.iterdir())], breaks=True,
    )  # fmt: skip
    occasion = Occasion(generation="g", night=night, candidate=f"examples.refund:{version}")
    (told,) = replay(request, [occasion], harness_state="h")
    return told


def judging(night: str, version: str, told: Replayed) -> Judging:
    return Judging(
        run_id=told.run_id, night=night, workflow="refund", candidate=f"examples.refund:{version}",
        candidate_digest=told.candidate_digest, harness=told.harness, results=told.results,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("nightly")
    cases = save_catalog(root / "cases") / "refund"
    told = {night: replayed(cases, night, version) for night, version in NIGHTS.items()}
    frames = {
        name: pl.concat([getattr(shard, name) for shard in told.values()])
        for name in ("replays", "violations", "intents", "steps")
    }
    catalog, current = [casefile.load(path) for path in sorted(cases.iterdir())], [told[max(told)].run_id]
    proven = proof(
        [loaded.case for loaded in catalog], NOTHING.strata, frames["replays"], runs=current,
        digests={loaded.case.id: loaded.digest for loaded in catalog}, limits=Limits(spill=root),
    )  # fmt: skip
    assert proven["proven"].to_list() == [False, True]
    measured = measure(
        NOTHING, frames["replays"], [judging(night, NIGHTS[night], shard) for night, shard in told.items()],
        proven=proven, current=current, terms=Terms(workflows.load(ROOT / "data/policies"), 10**18, Limits(spill=root), "h"),
    )  # fmt: skip
    assert measured.set_aside == {}
    tables = {name: frame for name, frame in measured._asdict().items() if name != "set_aside"}
    Published(root / "published").publish(
        "2026-11-11", generation="0" * 64, tables={**tables, **frames, "signatures": Signatures.no_rows()}
    )
    build(root / "published", root / "site")
    return root / "site"


def said(site: Path, name: str) -> str:
    text = re.sub(r"<[^>]+>", " ", (site / name).read_text(encoding="utf-8"))
    return " ".join(text.split())


def test_last_night_is_what_counts(site: Path) -> None:
    assert "All clear: 2 cases passed" in said(site, "index.html")
    assert "hook_fixed_and_guarded" in said(site, "runs/2026-11-11.html")
    assert "refund-over-limit-missing-approval" in said(site, "runs/2026-11-10.html")


def test_page_of_case_tells_guard_and_break(site: Path) -> None:
    text = said(site, f"sig/{slug(SIGNATURE)}.html")
    assert "blocked by refund-approval" in text
    assert "guard.off:refund-approval killed" in text
    assert "examples.refund:buggy" in text
    assert "raw → shown" in text


def test_every_mode_of_case_is_compared(site: Path) -> None:
    text = said(site, f"sig/{slug(SIGNATURE)}.html")
    assert "full, trial 1" in text
    assert "cut-point --after 3, trial 1" in text
