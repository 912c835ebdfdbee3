import signal
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from benchkit import record
from benchkit.point import agents, local_ranks, run
from benchkit.point.outcome import classify, durations, failure_status, placed
from benchkit.point.placement import place_ranks
from benchkit.point.point import Point
from launch.agents.clock_sync import Offset
from launch.agents.member import AgentInfo, Lost
from launch.ranks.failure import Failure
from launch.slowdown.mps import MpsUnavailable

from tests.support.configs import agent_group, config


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
        (Failure(0, "exception", "no MPS", type="MpsUnavailable"), "unavailable"),
        (Failure(0, "exception", "no quota", type="QuotaUnavailable"), "unavailable"),
        (Failure(0, "exception", "element 3", type="InvalidResult"), "invalid"),
    ],
)
def test_failures_have_their_words(failure, status):
    assert failure_status(failure) == status


def test_phases_last_until_the_next_begins():
    assert durations({"spawn": 1.0, "init": 1.5, "": 4.0}) == {"spawn": 0.5, "init": 2.5}


def told(*failures, out_of_memory=False):
    return [{"failure": failure and asdict(failure), "out_of_memory": out_of_memory} for failure in failures]


def test_a_kill_while_the_kernel_ran_out_of_memory_is_oom():
    killed = Failure(1, "signal", "killed by SIGKILL", signal=signal.SIGKILL)
    assert classify(None, told(killed, out_of_memory=True), 0.0)["status"] == "oom"
    assert classify(None, told(killed), 0.0)["status"] == "crash"
    segfault = Failure(1, "signal", "killed by SIGSEGV", signal=signal.SIGSEGV)
    assert classify(None, told(segfault, out_of_memory=True), 0.0)["status"] == "crash"


def test_memory_that_another_host_lacks_does_not_explain_a_kill():
    killed = Failure(1, "signal", "killed by SIGKILL", signal=signal.SIGKILL, host="n1")
    raised = Failure(2, "exception", "connection closed", host="n2", raised_at=1.0)
    both = [*told(killed), *told(raised, out_of_memory=True)]
    report = classify(None, both, 0.0)
    assert (report["status"], report["error"]["rank"], report["error"]["host"]) == ("crash", 1, "n1")


def test_the_first_exception_of_all_hosts_is_the_cause_by_one_clock():
    later = placed(Failure(0, "exception", "connection closed", raised_at=50.0), "n1", Offset())
    first = placed(Failure(3, "exception", "deliberate", raised_at=1000.0), "n2", Offset(at_s=-951.0))
    report = classify(None, told(later, None, first), 0.0)
    assert (report["error"]["rank"], report["error"]["host"]) == (3, "n2")


def test_time_outs_of_all_hosts_become_one_that_names_the_culprit():
    waits = Failure(None, "timeout", "no end within 5 s: rank 0 in all_reduce", host="n1", traceback="a")
    hangs = Failure(1, "timeout", "no end within 5 s: rank 1 in step", host="n2", traceback="b")
    error = classify(None, told(waits, hangs), 0.0)["error"]
    assert (error["rank"], error["host"]) == (1, "n2")
    assert error["message"] == "no end within 5 s: rank 0 in all_reduce, rank 1 in step"


def test_what_fails_in_the_agent_itself_is_a_record_too(tmp_path, monkeypatch):
    def no_more_processes(*_, **__):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(local_ranks.start, "run_ranks", no_more_processes)
    result = run.run_point(Point(config(), tmp_path, []))
    assert result["status"] == "error"
    assert result["error"]["message"] == "the agent failed: Resource temporarily unavailable"
    assert "Traceback" in result["error"]["traceback"]
    assert record.read(tmp_path / record.FILE_NAME)["status"] == "error"


@pytest.mark.parametrize("lost", [None, Lost([AgentInfo(1, "n2", "n2", "n2", [0])], nodes=False)])
def test_waiting_for_the_host_is_a_phase_and_no_part_of_the_total(tmp_path, monkeypatch, lost):
    """An hour in which another run measures, whether the host becomes free or another agent goes meanwhile."""
    now_s = [0.0]

    def taken_for_an_hour(self, say, agents, limit):
        now_s[0] += 3600
        if lost:
            raise lost

    def ranks_for_a_minute(*_, **__):
        now_s[0] += 60
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(agents.HostLock, "acquire", taken_for_an_hour)
    monkeypatch.setattr(local_ranks.start, "run_ranks", ranks_for_a_minute)
    for module in (run, agents):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now_s[0]))
    phases = run.run_point(Point(config(), tmp_path, []))["phases_s"]
    assert phases == {"wait_for_host": 3600, "total": 0 if lost else 60}
    assert record.read(tmp_path / record.FILE_NAME)["phases_s"] == phases


def test_shares_of_a_gpu_need_a_daemon_which_is_told_how_many_agents_the_host_has(tmp_path, monkeypatch):
    asked = []

    def refuse(needed, agents_here):
        asked.append((needed, agents_here))
        raise MpsUnavailable("none runs")

    monkeypatch.setattr(local_ranks.mps, "daemon", refuse)
    wanted = config(device="cuda", world_size=3, ranks_per_device=2, start_method="spawn")
    wanted.hardware.slow_by = "mps"
    where = agent_group("n1", "n1", "n2", gpus=[["a"]] * 3)
    outcome = local_ranks.fork_ranks(wanted, where, place_ranks(wanted, where), tmp_path, "", Offset())
    assert asked == [(True, 2)]
    assert failure_status(outcome.failure) == "unavailable"
