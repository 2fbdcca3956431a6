from pathlib import Path

import msgspec
import pytest

from twiceshy.documents import Document
from twiceshy.errors import FormatError, InputError, InvariantError
from twiceshy.invariants import BUILT_IN, AllowedWrite, Invariants, Read, Selector, load, overlaid
from twiceshy.specs import TARGETS, Spec

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


PATHS = "write names, *, [] joined by dots, as in items[].id."
KINDS = "Kinds: tool, guard, hook, router, model, retrieval, memory, user, human, handoff."


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("kind: must_not", "'x': kind must_not needs at."),
        ("kind: order", "'x': kind order needs first, then."),
        ("kind: order, first: {tool: a}", "'x': kind order needs then."),
        ("kind: must_not, at: {tool: a}, max: 2", "'x': kind must_not takes no max."),
        ("kind: must_not, at: {tool: a}, only_if: opportunity, max: 2", "'x': kind must_not takes no max, only_if."),
        ("kind: must_not, at: {tool: a, guard: b}", f"a selector names exactly one boundary, found tool, guard. {KINDS}"),
        ("kind: must_not, at: {blocked: true}", f"a selector names exactly one boundary, found none. {KINDS}"),
        ("kind: order, first: {tool: a}, then: {}", f"a selector names exactly one boundary, found none. {KINDS}"),
        ("kind: must_not, at: {tool: a, args: {'..': 1}}", f"'..' is no path; {PATHS}"),
        ("kind: order, first: {tool: a, returned: {'..': 1}}, then: {tool: a}", f"'..' is no path; {PATHS}"),
        ("kind: must_not, at: {tool: a}, reads: [amount]", "'amount' is no field; write args.amount, proposed.amount, output.status or result(get_order).limit."),
        ("kind: must_not, at: {tool: a}, tier: semantic", "'x': the semantic tier is judged by a rubric; write kind: output and rubric."),
        ("kind: output, holds: 'true', tier: semantic", "'x': the semantic tier is judged by a rubric; write kind: output and rubric."),
        ("kind: output, rubric: kind, tier: semantic, holds: 'true'", "'x': a rubric stands alone; leave out schema and holds."),
        ("kind: output, rubric: kind, tier: semantic, schema: {type: object}", "'x': a rubric stands alone; leave out schema and holds."),
        ("kind: output, rubric: kind, tier: semantic", "the semantic tier needs a judge in invariants.yaml: its model and version."),
        ("kind: output, rubric: kind", "'x': a rubric is for tier: semantic."),
        ("kind: count, at: {tool: a}", "'x': a count needs max, min or both."),
        ("kind: output", "'x': an output invariant needs schema, holds or both."),
        ("kind: output, schema: {type: nonsense}", "not a JSON Schema: 'nonsense' is not valid under any of the given schemas at $.type."),
    ],
)  # fmt: skip
def test_faults_name_file_and_line(tmp_path: Path, fields: str, says: str) -> None:
    path = written(tmp_path, one(fields))
    with pytest.raises(InvariantError) as refused:
        load(path)
    assert str(refused.value) == f"{path}:3: {says}"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("kind: must_not, at: {tol: a}", r":3: unknown key 'tol' .*Did you mean 'tool'"),
        ("kind: must_not, at: {tool: a}, when: 'args.x >'", r"yaml:3: CEL error at column"),
        ("kind: output, holds: 'output.x >'", r"yaml:3: CEL error at column"),
        ("kind: never, at: {tool: a}", r":3: Invalid enum value 'never'"),
    ],
)
def test_faults_of_shape_and_condition_name_file_and_line(tmp_path: Path, fields: str, says: str) -> None:
    with pytest.raises(InvariantError, match=says):
        load(written(tmp_path, one(fields)))


@pytest.mark.parametrize("kind", TARGETS)
def test_what_can_be_blocked(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, one(f"kind: must_not, at: {{{kind}: a, blocked: true}}"))
    if kind in {"tool", "memory", "guard"}:
        assert load(path).invariants[0].spec.at == Selector(**{kind: "a"}, blocked=True)
        return
    with pytest.raises(InvariantError) as refused:
        load(path)
    assert str(refused.value) == f"{path}:3: a {kind} is never blocked."


def test_an_invariant_is_loaded_whole(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "workflow: refund\nallowed_writes: [{tool: a}, {tool: b, when: args.x > 1}]\ninvariants:\n"
        "  - {id: x, kind: must_not, at: {tool: a}, when: args.x > 1, reads: [args.x, result(b).y]}\n"
        "  - {id: y, kind: output, when: output.x > 1, holds: output.x > 2}\n",
    )
    loaded = load(path)
    first, second = loaded.invariants
    assert (first.spec, second.spec) == (loaded.file.invariants[0], loaded.file.invariants[1])
    assert (first.where, second.where) == (f"{path}:4", f"{path}:5")
    assert first.reads == (Read(source="args", path="x"), Read(source="result", path="y", tool="b"))
    assert [first.condition and first.condition.source, first.holds] == ["args.x > 1", None]
    assert [second.condition and second.condition.source, second.holds and second.holds.source] == [
        "output.x > 1",
        "output.x > 2",
    ]
    (plain, without), (_, given) = loaded.allowed
    assert (plain, without, given and given.source) == (AllowedWrite(tool="a"), None, "args.x > 1")
    assert (loaded.of("y"), loaded.of("z")) == (second, None)


# One place a line, and the line it is reported on.
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("allowed_writes:\n  - tool: look\n  - tool: lok\n", 4),
        ("invariants:\n  - {id: x, kind: must_not, at: {tool: look}}\n  - id: y\n    kind: must_not\n    at: {tool: lok}\n", 6),
        ("invariants:\n  - id: x\n    kind: order\n    first: {tool: lok}\n    then: {tool: look}\n", 5),
        ("invariants:\n  - id: x\n    kind: order\n    first: {tool: look}\n    then: {tool: lok}\n", 6),
        ("invariants:\n  - id: x\n    kind: must_not\n    at: {tool: look}\n    when: result('look', {}).x == result(\"lok\", {}).x\n", 6),
        ("invariants:\n  - id: x\n    kind: output\n    holds: result('lok', {}).x\n", 5),
        ("invariants:\n  - id: x\n    kind: must_not\n    at: {guard: lok}\n    reads: [args.x, result(look).x, result(lok).x]\n", 6),
    ],
)  # fmt: skip
def test_an_unlisted_tool_is_refused(tmp_path: Path, text: str, line: int) -> None:
    path = written(tmp_path, f"workflow: refund\n{text}")
    with pytest.raises(InvariantError) as refused:
        load(path, tools=["look", "move"])
    assert str(refused.value) == f"{path}:{line}: tool 'lok' is not listed in tools.yaml. Did you mean 'look'?"
    assert load(path, tools=["look", "lok"]).file == load(path).file


def test_any_tool_is_listed(tmp_path: Path) -> None:
    path = written(tmp_path, one("kind: must_not, at: {tool: '*'}, when: 'true'"))
    assert load(path, tools=[]).file == load(path).file


def test_condition_line_inside_a_block(tmp_path: Path) -> None:
    text = "workflow: refund\ninvariants:\n  - id: x\n    kind: must_not\n    at: {tool: a}\n    when: arg.x > 1\n"
    with pytest.raises(InvariantError, match=r"invariants\.yaml:6: unknown name 'arg'"):
        load(written(tmp_path, text))


def test_allowed_write_condition_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InvariantError, match=r"yaml:2: CEL error"):
        load(written(tmp_path, "workflow: refund\nallowed_writes: [{tool: a, when: '('}]\n"))


def test_ids_stand_once(tmp_path: Path) -> None:
    path = written(tmp_path, one("kind: must_not, at: {tool: a}") + "  - {id: x, kind: must_not, at: {tool: b}}\n")
    with pytest.raises(InvariantError) as refused:
        load(path)
    assert str(refused.value) == f"{path}:4: the id 'x' is given twice."


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_names_are_taken(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, one("kind: must_not, at: {tool: a}").replace("id: x", f"id: {name}"))
    with pytest.raises(InvariantError) as refused:
        load(path)
    assert str(refused.value) == f"{path}:3: the id {name!r} is the name of a built-in check."


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


def overlay(tmp_path: Path, text: str) -> tuple[Document, list[Spec]]:
    """The overlay of a case, each line an invariant; the first stands on line 2."""
    path = tmp_path / "case.yaml"
    path.write_text("overlay:\n" + "".join(f"  - {{{line}}}\n" for line in text.splitlines()), encoding="utf-8")
    document = Document(path)
    return document, msgspec.convert(document.value["overlay"], list[Spec])


@pytest.fixture
def two(tmp_path: Path) -> Invariants:
    """A workflow with the invariants x and y."""
    return load(
        written(tmp_path, one("kind: must_not, at: {tool: a}") + "  - {id: y, kind: must_not, at: {tool: a}}\n")
    )


def test_an_overlay_stands_where_its_id_stood(tmp_path: Path, two: Invariants) -> None:
    document, specs = overlay(
        tmp_path, "id: z, kind: output, holds: output.x\nid: x, kind: must_not, at: {tool: b}, when: args.x"
    )
    together = overlaid(two, document, specs, tools=["b"])
    x, y, z = together.invariants
    assert (x.spec, y, z.spec) == (specs[1], two.invariants[1], specs[0])
    assert (x.where, z.where) == (f"{document.path}:3", f"{document.path}:2")
    assert (together.file, together.allowed) == (two.file, two.allowed)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id: no_loop, kind: output, holds: 'true'", "the id 'no_loop' is the name of a built-in check."),
        ("id: x, kind: must_not, at: {tool: lok}", "tool 'lok' is not listed in tools.yaml. Did you mean 'look'?"),
        ("id: x, kind: output, tier: semantic, rubric: kind", "the semantic tier needs a judge in invariants.yaml: its model and version."),
        ("id: x, kind: count, at: {tool: look}", "'x': a count needs max, min or both."),
    ],
)  # fmt: skip
def test_a_fault_of_an_overlay_names_the_case(tmp_path: Path, two: Invariants, text: str, says: str) -> None:
    document, specs = overlay(tmp_path, f"id: w, kind: must_not, at: {{tool: look}}\n{text}")
    with pytest.raises(InvariantError) as refused:
        overlaid(two, document, specs, tools=["look"])
    assert str(refused.value) == f"{document.path}:3: {says}"
