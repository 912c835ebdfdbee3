"""Ranks that are stopped, that leave processes behind, or whose fork server does not answer."""

import os
import signal

import pytest
from launch.ranks import fork_server

from tests.support.cli import PATIENCE_S, wait_until
from tests.support.launch_bodies import is_zombie, run


@pytest.fixture(autouse=True, scope="module")
def _the_fork_server_is_up(tmp_path_factory):
    run("identity", tmp_path_factory.mktemp("first"))


def test_rank_stopped_mid_report_times_out(tmp_path):
    failure = run("stopped_amid_its_report", tmp_path, timeout_s=3.0).failure
    assert failure.kind == "timeout"
    assert run("identity", tmp_path).failure is None


def test_silent_fork_server_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(fork_server, "ANSWER_S", 0.5)
    os.kill(fork_server.pid(), signal.SIGSTOP)
    with pytest.raises(TimeoutError, match=r"the fork server did not answer within 0\.5 s"):
        run("identity", tmp_path)
    assert run("identity", tmp_path).failure is None


def test_new_fork_server_may_start_slowly(tmp_path, monkeypatch):
    """It imports torch first, which a slow file system may make a matter of minutes."""
    server = fork_server.pid()
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


def test_agent_with_leftovers_ends_quietly(cli):
    arguments = (str(cli.folder), "forkserver", "leaves_a_session")
    process = cli.start(*arguments, module="tests.support.launch_bodies")
    assert process.communicate(timeout=PATIENCE_S) == ("None\n", "")
    assert wait_until(lambda: not cli.processes())


def test_long_tmpdir_is_refused(cli):
    long = cli.folder / ("x" * 100)
    long.mkdir()
    arguments = (str(cli.folder), "forkserver", "identity")
    process = cli.start(*arguments, module="tests.support.launch_bodies", TMPDIR=str(long))
    _, err = process.communicate(timeout=PATIENCE_S)
    said = "is too long for the fork server's socket (107 bytes); allowed is e.g. TMPDIR=/tmp"
    assert err.splitlines()[-1] == f"OSError: TMPDIR={long} {said}"


def test_failure_names_killed_fork_server(tmp_path):
    assert run("exit_255", tmp_path).failure.message == "exited with code 255 and no report"
    killed = run("kill_the_fork_server", tmp_path, count=1).failure
    assert killed.message == "lost with the fork server, which somebody killed"
    assert run("identity", tmp_path).failure is None
