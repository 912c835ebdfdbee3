"""The failures of the ranks of one point, and the root cause among them."""

import signal
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Failure:
    """Why a rank ended without a result.

    Attributes:
        rank: number of the rank; None if the failure is not of one rank.
        kind: "exception", "signal", "exit" or "timeout".
        message: what happened.
        type: class of the exception.
        traceback: traceback of the exception; after a timeout the stacks of all ranks.
        signal: number of the signal that killed the rank.
        raised_at: when the exception was caught, or a rank that aborts itself was about to end, in
            seconds by time.monotonic().
        host: name of the host; filled in when the agents compare their failures.
    """

    rank: int | None
    kind: str
    message: str
    type: str = ""
    traceback: str = ""
    signal: int | None = None
    raised_at: float | None = None
    host: str = ""


def root_cause(failures: list[Failure]) -> Failure | None:
    """Returns the failure that explains the others.

    It is a death without a report, else the exception that was raised first. The order of arrival
    misleads, because the death of a peer makes collectives raise on the survivors within
    milliseconds. An abort (SIGABRT) counts as an exception, because libraries end a rank so when
    another one fails. There is one timeout per agent: the one that names a rank counts, and gets
    the places and stacks of all others.
    """

    def precedence(failure: Failure) -> tuple[bool, bool, float]:
        raised = failure.kind == "exception" or failure.signal == signal.SIGABRT
        return raised, failure.rank is None, failure.raised_at or 0.0

    cause = min(failures, key=precedence, default=None)
    late = [failure for failure in failures if failure.kind == "timeout"]
    if cause in late and len(late) > 1:
        problem = cause.message.split(": ", 1)[0]
        places = ", ".join(failure.message.split(": ", 1)[1] for failure in late)
        stacks = "\n".join(failure.traceback for failure in late)
        return replace(cause, message=f"{problem}: {places}", traceback=stacks)
    return cause
