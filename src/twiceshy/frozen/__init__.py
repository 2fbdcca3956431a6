"""Frozen clock and chance for a Python candidate (semantics.md §4): one time, one sequence of draws, whoever asks.

    frozen.install(FrozenClock(import_instant), Draws(b"import"))        # zygote, before the candidate's import
    ...
    frozen.install(FrozenClock(pins.instant_ns, pins.tz), Draws(case_key, trial))       # first thing in the trial

Then `datetime.now()`, `date.today()`, `time.time()` and its kin, `time.monotonic()` and its kin, `time.sleep()`,
`asyncio.sleep()` and every timer of the loop, `uuid1()`, `uuid4()`, `os.urandom()`, `secrets`, `random`, and numpy's
generators where numpy is loaded, follow `clock` and `draws`. Sleeping returns at once and moves the clock.

Not covered, and so never a reason for a verdict without a second trial: time and chance read in native code (sqlite's
`now`, pydantic's Past and Future, uvloop, cryptography's generator); programs that the candidate starts; file stamps,
`os.times()` and process ids; real waits on threads, locks, queues and sockets with a timeout (they take their time, but
tell none); loops other than asyncio's own (trio); generators and instants that were made at import in code that did not
declare `warm = false` are the same in every trial.
"""

from twiceshy.frozen.clock import Draws, FrozenClock, UnknownZone
from twiceshy.frozen.eventloop import Patience
from twiceshy.frozen.installing import install

__all__ = ["Draws", "FrozenClock", "Patience", "UnknownZone", "install"]
