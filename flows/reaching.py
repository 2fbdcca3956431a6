"""The API of a source as a refresh reaches it: keys from the environment, fetched pages sealed among the raw copies until they are taken in."""

import getpass
import os
import time
from dataclasses import dataclass

from flows.checkout import Checkout
from tasks.sources.source import Api, Source, Window
from tasks.sources.spool import Spool
from tasks.store import Lock, Unkept
from tasks.store.errors import Unsealable
from twiceshy.errors import ConfigurationError, InputError, KeyMissing
from twiceshy.identity import digest

_WHY = "an interrupted pull goes on"


@dataclass(frozen=True)
class Vault:
    """The shelf of raw copies, as a spool uses it."""

    place: Checkout
    lock: Lock
    source: str
    expires_at_ns: int

    def put(self, name: str, content: bytes) -> str:
        """Keep a page, sealed, until raw copies of today expire."""
        return self.place.raw.put(
            content, self.lock, source=self.source, name=name, expires_at_ns=self.expires_at_ns
        ).ref

    def get(self, ref: str) -> bytes | None:
        """The page; the reading is written down like any other."""
        try:
            return self.place.raw.get(
                ref, self.place.keyring.key, reader=getpass.getuser(), why=_WHY, at_ns=time.time_ns()
            )
        except (Unkept, Unsealable, KeyMissing):
            return None


def host(source: Source) -> str:
    """The address of a source's API as its variable has it. Raises InputError where neither says what to read."""
    name = getattr(source, "host", None)
    held = os.environ.get(name) if name else None
    if not held:
        also = f", or the address of its API in {name}" if name else ""
        raise InputError(f"--path: name the file or folder of {source.name} traces{also}.")
    return held


def api(place: Checkout, source: Source, window: Window, url: str, vault: Vault | None) -> Api:
    """The API of a source at an address. Raises InputError for a source that has none, ConfigurationError for keys that are not set."""
    needed = getattr(source, "keys", None)
    if needed is None:
        raise InputError(
            f"source {source.name!r} is read from files, and {url} is an address. Name a file or a folder."
        )
    lacking = [name for name in needed if not os.environ.get(name)]
    if lacking:
        raise ConfigurationError(f"{' and '.join(lacking)} not set: the API of {source.name} at {url} asks for it.")
    keys = {name: os.environ[name] for name in (*needed, *getattr(source, "more", ())) if os.environ.get(name)}
    journal = (
        place.config.path("raw") / "pulls" / f"{digest([source.name, url, window.start_ns, window.end_ns])[:32]}.jsonl"
    )
    return Api(url=url, keys=keys, spool=Spool(journal=journal, vault=vault))
