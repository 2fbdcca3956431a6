"""Worlds written in Python: methods marked as reads and writes over the same tables."""

import sys
from contextlib import suppress
from typing import Any

import pytest

from builders import an_envelope
from small_worlds import POLICY, WORLD, a_world, build_with, changed
from twiceshy import worlds
from twiceshy.boundary import Boundary
from twiceshy.cutpoint import CutPoint
from twiceshy.errors import CaseError
from twiceshy.journal import Journal, transcript_of
from twiceshy.outcome import AnsweredBy, Divergence, Mode
from twiceshy.recording import run
from twiceshy.replaying import Replay, RunDiverged, RunFaulted, Terms
from twiceshy.transcript import Transcript
from twiceshy.worlds.authority import for_run
from twiceshy.worlds.loading import LoadedWorld


class Diary(worlds.World):
    """The small diary, its rules in code."""

    @worlds.read
    def look(self, id: str) -> Any:  # noqa: A002 - the tool's own argument
        return self._found(id)

    @worlds.write
    def move(self, id: str, slot: str) -> Any:  # noqa: A002 - the tool's own argument
        found, taken = self._found(id), self.tables.find("slots", slot=slot)
        self.tables.update("appointments", {**found, "day": "never"})
        if taken is None or not taken["open"]:
            raise worlds.Refused(LookupError(f"slot {slot} is not open"))
        self.tables.update("appointments", {**found, "day": taken["day"]})
        self.tables.update("slots", {**taken, "open": False})
        return {"id": id, "status": f"moved to {taken['day']}"}

    @worlds.write
    def tell(self, body: str) -> Any:
        if not body:
            raise worlds.Refused("Error: nothing to tell", type="empty")
        self.tables.insert("letters", {"body": body})
        return {"queued": True}

    def _found(self, id: str) -> Any:  # noqa: A002 - as above
        found = self.tables.find("appointments", id=id)
        if found is None:
            raise worlds.Refused(LookupError(f"no appointment {id}"))
        return found


class Sly(worlds.World):
    """A world with faults of its own."""

    @worlds.read
    def look(self, id: str) -> Any:  # noqa: A002 - the tool's own argument
        self.tables.insert("letters", {"body": "written by a read"})

    @worlds.write
    def tell(self, body: str) -> Any:
        return body["nothing"]  # type: ignore[index]


def a_python_world(cls: type[worlds.World]) -> LoadedWorld:
    return a_world({**changed(WORLD, "tools", to={}), "python": f"{__name__}:{cls.__name__}"})


def coded(cls: type[worlds.World], body: Any) -> Transcript:
    started = for_run(a_python_world(cls), POLICY, first=True)
    lines: list[bytes] = []
    terms = Terms(policy=POLICY, cut=CutPoint(mode=Mode.WORLD), world=started)
    with suppress(RunDiverged, RunFaulted):
        journal = Journal(lines.append)
        journal.ended(run(build_with(body)(Boundary(Replay(an_envelope(), terms, journal))), None))
    return transcript_of(lines)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Diary.__module__])


def test_methods_answer_and_change_rows() -> None:
    told = coded(Diary, lambda look, move, **_: [move(id="K1", slot="S1"), look(id="K1")])
    assert told.disposition is not None
    assert told.disposition.output == [{"id": "K1", "status": "moved to thu"}, {"id": "K1", "day": "thu"}]
    assert [change.row for change in told.played[0].changes] == ["appointments[0]", "appointments[0]", "slots[0]"]


def test_refused_call_is_taken_back_whole() -> None:
    def body(look: Any, move: Any, **_: Any) -> Any:
        with pytest.raises(LookupError, match="slot S2 is not open"):
            move(id="K1", slot="S2")
        return look(id="K1")

    told = coded(Diary, body)
    assert told.disposition is not None
    assert told.disposition.output == {"id": "K1", "day": "mon"}
    assert not told.played[0].changes


def test_refusal_may_be_a_value() -> None:
    told = coded(Diary, lambda tell, **_: tell(body=""))
    crossing = told.played[0].crossing
    assert (crossing.raw, crossing.shown) == ("Error: nothing to tell", "Error: nothing to tell")
    assert crossing.error is not None
    assert (crossing.error.type, crossing.error.definite) == ("empty", True)


def test_tool_without_a_method_is_a_miss() -> None:
    told = coded(Diary, lambda slots, **_: slots(day="thu"))
    assert told.divergence is not None
    assert told.divergence.kind is Divergence.WORLD_MISS


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (lambda look, **_: look(id="K1"), "marked as a read and changed a row"),
        (lambda tell, **_: tell(body="x"), "TypeError"),
    ],
)
def test_faults_of_a_world_are_ours(body: Any, said: str) -> None:
    told = coded(Sly, body)
    assert told.fault is not None
    assert said in told.fault


def test_arguments_a_method_does_not_take_are_a_miss() -> None:
    with pytest.raises(worlds.WorldMiss, match="does not take these arguments"):
        a_python_world(Diary).started().answer("tell", {"text": "x"})


def test_world_must_be_a_class_of_ours() -> None:
    with pytest.raises(CaseError, match="cannot be imported"):
        a_world({**changed(WORLD, "tools", to={}), "python": "nowhere:Diary"})
    with pytest.raises(CaseError, match=r"builds on twiceshy\.worlds\.World"):
        a_world({**changed(WORLD, "tools", to={}), "python": "json:JSONDecoder"})


def test_python_world_binds_no_tools_in_yaml() -> None:
    with pytest.raises(CaseError, match="binds no tools"):
        a_world({**WORLD, "python": f"{__name__}:Diary"})


def test_answer_is_the_worlds() -> None:
    told = coded(Diary, lambda look, **_: look(id="K2"))
    assert told.played[0].answered_by is AnsweredBy.WORLD
