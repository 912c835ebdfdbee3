import signal

import pytest

from benchkit import agent, record
from launch.watch import Failure, Outcome
from tests.benchkit.test_backends import config


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


def test_a_kill_while_the_kernel_ran_out_of_memory_is_oom():
    killed = Outcome(failure=Failure(1, "signal", "killed by SIGKILL", signal=signal.SIGKILL))
    assert agent.report(killed, 0.0, out_of_memory=True)["status"] == "oom"
    assert agent.report(killed, 0.0, out_of_memory=False)["status"] == "crash"
    segfault = Outcome(failure=Failure(1, "signal", "killed by SIGSEGV", signal=signal.SIGSEGV))
    assert agent.report(segfault, 0.0, out_of_memory=True)["status"] == "crash"


def test_what_fails_in_the_agent_itself_is_a_record_too(tmp_path, monkeypatch):
    def no_more_processes(*_):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(agent, "fork_ranks", no_more_processes)
    result = agent.run_point(config(), tmp_path, [])
    assert result["status"] == "error"
    assert result["error"]["message"] == "the agent failed: Resource temporarily unavailable"
    assert "Traceback" in result["error"]["traceback"]
    assert record.read(tmp_path / record.FILE_NAME)["status"] == "error"
