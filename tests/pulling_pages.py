"""A fetch that tests start as a process and kill: `pulling_pages.py URL FOLDER`. It says the name of every page it has."""

import sys
from pathlib import Path

from tasks.sources.langfuse.source import source
from tasks.sources.source import Api, Window
from tasks.sources.spool import Spool


class Folder:
    """A vault that seals nothing: files by name."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, content: bytes) -> str:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_bytes(content)
        return name

    def get(self, ref: str) -> bytes | None:
        return (self.root / ref).read_bytes() if (self.root / ref).exists() else None


def window(url: str, root: Path, **more: object) -> Window:
    spool = Spool(journal=root / "journal.jsonl", vault=Folder(root / "pages"))
    keys = {"LANGFUSE_PUBLIC_KEY": "pk-1", "LANGFUSE_SECRET_KEY": "sk-1"}
    return Window(api=Api(url=url, keys=keys, spool=spool, sleep=lambda seconds: None))


if __name__ == "__main__":
    for raw in source.fetch(window(sys.argv[1], Path(sys.argv[2]))):
        sys.stdout.write(f"{raw.name}\n")
        sys.stdout.flush()
