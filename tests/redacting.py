"""Traces of people who do not exist, for tests of redaction: span rows by the tables' own models, and a policy that names their fields."""

import json
from typing import Any

import polars as pl

from tables import a_row
from tasks.redact.step import Options, Redacted, redact
from tasks.sources.schema import ScoreRecords, SpanRecords
from twiceshy.identity import digest, ordered
from twiceshy.redaction import FieldRule, Keyring, Policy

KEYS = Keyring({"k1": b"1" * 32, "k2": b"2" * 32})
TRACE = "0af7651916cd43dd8448eb211c80319c"
TUESDAY_NS = 1_780_394_400_000_000_000
"""2026-06-02T10:00:00Z."""


def text(value: Any) -> str:
    """A value as a payload column holds it."""
    return ordered(value).decode()


def rule(path: str, kind: str | None = None, action: str = "synthesize", **rest: Any) -> FieldRule:
    """A field rule; one that synthesizes unless said otherwise."""
    return FieldRule(path=path, type=kind, action=action, **rest)  # type: ignore[arg-type]


def keep(path: str) -> FieldRule:
    """A field rule that keeps."""
    return FieldRule(path=path, action="keep", reason="a test reads it")


FIELDS = (
    rule("tool.*.{args,result}.**.order_id", "order_id", pattern=r"(?:order )?(?P<id>[A-Z]\d{3,6})"),
    rule("tool.*.{args,result}.**.customer_id", "customer_id"),
    rule("tool.*.{args,result}.**.email", "email"),
    rule("tool.*.{args,result}.**.{first_name,last_name,name}", "person_name"),
    rule("tool.*.{args,result}.**.phone", "phone"),
    rule("tool.*.{args,result}.**.card", "card"),
    rule("tool.*.{args,result}.**.last_four", "last_four"),
    rule("tool.*.{args,result}.**.dob", "date_of_birth"),
    rule("tool.*.{args,result}.**.address", "address"),
    rule("tool.*.result.methods.<key>", "method_id", pattern=r"card_(?P<id>\d{7})"),
    rule("tool.*.result.notes", action="drop"),
    rule("tool.*.result.kyc.**", action="restrict"),
    keep("tool.*.{args,result}.**.{amount,limit,date,status,body,day,id,n}"),
)
DETECTORS: dict[str, Any] = {
    "email": "synthesize", "phone": "synthesize", "card": "synthesize", "iban": "synthesize", "ssn": "synthesize",
    "ip": "generalize", "secret": "drop",
}  # fmt: skip


def a_redaction_policy(*fields: FieldRule, **rest: Any) -> Policy:
    """A policy with these rules before the usual ones."""
    settings: dict[str, Any] = {"default_region": "GB", "subject": "tool.get_order.result.customer_id"} | rest
    return Policy(
        **({"policy": "p", "version": 1, "namespace": "corpus", "key_id": "k1", "detectors": DETECTORS} | settings),
        fields=(*fields, *FIELDS),
    )


def a_span(seq: int, kind: str, name: str, **columns: Any) -> dict[str, Any]:
    """A span row; payloads are given as values."""
    for column in ("proposed", "seen", "raw", "shown"):
        if column in columns:
            columns[column] = text(columns[column])
            columns[f"{column}_encoding"] = "json"
    for column in ("messages_in", "messages_out", "system_text", "tool_defs", "model_params"):
        if column in columns:
            columns[column] = text(columns[column])
    row = a_row(SpanRecords, kind=kind, name=name, seq=seq, **columns)
    row |= {
        "trace_id": columns.get("trace_id", TRACE),
        "span_id": f"{seq + 1:016x}",
        "zone": columns.get("zone", "UTC"),
    }
    return row | {
        "row_id": columns.get("row_id") or digest([row["trace_id"], seq, text({k: str(v) for k, v in row.items()})])
    }


def a_call(seq: int, tool: str, args: Any, result: Any, **columns: Any) -> dict[str, Any]:
    """A tool span with its arguments and its result."""
    return a_span(seq, "tool", tool, tool_name=tool, seen=args, raw=result, **columns)


def a_message(role: str, said: str) -> dict[str, Any]:
    """A message with one text part."""
    return {"role": role, "parts": [{"type": "text", "content": said}]}


def a_request(seq: int, *said: tuple[str, str] | dict[str, Any], **columns: Any) -> dict[str, Any]:
    """A model span: what it was sent."""
    messages = [one if isinstance(one, dict) else a_message(*one) for one in said]
    return a_span(seq, "model", "planner", messages_in=messages, **columns)


def some_spans(*rows: dict[str, Any]) -> pl.DataFrame:
    """The rows as a frame of span records."""
    return pl.DataFrame(
        {
            name: pl.Series(name, [row[name] for row in rows], dtype=dtype)
            for name, dtype in SpanRecords.dtypes().items()
        }
    )


def a_score(**columns: Any) -> pl.DataFrame:
    """One score as a frame."""
    row = a_row(ScoreRecords, trace_id=TRACE, **columns)
    return pl.DataFrame([row], schema=ScoreRecords.dtypes())


def redacted(*rows: dict[str, Any], policy: Policy | None = None, keys: Keyring = KEYS, **options: Any) -> Redacted:
    """What redact makes of the rows under the usual policy."""
    scores = options.pop("scores", None)
    return redact(some_spans(*rows), policy or a_redaction_policy(), keys, scores=scores, options=Options(**options))


def everything(result: Redacted) -> str:
    """All that redact hands on, as one text."""
    frames = (result.spans, result.scores, result.holds, result.report)
    return "\n".join(str(value) for frame in frames for row in frame.iter_rows() for value in row if value is not None)


MIA: dict[str, Any] = {
    "customer_id": "cus_88213",
    "first_name": "Mia",
    "last_name": "Li-Borg",
    "email": "mia.borg@shop.example",
    "phone": "020 7123 4567",
    "card": "4539 1488 0343 6467",
    "last_four": "6467",
    "dob": "1990-04-05",
    "address": "975 Sunset Drive",
}
SPOKEN = (
    "Hi, I am Mia Li-Borg (MIA.BORG@shop.example, +44 20 7123 4567), born April 5th, 1990, of 975 sunset drive. "
    "My card ending in 6467 paid order A184 as cus_88213; call me Mia."
)


def a_trace(spoken: str = SPOKEN, **person: Any) -> list[dict[str, Any]]:
    """A refund: what was said, an order looked up, a message sent."""
    who = MIA | person
    order = {"order_id": "A184", "amount": 750, "limit": 500, "methods": {"card_4421486": {"amount": 5}}, **who}
    return [
        a_request(1, ("system", "The time is 2026-06-02 10:00."), ("user", spoken), clock_text="2026-06-02 10:00"),
        a_call(2, "get_order", {"order_id": "order A184"}, order),
        a_call(3, "send", {"body": f"Dear {who['first_name']}, order A184 is on its way."}, {"status": "sent"}),
    ]


def payload(result: Redacted, seq: int, column: str) -> Any:
    """The value of a payload column of one span."""
    row = result.spans.filter(pl.col("seq") == seq)
    return json.loads(row[column][0])


def said(result: Redacted, seq: int = 1, at: int = -1) -> str:
    """The text of one message of a request, the last unless said otherwise."""
    return str(payload(result, seq, "messages_in")[at]["parts"][0]["content"])


def holds(result: Redacted) -> list[str]:
    """The reasons for which anything was held."""
    return sorted(set(result.holds["reason"]))
