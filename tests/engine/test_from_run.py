"""A case drafted of a run: no gate takes it before a person has accepted it, with every answer in it that nobody recorded."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from builders import a_case, a_crossing, a_divergence, a_played, an_envelope, replayed
from kept_runs import HOW, ONCE, RULES, explored, of_played, some_rules
from small_worlds import POLICY, build_with
from twiceshy import casefile, drafting, judging, keeping
from twiceshy.acceptance import answer_digest, unaccepted
from twiceshy.casefile import Case, LoadedCase, Review
from twiceshy.envelope import Crossing, ErrorRecord
from twiceshy.errors import CaseError, InputError
from twiceshy.exploring import examples
from twiceshy.grading import TrialVerdict
from twiceshy.judging import Rules, Terms
from twiceshy.keeping import Kept
from twiceshy.outcome import Outcome
from twiceshy.policy import ToolPolicy
from twiceshy.redaction import Keyring
from twiceshy.worlds.seeding import seeded


def saved(draft: drafting.Draft, path: Path, **review: Any) -> LoadedCase:
    """The draft as it stands, under this review."""
    casefile.save(
        path, msgspec.structs.replace(draft.case, review=Review(**review)), draft.kept.envelope, world=draft.world
    )
    return casefile.load(path)


def refused(loaded: LoadedCase, rules: Rules = RULES) -> str:
    with pytest.raises(CaseError) as told:
        judging.graders([loaded], rules, Terms())
    return str(told.value)


# what is drafted of it


def test_what_a_run_violates_is_what_its_case_stands_for() -> None:
    case = drafting.drafted(explored("thu", "fri", "sat"), RULES, None).case
    assert (case.kind, case.invariants, case.severity, case.tool) == ("failure", ["not-on-saturday"], "high", "slots")
    assert case.opportunity == casefile.Opportunity(seq=3)
    assert [judge.cut.label for judge in case.judge] == ["full", "cut-point --after 2"]
    assert case.review == Review(status="draft")


def test_a_run_that_violates_nothing_is_a_happy_path() -> None:
    told = replayed(build_with(lambda slots, tell, **_: [slots(day="thu"), tell(body="x")]), ONCE, policy=POLICY)
    kept = keeping.of_replay(a_case(ONCE), told, TrialVerdict(outcome=Outcome.DIVERGED), HOW)
    draft = drafting.drafted(kept, RULES, None)
    assert (draft.case.kind, draft.case.tool, draft.case.invariants) == ("positive", "tell", ["no_duplicate_write"])
    assert draft.case.breaks == ["call.duplicate:tell"]
    assert any("tell at #2 is a write that nobody recorded" in note for note in draft.notes)


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (of_played(), "made no crossing"),
        (of_played(a_played(1), outcome=Outcome.ERROR), "came to ERROR"),
        (of_played(a_played(1), outcome=Outcome.FAILED), "which its own record would no longer show"),
        (of_played(a_played(1), divergence=a_divergence()), "did not come to its end"),
    ],
)
def test_a_run_that_leaves_nothing_to_stand_for_is_refused(kept: Kept, told: str) -> None:
    with pytest.raises(InputError, match=told):
        drafting.drafted(kept, RULES, None)


def test_the_terms_of_the_source_stay_in_force() -> None:
    source = a_case(
        ONCE, invariants=["not-on-saturday"], decided_by=["d"], layer=casefile.Layer(name="model"), flags={"f": 1},
        user_turns="any", expect=casefile.Expect(in_order=True, writes=[casefile.DeclaredWrite(tool="tell")]),
    )  # fmt: skip
    draft = drafting._Drafting(explored("sat"), RULES, source)
    case = draft.case(None)
    assert (case.decided_by, case.layer.name, case.flags, case.user_turns) == (["d"], "model", {"f": 1}, "any")
    assert case.expect == casefile.Expect(writes=[casefile.DeclaredWrite(tool="tell")])
    assert case.related_trace_ids == [ONCE.trace_id]


def test_a_draft_that_could_not_be_judged_is_refused() -> None:
    source = a_case(ONCE, invariants=["not-on-saturday"], decided_by=["nobody"])
    with pytest.raises(CaseError, match=r"the draft refund-\w+: invariant 'nobody'"):
        drafting.drafted(explored("sat"), RULES, source)


# no gate takes it before it is accepted


def test_a_draft_is_refused_until_a_person_accepts_it(tmp_path: Path) -> None:
    draft = drafting.drafted(explored("thu", "sat"), RULES, None)
    accepted = [answer_digest(crossing) for crossing in draft.undecided]
    assert "a draft that was made of a run" in refused(saved(draft, tmp_path / "a", status="draft"))
    assert "does not say who" in refused(saved(draft, tmp_path / "b", by="@me", accepted_simulated=accepted))
    assert "does not say who" in refused(saved(draft, tmp_path / "c", status="promoted", accepted_simulated=accepted))
    assert "1 of its answers" in refused(saved(draft, tmp_path / "d", status="promoted", by="@me"))
    taken = saved(draft, tmp_path / "e", status="promoted", by="@me", accepted_simulated=accepted)
    assert len(judging.graders([taken], RULES, Terms())) == 1


@given(st.sets(st.sampled_from(["fri", "sat", "sun"])))
def test_every_answer_is_accepted_by_itself(accepted: set[str]) -> None:
    kept = explored("fri", "sat", "sun")
    digests = [answer_digest(step) for step in kept.envelope.crossings if step.seen["day"] in accepted]
    case = Case(
        id="a", kind="positive", workflow="refund", trace_id=kept.envelope.trace_id, envelope_digest=kept.envelope.digest,
        review=Review(status="promoted", by="@me", accepted_simulated=digests),
    )  # fmt: skip
    loaded = LoadedCase(case=case, envelope=kept.envelope, path=Path("a"))
    assert {step.seen["day"] for step in unaccepted(loaded)} == {"fri", "sat", "sun"} - accepted
    if accepted == {"fri", "sat", "sun"}:
        judging.graders([loaded], RULES, Terms())
    else:
        assert "accepted by nobody" in refused(loaded)


def test_an_acceptance_is_of_this_answer_to_this_call() -> None:
    (step,) = explored("fri").envelope.crossings
    others = [msgspec.structs.replace(step, **{side: {"day": "sun"}}) for side in ("seen", "raw", "shown")]
    assert len({answer_digest(one) for one in (step, *others)}) == 4
    assert answer_digest(msgspec.structs.replace(step, seq=9, start_ns=5)) == answer_digest(step)


def test_a_case_without_a_run_is_taken_as_before() -> None:
    assert len(judging.graders([a_case(ONCE, kind="positive")], RULES, Terms())) == 1


# as a world


def test_rows_that_rest_on_simulated_answers_are_invented(tmp_path: Path) -> None:
    draft = drafting.drafted(explored("thu", "sat"), RULES, None, to="world")
    assert draft.world is not None
    table = yaml.safe_load(draft.world)["tables"]["slots"]
    assert [row["day"] for row in table["rows"]] == ["thu"]
    assert table["invented"] == [{"day": "sat"}]
    assert draft.case.review.status == "draft"
    assert draft.undecided == []
    taken = saved(draft, tmp_path / "a", status="promoted", by="@me")
    assert taken.world is not None
    assert taken.world.file.invented == ["slots[1]"]
    judging.graders([taken], RULES, Terms())
    with pytest.raises(CaseError, match="accepted by nobody"):  # judged by the record, its answers would be served
        judging.graders([taken], RULES, Terms(judges=[casefile.Judge()]))


def test_an_invented_row_is_a_persons_to_change(tmp_path: Path) -> None:
    draft = drafting.drafted(explored("thu", "sat"), RULES, None, to="world")
    written = yaml.safe_load(str(draft.world))
    written["tables"]["slots"]["invented"][0]["free"] = ["S9"]
    changed = drafting.Draft(case=draft.case, kept=draft.kept, world=yaml.safe_dump(written), undecided=[], notes=[])
    judging.graders([saved(changed, tmp_path / "a", status="promoted", by="@me")], RULES, Terms())
    written["tables"]["slots"]["rows"][0]["free"] = ["S9"]
    forged = drafting.Draft(case=draft.case, kept=draft.kept, world=yaml.safe_dump(written), undecided=[], notes=[])
    assert "answers it otherwise" in refused(saved(forged, tmp_path / "b", status="promoted", by="@me"))


def test_no_answer_to_a_write_is_made_up_into_a_world() -> None:
    policy = msgspec.structs.replace(POLICY, tools={**POLICY.tools, "move": ToolPolicy(touches=("slots",))})
    told = replayed(
        build_with(lambda slots, move, **_: [slots(day="thu"), move(id="K1", slot="S1")]), ONCE, policy=policy
    )
    kept = keeping.of_replay(a_case(ONCE), told, TrialVerdict(outcome=Outcome.DIVERGED), HOW)
    assert [one.by for one in kept.run.simulated] == ["ok"]
    draft = drafting.drafted(kept, some_rules(policy=policy), None, to="world")
    assert "move" not in yaml.safe_load(str(draft.world))["tools"]
    assert [step.name for step in draft.undecided] == ["move"]
    assert "to complete: the draft" in draft.notes[-1]
    assert "two authorities" in draft.notes[-1]


def a_read(seq: int, day: str, **given: Any) -> Crossing:
    return a_crossing(seq, "slots", **{"seen": {"day": day}, "raw": {"day": day}, "shown": {"day": day}, **given})


def test_what_was_recorded_counts_before_what_was_simulated() -> None:
    made_up = a_read(1, "thu", raw={"day": "thu", "free": ["S9"]}, simulated=True)
    table = seeded(an_envelope(made_up, a_read(2, "thu")), POLICY).world["tables"]["slots"]
    assert (table["rows"], "invented" in table) == ([{"day": "thu"}], False)


def test_an_absence_that_nobody_recorded_is_left_out() -> None:
    gone = ErrorRecord(cls="builtins.LookupError", definite=True)
    failed = a_read(2, "fri", raw=msgspec.UNSET, error=gone, simulated=True)
    made = seeded(an_envelope(a_read(1, "thu"), failed), POLICY)
    assert "absent" not in made.world["tables"]["slots"]
    assert "slots at #2 failed, which nobody recorded; it is left out" in made.notes


def test_a_simulated_answer_is_no_example_to_a_simulator() -> None:
    held = examples("slots", {"day": "sat"}, [an_envelope(a_read(1, "thu"), a_read(2, "fri", simulated=True))])
    assert [example.args for example in held] == [{"day": "thu"}]


@pytest.mark.parametrize("workflow", ["../elsewhere", "/elsewhere", "..", "", "a/b"])
def test_a_workflow_that_names_a_path_has_no_policies(workflow: str, tmp_path: Path) -> None:
    """The folder of a draft is named after it: a run that somebody else wrote would choose where it is written."""
    with pytest.raises(InputError, match="is no plain name"):
        judging.rules_of(tmp_path / "policies", workflow, Keyring({}))
