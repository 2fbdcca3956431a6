"""Values over 8 kB stand beside the envelope, wherever in it they were, and come back as they were (semantics.md §2.4)."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders import a_crossing, an_envelope
from twiceshy import casefile
from twiceshy.envelope import Disposition, Envelope, ErrorRecord, RunInput

PLACES = ("system", "user", "goal", "output", "failure", "proposed", "seen", "raw", "shown", "chunks", "message")
LIMIT = 8192
# A text is stored with its two quotation marks.
texts = st.sampled_from([1, 100, LIMIT - 3, LIMIT - 2, LIMIT - 1, LIMIT, 20_000]).map(lambda long: "x" * long)


def an_envelope_with(held: dict[str, Any]) -> Envelope:
    said = {name: held.get(name) for name in ("system", "user", "goal")}
    sides = {name: held[name] for name in ("proposed", "seen", "raw", "shown") if name in held}
    error = ErrorRecord(cls="Late", message=held.get("message", ""))
    crossing = a_crossing(**sides, chunks=[held["chunks"]] if "chunks" in held else None, error=error)
    failed = ErrorRecord(cls="Late", message=held["failure"]) if "failure" in held else None
    return an_envelope(
        crossing, input=RunInput(**said), disposition=Disposition(output=held.get("output"), error=failed)
    )


@given(st.dictionaries(st.sampled_from(PLACES), texts, max_size=len(PLACES)))
def test_no_long_value_stands_in_the_envelope(held: dict[str, Any]) -> None:
    envelope = an_envelope_with(held)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "envelope.jsonl"
        casefile.save_envelope(path, envelope)
        written = path.read_text()
        stored = {name: f'["{text}"]' if name == "chunks" else f'"{text}"' for name, text in held.items()}
        long = {text for text in stored.values() if len(text) > LIMIT}
        assert not any(text in written for text in long)
        blobs = Path(folder, "blobs")
        assert {blob.read_text() for blob in blobs.glob("*")} == long
        assert blobs.exists() == bool(long)
        assert casefile.load_envelope(path) == envelope
