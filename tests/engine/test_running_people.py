"""What a case declares about people and flags reaches the sealed trial."""

from pathlib import Path
from typing import Any

import pytest

from builders import a_policy, recorded
from sealed import a_host_folder
from twiceshy import casefile
from twiceshy.boundary import Boundary
from twiceshy.casefile import Case, Expect, Judge
from twiceshy.outcome import Divergence
from twiceshy.running import CandidateSpec, Session, Task
from twiceshy.transcript import Transcript
from twiceshy.writes import DeclaredGrant

pytestmark = pytest.mark.slow

POLICY = a_policy("clinic")
DESK = """
import twiceshy

@twiceshy.candidate(workflow="clinic")
def build(boundary):
    patient = boundary.user("patient", lambda said: "nobody is there")
    boss = boundary.human("boss", lambda asked: {"granted": True})
    return lambda _: [patient("Total: 5 pounds"), boss({"amount": 5}), boundary.flag("fast", lambda: False)]
"""


def older(boundary: Boundary) -> Any:
    patient = boundary.user("patient", lambda said: "fine")
    return lambda _: patient("The Total is 5 pounds")


def played(session: Session, path: Path, **declared: Any) -> Transcript:
    envelope = recorded(older, workflow="clinic")
    case = Case(id="desk", kind="positive", workflow="clinic", trace_id=envelope.trace_id, **declared)
    casefile.save(path, case, envelope)
    return session.play(Task(loaded=casefile.load(path), judge=Judge(), policy=POLICY)).transcript


def test_declarations_reach_the_trial(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK, encoding="utf-8")
    grants = Expect(grants=[DeclaredGrant(human="boss", args={"amount": 5}, answer={"granted": False})])
    spec, cases = CandidateSpec(factory="desk:build", path=[tmp_path]), [tmp_path / name for name in ("a", "b", "c")]
    for case in cases:
        case.mkdir()
    with a_host_folder() as folder, Session(spec, env={}, folder=folder, cases=cases) as session:
        stale = played(session, cases[0])
        alone = played(session, cases[1], user_turns="any")
        whole = played(
            session, cases[2], user_turns="said.contains('Total') && recorded.contains('Total')", expect=grants, flags={"fast": True}
        )  # fmt: skip
    assert [told.divergence and told.divergence.kind for told in (stale, alone)] == [
        Divergence.STALE_USER_TURN, Divergence.UNRECORDED_CALL]  # fmt: skip
    assert whole.disposition is not None, whole
    assert whole.disposition.output == ["fine", {"granted": False}, True]
