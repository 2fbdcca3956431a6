"""One refresh as somebody asked for it, checked before anything runs."""

from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Self

from flows import reaching, times
from flows.checkout import Checkout
from flows.inputs import address, readable
from tasks.normalize.flagging import Rule
from tasks.sources import registry
from tasks.sources.source import Raw, Source, Window
from tasks.store import Lock
from twiceshy.redaction import is_sample_key, refuse_sample_key

RAW_DAYS = 30
"""Of a raw copy, where no policy says how long it may live."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to pull and how to read it. workflow: the one of traces that name none. expires_at_ns: until when raw copies may stay, from the as-of date."""

    source: Source
    window: Window
    rule: Rule | None
    workflow: str | None
    expires_at_ns: int
    sample: bool

    @classmethod
    def of(
        cls,
        place: Checkout,
        *,
        source: str,
        path: str | None = None,
        flagged: str | None = None,
        window: str | None = None,
        workflow: str | None = None,
        as_of: date,
    ) -> Self:
        """Raises InputError for a path that is not there or empty, and for a source, expression, window or workflow that nobody knows; ConfigurationError for lacking keys."""
        found = registry.named(source)
        where = path or reaching.host(found)
        url = address(where)
        start, end = times.window(window) if window else (None, None)
        made = cls(
            source=found,
            window=Window(paths=() if url else (readable(Path(where)),), start_ns=start, end_ns=end),
            rule=Rule(flagged) if flagged else None,
            workflow=place.known(workflow) if workflow else None,
            expires_at_ns=times.start_of(as_of) + _raw_days(place, workflow) * times.DAY_NS,
            sample=url is None and place.is_sample(Path(where)),
        )
        if url is not None:
            lock = made.lock(place)
            vault = reaching.Vault(place, lock, found.name, made.expires_at_ns) if lock else None
            made = replace(made, window=replace(made.window, api=reaching.api(place, found, made.window, url, vault)))
        if workflow in place.redaction:
            made.refuse_sample_key(place, workflow)
        return made

    def taken_in(self) -> None:
        """The pages of an API are in a generation: the next refresh of this window asks anew."""
        if self.window.api is not None:
            self.window.api.spool.done()

    def refuse_sample_key(self, place: Checkout, workflow: str) -> None:
        """Raises ConfigurationError where the published key would redact what is no sample, KeyMissing where there is no key."""
        key_id = place.redaction[workflow].key_id
        refuse_sample_key(key_id, source_is_sample=self.sample)
        place.keyring.key(key_id)

    def keep(self, place: Checkout, lock: Lock, raw: Raw) -> str:
        """The reference of a raw copy, sealed and put away until it expires."""
        return place.raw.put(
            raw.content, lock, source=self.source.name, name=raw.name, expires_at_ns=self.expires_at_ns
        ).ref

    def lock(self, place: Checkout) -> Lock | None:
        """The key that seals raw copies: of the workflow that was named, else the first of a policy whose key is here; None where there is none, and then none is kept."""
        named = [self.workflow] if self.workflow in place.redaction else sorted(place.redaction)
        ids = [place.redaction[name].key_id for name in named if name]
        fitting = [key_id for key_id in ids if key_id in place.keyring and (self.sample or not is_sample_key(key_id))]
        return Lock(fitting[0], place.keyring.key(fitting[0])) if fitting else None


def _raw_days(place: Checkout, workflow: str | None) -> int:
    """The shortest time that a policy grants, of the workflow where one was named: a file may hold traces of any."""
    held = [policy.raw.ttl_days for name, policy in place.redaction.items() if policy.raw and workflow in (None, name)]
    return min(held, default=RAW_DAYS)
