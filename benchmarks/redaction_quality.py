"""Claim: the detectors find at least what Presidio's patterns find, of every type and set, and take no machine id for a person's number.

Recall: share of labelled values that a finding of the right type overlaps. Coverage: share of which 90 % of the characters are hidden by anything. Precision:
share of the findings of a type that overlap a label of it. Names are no claim of detectors, and are not measured.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import uuid
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import redaction_peers, report
from tasks.redact.detectors import Detectors
from twiceshy.redaction import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).parents[1]
PII = next(
    (above / "shared/pii" for above in ROOT.parents if (above / "shared/pii").exists()), ROOT.parent / "shared/pii"
)
SETS = ("presidio_synth_v2", "presidio_generated_large", "piianon_adversarial", "piianon_formats_en")
TYPES = {
    "EMAIL_ADDRESS": "email", "PHONE_NUMBER": "phone", "IBAN_CODE": "iban", "CREDIT_CARD": "card", "US_SSN": "ssn", "SOCIAL_SECURITY_NUMBER": "ssn",
    "IP_ADDRESS": "ip",
}  # fmt: skip
"""Their labels, and Presidio's, by our types."""

_COVERED = 0.9
_LEAST_PHONES = 0.9
_MOST_MACHINE_IDS = 0.01
_IDS = 150


class Span(NamedTuple):
    """A place in a text and what stands there."""

    start: int
    end: int
    kind: str

    def overlaps(self, other: Span) -> bool:
        """Whether the two share a character."""
        return self.start < other.end and other.start < self.end


class Labelled(NamedTuple):
    """A text with the values in it that are of a type with a pattern."""

    text: str
    gold: list[Span]


def read(name: str) -> list[Labelled]:
    """The texts of a set."""
    lines = (PII / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        Labelled(held["text"], [Span(start, end, TYPES[kind]) for start, end, kind in held["spans"] if kind in TYPES])
        for held in map(json.loads, lines)
    ]


def scored(texts: Sequence[Labelled], findings: Sequence[Sequence[Span]]) -> dict[str, dict[str, Any]]:
    """Recall, coverage and precision by type; a type that no text of the set has is left out."""
    gold: dict[str, list[tuple[Span, Sequence[Span]]]] = defaultdict(list)
    said: dict[str, list[tuple[Span, Sequence[Span]]]] = defaultdict(list)
    for held, found in zip(texts, findings, strict=True):
        for span in held.gold:
            gold[span.kind].append((span, found))
        for span in found:
            said[span.kind].append((span, held.gold))
    return {
        kind: {
            "gold": len(values), "recall": _share(any(hit.kind == kind and hit.overlaps(span) for hit in found) for span, found in values),
            "coverage": _share(_hidden(span, found) >= _COVERED for span, found in values),
            "precision": _share(any(label.kind == kind and label.overlaps(span) for label in labels) for span, labels in said[kind]),
        }
        for kind, values in sorted(gold.items())
    }  # fmt: skip


def _share(hits: Iterable[bool]) -> float | None:
    listed = list(hits)
    return round(sum(listed) / len(listed), 3) if listed else None


def _hidden(span: Span, found: Sequence[Span]) -> float:
    places = {at for hit in found for at in range(max(hit.start, span.start), min(hit.end, span.end))}
    return len(places) / (span.end - span.start)


def machine_ids() -> dict[str, list[str]]:
    """Values of each kind of machine id, without anything personal in them; the same on every run."""
    draw = random.Random(7)

    def digits(count: int) -> str:
        return str(draw.randrange(10 ** (count - 1), 10**count))

    made: dict[str, Callable[[], str]] = {
        "uuid4": lambda: str(uuid.UUID(int=draw.getrandbits(128), version=4)), "hex32": lambda: f"{draw.getrandbits(128):032x}",
        "epoch_s": lambda: str(draw.randrange(1_600_000_000, 1_800_000_000)), "epoch_ms": lambda: str(draw.randrange(1_600_000_000_000, 1_800_000_000_000)),
        "epoch_ns": lambda: str(draw.randrange(1_600_000_000_000_000_000, 1_800_000_000_000_000_000)), "order": lambda: f"order A{digits(3)}",
        "environment": lambda: f"hosted-eu-2026{draw.randrange(1, 13):02d}{draw.randrange(1, 29):02d}-{draw.randrange(100):02d}",
        "product_id": lambda: digits(10), "call_id": lambda: "call_" + "".join(draw.choices("abcdefghijklmnopqrstuvwxyzABCDEFGH0123456789", k=24)),
        "amount": lambda: f"{draw.randrange(1, 5000)}.{draw.randrange(100):02d}",
    }  # fmt: skip
    return {name: [make() for _ in range(_IDS)] for name, make in made.items()}


def ours(texts: Sequence[str]) -> list[list[Span]]:
    """What the detectors find, under a policy that switches all of them on."""
    held: dict[str, Any] = dict.fromkeys(("email", "phone", "iban", "card", "last_four", "ssn"), "synthesize") | {
        "ip": "generalize",
        "secret": "drop",
    }
    policy = Policy(
        policy="benchmark",
        version=1,
        namespace="benchmark",
        key_id="k1",
        default_region="US",
        fields=(),
        detectors=held,
    )
    detectors = Detectors(policy)
    return [[Span(*hit) for hit in detectors.find(text).detections] for text in texts]


def theirs(texts: Sequence[str]) -> list[list[Span]] | str:
    """What Presidio finds, whatever its score; or why it cannot be asked."""
    held = redaction_peers.found(texts)
    if not held["installed"]:
        return str(held["why"])
    return [[Span(start, end, TYPES.get(kind, kind)) for start, end, kind, _ in spans] for spans in held["spans"]]


def main() -> int:
    """Print the figures of every set and type beside Presidio's; 0 where the claim holds."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    if not PII.exists():
        print(f"{PII}: not here, so there is nothing to measure on.", file=sys.stderr)
        return 2
    sets = {name: read(name) for name in SETS}
    ids = machine_ids()
    texts = [held.text for listed in sets.values() for held in listed] + [
        json.dumps({"id": held}) for listed in ids.values() for held in listed
    ]
    mine, other = ours(texts), theirs(texts)
    quality, false = _by_set(sets, ids, mine)
    peer: dict[str, Any] = {"installed": False, "why": other} if isinstance(other, str) else {"installed": True}
    at_least = None
    if not isinstance(other, str):
        peer["sets"], peer["machine_id_false_positives"] = _by_set(sets, ids, other)
        at_least = all(
            quality[name][kind][figure] >= held[figure] for name, kinds in peer["sets"].items() for kind, held in kinds.items() for figure in ("recall", "coverage")
        )  # fmt: skip
    phones = [kinds["phone"] for kinds in quality.values() if "phone" in kinds]
    found = {
        "pattern_recall_at_least_peer": None if at_least is None else int(at_least), "phone_recall_min": min(held["recall"] for held in phones),
        "phone_precision_min": min(held["precision"] for held in phones), "machine_id_false_positive_max": max(false.values()), "sets": quality,
        "machine_id_false_positives": false,
    }  # fmt: skip
    holds = at_least is not False and min(found["phone_recall_min"], found["phone_precision_min"]) >= _LEAST_PHONES
    return report(
        "redaction_quality",
        found,
        peers={"presidio": peer},
        holds=holds and found["machine_id_false_positive_max"] <= _MOST_MACHINE_IDS,
    )


def _by_set(
    sets: dict[str, list[Labelled]], ids: dict[str, list[str]], findings: Sequence[Sequence[Span]]
) -> tuple[dict[str, Any], dict[str, float]]:
    quality, at = {}, 0
    for name, listed in sets.items():
        quality[name] = scored(listed, findings[at : at + len(listed)])
        at += len(listed)
    false = {}
    for name, values in ids.items():
        hits = [
            [hit for hit in found if hit.kind not in ("URL", "DATE_TIME")] for found in findings[at : at + len(values)]
        ]
        false[name] = round(sum(bool(found) for found in hits) / len(values), 3)
        at += len(values)
    return quality, false


if __name__ == "__main__":
    sys.exit(main())
