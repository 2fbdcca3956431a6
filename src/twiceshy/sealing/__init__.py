"""Isolation of a candidate: fail closed, proved by a canary, entered once a session (semantics.md §9).

From a fresh process to a sealed zygote that forks trials, with the parent at the other end of a socket pair:

    # the parent: before anything else, and with real targets held open for the canary
    ours, theirs = socket.socketpair()
    env = scrubbed_environment(os.environ, allow=settings.candidate_env)
    with host_targets(run_folder) as host:
        child = subprocess.Popen([sys.executable, "-m", "...", str(theirs.fileno())], env=env, pass_fds=[theirs.fileno()])
        ...                                   # send host.targets, read the zygote's CanaryReport
        assert not host.arrivals()            # else IsolationNotHeld: never start a trial

    # the zygote (child): single-threaded, nothing of the candidate imported yet
    held = seal(keep=[fd], readable=[case_directory])
    report = canary(targets)                  # raises CanaryEscaped
    frozen.install(FrozenClock(0), Draws(b"import"))      # before the candidate's import
    import candidate
    for trial in trials:
        if (pid := os.fork()) == 0:
            impose(limits)
            frozen.install(case_clock, Draws(case_key, trial))
            ...                               # run; the process ends with os._exit
        os.wait4(pid, 0)
        held.sweep()                          # nothing of this trial is left for the next

`child.pid` is the keeper outside the pid namespace: kill it and everything inside dies; wait for it and the zygote's
status comes back. Isolation is per session: about 10 ms for the seal and 8 ms for the canary. A trial pays for its fork,
and for the seal around it, sweep included, 0.4 to 1.0 ms more (median of 300 paired forks on a loaded two-core machine:
5.2 ms against 5.9 bare, 20.6 against 22.7 with numpy and pandas imported).

Not covered: the real time in file stamps and /proc/uptime, and CPU as a covert clock; reading the host's files, which
stay visible; what root could do with descriptors that the caller chose to keep. The candidate and the engine's half in
its process trust each other as far as one process must.
"""

from twiceshy.sealing.attempts import Attempt, Targets
from twiceshy.sealing.canary import CanaryReport, HostTargets, attempt_all, canary, host_targets
from twiceshy.sealing.entering import Seal, seal
from twiceshy.sealing.environment import scrubbed_environment
from twiceshy.sealing.faults import (
    CanaryEscaped,
    LeftoversRemain,
    NotAllowable,
    StepRefused,
    ThreadsRunning,
    UnsafeDescriptor,
)
from twiceshy.sealing.levels import HERMETIC, WEAK, Isolation, Protections
from twiceshy.sealing.limits import Limits, cpu_spent, crashes, impose, signal_name
from twiceshy.sealing.probing import Probe, probe

__all__ = [
    "HERMETIC",
    "WEAK",
    "Attempt",
    "CanaryEscaped",
    "CanaryReport",
    "HostTargets",
    "Isolation",
    "LeftoversRemain",
    "Limits",
    "NotAllowable",
    "Probe",
    "Protections",
    "Seal",
    "StepRefused",
    "Targets",
    "ThreadsRunning",
    "UnsafeDescriptor",
    "attempt_all",
    "canary",
    "cpu_spent",
    "crashes",
    "host_targets",
    "impose",
    "probe",
    "scrubbed_environment",
    "seal",
    "signal_name",
]
