"""Ranks that stay from point to point, with real processes."""

import os
import signal

import pytest

from tests.support.cli import PATIENCE_S, Cli, wait_until

pytestmark = pytest.mark.slow

REUSE = ("ranks=reuse", "measure.max_iterations=10", "timeout_s=8")


@pytest.fixture(scope="module")
def swept(module_cli: Cli) -> Cli:
    """Points that crash, sound ones, and one that hangs in ranks that have measured those."""
    done = module_cli("+suite=faulty", "-m", "fault=sigkill,none,hang,wrong", "seed=0,1,2", *REUSE)
    assert done.returncode == 1
    return module_cli


def points_before(cli: Cli) -> dict[tuple[str, int], int | None]:
    """Per point, named by its fault and seed, how many points its ranks had measured."""
    return {
        (record["config"]["fault"], record["config"]["seed"]): record["rank_use"]
        and record["rank_use"]["points_before"]
        for record in cli.records()
    }


def test_sound_points_share_ranks_and_failed_ones_make_them_fresh(swept):
    before = points_before(swept)
    assert [before["none", seed] for seed in range(3)] == [0, 1, 2]
    assert [before["wrong", seed] for seed in range(3)] == [0, 0, 0]
    records = swept.records()
    assert [record["status"] for record in records] == ["crash"] * 3 + ["ok"] * 3 + ["timeout"] * 3 + ["invalid"] * 3
    error = next(record for record in records if record["config"]["fault"] == "hang")["error"]
    assert (error["rank"], "rank 1 in misbehave" in error["message"]) == (1, True)
    for point in range(len(records)):
        for rank in range(2):
            log = swept.folder / "outputs" / "latest" / str(point) / f"rank_{rank}.log"
            assert f"rank {rank} of 2\n" in log.read_text()


def test_first_reused_point_is_measured_fresh_too(swept):
    fresh = {record["config"]["seed"]: record["fresh"] for record in swept.records() if record["status"] == "ok"}
    assert [len(fresh[seed]) for seed in range(3)] == [0, 2, 0]
    assert all(case["samples_s"] for case in fresh[1])
    assert wait_until(lambda: not swept.processes())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_agent_leaves_no_rank(cli, number):
    process = cli.start("+suite=faulty", "-m", "fault=none,hang", "seed=0,1", *REUSE, "timeout_s=600")
    assert wait_until(lambda: [record["status"] for record in cli.records()] == ["ok", "ok", "running"])
    os.kill(process.pid, number)
    process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not cli.processes())


def test_spawned_ranks_stay_too(cli):
    assert cli("+suite=faulty", "-m", "seed=0,1", "start_method=spawn", *REUSE, "timeout_s=120").returncode == 0
    assert [record["rank_use"]["points_before"] for record in cli.records()] == [0, 1]


def test_agents_share_ranks_in_step(cli):
    """A point that fails on the ranks of one agent makes those of the other fresh, too."""
    wanted = ("+suite=faulty", "-m", "fault=none,raise", "seed=0,1", "world_size=4", "on_rank=3", *REUSE)
    processes = cli.agents(2, *wanted)
    for process in processes:
        process.communicate(timeout=PATIENCE_S)
    assert list(points_before(cli).values()) == [0, 1, None, None]
    assert wait_until(lambda: not cli.processes())
