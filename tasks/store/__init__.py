"""Where the pipeline keeps things: generations of the corpus, published runs, raw copies, and DuckDB over any of them.

Everything is written under another name and moved into place whole, so a reader or a `kill -9` meets a file or no file.
"""

from tasks.store.corpus import Corpus, Swept
from tasks.store.database import Limits, connect
from tasks.store.durable import parquet, write_whole
from tasks.store.errors import ChangedMeanwhile, ForeignFrame, NoHardLinks, Unkept, UnknownGeneration, Unsealable
from tasks.store.generation import WHOLE, Change, Contract, Snapshot, Store, append, replace
from tasks.store.growing import Grown, Growth
from tasks.store.manifest import Manifest, Part
from tasks.store.published import Publication, Published
from tasks.store.shelf import Kept, Lock, Reading, Shelf

__all__ = [
    "WHOLE",
    "Change",
    "ChangedMeanwhile",
    "Contract",
    "Corpus",
    "ForeignFrame",
    "Grown",
    "Growth",
    "Kept",
    "Limits",
    "Lock",
    "Manifest",
    "NoHardLinks",
    "Part",
    "Publication",
    "Published",
    "Reading",
    "Shelf",
    "Snapshot",
    "Store",
    "Swept",
    "Unkept",
    "UnknownGeneration",
    "Unsealable",
    "append",
    "connect",
    "parquet",
    "replace",
    "write_whole",
]
