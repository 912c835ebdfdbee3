import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from launch.ranks import fork_server, process, start, watch
from launch.ranks.failure import Failure, root_cause

from tests.support import launch_bodies as bodies
from tests.support.cli import ROOT, wait_until
from tests.support.launch_bodies import is_zombie, pids_in, run
from tests.support.ranks import run_ranks


@pytest.fixture(autouse=True, scope="module")
def _the_fork_server_is_up(tmp_path_factory):
    """Its start counts towards a time-out, and other tests of this worker make it load torch."""
    run("identity", tmp_path_factory.mktemp("first"))


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_rank_has_own_environment_group_and_log(tmp_path, start_method):
    outcome = run("identity", tmp_path, count=3, start_method=start_method)
    assert outcome.failure is None
    for rank, (argument, variable, pid, group) in outcome.results.items():
        assert (argument, variable) == (rank, str(rank))
        assert pid == group != os.getpgid(0)
        assert (tmp_path / f"rank_{rank}.log").read_text() == f"out {rank}\nerr {rank}\n"
    assert sorted(outcome.results) == [0, 1, 2]
    assert "MINE" not in os.environ


def test_large_results_arrive(tmp_path):
    assert len(run("large", tmp_path).results[1]) == 5_000_000


def test_first_exception_is_cause(tmp_path):
    failure = run("raise_second", tmp_path).failure
    assert (failure.rank, failure.kind, failure.type, failure.message) == (1, "exception", "ValueError", "rank 1")
    assert "bodies.py" in failure.traceback


@pytest.mark.parametrize(("body", "cause"), [("raise_then_abort", "out of memory"), ("abort_then_raise", "SIGABRT")])
def test_abort_is_cause_where_it_came_first(tmp_path, body, cause):
    failure = run(body, tmp_path).failure
    assert failure.rank == 1
    assert cause in failure.message


def test_exit_without_report_is_failure(tmp_path):
    failure = run("exit_silently", tmp_path).failure
    assert (failure.rank, failure.kind) == (1, "exit")
    assert "code 0" in failure.message


def test_grandchild_ends_with_rank(tmp_path):
    failure = run("grandchild", tmp_path).failure
    assert wait_until(lambda: not Path(f"/proc/{failure.message}").exists() or is_zombie(int(failure.message)))


def test_hang_times_out_with_location(tmp_path):
    began = time.monotonic()
    failure = run("sleep", tmp_path, timeout_s=4.0).failure
    assert failure.kind == "timeout"
    assert "no end within 4 s" in failure.message
    assert "rank 0 in sleep (launch_bodies.py" in failure.message
    assert time.monotonic() - began >= 4.0


def test_interrupt_leaves_no_rank(tmp_path):
    def interrupt():
        wait_until(lambda: len(pids_in(tmp_path)) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run("sleep", tmp_path)
    assert len(pids_in(tmp_path)) == 2
    assert all(is_zombie(pid) for pid in pids_in(tmp_path))


def test_agent_waits_without_polling(tmp_path):
    run("identity", tmp_path)  # the fork server is up
    before = resource.getrusage(resource.RUSAGE_SELF)
    run("sleep", tmp_path, timeout_s=2.0)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 1.0  # a parent that polled would have used all of it


def test_next_point_runs_after_stuck_rank(tmp_path, monkeypatch):
    """Its fork server is stopped, so that nobody reports its end."""
    monkeypatch.setattr(process, "DEATH_S", 0.2)
    run("identity", tmp_path)
    stop = threading.Timer(0.5, os.kill, (fork_server.pid(), signal.SIGSTOP))
    stop.start()
    assert run("sleep", tmp_path, timeout_s=1.5).failure.kind == "timeout"
    assert run("identity", tmp_path).failure is None


@pytest.mark.parametrize(("start_method", "stopped"), [("forkserver", False), ("forkserver", True), ("spawn", True)])
def test_ranks_and_children_end_with_killed_agent(tmp_path, start_method, stopped):
    """The ranks know nothing of each other here, so that none is ended by another's death; a stopped one ends, too."""
    command = [sys.executable, "-m", "tests.support.launch_bodies", str(tmp_path), start_method, "sleep_with_a_child"]
    agent = subprocess.Popen(command, cwd=ROOT)
    assert wait_until(lambda: len(pids_in(tmp_path)) == 8)
    pids = pids_in(tmp_path)
    if stopped:
        os.kill(pids[0], signal.SIGSTOP)
    agent.kill()
    agent.wait()
    assert wait_until(lambda: all(is_zombie(pid) for pid in pids))


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_environment_is_set_before_argument_loads(tmp_path, start_method):
    outcome = run_ranks(
        "tests.support.launch_bodies:given",
        [bodies.SeesItsEnvironment()],
        environments=[{"MINE": "early"}],
        folder=tmp_path,
        timeout_s=120,
        start_method=start_method,
    )
    assert outcome.results == {0: "early"}


def test_signal_name_handles_real_time_signals():
    assert watch.signal_name(9) == "SIGKILL"
    assert watch.signal_name(40) == "signal 40"


@pytest.mark.parametrize(
    ("failures", "rank"),
    [
        ([Failure(0, "exception", "peer closed", raised_at=2.0), Failure(1, "exception", "bug", raised_at=1.0)], 1),
        ([Failure(0, "exception", "peer closed", raised_at=1.0), Failure(1, "signal", "killed", signal=9)], 1),
        ([Failure(0, "exception", "peer closed", raised_at=1.0), Failure(1, "exit", "code 3")], 1),
        ([Failure(0, "signal", "NCCL", signal=6, raised_at=2.0), Failure(1, "exception", "oom", raised_at=1.0)], 1),
        ([Failure(0, "exception", "peer closed", raised_at=1.0), Failure(1, "signal", "", signal=6, raised_at=0.9)], 1),
    ],
)
def test_root_cause_ignores_order_of_failures(failures, rank):
    assert root_cause(failures).rank == rank
    assert root_cause(failures[::-1]).rank == rank


def test_no_failure_has_no_cause():
    assert root_cause([]) is None


def in_same_processes(folder, *jobs, start_method="forkserver"):
    """Runs bodies one after another in the same two ranks, each with a folder; returns their ends."""
    ends = []
    with start.started([{"MINE": "0"}, {"MINE": "1"}], start_method=start_method) as ranks:
        for number, (body, timeout_s) in enumerate(jobs):
            where = folder / str(number)
            where.mkdir()
            target = f"tests.support.launch_bodies:{body}"
            ends.append(ranks.run(target, [number, number], folder=where, timeout_s=timeout_s))
        ends.append(ranks.are_idle)
    return ends


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_ranks_take_one_job_after_another(tmp_path, start_method):
    *ends, are_idle = in_same_processes(tmp_path, *[("identity", 120)] * 3, start_method=start_method)
    assert [end.results[1][0] for end in ends] == [0, 1, 2]
    assert len({end.results[1][2] for end in ends}) == 1  # one process
    assert are_idle
    for number in range(3):
        assert (tmp_path / str(number) / "rank_0.log").read_text() == f"out {number}\nerr {number}\n"
    assert wait_until(lambda: is_zombie(ends[0].results[1][2]))


@pytest.mark.parametrize("body", ["raise_second", "sleep"])
def test_failed_ranks_are_not_idle(tmp_path, body):
    first, failed, are_idle = in_same_processes(tmp_path, ("identity", 120), (body, 2.0))
    assert first.failure is None
    assert failed.failure.kind == {"raise_second": "exception", "sleep": "timeout"}[body]
    assert not are_idle


def test_rank_that_died_idle_is_failure_of_next_job(tmp_path):
    with start.started([{}]) as ranks:
        folder = tmp_path
        pid = ranks.run("tests.support.launch_bodies:identity", [0], folder=folder, timeout_s=120).results[0][2]
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: is_zombie(pid))
        failure = ranks.run("tests.support.launch_bodies:identity", [0], folder=folder, timeout_s=120).failure
    assert (failure.kind, failure.signal) == ("signal", signal.SIGKILL)


def test_stopped_idle_rank_takes_no_long_job(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "TAKE_S", 0.2)
    with start.started([{}]) as ranks:
        pid = ranks.run("tests.support.launch_bodies:identity", [0], folder=tmp_path, timeout_s=120).results[0][2]
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError, match="rank 0 does not take its job"):
            ranks.run("tests.support.launch_bodies:identity", ["x" * 10**6], folder=tmp_path, timeout_s=120)
    assert wait_until(lambda: is_zombie(pid))
