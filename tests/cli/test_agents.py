"""Several agents, started by hand as mpirun would: what they agree on, and what each meets when another fails."""

import re
import signal

import pytest

from tests.support.cli import begun, ends, wait_until

POINT = ("+suite=faulty", "measure.max_iterations=10", "timeout_s=120")


@pytest.mark.slow
def test_two_agents_share_every_point(cli):
    (code, out, err), (other_code, other_out, other_err) = ends(cli.agents(2, *POINT, "world_size=2,4"))
    assert (code, err) == (0, "")
    assert (other_code, other_out, other_err) == (0, "", "")
    records = cli.records()
    assert [record["status"] for record in records] == ["ok", "ok"]
    assert [[agent["ranks"] for agent in record["agents"]] for record in records] == [[[0], [1]], [[0, 1], [2, 3]]]
    assert [agent["host"] for agent in records[0]["agents"]] == ["n0", "n1"]
    assert all(agent["torch"] and len(agent["load_average"]) == 3 for agent in records[0]["agents"])
    assert records[0]["warnings"] == []
    assert [record["launched_by"] for record in records] == ["openmpi"] * 2
    assert records[0]["start_clock"] == {"estimator": "shared_clock", "uncertainty_s": 0.0}
    assert len(records[1]["cases"][0]["samples_s"]) == 4
    assert not list((cli.folder / "outputs").glob(".agents*"))
    assert "[2/2]" in out


def test_agents_refuse_indivisible_world_size(cli):
    for index, (code, out, err) in enumerate(ends(cli.agents(2, *POINT, "world_size=3"))):
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "world_size=3: does not divide over the 2 agents of openmpi" in err
        assert ("agent 1 on n1" in err) == (index == 1)
    assert not (cli.folder / "outputs").exists()


def test_agents_report_config_mismatch(cli):
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


def test_join_timeout_names_missing_agent(cli):
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


def test_agent_0_reports_no_workers(cli):
    four = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "x"}
    alone = cli(*POINT, "join_timeout_s=1", **four)
    assert alone.returncode == 2
    assert re.search(r"no workers: 1 of 4 agents joined \S+:\d+ within 1 s", alone.stderr)
    choices = [line.split("=")[0] for line in alone.stderr.splitlines()[-2:]]
    assert choices == ["  BENCHKIT_SECRET", "  trust_network"]


def test_worker_reports_missing_agent_0(cli):
    alone = cli(*POINT, "join_timeout_s=1", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1", PMIX_NAMESPACE="x")
    assert alone.returncode == 2
    assert "found no agent 0 within 1 s at outputs/.agents-openmpi-x" in alone.stderr
    fixed = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "BENCHKIT_SECRET": "x"}
    by_port = cli(*POINT, "join_timeout_s=1", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="1", **fixed)
    assert "connection refused at 127.0.0.1:1: start agent 0 first" in by_port.stderr
    assert by_port.stderr.count("\n") == 1


def test_missing_job_name_asks_for_master_addr(cli):
    done = cli(*POINT, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0")
    assert done.returncode == 2
    assert "set MASTER_ADDR and MASTER_PORT" in done.stderr


@pytest.mark.slow
def test_remote_rank_failure_names_rank_and_host(cli):
    [(code, _, _), (other, _, _)] = ends(cli.agents(2, *POINT[:2], "timeout_s=12", "fault=sigkill,raise,hang,none"))
    assert (code, other) == (1, 0)
    *failed, sound = cli.records()
    assert [record["status"] for record in failed] == ["crash", "error", "timeout"]
    for record, reason in zip(failed, ("killed by SIGKILL", "deliberate", "rank 1 in misb"), strict=True):
        assert (record["error"]["rank"], record["error"]["host"]) == (1, "n1")
        assert reason in record["error"]["message"]
    assert sound["status"] == "ok"
    assert wait_until(lambda: not cli.processes())


@pytest.mark.slow
def test_sweep_continues_without_dead_agent(cli):
    processes = cli.agents(3, *POINT[:2], "timeout_s=600", "fault=hang,none", "world_size=6", "on_rank=3")
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


@pytest.mark.parametrize("told", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_signal_to_one_agent_stops_all(cli, told):
    processes = cli.agents(2, *POINT[:2], "timeout_s=600", "fault=hang,none")
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


def test_agent_refuses_unwritable_folder(cli):
    done = cli(
        *POINT, "hydra.sweep.dir=/proc/none/x", OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", PMIX_NAMESPACE="x"
    )
    assert done.returncode == 2
    assert done.stderr.count("benchkit:") == 1
    assert "agent 0 cannot leave its address at /proc/none" in done.stderr


def test_launcher_in_doubt_measures_nothing(cli):
    two = {"RANK": "1", "WORLD_SIZE": "2"}
    done = cli(*POINT, **two)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert all(word in done.stderr for word in ("RANK=1", "WORLD_SIZE=2", "BENCHKIT_ALONE=1"))
    forecast = cli(*POINT, "--dry-run", **two)
    assert forecast.returncode == 0, forecast.stderr
    assert not (cli.folder / "outputs").exists()


def test_process_may_be_alone_on_purpose(cli):
    done = cli(*POINT, RANK="1", WORLD_SIZE="2", BENCHKIT_ALONE="1", SLURM_JOB_ID="7")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1  # that it is alone in job 7
    assert [record["launched_by"] for record in cli.records()] == ["plain"]
