"""Requests to the API of a trace store: what passes is waited for and asked again, within bounds; everything else is one clear error. No answer's content is ever told."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Self

import httpx
import msgspec

from twiceshy.errors import InfrastructureError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ATTEMPTS = 8
"""Of one request: the waits between them double from a second, so a store may be away for two minutes."""

LONGEST_WAIT = 300.0
"""Seconds. A store that wants us to wait longer is asked again another day."""

_TIMEOUT = httpx.Timeout(30.0, read=120.0)  # a page of 1000 observations with payloads takes a store up to a minute


class Refused(InputError):
    """A request that would fail again: bad keys, no such API, a bad cursor. `status` is the HTTP status."""

    status: int = 0

    @classmethod
    def of(cls, where: str, status: int, hint: str) -> Self:
        """The address, the status, and what to do."""
        made = cls(f"{where}: answered {status}. {hint}")
        made.status = status
        return made


class Unavailable(InfrastructureError):
    """A store that did not answer in spite of all attempts."""

    @classmethod
    def of(cls, where: str, why: str) -> Self:
        """The address and the last reason."""
        return cls(
            f"{where}: no answer in {ATTEMPTS} attempts ({why}). What was fetched is kept; run the same command again and it goes on."
        )


class Web:
    """One API: its address, what proves who we are, and how to wait."""

    def __init__(
        self, address: str, *, keys: str, sleep: Callable[[float], None], headers: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
    ) -> None:  # fmt: skip
        """keys: the names of the variables that hold the keys, for the message of a refusal."""
        self._address, self._keys, self._sleep = address.rstrip("/"), keys, sleep
        self._client = httpx.Client(headers=dict(headers or {}), auth=auth, timeout=_TIMEOUT, follow_redirects=False)

    def get(self, path: str, query: Mapping[str, Any]) -> bytes:
        """The answer to a GET; parameters that are None are left out. Raises Refused, Unavailable."""
        asked = {name: value for name, value in query.items() if value is not None}
        return self._asked("GET", path, params=asked)

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """The answer to a POST of JSON. Raises Refused, Unavailable."""
        return self._asked("POST", path, json={name: value for name, value in body.items() if value is not None})

    def _asked(self, method: str, path: str, **what: Any) -> bytes:
        where, why = f"{self._address}{path}", ""
        for attempt in range(ATTEMPTS):
            try:
                answer = self._client.request(method, where, **what)
            except httpx.TransportError as broken:
                why, wait = type(broken).__name__, float(2**attempt)
            else:
                if answer.is_success:
                    return answer.content
                why, wait = str(answer.status_code), self._wait(where, answer, attempt)
            if attempt + 1 < ATTEMPTS:
                self._sleep(wait)
        raise Unavailable.of(where, why)

    def _wait(self, where: str, answer: httpx.Response, attempt: int) -> float:
        """Seconds until the next attempt. Raises Refused where there should be none."""
        status = answer.status_code
        if status != httpx.codes.TOO_MANY_REQUESTS and not answer.is_server_error:
            raise Refused.of(where, status, self._hint(status))
        asked = _seconds(answer)
        if asked > LONGEST_WAIT:
            raise Unavailable.of(where, f"{status}, to be asked again in {asked:.0f} s")
        return max(asked, float(2**attempt)) if asked else float(2**attempt)

    def _hint(self, status: int) -> str:
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return f"Check {self._keys}, and that they are of this host and project."
        if 300 <= status < 400:  # noqa: PLR2004 - redirections: the keys go to no other host
            return "It sends us elsewhere: give the address that it stands for now."
        if status == httpx.codes.NOT_FOUND:
            return "There is no such API: check the address; an older self-hosted one is read by its export."
        return "It does not take this request."


def decoded(content: bytes, where: str) -> Any:
    """The value of an answer. Raises Refused for one that is no JSON: a login page, a proxy."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Refused.of(where, 200, "The answer is no JSON: check the address.") from None


def _seconds(answer: httpx.Response) -> float:
    """`Retry-After`: seconds, or a date, told by the clock of the same answer; 0 where there is none that can be read."""
    held, date = answer.headers.get("retry-after", ""), answer.headers.get("date", "")
    if held.isdecimal():
        return float(held)
    try:
        return max((parsedate_to_datetime(held) - parsedate_to_datetime(date)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return 0.0
