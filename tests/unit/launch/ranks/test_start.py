"""Processes of ranks: how they start, fail, hang and end, and what is left of them."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.support import launch_bodies as bodies
from tests.support.cli import PATIENCE_S, ROOT, wait_until
from tests.support.entries.launch_ranks import ProcessFailure, fork_server, pool, process, root_cause, watch
from tests.support.launch_bodies import is_zombie, own_fork_server, pids_in, run
from tests.support.ranks import run_ranks


@pytest.fixture(autouse=True, scope="module")
def _without_torch():
    """Some tests stop or kill the fork server; other tests of this worker need theirs, with torch."""
    with own_fork_server():
        yield


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


@pytest.mark.parametrize(
    ("body", "kind", "number"),
    [
        ("raise_second", "exception", None),
        ("raise_then_abort", "exception", None),
        ("abort_then_raise", "signal", signal.SIGABRT),
        ("exit_silently", "exit", None),
    ],
)
def test_failure_that_came_first_is_cause(tmp_path, body, kind, number):
    failure = run(body, tmp_path).failure
    assert (failure.rank, failure.kind, failure.signal) == (1, kind, number)


def test_grandchild_ends_with_rank(tmp_path):
    failure = run("grandchild", tmp_path).failure
    assert wait_until(lambda: is_zombie(int(failure.message)))


def test_interrupt_leaves_no_rank(tmp_path):
    def interrupt():
        wait_until(lambda: len(pids_in(tmp_path)) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run("sleep", tmp_path)
    assert len(pids_in(tmp_path)) == 2
    assert all(is_zombie(pid) for pid in pids_in(tmp_path))


def test_daemon_of_mps_ends_clients_before_they_are_killed(tmp_path, monkeypatch):
    alive = []
    monkeypatch.setattr(process.mps, "terminate_client", lambda pid, environment: alive.append((pid, is_zombie(pid))))
    shares = [{process.mps.SHARE: "50"}, {}]
    assert run("sleep", tmp_path, timeout_s=1.0, environments=shares).failure.kind == "timeout"
    assert len(alive) == 1
    assert not alive[0][1]


def test_next_point_runs_after_stuck_rank(tmp_path, monkeypatch):
    """Its fork server is stopped, so that nobody reports its end."""
    monkeypatch.setattr(process, "DEATH_S", 0.2)
    stop = threading.Timer(0.5, os.kill, (fork_server.server_pid(), signal.SIGSTOP))
    stop.start()
    assert run("sleep", tmp_path, timeout_s=1.5).failure.kind == "timeout"
    assert run("identity", tmp_path).failure is None


@pytest.mark.parametrize(
    ("start_method", "stopped"),
    [("forkserver", True), pytest.param("forkserver", False, marks=pytest.mark.slow), ("spawn", True)],
)
def test_ranks_and_children_end_with_killed_agent(tmp_path, start_method, stopped):
    """The ranks know nothing of each other here, so that none is ended by another's death; a stopped one ends, too."""
    command = [sys.executable, "-m", "tests.support.launch_bodies", str(tmp_path), start_method, "sleep_with_a_child"]
    own = Path(tempfile.mkdtemp())  # a short name, which the kernel takes for a socket
    agent = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"TMPDIR": str(own)}, start_new_session=True)
    assert wait_until(lambda: len(pids_in(tmp_path)) == 8)
    pids = pids_in(tmp_path)
    if stopped:
        os.kill(pids[0], signal.SIGSTOP)
    os.killpg(agent.pid, signal.SIGKILL)  # as launchers do
    agent.wait()
    assert wait_until(lambda: all(is_zombie(pid) for pid in pids), seconds=60)
    assert wait_until(lambda: not list(own.iterdir()), seconds=60)
    own.rmdir()


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


@pytest.mark.parametrize(
    ("failures", "rank"),
    [
        (
            [
                ProcessFailure(0, "exception", "peer closed", raised_at=2.0),
                ProcessFailure(1, "exception", "bug", raised_at=1.0),
            ],
            1,
        ),
        (
            [
                ProcessFailure(0, "exception", "peer closed", raised_at=1.0),
                ProcessFailure(1, "signal", "killed", signal=9),
            ],
            1,
        ),
        ([ProcessFailure(0, "exception", "peer closed", raised_at=1.0), ProcessFailure(1, "exit", "code 3")], 1),
        (
            [
                ProcessFailure(0, "signal", "NCCL", signal=6, raised_at=2.0),
                ProcessFailure(1, "exception", "oom", raised_at=1.0),
            ],
            1,
        ),
        (
            [
                ProcessFailure(0, "exception", "peer closed", raised_at=1.0),
                ProcessFailure(1, "signal", "", signal=6, raised_at=0.9),
            ],
            1,
        ),
    ],
)
def test_root_cause_ignores_order_of_failures(failures, rank):
    assert root_cause(failures).rank == rank
    assert root_cause(failures[::-1]).rank == rank
    assert root_cause([]) is None


def in_same_processes(folder, *jobs, start_method="forkserver"):
    """Runs bodies one after another in the same two ranks, each with a folder; returns their ends."""
    ends = []
    with pool.start_ranks([{"MINE": "0"}, {"MINE": "1"}], start_method=start_method) as ranks:
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


def test_failed_ranks_are_not_idle(tmp_path):
    first, failed, are_idle = in_same_processes(tmp_path, ("identity", 120), ("raise_second", 120))
    assert (first.failure, failed.failure.kind, are_idle) == (None, "exception", False)


def test_rank_that_died_idle_is_failure_of_next_job(tmp_path):
    with pool.start_ranks([{}]) as ranks:
        folder = tmp_path
        pid = ranks.run("tests.support.launch_bodies:identity", [0], folder=folder, timeout_s=120).results[0][2]
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: is_zombie(pid))
        failure = ranks.run("tests.support.launch_bodies:identity", [0], folder=folder, timeout_s=120).failure
    assert (failure.kind, failure.signal) == ("signal", signal.SIGKILL)


def test_stopped_idle_rank_takes_no_long_job(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "TAKE_S", 0.2)
    with pool.start_ranks([{}]) as ranks:
        pid = ranks.run("tests.support.launch_bodies:identity", [0], folder=tmp_path, timeout_s=120).results[0][2]
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            ranks.run("tests.support.launch_bodies:identity", ["x" * 10**6], folder=tmp_path, timeout_s=120)
    assert wait_until(lambda: is_zombie(pid))


def test_rank_stopped_mid_report_times_out(tmp_path):
    failure = run("stopped_amid_its_report", tmp_path, timeout_s=1.5).failure
    assert failure.kind == "timeout"
    assert run("identity", tmp_path).failure is None


def test_silent_fork_server_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(fork_server, "ANSWER_S", 0.5)
    os.kill(fork_server.server_pid(), signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        run("identity", tmp_path)
    assert run("identity", tmp_path).failure is None


def test_new_fork_server_may_start_slowly(tmp_path, monkeypatch):
    """It imports torch first, which a slow file system may make a matter of minutes."""
    server = fork_server.server_pid()
    monkeypatch.setattr(fork_server, "ANSWER_S", 0.0)
    os.kill(server, signal.SIGKILL)
    assert wait_until(lambda: fork_server.has_ended(server))
    assert run("identity", tmp_path).failure is None


def test_point_ends_processes_in_own_session(tmp_path):
    outcome = run("leaves_a_session", tmp_path)
    assert outcome.failure is None
    assert all(is_zombie(pid) for pids in outcome.results.values() for pid in pids)


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_point_ends_leftover_children(tmp_path, start_method):
    outcome = run("leaves_a_child", tmp_path, timeout_s=120.0, start_method=start_method)
    assert outcome.failure is None
    assert len(outcome.results) == 2
    assert wait_until(lambda: all(is_zombie(pid) for pid in outcome.results.values()))


@pytest.mark.slow
def test_agent_with_leftovers_ends_quietly(cli):
    arguments = (str(cli.folder), "forkserver", "leaves_a_session")
    process = cli.start(*arguments, module="tests.support.launch_bodies")
    assert process.communicate(timeout=PATIENCE_S) == ("None\n", "")
    assert wait_until(lambda: not cli.processes())


def test_long_tmpdir_is_refused(cli, golden):
    long = cli.folder / ("x" * 100)
    long.mkdir()
    arguments = (str(cli.folder), "forkserver", "identity")
    process = cli.start(*arguments, module="tests.support.launch_bodies", TMPDIR=str(long))
    _, err = process.communicate(timeout=PATIENCE_S)
    golden(err.splitlines()[-1], {"TMPDIR=/.*/x+": "TMPDIR=LONG"})


SHORT_OF_FILES = """
import os, resource, sys
from pathlib import Path
from tests.support.launch_bodies import run
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
run("identity", Path(sys.argv[1]), count=1)
for free in range(2, 20, 2):
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for _ in range(free):
            os.close(held.pop())
    try:
        run("identity", Path(sys.argv[1]), count=4)
    except OSError as error:
        print(error.errno)
    for each in held:
        os.close(each)
"""


def test_agent_short_of_open_files_shows_no_traceback_of_fork_server(tmp_path):
    command = [sys.executable, "-c", SHORT_OF_FILES, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert str(errno.EMFILE) in done.stdout.split()
    assert done.stderr == ""


def test_too_few_open_files_are_refused(cli, golden):
    under = ["sh", "-c", 'ulimit -n 63; exec "$@"', "sh"]
    done = cli(str(cli.folder), "forkserver", "identity", module="tests.support.launch_bodies", under=under)
    golden(done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("error", "lines"),
    [("EOFError()", [0]), ("OSError(24, 'Too many open files')", [1]), ("KeyError('a bug')", [3, 4])],
)
def test_fork_server_says_why_it_ends(error, lines):
    """An agent that dies while it asks for a rank leaves an end of file."""
    command = [sys.executable, "-c", f"import launch.ranks.reaper\nraise {error}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert len(done.stderr.splitlines()) in lines  # from Python 3.13 on also the line that failed


def test_killed_fork_server_is_the_failure(tmp_path, golden):
    alive, killed = run("exit_255", tmp_path).failure, run("kill_the_fork_server", tmp_path, count=1).failure
    golden(f"{alive.message}\n{killed.message}")
    assert run("identity", tmp_path).failure is None
    assert (watch.signal_name(9), watch.signal_name(40)) == ("SIGKILL", "signal 40")
