"""What every table's contract is made of: the base model, the column types, the closed sets, and validation that sets rows aside.

A null in a column means unknown; a JSON column holds canonical text, so the text `null` is a recorded JSON null; what was said to an agent keeps its names in order. Times are int64 ns since the epoch, in UTC,
with a zone name where a person's day matters. Nothing here but `Timings` may hold a wall-clock value: the other tables are hashed into the corpus id.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import msgspec
import pandera.polars as pa
import polars as pl
from pandera import extensions
from pandera.api.polars.types import PolarsData
from pandera.errors import SchemaErrors

from twiceshy import identity
from twiceshy.errors import InfrastructureError, TwiceshyError

STEPS = (
    "pull",
    "redact",
    "normalize",
    "detect",
    "stratify",
    "sign",
    "attribute",
    "admit",
    "replay",
    "publish",
    "retain",
)
SIDES = ("proposed", "seen", "raw", "shown")
STAGES = (
    "input",
    "model",
    "pre-tool-hook",
    "tool",
    "post-tool-hook",
    "retrieval",
    "memory",
    "guard",
    "final",
    "grader",
)
EFFECTS = ("missing", "extra", "wrong_args", "order", "leak", "loop", "drift", "none")
GRADES = ("recorded", "derived", "missing")
TIERS = ("hard", "trajectory", "semantic")
SEVERITIES = ("critical", "high", "medium", "low")

_SHORT_CHECK = re.compile(r"\(.*", re.DOTALL)


@extensions.register_check_method(statistics=["canonical_json"])  # type: ignore[untyped-decorator] # pandera's own
def canonical_json(data: PolarsData, *, canonical_json: bool) -> pl.LazyFrame:  # noqa: ARG001 - pandera passes the statistic back
    """Whether each text is what `identity.canonical` writes; distinct texts only, since one of 345 bytes costs 28 us."""
    texts = data.lazyframe.select(pl.col(data.key)).collect().to_series().unique().drop_nulls()
    good = [text for text in texts if _is_json(text, identity.canonical)]
    return data.lazyframe.select(pl.col(data.key).is_in(good))


@extensions.register_check_method(statistics=["told_json"])  # type: ignore[untyped-decorator] # pandera's own
def told_json(data: PolarsData, *, told_json: bool) -> pl.LazyFrame:  # noqa: ARG001 - pandera passes the statistic back
    """Whether each text is what `identity.ordered` writes."""
    texts = data.lazyframe.select(pl.col(data.key)).collect().to_series().unique().drop_nulls()
    good = [text for text in texts if _is_json(text, identity.ordered)]
    return data.lazyframe.select(pl.col(data.key).is_in(good))


def _is_json(text: str, spelt: Callable[[object], bytes]) -> bool:
    try:
        return spelt(identity.untagged(msgspec.json.decode(text))) == text.encode()
    except (msgspec.DecodeError, TwiceshyError, RecursionError, TypeError):
        return False


def one_of(values: type[StrEnum] | tuple[str, ...], *, nullable: bool = False) -> Any:
    """A text column limited to a closed set."""
    return pa.Field(isin=[str(value) for value in values], nullable=nullable)


def like(pattern: str, *, nullable: bool = False) -> Any:
    """A text column whose whole value matches a pattern."""
    return pa.Field(str_matches=f"^(?:{pattern})$", nullable=nullable)


Text = Annotated[str, pa.Field(str_length={"min_value": 1})]
TextOrNull = Annotated[str, pa.Field(nullable=True)]
Json = Annotated[str, pa.Field(canonical_json=True)]
JsonOrNull = Annotated[str, pa.Field(canonical_json=True, nullable=True)]
Told = Annotated[str, pa.Field(told_json=True)]
ToldOrNull = Annotated[str, pa.Field(told_json=True, nullable=True)]
Digest = Annotated[str, like("[0-9a-f]{64}")]
DigestOrNull = Annotated[str, like("[0-9a-f]{64}", nullable=True)]
TraceId = Annotated[str, like("[0-9a-f]{32}")]
TraceIdOrNull = Annotated[str, like("[0-9a-f]{32}", nullable=True)]
SpanId = Annotated[str, like("[0-9a-f]{16}")]
SpanIdOrNull = Annotated[str, like("[0-9a-f]{16}", nullable=True)]
SignatureId = Annotated[str, like("sig_[0-9a-f]{12}")]
SignatureIdOrNull = Annotated[str, like("sig_[0-9a-f]{12}", nullable=True)]
Night = Annotated[str, like(r"\d{4}-\d{2}-\d{2}")]
Count = Annotated[int, pa.Field(ge=0)]
CountOrNull = Annotated[int, pa.Field(ge=0, nullable=True)]
Ordinal = Annotated[int, pa.Field(ge=1)]
Nanos = int
NanosOrNull = Annotated[int, pa.Field(nullable=True)]
BoolOrNull = Annotated[bool, pa.Field(nullable=True)]
Number = float
NumberOrNull = Annotated[float, pa.Field(nullable=True)]
Ratio = Annotated[float, pa.Field(ge=0, le=1)]
RatioOrNull = Annotated[float, pa.Field(ge=0, le=1, nullable=True)]
Labels = Annotated[pl.List, pl.String()]
BucketLabels = Annotated[pl.List, pl.Struct({"path": pl.String, "labels": pl.List(pl.String)})]
"""One entry a leaf path of the arguments, indices removed; the first label is the primary bucket."""
GradeOf = Annotated[str, one_of(GRADES)]


class Table(pa.DataFrameModel):
    """The base of every table's model: no other columns than the declared ones, and the state of the harness that wrote the row."""

    harness_state: Text

    class Config:
        """A table adds its grain as `unique`; `metadata` holds the version of the schema, written into each manifest."""

        strict = True
        metadata = {"version": 1}

    @classmethod
    def named(cls) -> str:
        """The table's name: the class's in snake case."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def version(cls) -> int:
        """The version of the schema; it rises when a column appears, goes or changes its meaning."""
        return int(cls.Config.metadata["version"])

    @classmethod
    def dtypes(cls) -> pl.Schema:
        """Column names and polars types, in the order of declaration with `harness_state` first."""
        return pl.Schema({name: column.dtype.type for name, column in cls.to_schema().columns.items()})

    @classmethod
    def grain(cls) -> list[str]:
        """The key columns; all columns that have an order where the table has no key."""
        unique = cls.to_schema().unique
        return [unique] if isinstance(unique, str) else list(unique or cls.dtypes())

    @classmethod
    def no_rows(cls) -> pl.DataFrame:
        """No rows, every column with its type."""
        return pl.DataFrame(schema=cls.dtypes())

    @classmethod
    def arranged(cls, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with its columns in the declared order and its rows sorted by the grain: equal content, equal bytes."""
        return frame.select(cls.dtypes().names()).sort(cls.grain(), nulls_last=False, maintain_order=True)


TableT = TypeVar("TableT", bound=type[Table])


def rows(data: PolarsData, condition: pl.Expr) -> pl.LazyFrame:
    """A row rule for `pa.dataframe_check`: a condition that comes to null is broken, not met."""
    return data.lazyframe.select(condition.fill_null(value=False).alias("holds"))


def implies(premise: pl.Expr, conclusion: pl.Expr) -> pl.Expr:
    """True where the premise is not true, or the conclusion holds."""
    return ~premise.fill_null(value=False) | conclusion


class Validated(NamedTuple):
    """`good`: rows that keep the contract, arranged. `set_aside`: the others, all columns as they were plus `set_aside_for` ("column: check; ...")."""

    good: pl.DataFrame
    set_aside: pl.DataFrame


class WrongFrame(InfrastructureError):
    """A step made a frame that is wrong as a whole: a column is missing, unknown or of another type, or a check crashed."""

    @classmethod
    def of(cls, model: type[Table], failures: pl.DataFrame) -> Self:
        """Each fault once; never a value, since rows may not be redacted yet."""
        facts = failures.filter(pl.col("index").is_null()).select("column", "check", "failure_case").unique()
        named = sorted(f"{_named(fact)}" for fact in facts.iter_rows(named=True))
        return cls(
            f"table {model.named()!r}: {'; '.join(named)}. The step that writes it must give exactly {model.__name__}.dtypes()."
        )


def _named(fact: dict[str, Any]) -> str:
    """Column names and types are ours to show; what a crashed check says may quote a row."""
    if fact["check"] in {"column_in_dataframe", "column_in_schema"}:
        return f"{fact['failure_case']} ({'missing' if fact['check'] == 'column_in_dataframe' else 'not declared'})"
    if fact["check"].startswith("dtype("):
        return f"{fact['column']} is {fact['failure_case']}, not {fact['check'][len('dtype(') : -1]}"
    return f"{fact['column']} ({_SHORT_CHECK.sub('', fact['check'])} crashed)"


def validated(frame: pl.DataFrame, model: type[Table]) -> Validated:
    """The rows that keep the contract, and the others with the reason of each; called once, on leaving a step.

    Both rows of a repeated key are set aside. An empty frame passes. Raises WrongFrame where the frame itself is wrong.
    """
    try:
        model.validate(frame, lazy=True)
    except SchemaErrors as broken:
        failures = broken.failure_cases
    else:
        return Validated(model.arranged(frame), frame.clear().with_columns(set_aside_for=pl.lit(None, pl.String)))
    if failures["index"].null_count():
        raise WrongFrame.of(model, failures)
    numbered = frame.with_row_index("_row")
    bad = numbered.join(_reasons(failures), on="_row", how="inner", maintain_order="left")
    good = numbered.join(bad, on="_row", how="anti", maintain_order="left")
    return Validated(model.arranged(good), bad.drop("_row"))


def _reasons(failures: pl.DataFrame) -> pl.DataFrame:
    """One row per failing row: `_row`, `set_aside_for`. A rule over several columns goes by its own name."""
    check = pl.col("check").str.replace(_SHORT_CHECK.pattern, "")
    reason = (
        pl.when(pl.col("schema_context") == "Column")
        .then(pl.concat_str("column", pl.lit(": "), check))
        .otherwise(check)
    )
    return (
        failures.select(pl.col("index").cast(pl.get_index_type()).alias("_row"), reason.alias("set_aside_for"))
        .group_by("_row")
        .agg(pl.col("set_aside_for").unique().sort().str.join("; "))
    )


class Quarantine(Table):
    """One span, row or trace set aside: the step, the reason, where the raw copy is, and when that expires.

    It holds no payload: what was set aside lies behind `raw_ref`, in the store's shelves.
    """

    quarantine_id: Digest
    step: Annotated[str, one_of(STEPS)]
    unit: Annotated[str, one_of(("file", "span", "row", "trace"))]
    table: TextOrNull
    source: TextOrNull
    trace_id: TraceIdOrNull
    span_id: SpanIdOrNull
    reason: Text
    locator: Text
    """Where it stood: file digest and line or index, or the key of a row."""
    byte_offset: CountOrNull
    content_digest: DigestOrNull
    raw_ref: TextOrNull
    expires_at_ns: NanosOrNull

    class Config(Table.Config):
        """The grain."""

        unique = ["quarantine_id"]


def quarantined(
    set_aside: pl.DataFrame,
    model: type[Table],
    *,
    step: str,
    harness_state: str,
    raw_ref: str | None = None,
    expires_at_ns: int | None = None,
) -> pl.DataFrame:
    """The rows of `Quarantine` for what `validated` set aside: ids and digests only, whatever the rows hold.

    The locator is the digest of the row's content, by which it is found again in the frame kept at `raw_ref`.
    """
    seen: Counter[str] = Counter()
    found = []
    for row in set_aside.iter_rows(named=True):
        content = identity.digest({name: value for name, value in row.items() if name != "set_aside_for"})
        seen[content] += 1
        found.append(
            {
                "harness_state": harness_state,
                "quarantine_id": identity.digest([step, model.named(), content, seen[content]]),
                "step": step,
                "unit": "row",
                "table": model.named(),
                "trace_id": _id(row.get("trace_id"), 32),
                "span_id": _id(row.get("span_id"), 16),
                "reason": row["set_aside_for"],
                "locator": f"row {content}",
                "content_digest": content,
                "raw_ref": raw_ref,
                "expires_at_ns": expires_at_ns,
            }
        )
    return Quarantine.arranged(pl.DataFrame(found, schema=Quarantine.dtypes()))


def _id(value: object, length: int) -> str | None:
    """Only what is an id is carried over: a mangled one may be anything."""
    return value if isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{length}}}", value) else None


class Timings(Table):
    """One duration or wall-clock value beside the row it belongs to. Never digested: it stands outside the manifest."""

    table: Text
    row_key: Text
    name: Text
    kind: Annotated[str, one_of(("duration", "instant"))]
    value_ns: Nanos

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], *, harness_state: str) -> pl.DataFrame:
        """The rows as a frame."""
        return pl.DataFrame([{"harness_state": harness_state, **row} for row in rows], schema=cls.dtypes())
