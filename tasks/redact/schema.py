"""What redact hands on: the span record, redacted, with the stamp of policy and key."""

from tasks.contracts import DigestOrNull, JsonOrNull, Labels, TextOrNull
from tasks.sources.schema import SpanRecords

HOLDS = (
    "unknown_field",
    "free_text_without_seeds",
    "hidden_upstream",
    "depth_exceeded",
    "size_exceeded",
    "ambiguous_phone",
    "k_below",
    "band_in_read_key",
    "bucket_changed",
    "verdict_changed",
    "leak_hit",
    "scanner_error",
)
"""Why redaction holds a trace: the closed set of redaction.md §2."""


class RedactedSpans(SpanRecords):
    """One span, redacted: `row_id`, as computed on the raw record. `bucket_labels` come from the raw values."""

    policy_digest: DigestOrNull
    """Null together with `key_id`: nothing redacted this row, so its trace is held."""
    key_id: TextOrNull
    redaction_map: JsonOrNull
    """{path: action}: what was done where, so that a dropped field is not called vanished."""
    pseudonyms: JsonOrNull
    """{pseudonym: keyed digest} of all that stand in this trace, on its first row: a case carries them, so that a replay knows them without the key."""
    holds: Labels
    """Sorted hold reasons of this span's trace; empty where nothing stands against it."""
