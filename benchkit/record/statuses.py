"""How a point can end."""

STATUSES = (
    "running",      # the agent works on it, or was killed before it could store another status
    "ok",
    "invalid",      # a wrong result
    "oom",          # out of memory
    "timeout",
    "crash",        # a rank died by a signal
    "error",        # a rank raised an exception
    "unavailable",  # this machine has no such backend or device
    "skipped",      # known before the run not to fit
    "interrupted",  # by Ctrl-C or SIGTERM
    "preempted",    # by Slurm, for a job of higher priority
    "cancelled",    # by scancel
)  # fmt: skip
UNFINISHED = ("running", "interrupted", "preempted", "cancelled")
"""Statuses of a point that was cut off; it runs again with its job, or with its resumed sweep."""
FINAL = tuple(status for status in STATUSES if status not in ("running", "preempted", "cancelled"))
"""Statuses that a submitted point keeps until the sweep is resumed."""
HARMLESS = ("ok", "unavailable", "skipped")
"""Statuses that do not make a sweep fail."""
