"""Presidio's pattern recognizers over texts from standard input; no address is looked up and no model loaded. Runs where Presidio is, and prints one JSON object."""

import importlib
import json
import sys
import time
from typing import Any


def main() -> None:
    """Read `{texts, entities, rounds}`, print `{spans, cpu_s}`."""
    asked = json.load(sys.stdin)
    # Its recognizers of e-mail addresses would look the suffix list up on the network.
    suffixes = importlib.import_module("tldextract")
    suffixes.tldextract.TLD_EXTRACTOR = suffixes.TLDExtract(suffix_list_urls=())
    analyzer = _analyzer()
    spans: list[list[list[object]]] = []
    spent: list[float] = []
    for _ in range(asked["rounds"]):
        began = time.process_time()
        made = [analyzer.analyze(text, language="en", entities=asked["entities"] or None) for text in asked["texts"]]
        spent.append(time.process_time() - began)
        spans = [[[hit.start, hit.end, hit.entity_type, hit.score] for hit in hits] for hits in made]
    print(json.dumps({"spans": spans, "cpu_s": spent}))


def _analyzer() -> Any:
    """An analyzer with the default English recognizers, its language a tokenizer and nothing more."""
    presidio = importlib.import_module("presidio_analyzer")
    engine = importlib.import_module("presidio_analyzer.nlp_engine").SpacyNlpEngine(
        models=[{"lang_code": "en", "model_name": "blank"}]
    )
    engine.nlp = {"en": importlib.import_module("spacy").blank("en")}
    registry = presidio.RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"], nlp_engine=engine)
    return presidio.AnalyzerEngine(nlp_engine=engine, registry=registry, supported_languages=["en"])


if __name__ == "__main__":
    main()
