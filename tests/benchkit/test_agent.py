import pytest

from benchkit import agent
from launch.ranks import Failure


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (Failure(0, "timeout", "no end within 5 s"), "timeout"),
        (Failure(0, "signal", "killed by SIGKILL", signal=9), "crash"),
        (Failure(0, "exit", "exited with code 3 and no report"), "crash"),
        (Failure(0, "exception", "deliberate", type="RuntimeError"), "error"),
        (Failure(0, "exception", "CUDA out of memory. Tried", type="OutOfMemoryError"), "oom"),
        (Failure(0, "exception", "", type="MemoryError"), "oom"),
        (Failure(0, "exception", "DefaultCPUAllocator: can't allocate memory", type="RuntimeError"), "oom"),
        (Failure(0, "exception", "not here", type="Unavailable"), "unavailable"),
        (Failure(0, "exception", "element 3", type="InvalidResult"), "invalid"),
    ],
)
def test_failures_have_their_words(failure, status):
    assert agent.failure_status(failure) == status


def test_phases_last_until_the_next_begins():
    assert agent.durations({"spawn": 1.0, "init": 1.5, "": 4.0}) == {"spawn": 0.5, "init": 2.5}
