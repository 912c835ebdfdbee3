"""Several agents, started by hand as mpirun would: what they agree on, and what each meets when another fails."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from launch.host_lock import HostLock
from tests.support.cli import Cli, wait_until

POINT = ("+suite=faulty", "measure.max_iterations=10", "timeout_s=20")


def ends(processes: "list[subprocess.Popen[str]]", timeout: float = 60) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each."""
    told = [process.communicate(timeout=timeout) for process in processes]
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, told, strict=True)]


def begun(cli: Cli, point: int, rank: int = 0) -> bool:
    """Whether a rank of a point has said its first word."""
    log = cli.folder / "outputs" / "latest" / str(point) / f"rank_{rank}.log"
    return log.exists() and bool(log.read_text())


def test_two_agents_run_every_point_together_and_agent_0_writes(cli):
    (code, out, err), (other_code, other_out, other_err) = ends(cli.agents(2, *POINT, "world_size=2,4"))
    assert (code, err) == (0, "")
    assert (other_code, other_out, other_err) == (0, "", "")
    records = cli.records()
    assert [record["status"] for record in records] == ["ok", "ok"]
    assert [[agent["ranks"] for agent in record["agents"]] for record in records] == [[[0], [1]], [[0, 1], [2, 3]]]
    assert [agent["host"] for agent in records[0]["agents"]] == ["n0", "n1"]
    assert [record["launched_by"] for record in records] == ["openmpi"] * 2
    assert records[0]["start_clock"] == {"estimator": "shared_clock", "uncertainty_s": 0.0}
    assert len(records[1]["cases"][0]["samples_s"]) == 4
    assert not list((cli.folder / "outputs").glob(".agents*"))
    assert "[2/2]" in out


def test_ranks_that_do_not_divide_are_refused_on_every_side(cli):
    for index, (code, out, err) in enumerate(ends(cli.agents(2, *POINT, "world_size=3"))):
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "world_size=3: does not divide over the 2 agents of openmpi" in err
        assert ("agent 1 on n1" in err) == (index == 1)
    assert not (cli.folder / "outputs").exists()


def test_agents_that_disagree_say_so_on_every_side(cli):
    variables = {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": cli.mark}
    processes = [
        cli.start(*POINT, f"seed={index}", **variables, OMPI_COMM_WORLD_RANK=str(index), SLURMD_NODENAME=f"n{index}")
        for index in range(2)
    ]
    for code, _, err in ends(processes):
        assert code == 2
        assert err.count("\n") == 1
        assert "agents disagree on the command line" in err
        assert "seed=0 on agent 0 on n0" in err
        assert "seed=1 on agent 1 on n1" in err


def test_an_agent_that_never_comes_is_named_in_time(cli):
    three = {"OMPI_COMM_WORLD_SIZE": "3", "PMIX_NAMESPACE": cli.mark}
    processes = [
        cli.start(*POINT, "join_timeout_s=3", **three, OMPI_COMM_WORLD_RANK=str(index), SLURMD_NODENAME=f"n{index}")
        for index in range(2)
    ]
    for code, _, err in ends(processes):
        assert code == 2
        assert re.search(
            r"2 of 3 agents joined \S+:\d+ within 3 s \(agent 0 on n0, agent 1 on n1\); missing: agent 2", err
        )


def test_agent_0_alone_says_that_no_workers_came_and_where_it_waited(cli):
    four = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "x"}
    alone = cli(*POINT, "join_timeout_s=1", **four)
    assert alone.returncode == 2
    assert re.search(r"no workers: 1 of 4 agents joined \S+:\d+ within 1 s", alone.stderr)
    assert alone.stderr.count("\n") == 1


def test_without_agent_0_the_others_say_where_they_looked(cli):
    alone = cli(*POINT, "join_timeout_s=1", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1", PMIX_NAMESPACE="x")
    assert alone.returncode == 2
    assert "found no agent 0 within 1 s at outputs/.agents-openmpi-x" in alone.stderr
    fixed = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    by_port = cli(*POINT, "join_timeout_s=1", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1", **fixed)
    assert "connection refused at 127.0.0.1:1: start agent 0 first" in by_port.stderr
    assert by_port.stderr.count("\n") == 1


def test_processes_that_nothing_holds_together_are_told_what_to_set(cli):
    done = cli(*POINT, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0")
    assert done.returncode == 2
    assert "set MASTER_ADDR and MASTER_PORT" in done.stderr


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("sigkill", "crash", "killed by SIGKILL"),
        ("raise", "error", "deliberate"),
        ("hang", "timeout", "rank 1 in misb"),
    ],
)
def test_a_rank_that_fails_elsewhere_has_its_name_and_the_next_point_runs(cli, fault, status, reason):
    [(code, _, _), (other, _, _)] = ends(cli.agents(2, *POINT[:2], "timeout_s=4", f"fault={fault},none"))
    assert (code, other) == (1, 0)
    failed, sound = cli.records()
    assert failed["status"] == status
    assert (failed["error"]["rank"], failed["error"]["host"]) == (1, "n1")
    assert reason in failed["error"]["message"]
    assert sound["status"] == "ok"
    assert wait_until(lambda: not cli.processes())


def test_a_dead_agent_is_named_and_those_left_measure_the_next_point(cli):
    processes = cli.agents(3, *POINT[:2], "timeout_s=60", "fault=hang,none", "world_size=6", "on_rank=3")
    assert wait_until(lambda: begun(cli, 0, 3))
    processes[1].kill()
    codes = [code for code, _, _ in ends(processes)]
    assert codes == [1, -signal.SIGKILL, 0]
    failed, sound = cli.records()
    assert (failed["status"], failed["error"]["host"]) == ("crash", "n1")
    assert failed["error"]["message"] == "agent 1 on n1 is gone"
    assert sound["status"] == "ok"
    assert [(agent["host"], agent["ranks"]) for agent in sound["agents"]] == [("n0", [0, 1, 2]), ("n2", [3, 4, 5])]
    assert wait_until(lambda: not cli.processes())


def test_without_agent_0_the_sweep_ends_and_nothing_stays(cli):
    processes = cli.agents(2, *POINT[:2], "timeout_s=60", "fault=none,hang,none")
    assert wait_until(lambda: begun(cli, 1))
    processes[0].kill()
    _, (code, _, err) = ends(processes)
    assert code == 1
    assert "agent 0 on n0 ended: nobody is left to write records; the sweep ends" in err
    assert [record["status"] for record in cli.records()] == ["ok", "running"]
    assert wait_until(lambda: not cli.processes())


@pytest.mark.parametrize("told", [0, 1])
def test_a_signal_to_one_agent_stops_all_and_is_recorded(cli, told):
    processes = cli.agents(2, *POINT[:2], "timeout_s=60", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    processes[told].send_signal(signal.SIGTERM)
    results = ends(processes)
    assert results[told][0] == 128 + signal.SIGTERM
    assert results[1 - told][0] == 128 + signal.SIGTERM
    [record] = cli.records()
    assert record["status"] == "interrupted"
    assert "stopped by SIGTERM" in record["error"]["message"]
    assert "Traceback" not in "".join(out + err for _, out, err in results)
    assert wait_until(lambda: not cli.processes())


def test_an_agent_that_is_killed_with_its_launcher_is_still_the_cause(cli):
    """mpirun and torchrun end all agents when one dies: the record names the one, not the signal that followed."""
    processes = cli.agents(2, *POINT[:2], "timeout_s=60", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    processes[1].kill()
    processes[0].send_signal(signal.SIGTERM)
    ends(processes)
    assert cli.records()[0]["error"]["message"] == "agent 1 on n1 is gone"


def test_clocks_of_different_hosts_are_told_by_one(cli):
    """Agent 1 lives where the monotonic clock is 1000 s ahead."""
    shifted = ["unshare", "--time", "--monotonic", "1000"]
    if subprocess.run([*shifted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespaces here: they need Linux 5.6 and root")
    variables = {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": cli.mark}
    processes = [
        cli.start(*POINT, under=shifted * index, **variables, OMPI_COMM_WORLD_RANK=str(index)) for index in range(2)
    ]
    ends(processes)
    [record] = cli.records()
    assert record["status"] == "ok"
    assert record["start_clock"]["estimator"] == "min_rtt_line"
    assert 0 < record["start_clock"]["uncertainty_s"] < 0.1
    for offsets in record["cases"][0]["start_offsets_s"]:
        assert max(offsets) < 1.0  # not 1000


def test_a_node_that_vanishes_without_a_word_ends_the_sweep(cli):
    """Two network namespaces; the cable between them is cut, so that no kernel says goodbye."""
    if os.geteuid() or not Path("/sbin/ip").exists():
        pytest.skip("network namespaces need root and iproute2")
    names = [f"bk{cli.mark[:6]}{index}" for index in range(2)]
    script = [f"ip netns add {name}" for name in names] + [
        f"ip link add v{names[0]} netns {names[0]} type veth peer name v{names[1]} netns {names[1]}",
        *(f"ip -n {name} addr add 10.99.7.{index + 1}/24 dev v{name}" for index, name in enumerate(names)),
        *(f"ip -n {name} link set {device} up" for name in names for device in (f"v{name}", "lo")),
    ]
    try:
        subprocess.run(["sh", "-ec", "\n".join(script)], check=True)
        variables = {"OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "10.99.7.1", "MASTER_PORT": "29871"}
        processes = [
            cli.start(
                *POINT[:2], "timeout_s=100", "fault=none,hang,none", under=["ip", "netns", "exec", name], **variables,
                OMPI_COMM_WORLD_RANK=str(index), SLURMD_NODENAME=f"n{index}", GLOO_SOCKET_IFNAME=f"v{name}",
            )
            for index, name in enumerate(names)
        ]  # fmt: skip
        assert wait_until(lambda: begun(cli, 1) and begun(cli, 1, 1))
        subprocess.run(["ip", "-n", names[0], "link", "set", f"v{names[0]}", "down"], check=True)
        results = ends(processes)
    finally:
        subprocess.run(["sh", "-c", "; ".join(f"ip netns delete {name}" for name in names)], check=False)
    assert [code for code, _, _ in results] == [1, 1]
    assert "agent 1 on n1 does not answer; the sweep ends" in results[0][2]
    assert "agent 0 on n0 does not answer" in results[1][2]
    assert [record["status"] for record in cli.records()] == ["ok", "crash"]
    assert cli.records()[1]["error"]["host"] == "n1"
    assert wait_until(lambda: not cli.processes())


def test_an_agent_that_does_not_answer_any_more_ends_the_sweep_in_bounded_time(cli):
    processes = cli.agents(2, *POINT[:2], "timeout_s=3", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    processes[1].send_signal(signal.SIGSTOP)
    _, err = processes[0].communicate(timeout=60)
    assert processes[0].returncode == 1
    assert "agent 1 on n1 does not answer; the sweep ends" in err
    assert [record["status"] for record in cli.records()] == ["crash"]
    processes[1].send_signal(signal.SIGCONT)
    processes[1].communicate(timeout=60)
    assert wait_until(lambda: not cli.processes())


@pytest.mark.parametrize("told", [0, 1])
def test_a_second_signal_takes_nothing_back(cli, told):
    processes = cli.agents(2, *POINT[:2], "timeout_s=60", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    for _ in range(3):
        processes[told].send_signal(signal.SIGTERM)
        time.sleep(0.1)
    assert [code for code, _, _ in ends(processes)] == [128 + signal.SIGTERM] * 2
    assert [record["status"] for record in cli.records()] == ["interrupted"]
    assert wait_until(lambda: not cli.processes())


def test_an_agent_that_dies_before_all_have_joined_is_named_on_every_side(cli):
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
        assert code == 2
        assert err.count("\n") == 1
        assert "agent 1 on n1 is gone before the first point" in err
    assert wait_until(lambda: not cli.processes())


def test_who_waits_for_the_host_still_hears_the_others(cli):
    lock = HostLock()
    lock.acquire(lambda pid: None)
    processes = cli.agents(2, *POINT)
    try:
        assert wait_until(lambda: [record["status"] for record in cli.records()] == ["running"])
        time.sleep(1)
        processes[1].send_signal(signal.SIGTERM)
        results = ends(processes)
    finally:
        lock.release()
    assert [code for code, _, _ in results] == [128 + signal.SIGTERM] * 2
    assert f"waiting for process {os.getpid()}, which measures" in results[0][1]
    assert [record["status"] for record in cli.records()] == ["interrupted"]


def test_a_folder_that_holds_records_is_refused_on_every_side(cli):
    ends(cli.agents(2, *POINT, "hydra.sweep.dir=here"))
    for code, _, err in ends(cli.agents(2, *POINT, "hydra.sweep.dir=here")):
        assert code == 2
        assert "hydra.sweep.dir=here: holds records already" in err
    assert json.loads((cli.folder / "here" / "0" / "record.json").read_text())["status"] == "ok"


def test_a_folder_that_cannot_be_made_is_one_line(cli):
    done = cli(
        *POINT, "hydra.sweep.dir=/proc/none/x", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", PMIX_NAMESPACE="x"
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "agent 0 cannot leave its address at /proc/none" in done.stderr


def test_ctrl_c_at_local_jobs_ends_and_records_them(cli):
    """As a terminal does it: SIGINT to everybody in the foreground."""
    process = cli.start(*POINT[:2], "launcher=submitit_local", "timeout_s=60", "fault=hang,none", under=["setsid"])
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the local jobs are stopped" in out + err
    assert "Traceback" not in out + err
    assert [record["status"] for record in cli.records()] == ["interrupted"]
    assert wait_until(lambda: not cli.processes())
