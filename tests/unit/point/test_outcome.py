import contextlib
import signal
import socket
from dataclasses import replace
from types import SimpleNamespace

import pytest
from benchkit.rank.assignment import RankReport
from benchkit.record import files
from benchkit.record.record import CaseRecord, Measured
from launch.signals import STOP_SIGNALS, StopRequested

from tests.support.configs import agent_group, config
from tests.support.entries.agents import AgentInfo, Agents, Channel, Lost, Offset, alone
from tests.support.entries.launch_ranks import ProcessFailure
from tests.support.entries.point import (
    AgentOutcome,
    Point,
    PointRun,
    ReusableRanks,
    failure_status,
    outcome_of,
    phase_durations,
    point,
    with_host,
)
from tests.support.entries.point import agent_group as forming
from tests.support.entries.point import ranks as local_ranks


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (ProcessFailure(0, "timeout", ""), "timeout"),
        (ProcessFailure(0, "signal", "", signal=9), "crash"),
        (ProcessFailure(0, "exit", ""), "crash"),
        (ProcessFailure(0, "exception", "deliberate", type="RuntimeError"), "error"),
        (ProcessFailure(0, "exception", "CUDA out of memory. Tried", type="OutOfMemoryError"), "oom"),
        (ProcessFailure(0, "exception", "", type="MemoryError"), "oom"),
        (ProcessFailure(0, "exception", "DefaultCPUAllocator: can't allocate memory", type="RuntimeError"), "oom"),
        (ProcessFailure(0, "exception", "not here", type="Unavailable"), "unavailable"),
        (ProcessFailure(0, "exception", "no MPS", type="MpsUnavailable"), "unavailable"),
        (ProcessFailure(0, "exception", "no quota", type="QuotaUnavailable"), "unavailable"),
        (ProcessFailure(0, "exception", "element 3", type="InvalidResult"), "invalid"),
    ],
)
def test_failure_maps_to_status(failure, status):
    assert failure_status(failure) == status


def test_phases_last_until_next_phase():
    assert phase_durations({"spawn": 1.0, "init": 1.5, "": 4.0}) == {"spawn": 0.5, "init": 2.5}


def ends(*failures, out_of_memory=False):
    return [AgentOutcome(failure, out_of_memory) for failure in failures]


@pytest.mark.parametrize(
    ("number", "out_of_memory", "status"),
    [(signal.SIGKILL, True, "oom"), (signal.SIGKILL, False, "crash"), (signal.SIGSEGV, True, "crash")],
)
def test_sigkill_with_kernel_oom_is_oom(number, out_of_memory, status):
    killed = ProcessFailure(1, "signal", "", signal=number)
    assert outcome_of(None, ends(killed, out_of_memory=out_of_memory)).status == status


def test_time_out_keeps_what_was_measured():
    sound, bare = CaseRecord(labels={}, status="ok", samples_s=[[1.0]]), CaseRecord(labels={}, status="ok")
    skipped = CaseRecord(labels={}, status="skipped")
    done = replace(sound, stopped_by="max_seconds")
    report = RankReport(Measured(cases=[sound, bare, skipped, done]), {"init": 0.0})
    outcome = outcome_of(report, ends(ProcessFailure(0, "timeout", "")))
    assert outcome.status == "timeout"
    found = [(case.status, case.stopped_by, bool(case.unchecked)) for case in outcome.measured.cases]
    assert found == [
        ("ok", "timeout", True), ("timeout", "", False), ("skipped", "", False), ("ok", "max_seconds", True),
    ]  # fmt: skip
    assert outcome_of(report, ends(ProcessFailure(0, "signal", "", signal=9))).measured.cases == []


def test_oom_on_other_host_is_not_cause():
    killed = ProcessFailure(1, "signal", "killed by SIGKILL", signal=signal.SIGKILL, host="n1")
    raised = ProcessFailure(2, "exception", "connection closed", host="n2", raised_at=1.0)
    both = [*ends(killed), *ends(raised, out_of_memory=True)]
    outcome = outcome_of(None, both)
    assert (outcome.status, outcome.error.rank, outcome.error.host) == ("crash", 1, "n1")


def test_first_exception_across_hosts_is_cause():
    later = with_host(ProcessFailure(0, "exception", "connection closed", raised_at=50.0), "n1", Offset())
    first = with_host(ProcessFailure(3, "exception", "deliberate", raised_at=1000.0), "n2", Offset(at_s=-951.0))
    error = outcome_of(None, ends(later, None, first)).error
    assert (error.rank, error.host) == (3, "n2")


def test_timeouts_merge_across_hosts(golden):
    waits = ProcessFailure(None, "timeout", "no end within 5 s: rank 0 in all_reduce", host="n1", traceback="a")
    hangs = ProcessFailure(1, "timeout", "no end within 5 s: rank 1 in step", host="n2", traceback="b")
    error = outcome_of(None, ends(waits, hangs)).error
    assert (error.rank, error.host) == (1, "n2")
    golden(error.message)


def test_agent_failure_is_recorded(tmp_path, monkeypatch, golden):
    def no_more_processes(*_, **__):
        raise BlockingIOError("Resource unavailable")

    monkeypatch.setattr(local_ranks.pool, "start_ranks", no_more_processes)
    result = point.run_point(Point(config(), tmp_path, []), ReusableRanks(forming.form_group(alone())))
    assert result.status == "error"
    golden(result.error.message)
    assert "Traceback" in result.error.traceback
    assert files.read(tmp_path / files.FILE_NAME) == result


GONE = Lost([AgentInfo(1, "n2", "n2", "n2", [0])], host_is_silent=False)


@pytest.mark.parametrize("moment", ["unnoticed", "ranks end", "outcome", "record"])
def test_dead_agent_is_the_cause_of_the_signal(tmp_path, monkeypatch, moment):
    """A launcher that has seen an agent die stops the others at any moment."""

    def stop(number, frame):
        raise StopRequested(number)

    def lose(*_, **__):
        ranks = contextlib.ExitStack()
        if moment == "ranks end":
            ranks.callback(signal.raise_signal, signal.SIGTERM)
        if moment == "unnoticed":
            signal.raise_signal(signal.SIGTERM)
        try:
            group.agents.all_gather(None, list[None], 5.0)
        finally:
            ranks.close()  # what this raises has no context

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGTERM)
        return original(*arguments)

    if step := {"outcome": "fail_by_loss", "record": "end"}.get(moment):
        original = getattr(PointRun, step)
        monkeypatch.setattr(PointRun, step, interrupted)
    monkeypatch.setattr(PointRun, "store_as_running", lose)
    group = agent_group("n1", "n2")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        socket.create_connection(listener.getsockname()).close()
        wires = {1: Channel(listener.accept()[0])}
    group.agents = Agents(group.agents.me, group.agents.members, wires, "127.0.0.1")
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(StopRequested):
            point.run_point(Point(config(), tmp_path, []), ReusableRanks(group))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    record = files.read(tmp_path / files.FILE_NAME)
    assert (record.status, record.error.host) == ("crash", "n2")


@pytest.mark.parametrize("lost", [None, GONE])
def test_total_excludes_wait_for_host(tmp_path, monkeypatch, lost):
    """An hour in which another run measures, whether the host becomes free or another agent goes meanwhile."""
    now_s = [0.0]

    def taken_for_an_hour(self, say, agents, limit):
        now_s[0] += 3600
        if lost:
            raise lost

    def ranks_for_a_minute(*_, **__):
        now_s[0] += 60
        raise BlockingIOError("Resource unavailable")

    monkeypatch.setattr(forming.HostLock, "acquire", taken_for_an_hour)
    monkeypatch.setattr(local_ranks.pool, "start_ranks", ranks_for_a_minute)
    monkeypatch.setattr(point, "time", SimpleNamespace(perf_counter=lambda: now_s[0]))
    phases = point.run_point(Point(config(), tmp_path, []), ReusableRanks(forming.form_group(alone()))).phases_s
    assert phases == {"wait_for_host": 3600, "total": 0 if lost else 60}
    assert files.read(tmp_path / files.FILE_NAME).phases_s == phases
