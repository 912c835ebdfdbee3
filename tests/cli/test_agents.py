"""Several agents, started by hand as mpirun would: what they agree on, and what each meets when another fails."""

import signal

import pytest

from tests.support.cli import begun, ends, wait_until

POINT = ("+suite=faulty", "measure.max_iterations=10", "timeout_s=120")
ADDRESS = {r"\bn0:\d+": "ADDRESS"}


def ranked(index, count, **others):
    """The environment of an agent that mpirun starts."""
    named = {"OMPI_COMM_WORLD_SIZE": str(count), "OMPI_COMM_WORLD_RANK": str(index), "SLURMD_NODENAME": f"n{index}"}
    return named | others


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


def test_agents_refuse_other_world_size_and_command_line(cli, golden):
    told = ends(cli.agents(2, *POINT, "world_size=3"))
    assert not (cli.folder / "outputs").exists()
    one, two = (cli.start(*POINT, f"seed={i}", **ranked(i, 2, PMIX_NAMESPACE=cli.mark)) for i in range(2))
    told += ends([one, two])
    assert [(code, out, err.count("\n")) for code, out, err in told] == [(2, "", 1)] * 4
    golden("".join(err for _, _, err in told))


@pytest.mark.slow
def test_join_timeout_names_missing_agent(cli):
    three = [cli.start(*POINT, "join_timeout_s=3", **ranked(i, 3, PMIX_NAMESPACE=cli.mark)) for i in range(2)]
    for code, _, err in ends(three):
        assert (code, "missing: agent 2" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["join_timeout_s=1"], ranked(0, 4, PMIX_NAMESPACE="x")),
        (["join_timeout_s=1"], ranked(1, 2, PMIX_NAMESPACE="x")),
        (
            ["join_timeout_s=1"],
            ranked(1, 2, PMIX_NAMESPACE="x", MASTER_ADDR="127.0.0.1", MASTER_PORT="1", BENCHKIT_SECRET="x" * 16),
        ),
        ([], ranked(0, 2)),
        (["hydra.sweep.dir=/proc/none/x"], ranked(0, 2, PMIX_NAMESPACE="x")),
        ([], {"RANK": "1", "WORLD_SIZE": "2"}),
    ],
    ids=["alone", "without-agent-0", "without-listener", "without-name", "without-folder", "in-doubt"],
)
def test_agent_that_meets_nobody_says_why(told, golden, tmp_path, arguments, variables):
    code, out, err = told("+suite=allreduce", *arguments, **variables)
    assert (code, out) == (2, "")
    golden(err, ADDRESS)
    assert not (tmp_path / "outputs").exists() or not list((tmp_path / "outputs").glob("[0-9]*"))


def test_process_in_doubt_may_forecast_and_be_alone_on_purpose(cli):
    assert cli(*POINT, "--dry-run", RANK="1", WORLD_SIZE="2").returncode == 0
    done = cli(*POINT, RANK="1", WORLD_SIZE="2", BENCHKIT_ALONE="1", SLURM_JOB_ID="7")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1  # that it is alone in job 7
    assert [record["launched_by"] for record in cli.records()] == ["plain"]


@pytest.mark.slow
def test_remote_rank_failure_names_rank_and_host(cli):
    [(code, _, _), (other, _, _)] = ends(cli.agents(2, *POINT[:2], "timeout_s=12", "fault=sigkill,raise,hang,none"))
    assert (code, other) == (1, 0)
    records = cli.records()
    assert [record["status"] for record in records] == ["crash", "error", "timeout", "ok"]
    assert [(record["error"]["rank"], record["error"]["host"]) for record in records[:3]] == [(1, "n1")] * 3
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
    assert sound["status"] == "ok"
    assert [(agent["host"], agent["ranks"]) for agent in sound["agents"]] == [("n0", [0, 1, 2]), ("n2", [3, 4, 5])]
    assert wait_until(lambda: not cli.processes())


@pytest.mark.parametrize("told_agent", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_signal_to_one_agent_stops_all(cli, told_agent):
    processes = cli.agents(2, *POINT[:2], "timeout_s=600", "fault=hang,none")
    assert wait_until(lambda: begun(cli, 0) and begun(cli, 0, 1))
    processes[told_agent].send_signal(signal.SIGTERM)
    results = ends(processes)
    assert [code for code, _, _ in results] == [128 + signal.SIGTERM] * 2
    [record] = cli.records()
    assert (record["status"], "SIGTERM" in record["error"]["message"]) == ("interrupted", True)
    assert "Traceback" not in "".join(out + err for _, out, err in results)
    assert wait_until(lambda: not cli.processes())
