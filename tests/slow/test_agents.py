"""More that can happen to several agents: who dies, hangs or is told to stop, and when."""

import os
import signal
import sys
import time

from launch.agents.host_lock import HostLock

from tests.support.cli import PATIENCE_S, begun, ends, wait_until

POINT = ("+suite=faulty", "measure.max_iterations=10", "timeout_s=120")


def test_lost_agent_0_ends_sweep(cli):
    processes = cli.agents(2, *POINT[:2], "timeout_s=600", "fault=none,hang,none")
    assert wait_until(lambda: begun(cli, 1))
    processes[0].kill()
    _, (code, _, err) = ends(processes)
    assert (code, "agent 0 on n0" in err) == (1, True)
    assert [record["status"] for record in cli.records()] == ["ok", "running"]
    assert wait_until(lambda: not cli.processes())


def test_killed_agent_is_cause_despite_sigterm(cli):
    """mpirun and torchrun end all agents when one dies: the record names the one, not the signal that followed."""
    processes = cli.agents(2, *POINT[:2], "timeout_s=600", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    processes[1].kill()
    processes[0].send_signal(signal.SIGTERM)
    ends(processes)
    assert "agent 1 on n1" in cli.records()[0]["error"]["message"]


def test_stopped_agent_ends_sweep(cli):
    processes = cli.agents(2, *POINT[:2], "timeout_s=20", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    processes[1].send_signal(signal.SIGSTOP)
    _, err = processes[0].communicate(timeout=PATIENCE_S)
    assert (processes[0].returncode, "agent 1 on n1" in err) == (1, True)
    assert [record["status"] for record in cli.records()] == ["crash"]
    processes[1].send_signal(signal.SIGCONT)
    processes[1].communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not cli.processes())


def test_repeated_signals_stop_once(cli):
    processes = cli.agents(2, *POINT[:2], "timeout_s=600", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    for _ in range(3):
        processes[1].send_signal(signal.SIGTERM)
        time.sleep(0.1)
    assert [code for code, _, _ in ends(processes)] == [128 + signal.SIGTERM] * 2
    assert [record["status"] for record in cli.records()] == ["interrupted"]
    assert wait_until(lambda: not cli.processes())


def test_agent_lost_during_join_is_named(cli):
    variables = {"OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": cli.mark}
    first, dying = (
        cli.start(*POINT, **variables, OMPI_COMM_WORLD_RANK=str(i), SLURMD_NODENAME=f"n{i}") for i in (0, 1)
    )
    assert wait_until(lambda: bool(list((cli.folder / "outputs").glob(".agents-openmpi*"))))
    time.sleep(2)
    dying.kill()
    dying.communicate()
    last = cli.start(*POINT, **variables, OMPI_COMM_WORLD_RANK="2", SLURMD_NODENAME="n2")
    for code, _, err in ends([first, last]):
        assert (code, err.count("\n"), "agent 1 on n1" in err) == (2, 1, True)
    assert wait_until(lambda: not cli.processes())


def test_agent_waiting_for_host_obeys_stop(cli):
    lock = HostLock()
    lock.acquire(lambda holder: None)
    processes = cli.agents(2, *POINT)
    try:
        assert wait_until(lambda: [record["status"] for record in cli.records()] == ["running"])
        time.sleep(1)
        processes[1].send_signal(signal.SIGTERM)
        results = ends(processes)
    finally:
        lock.release()
    assert [code for code, _, _ in results] == [128 + signal.SIGTERM] * 2
    assert f"waiting for process {os.getpid()} of user " in results[0][1]
    assert [record["status"] for record in cli.records()] == ["interrupted"]


def test_ctrl_c_stops_local_jobs(cli):
    """As a terminal does it: SIGINT to everybody in the foreground."""
    process = cli.start(*POINT[:2], "launcher=submitit_local", "timeout_s=600", "fault=hang,none", under=["setsid"])
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert [record["status"] for record in cli.records()] == ["interrupted"]
    assert wait_until(lambda: not cli.processes())


def test_restart_by_torchrun_measures_nothing_twice(cli):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    done = cli("+suite=faulty", "fault=raise", "measure.max_iterations=10", under=torchrun)
    assert done.returncode != 0
    assert (
        len(list((cli.folder / "outputs").glob("*/*/record.json"))) == 2
    )  # one sweep, and `latest`, which leads to it
    assert "TORCHELASTIC_RESTART_COUNT=1" in done.stderr
