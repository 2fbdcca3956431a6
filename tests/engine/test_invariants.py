from pathlib import Path

import pytest

from twiceshy.errors import FormatError, InputError, InvariantError
from twiceshy.invariants import BUILT_IN, Read, load

ROOT = Path(__file__).parents[2]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "invariants.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def one(fields: str) -> str:
    """A file with one invariant; its fields begin on line 3."""
    return f"workflow: refund\ninvariants:\n  - {{id: x, {fields}}}\n"


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("data/policies/*/invariants.yaml")), ids=lambda path: path.parent.name
)
def test_committed_invariants_load(path: Path) -> None:
    assert load(path).file.workflow == path.parent.name


def test_defaults_are_the_strict_ones(tmp_path: Path) -> None:
    checks = load(written(tmp_path, "workflow: refund\n")).file.checks
    assert (checks.explained_writes, checks.no_duplicate_write, checks.call_schemas) == (True, True, True)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("kind: must_not", r":3: 'x': kind must_not needs at"),
        ("kind: must_not, at: {tool: a}, max: 2", r":3: 'x': kind must_not takes no max"),
        ("kind: must_not, at: {tool: a, guard: b}", r":3: a selector names exactly one boundary, found tool, guard"),
        ("kind: must_not, at: {blocked: true}", r":3: a selector names exactly one boundary, found none"),
        ("kind: must_not, at: {model: a, blocked: true}", r":3: a model is never blocked"),
        ("kind: must_not, at: {tool: a, args: {'..': 1}}", r":3: '..' is no path"),
        ("kind: must_not, at: {tol: a}", r":3: unknown key 'tol' .*Did you mean 'tool'"),
        ("kind: must_not, at: {tool: a}, when: 'args.x >'", r":3: CEL error at column"),
        ("kind: must_not, at: {tool: a}, reads: [amount]", r":3: 'amount' is no field"),
        ("kind: must_not, at: {tool: a}, tier: semantic", r":3: 'x': the semantic tier is judged by a rubric"),
        ("kind: output, rubric: kind, tier: semantic, holds: 'true'", ":3: 'x': a rubric stands alone"),
        ("kind: output, rubric: kind, tier: semantic", ":3: the semantic tier needs a judge"),
        ("kind: output, rubric: kind", ":3: 'x': a rubric is for tier: semantic"),
        ("kind: must_not, at: {tool: a}, only_if: opportunity", r":3: 'x': kind must_not takes no only_if"),
        ("kind: count, at: {tool: a}", r":3: 'x': a count needs max, min or both"),
        ("kind: output", r":3: 'x': an output invariant needs schema, holds or both"),
        ("kind: output, schema: {type: nonsense}", r":3: not a JSON Schema"),
        ("kind: order, first: {tool: a}", r":3: 'x': kind order needs then"),
        ("kind: never, at: {tool: a}", r":3: Invalid enum value 'never'"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, fields: str, says: str) -> None:
    with pytest.raises(InvariantError, match=says):
        load(written(tmp_path, one(fields)))


def test_condition_line_inside_a_block(tmp_path: Path) -> None:
    text = "workflow: refund\ninvariants:\n  - id: x\n    kind: must_not\n    at: {tool: a}\n    when: arg.x > 1\n"
    with pytest.raises(InvariantError, match=r"invariants\.yaml:6: unknown name 'arg'"):
        load(written(tmp_path, text))


def test_allowed_write_condition_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InvariantError, match=r":2: CEL error"):
        load(written(tmp_path, "workflow: refund\nallowed_writes: [{tool: a, when: '('}]\n"))


def test_ids_stand_once(tmp_path: Path) -> None:
    twice = one("kind: must_not, at: {tool: a}") + "  - {id: x, kind: must_not, at: {tool: b}}\n"
    with pytest.raises(InvariantError, match=r":4: the id 'x' is given twice"):
        load(written(tmp_path, twice))


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_names_are_taken(tmp_path: Path, name: str) -> None:
    text = one("kind: must_not, at: {tool: a}").replace("id: x", f"id: {name}")
    with pytest.raises(InvariantError, match="name of a built-in check"):
        load(written(tmp_path, text))


def test_missing_or_empty_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "invariants.yaml")
    with pytest.raises(FormatError, match="empty"):
        load(written(tmp_path, ""))


def test_digest_follows_content(tmp_path: Path) -> None:
    first = load(written(tmp_path, one("kind: must_not, at: {tool: a}")))
    other = load(written(tmp_path, one("kind: must_not, at: {tool: b}")))
    spaced = load(written(tmp_path, one("kind: must_not,  at:  {tool: a}")))
    assert first.digest == spaced.digest != other.digest


def test_reads_name_their_side() -> None:
    assert Read.parse("args.amount_gbp") == Read(source="args", path="amount_gbp")
    assert Read.parse("result(get_order).limit") == Read(source="result", path="limit", tool="get_order")
    assert Read.parse('result("get_order").a.b') == Read(source="result", path="a.b", tool="get_order")
    for wrong in ("args", "result().x", "result(get_order)", "raw.x", "result(a.b"):
        with pytest.raises(ValueError, match="is no field"):
            Read.parse(wrong)


def test_what_a_workflow_does_not_use_is_not_in_its_digest(tmp_path: Path) -> None:
    """Pins hold for a harness state, so a new optional field may not move it where nobody uses it."""
    path = tmp_path / "invariants.yaml"
    path.write_text("workflow: refund\ninvariants: [{id: a, kind: must_not, at: {tool: x}}]\n")
    assert load(path).digest == "332752c6a29463fd8e0cee7e6531e854b3e2ccd5db1ece33cc073790d369d5da"
    path.write_text("workflow: refund\ndimensions: {tool_selection: 1.2}\n")
    with pytest.raises(InvariantError, match=r"<= 1"):
        load(path)
