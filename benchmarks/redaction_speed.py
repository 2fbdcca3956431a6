"""Claim: detection costs a tenth of the CPU of Presidio's patterns on the same items, and a twentieth over a corpus, whose texts repeat.

Corpus: the 100 airline trajectories of tau-bench and 1,571 generated support conversations; items: every text in them, nested JSON opened. Presidio looks for the
six types that both know, without names and without a model, on a random 0.2 MB of small distinct items, which suits it badly; deduplication would help it too, some
1.5 times. CPU seconds of the process, medians of interleaved rounds. What the whole redact step costs beside detection is `benchmarks/ingest_speed.py`'s to say.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import redaction_peers, report
from tasks.redact.detectors import Detectors
from twiceshy.redaction import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
_SET = "shared/real-traces/tau-bench/gpt-4o-airline.trajectories.jsonl.gz"
TRACES = next((above / _SET for above in ROOT.parents if (above / _SET).exists()), ROOT.parent / _SET)
SIX = ("EMAIL_ADDRESS", "PHONE_NUMBER", "IBAN_CODE", "CREDIT_CARD", "US_SSN", "IP_ADDRESS")
_SUPPORT = 1_571
_SAMPLE_BYTES = 200_000
_SMALL = 4_000
_ROUNDS = 5
_LEAST_SAME, _LEAST_PIPELINE = 10, 20


def leaves(held: Any) -> Iterator[str]:
    """Every text in a value; a text that is JSON is opened."""
    if isinstance(held, str):
        opened = _opened(held) if held[:1] in ("{", "[") else None
        yield from [held] if opened is None else leaves(opened)
    elif isinstance(held, dict | list):
        for item in held.values() if isinstance(held, dict) else held:
            yield from leaves(item)


def _opened(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def airline(path: Path) -> Iterator[str]:
    """The texts of the trajectories."""
    with gzip.open(path) as lines:
        for line in lines:
            yield from leaves(json.loads(line)["traj"])


def support(count: int) -> Iterator[str]:
    """The texts of generated conversations about orders: a person or two, an address, a card or a telephone number in each, ids and amounts in all."""
    draw = random.Random(11)
    names = ("Ann Lee", "Omar Haddad", "Greta Sand", "Li Wei", "Noor Aziz", "Jon Pike", "Mia Rossi", "Kofi Mensah")
    for number in range(count):
        name, order = draw.choice(names), f"A{draw.randrange(100, 99_999)}"
        email = f"{name.lower().replace(' ', '.')}{draw.randrange(99)}@mail{draw.randrange(9)}.example.org"
        phone = f"+1 ({draw.randrange(201, 989)}) {draw.randrange(201, 989)}-{draw.randrange(1000, 9999)}"
        items = [
            {"sku": f"{draw.randrange(10**9, 10**10)}", "price": round(draw.random() * 900, 2)}
            for _ in range(draw.randrange(1, 6))
        ]
        yield "You are a support agent. Never refund above the order's limit without an approval. Answer in one paragraph and name the order."
        yield f"Hi, this is {name}, my order {order} has not come. Write to {email} or call {phone}."
        yield from leaves(
            {
                "tool": "get_order",
                "order_id": order,
                "customer": {"name": name, "email": email},
                "items": items,
                "trace": f"{draw.getrandbits(128):032x}",
            }
        )
        yield f"I am sorry to hear that, {name}. Order {order} left our warehouse on 2026-0{draw.randrange(1, 9)}-1{draw.randrange(9)}."
        if number % 3 == 0:
            yield f"Refund it to the card 4111 1111 1111 1111, please; I logged in from 203.0.113.{draw.randrange(255)}."
        yield "Is there anything else that I can do for you today?"


def sample(items: Sequence[str]) -> list[str]:
    """Small distinct items, 0.2 MB of them, at random, the same on every run."""
    distinct = sorted({item for item in items if len(item) <= _SMALL})
    random.Random(1).shuffle(distinct)
    kept, size = [], 0
    for item in distinct:
        kept.append(item)
        size += len(item.encode())
        if size >= _SAMPLE_BYTES:
            break
    return kept


def spent(items: Sequence[str], policy: Policy) -> float:
    """CPU seconds of our detectors over items, with nothing remembered from before."""
    detectors = Detectors(policy)
    began = time.process_time()
    for item in items:
        detectors.find(item)
    return time.process_time() - began


def measured(chosen: Sequence[str], items: Sequence[str]) -> tuple[float, float, dict[str, Any]]:
    """Median CPU seconds of ours over the chosen items and over all, and the peer's over the chosen ones; rounds of all three take turns."""
    held: dict[str, Any] = dict.fromkeys(("email", "phone", "iban", "card", "ssn"), "synthesize") | {"ip": "generalize"}
    policy = Policy(
        policy="benchmark",
        version=1,
        namespace="benchmark",
        key_id="k1",
        default_region="US",
        fields=(),
        detectors=held,
    )
    same, whole, other = [], [], []
    peer: dict[str, Any] = {}
    for _ in range(_ROUNDS):
        same.append(spent(chosen, policy))
        whole.append(spent(items, policy))
        peer = redaction_peers.found(chosen, entities=SIX)
        other += peer.get("cpu_s", ())
    told = {name: peer[name] for name in ("installed", "why") if name in peer} | {
        "version": redaction_peers.PACKAGES[0].partition("==")[2]
    }
    return (
        statistics.median(same),
        statistics.median(whole),
        told | ({"median_cpu_s": statistics.median(other)} if other else {}),
    )


def main() -> int:
    """Print both ratios; 0 where they are reached, or where the peer is not to be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="the airline trajectories of tau-bench")
    path = parser.parse_args().traces
    if not path.exists():
        print(f"{path}: no such file. Give the airline trajectories of tau-bench with --traces.", file=sys.stderr)
        return 2
    items = [*airline(path), *support(_SUPPORT)]
    chosen = sample(items)
    same, whole, peer = measured(chosen, items)
    size, chosen_size = (sum(len(item.encode()) for item in listed) for listed in (items, chosen))
    found: dict[str, Any] = {
        "corpus_mb": round(size / 1e6, 2), "sample_mb": round(chosen_size / 1e6, 2), "duplication": round(len(items) / len(set(items)), 2),
        "same_items_mb_per_cpu_s": round(chosen_size / 1e6 / same, 2), "pipeline_mb_per_cpu_s": round(size / 1e6 / whole, 2),
    }  # fmt: skip
    holds = True
    if peer["installed"]:
        theirs = peer.pop("median_cpu_s")
        peer["mb_per_cpu_s"] = round(chosen_size / 1e6 / theirs, 3)
        found["ratio_same_items"] = round(theirs / same, 1)
        found["ratio_pipeline"] = round((theirs / chosen_size) / (whole / size), 1)
        holds = found["ratio_same_items"] >= _LEAST_SAME and found["ratio_pipeline"] >= _LEAST_PIPELINE
    return report("redaction_speed", found, peers={"presidio": peer}, holds=holds)


if __name__ == "__main__":
    sys.exit(main())
