"""Every suite under every launcher there is: the same columns, everything verified, one analysis over all."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

import pandas as pd
import pytest

from tests.support.cli import PATIENCE_S, ROOT, Cli, wait_until
from tests.support.configs import own_suites

SMALLEST = sorted(path.stem for path in (ROOT / "tests" / "conf" / "suite").glob("smallest_*.yaml"))
"""Per suite a preset with the least that it can measure; a new suite brings its own."""
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
LAUNCHERS: dict[str, Sequence[str]] = {
    "plain": [],
    "torchrun": ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"],
    "openmpi": ["mpirun.openmpi", "-np", "2"],
    "mpich": ["mpirun.mpich", "-np", "2"],
    "srun": ["srun", "--nodes=2", "--ntasks-per-node=1"],
}
SUBMITTED = {
    "slurm": ["launcher=slurm", "hydra.launcher.nodes=2", "-m"],
    "slurm_packed": ["launcher=slurm_packed", "hydra.launcher.nodes=2"],
    "submitit_local": ["launcher=submitit_local"],
}


STATIC = [*LAUNCHERS["torchrun"][:3], "--nproc-per-node=2", "--master-port=29677"]
"""torchrun's rendezvous without the option `--standalone`: every start has the same name."""


@pytest.mark.parametrize("launcher", ["static", "torchrun", "openmpi", "mpich", "srun"])
def test_secret_stands_in_file_of_this_user_alone(cli, request, launcher):
    under = [sys.executable, *STATIC[1:]] if launcher == "static" else command(launcher)
    if launcher == "srun":
        request.getfixturevalue("slurm")
    script = str(ROOT / "tests" / "support" / "secret_place.py")
    started = [*under, script] if "torch.distributed.run" in under else [*under, sys.executable, script]
    done = subprocess.run(
        started, cwd=cli.folder, env=cli.environment | MPI, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert told["agents"] == [2, 2]
    assert (told["modes"], told["in_file"], told["left"]) == ([0o600], [True], [])
    assert len(told["token"]) == 64
    assert told["token"] != told["job"]
    assert told["local"] == (launcher != "srun")


def command(launcher: str) -> list[str]:
    """The launcher's command line; skips the test where it is not here."""
    words = list(LAUNCHERS.get(launcher, []))
    if launcher == "torchrun":
        words[0] = sys.executable
    if words and shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not here: apt-get install openmpi-bin mpich slurm-wlm")
    return words


@pytest.fixture(scope="module")
def measured(module_cli: Cli, slurm: None) -> Cli:
    """All suites at their smallest under all launchers, each launcher started once, in one folder."""
    for launcher in [*LAUNCHERS, *SUBMITTED]:
        given = [f"+suite={','.join(SMALLEST)}", "measure=few", "world_size=4", *SUBMITTED.get(launcher, [])]
        done = module_cli(*given, under=command(launcher), **MPI)
        assert done.returncode == 0, f"{launcher}: {done.stdout}{done.stderr}"
        (module_cli.folder / "outputs" / "latest").resolve().rename(module_cli.folder / f"all-{launcher}")
    return module_cli


@pytest.fixture(scope="module")
def table(measured: Cli) -> pd.DataFrame:
    folders = sorted(path.name for path in measured.folder.glob("all-*"))
    done = measured(*folders, "--output-dir", "report", module="analysis")
    assert done.returncode == 0, done.stderr
    return pd.read_csv(measured.folder / "report" / "combined.csv")


def test_launchers_measure_every_point(table):
    here = table[table["status"] != "unavailable"]  # of a suite's cases, what no launcher can change
    assert (here["status"] == "ok").all()
    assert here["median_s"].notna().all()
    launcher = table["path"].map(lambda path: path.split("/")[-3].removeprefix("all-"))
    per_suite = table.groupby([launcher, "suite"]).size().unstack()
    assert set(per_suite.index) == {*LAUNCHERS, *SUBMITTED}
    assert set(per_suite.columns) == set(own_suites())
    assert (per_suite == per_suite.loc["plain"]).all(axis=None)


def test_records_name_launcher_and_hosts(table):
    for folder, rows in table.groupby(table["path"].map(lambda path: path.split("/")[-3])):
        launcher = folder.removeprefix("all-")
        expected = {"slurm": "srun", "slurm_packed": "srun", "submitit_local": "plain"}.get(launcher, launcher)
        assert set(rows["launched_by"]) == {expected}, folder
        assert set(rows["num_agents"]) == {1 if expected == "plain" else 2}
        assert set(rows["host"].map(lambda hosts: len(hosts.split("+")))) == {2 if expected == "srun" else 1}


def test_no_process_is_left(measured):
    assert wait_until(lambda: not measured.processes())


def test_mpich_keeps_points_after_agent_death(cli):
    """Its mpirun kills all agents with SIGKILL: the last record says running, unless agent 0 was faster.

    Agent 0 may have noticed the death, and begun the third point.
    """
    process = hanging_in_the_second_point(cli, "mpich")
    os.kill(agent(cli, 1), signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    first, second = [record["status"] for record in cli.records()[:2]]
    assert first == "ok"
    assert second in ("running", "crash")
    assert wait_until(lambda: not cli.processes())


@pytest.mark.parametrize("launcher", ["torchrun", "openmpi"])
def test_dead_agent_ends_launcher(cli, launcher):
    process = hanging_in_the_second_point(cli, launcher)
    os.kill(agent(cli, 1), signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    records = cli.records()
    assert [record["status"] for record in records[:2]] == ["ok", "crash"]
    assert records[1]["error"]["message"].startswith("agent 1 on ")
    assert wait_until(lambda: not cli.processes())


def hanging_in_the_second_point(cli: Cli, launcher: str) -> "subprocess.Popen[str]":
    """A sweep of three points whose second one hangs; returns when it does."""
    point = ["+suite=faulty", "fault=none,hang,none", "timeout_s=600", "measure.max_iterations=10"]
    process = cli.start(*point, under=command(launcher), **MPI)
    log = cli.folder / "outputs" / "latest" / "1" / "rank_1.log"
    assert wait_until(lambda: log.exists() and bool(log.read_text()))
    return process


def agent(cli: Cli, index: int) -> int:
    """The process of one agent: its launcher's variables say which."""
    wanted = [f"{name}={index}" for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")]
    for pid in cli.processes():
        with open(f"/proc/{pid}/environ") as file:
            variables = file.read().split("\0")
        with open(f"/proc/{pid}/cmdline") as file:
            words = file.read().split("\0")
        if "benchkit" in words and any(variable in variables for variable in wanted):
            return pid
    raise AssertionError("no such agent")


def test_srun_continues_without_dead_agent(cli, slurm):
    process = hanging_in_the_second_point(cli, "srun")
    os.kill(agent(cli, 1), signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    records = cli.records()
    assert [record["status"] for record in records] == ["ok", "crash", "ok"]
    assert records[1]["error"]["message"] == "agent 1 on bk2 is gone"
    assert [agent["host"] for agent in records[2]["agents"]] == ["bk1"]
    assert wait_until(lambda: not cli.processes())
