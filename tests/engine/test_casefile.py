import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import a_crossing, an_envelope
from twiceshy import casefile
from twiceshy.breaking import CodeBreak
from twiceshy.casefile import Case, Expect, Judge, Layer, Opportunity, Review
from twiceshy.encoding import envelope_of, lines
from twiceshy.envelope import Disposition, Envelope, Kind, RunInput
from twiceshy.errors import CaseError, DigestMismatch, FormatError, InputError
from twiceshy.outcome import DimensionName, Mode
from twiceshy.writes import DeclaredWrite

LONG = "x" * 9000


def a_case(**given: Any) -> Case:
    return Case(
        **{"id": "t-1042", "kind": "failure", "workflow": "refund", "trace_id": an_envelope().trace_id, **given}
    )


def saved(folder: Path, envelope: Envelope | None = None, **given: Any) -> Path:
    path = folder / "refund" / "t-1042"
    casefile.save(
        path, a_case(**given), envelope or an_envelope(a_crossing(seen={"order_id": "A184"}, raw={"total": 750.0}))
    )
    return path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_case_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    envelope = an_envelope(a_crossing(seen={"at": b"\x00"}, raw=(1, None)), input=RunInput(user={"day": "thu"}))
    given = {
        "judge": [Judge(mode=Mode.CUT_POINT, after=3, live=["model:planner"])], "opportunity": Opportunity(seq=4), "breaks": ["guard.off:limit", CodeBreak(env={"LIMIT": "9"})],
        "expect": Expect(writes=[DeclaredWrite(tool="pay", args={"amount": 1}, answer={"ok": True})]), "layer": Layer(name="harness.tool"),
    }  # fmt: skip
    path = saved(tmp_path, envelope, **given)
    loaded = casefile.load(path)
    assert loaded.envelope == envelope
    assert msgspec.structs.replace(loaded.case, envelope_digest="") == a_case(**given)
    assert list(casefile.find(tmp_path)) == [path]


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first = {file.name: file.read_bytes() for file in saved(tmp_path / "a").iterdir()}
    again = saved(tmp_path / "a")
    assert {file.name: file.read_bytes() for file in again.iterdir()} == first
    assert [entry.name for entry in again.parent.iterdir()] == ["t-1042"]


def test_long_values_stand_in_blobs(tmp_path: Path) -> None:
    envelope = an_envelope(a_crossing(raw={"page": LONG}), a_crossing(2, raw={"page": LONG}))
    path = saved(tmp_path, envelope)
    assert len(list((path / "blobs").iterdir())) == 1
    assert LONG not in (path / "envelope.jsonl").read_text()
    assert casefile.load(path).envelope == envelope


def test_a_changed_blob_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, an_envelope(a_crossing(raw={"page": LONG})))
    blob = next((path / "blobs").iterdir())
    change(blob, "xxx", "xyx")
    with pytest.raises(DigestMismatch, match="blobs"):
        casefile.load(path)
    blob.unlink()
    with pytest.raises(InputError, match="no such blob"):
        casefile.load(path)


def test_a_changed_envelope_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    change(path / "envelope.jsonl", "A184", "A185")
    with pytest.raises(DigestMismatch, match=r"envelope\.jsonl") as raised:
        casefile.load(path)
    assert raised.value.exit_code == 2


def test_an_exchanged_envelope_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    casefile.save_envelope(path / "envelope.jsonl", an_envelope(a_crossing(raw=1)))
    with pytest.raises(DigestMismatch, match=r"case\.yaml"):
        casefile.load(path)


def test_spelling_on_disk_does_not_matter(tmp_path: Path) -> None:
    path = saved(tmp_path)
    change(path / "envelope.jsonl", '"seen":{"order_id":"A184"}', '"seen": {"order_id": "\\u0041184"}')
    assert casefile.load(path).envelope.crossings[0].seen == {"order_id": "A184"}


@pytest.mark.parametrize(
    ("file", "old", "new", "error", "phrase"),
    [
        ("envelope.jsonl", "twiceshy/envelope/1", "twiceshy/envelope/9", FormatError, "twiceshy/envelope/9"),
        ("case.yaml", "twiceshy/case/1", "twiceshy/case/9", FormatError, "twiceshy/case/9"),
        ("case.yaml", "workflow: refund", "worklow: refund", CaseError, "Did you mean 'workflow'"),
        ("case.yaml", "kind: failure", "kind: falure", CaseError, "case.yaml:3"),
        ("case.yaml", "workflow: refund", "workflow: other", CaseError, "those of its envelope"),
        (
            "case.yaml",
            "workflow: refund",
            "workflow: refund\nfloor: {rate: 0}",
            CaseError,
            "case.yaml:5: Expected `float` > 0.0",
        ),
        ("envelope.jsonl", '"kind":"tool"', '"kind":"tol"', FormatError, "envelope.jsonl:2"),
        ("envelope.jsonl", '{"seq"', '{"seq', FormatError, "envelope.jsonl:2"),
    ],
)
def test_a_wrong_file_names_its_place(
    tmp_path: Path, file: str, old: str, new: str, error: type[InputError], phrase: str
) -> None:
    path = saved(tmp_path)
    change(path / file, old, new)
    with pytest.raises(error) as raised:
        casefile.load(path)
    assert phrase in str(raised.value)


def test_a_wrong_boundary_in_judge_names_its_line(tmp_path: Path) -> None:
    path = saved(tmp_path, judge=[Judge(mode=Mode.CUT_POINT, live=["planner"])])
    with pytest.raises(CaseError, match=r"case\.yaml:\d+: 'planner' names no boundary"):
        casefile.load(path)


@pytest.mark.parametrize("name", ["case.yaml", "envelope.jsonl"])
def test_a_missing_or_empty_file_is_named(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path)
    (path / name).write_text("")
    with pytest.raises(FormatError, match=f"{name}.*empty"):
        casefile.load(path)
    (path / name).unlink()
    with pytest.raises(InputError, match=f"{name}: no such file"):
        casefile.load(path)


def test_a_blob_name_cannot_leave_its_folder(tmp_path: Path) -> None:
    path = saved(tmp_path)
    change(path / "envelope.jsonl", '{"total":750.0}', '{"$blob":"../../secret"}')
    with pytest.raises(FormatError, match="no blob name"):
        casefile.load(path)


def test_the_digest_covers_what_is_asked_not_the_review() -> None:
    assert a_case().digest == a_case(review=Review(status="promoted", by="@reviewer")).digest
    assert a_case().digest != a_case(breaks=["guard.off:limit"]).digest


@pytest.mark.parametrize(
    ("layer", "seq", "expected"),
    [
        ("harness.prompt", 4, ["cut-point --live model:*"]),
        ("model", None, ["cut-point --live model:*"]),
        ("harness.tool", 4, ["full", "cut-point --after 3"]),
        ("harness.workflow", 1, ["full"]),
        ("harness.memory", None, ["full"]),
    ],
)
def test_the_judging_mode_follows_the_layer(layer: Any, seq: int | None, expected: list[str]) -> None:
    case = a_case(layer=Layer(name=layer), opportunity=Opportunity(seq=seq) if seq else None)
    assert [judge.cut.label for judge in case.judges()] == expected
    assert [judge.cut.label for judge in case.judges(9)] == (
        expected if seq or layer == "model" else ["full", "cut-point --after 8"]
    )


json_values = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=3), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3), max_leaves=8)  # fmt: skip


@given(json_values, json_values)
def test_lines_hold_the_whole_envelope(seen: Any, raw: Any) -> None:
    envelope = an_envelope(a_crossing(seen=seen, raw=raw), input=RunInput(user=seen))
    assert envelope_of(lines(envelope), "here") == envelope


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values)
def test_any_value_survives_a_case_directory(tmp_path: Path, raw: Any) -> None:
    envelope = an_envelope(a_crossing(raw=raw))
    assert casefile.load(saved(tmp_path, envelope)).envelope == envelope


def spelt(value: Any) -> str:
    """A value with its names in their order, which `==` does not see."""
    return repr(value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values, st.sampled_from(["", "x" * 9000]))
def test_names_keep_their_order_and_the_digest_does_not_see_it(tmp_path: Path, value: Any, long: str) -> None:
    """An agent that prints what it was served into a prompt would else seem to have another prompt."""
    held = {"zulu": value, "alpha": {"b": 1, "a": long}}
    sides = {"proposed": held, "seen": held, "raw": held, "shown": held, "chunks": [held]}
    envelope = an_envelope(a_crossing(**sides), input=RunInput(user=held), disposition=Disposition(output=held))
    read = casefile.load(saved(tmp_path, envelope)).envelope
    (crossing,) = read.crossings
    kept = [
        crossing.proposed,
        crossing.seen,
        crossing.raw,
        crossing.shown,
        *(crossing.chunks or ()),
        read.input.user,
        read.disposition.output,
    ]
    assert {spelt(one) for one in kept} == {spelt(held)}
    other = {name: held[name] for name in sorted(held)}
    turned = an_envelope(
        a_crossing(**(sides | {"raw": other})), input=RunInput(user=other), disposition=Disposition(output=other)
    )
    assert turned.digest == envelope.digest


def test_what_a_case_does_not_use_is_not_in_its_digest() -> None:
    """Pins hold for a case digest, so a new optional field may not move those of cases without it."""
    plain = Case(id="t", kind="failure", workflow="refund", trace_id="a" * 32)
    assert plain.digest == "dfc50f710bf1bd671be864a20ad5a1e0ef5eee2ac7939723e64aba408059f66b"
    assert len(casefile.case_text(plain).splitlines()) == 8
    used = Case(
        id="t", kind="failure", workflow="refund", trace_id="a" * 32, dimensions={DimensionName.TOOL_SELECTION: 1}
    )
    assert used.digest != plain.digest


def test_how_far_a_layer_is_shown_and_where_the_review_stands_is_written_out() -> None:
    case = Case(id="t", kind="failure", workflow="refund", trace_id="a" * 32, layer=Layer(name="model"))
    written = yaml.safe_load(casefile.case_text(case))
    assert written["layer"] == {"name": "model", "verdict": "suggested"}
    assert written["review"] == {"status": "proposed"}
    accepted = msgspec.structs.replace(case, review=casefile.Review(status="promoted", by="@me"))
    assert yaml.safe_load(casefile.case_text(accepted))["review"] == {"status": "promoted", "by": "@me"}


@pytest.mark.parametrize(
    ("break_", "says"),
    [
        ("guard.of:limit", "Did you mean 'guard.off'?"),
        ("proposal.replace:1", "holds no model output at step 1"),
        (CodeBreak(patch="gone.diff"), "no such file 'gone.diff'"),
        (CodeBreak(), "exactly one of patch, env and git"),
    ],
)
def test_a_wrong_break_is_refused_with_its_line(tmp_path: Path, break_: Any, says: str) -> None:
    path = saved(tmp_path, breaks=["guard.off:a", break_])
    with pytest.raises(CaseError, match=r"case\.yaml:\d+: .*" + re.escape(says)):
        casefile.load(path)


def test_a_break_that_is_there_is_taken(tmp_path: Path) -> None:
    model = a_crossing(1, "planner", kind=Kind.MODEL, effect=None, raw={"parts": []})
    path = saved(tmp_path, an_envelope(model), breaks=["proposal.replace:1", CodeBreak(patch="it.diff")])
    (path / "it.diff").write_text("")
    assert len(casefile.load(path).case.breaks) == 2
