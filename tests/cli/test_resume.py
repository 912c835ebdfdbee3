"""A sweep that is cut off and goes on, on the command line."""

import json
import signal
from pathlib import Path

import pytest
from benchkit.sweep import launchers, manifest, sweeper

from tests.support.cli import PATIENCE_S, Cli, wait_until

QUICK = ("measure=fixed", "measure.max_iterations=3", "hydra.sweep.dir=outputs/s")
FAULTY = ("+suite=faulty", "-m", *QUICK)


def folders(cli: Cli) -> dict[str, dict]:
    """The records of the sweep by folder."""
    found = sorted((cli.folder / "outputs" / "s").glob("*/record.json"))
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def resumed(cli: Cli, *arguments: str, **variables: str):
    return cli("--resume", "outputs/s", *arguments, **variables)


def killed_in(cli: Cli, point: int, *arguments: str) -> None:
    """Starts a sweep and kills its agent in a point that hangs."""
    process = cli.start(*arguments)
    assert wait_until(lambda: begun_in(cli, point))
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not cli.processes())


def begun_in(cli: Cli, point: int) -> bool:
    log = cli.folder / "outputs" / "s" / str(point) / "rank_1.log"
    return log.exists() and bool(log.read_text())


@pytest.mark.slow
def test_resume_continues_killed_sweep(cli, golden):
    killed_in(cli, 2, *FAULTY, "fault=none", "seed=1,1,2,3", "measure.max_iterations=200")
    before = {path: path.read_bytes() for path in (cli.folder / "outputs" / "s").glob("[01]/record.json")}
    assert len(before) == 2
    again = cli(*FAULTY, "fault=none", "seed=1,1,2,3")
    assert again.returncode == 2
    golden(again.stderr)
    done = resumed(cli)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[3/4]" in done.stdout
    assert "[4/4]" in done.stdout
    records = folders(cli)
    assert [record["status"] for record in records.values()] == ["ok"] * 4
    assert [record["config"]["seed"] for record in records.values()] == [1, 1, 2, 3]
    assert [record["attempt"] for record in records.values()] == [1, 1, 2, 1]
    assert all(path.read_bytes() == content for path, content in before.items())
    cut_off = json.loads((cli.folder / "outputs/s/2/attempt_1.json").read_text())
    assert cut_off["status"] == "running"
    finished = resumed(cli)
    assert finished.returncode == 0
    assert {path: path.read_bytes() for path in before} == before
    progress = json.loads((cli.folder / "outputs/s/progress.json").read_text())
    assert (progress["points"], progress["ended"], progress["statuses"]) == (4, 4, {"ok": 4})


@pytest.mark.slow
def test_sweep_refuses_second_process(cli):
    process = cli.start(*FAULTY, "fault=none,hang", "timeout_s=600")
    assert wait_until(lambda: begun_in(cli, 1))
    for arguments in (["--resume", "outputs/s"], [*FAULTY, "fault=raise"]):
        refused = cli(*arguments)
        assert refused.returncode == 2
        assert f"process {process.pid} on" in refused.stderr
        assert refused.stderr.count("\n") == 1
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "\n1 point is left; " in out
    assert [record["status"] for record in folders(cli).values()] == ["ok", "interrupted"]


@pytest.mark.slow
def test_retry_repeats_failed_points(cli):
    first = cli(*FAULTY, "fault=none,raise")
    assert first.returncode == 1
    assert resumed(cli).returncode == 1  # nothing is open; the sweep still has a failure
    assert folders(cli)["1"]["attempt"] == 1
    again = resumed(cli, "--retry", "failed")
    assert again.returncode == 1
    assert [record["attempt"] for record in folders(cli).values()] == [1, 2]
    kept = sorted(path.name for path in (cli.folder / "outputs/s/1").iterdir())
    assert kept == ["attempt_1.json", "attempt_1_rank_0.log", "attempt_1_rank_1.log", "rank_0.log", "rank_1.log",
                    "record.json"]  # fmt: skip


@pytest.mark.slow
def test_resume_needs_force_for_other_software(cli):
    assert cli(*FAULTY, "fault=none,raise").returncode == 1
    path = cli.folder / "outputs/s/sweep.json"
    path.write_text(path.read_text().replace('"torch": "2', '"torch": "1'))
    refused = resumed(cli, "--retry", "failed")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--force" in refused.stderr
    resumed(cli, "--retry", "failed", "--force")
    assert list(folders(cli)["1"]["resumed_with"]) == ["torch"]
    assert folders(cli)["0"]["resumed_with"] == {}


@pytest.mark.slow
def test_sweep_ends_after_max_failures(cli):
    command = 'on_end="echo $BENCHKIT_SWEEP $BENCHKIT_FAILED $BENCHKIT_LEFT > end.txt"'
    done = cli(*FAULTY, "fault=raise,none,raise,exit,none", "max_failures=2", command)
    assert done.returncode == 1
    assert "max_failures=2" in done.stderr
    assert len(folders(cli)) == 4
    assert (cli.folder / "end.txt").read_text().split() == [str(cli.folder / "outputs/s"), "3", "1"]
    progress = json.loads((cli.folder / "outputs/s/progress.json").read_text())
    assert (progress["points"], progress["ended"]) == (5, 4)
    assert progress["seconds_left"] > 0


@pytest.mark.slow
def test_agents_resume_sweep(cli):
    arguments = ["+suite=faulty", "-m", *QUICK, "fault=none,hang,none", "timeout_s=600"]
    processes = cli.agents(2, *arguments)
    assert wait_until(lambda: begun_in(cli, 1))
    for process in processes:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    assert wait_until(lambda: not cli.processes())
    again = cli.agents(2, "--resume", "outputs/s", "+suite=faulty", "-m", *QUICK, "fault=none,none,none")
    results = [(*process.communicate(timeout=PATIENCE_S), process.returncode) for process in again]
    assert [code for _, _, code in results] == [0, 0], results
    assert [(record["status"], record["config"]["fault"]) for record in folders(cli).values()] == [
        ("ok", "none"), ("running", "hang"), ("ok", "none"), ("ok", "none"),
    ]  # fmt: skip


@pytest.mark.slow
def test_override_folders_are_in_manifest(cli):
    named = "hydra.sweep.subdir=${hydra.job.override_dirname}"
    done = cli("+suite=faulty", "-m", *QUICK, "fault=none", "seed=1,2", named)
    assert done.returncode == 0, done.stdout + done.stderr
    paths = [Path(entry.folder) for entry in manifest.read(cli.folder / "outputs/s").points]
    assert len(set(paths)) == 2
    assert all((cli.folder / "outputs/s" / path / "record.json").exists() for path in paths)
    same = cli("+suite=faulty", "-m", "fault=none", "seed=1,2", "hydra.sweep.subdir=x/${suite}")
    assert (same.returncode, "x/faulty" in same.stderr) == (2, True)


@pytest.mark.slow
def test_repetitions_run_in_turn_and_resume(cli):
    line = ("+suite=allreduce", "data_size=0.001", "measure=quick", "hydra.sweep.dir=outputs/s")
    done = cli(*line, "repeat=3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(run 3 of 3)" in done.stdout
    records = folders(cli)
    assert [record["repetition"] for record in records.values()] == [0, 1, 2]
    assert len({record["point_id"] for record in records.values()}) == 1
    again = resumed(cli, *line, "repeat=4")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "[4/4]" in again.stdout
    assert [record["repetition"] for record in folders(cli).values()] == [0, 1, 2, 3]
    assert sum(record["attempt"] for record in folders(cli).values()) == 4


@pytest.fixture
def typed(told, monkeypatch, tmp_path):
    """Runs a command line in a folder, with ranks left out; returns its exit code and the sizes that it would measure.

    Below the folder are the folder of YAML `my/conf`, with the suite `mine`, and `elsewhere`.
    """
    (tmp_path / "my" / "conf" / "suite").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    preset = "# @package _global_\ndefaults:\n  - collective\n  - _self_\n\ncollective: all_reduce\n"
    (tmp_path / "my" / "conf" / "suite" / "mine.yaml").write_text(preset)
    sizes: list[float] = []

    def run_points(points, agents, report):
        sizes.extend(point.config.data_size for point in points)
        return iter(())

    def run(folder, *line):
        monkeypatch.chdir(tmp_path / folder)
        sizes.clear()
        return told(*line)[0], list(sizes)

    monkeypatch.setattr(launchers, "run_points", run_points)
    monkeypatch.setattr(sweeper, "preload_fork_server", lambda configs: None)
    return run


MINE = ("+suite=mine", "-m", "data_size=1,2", "hydra.sweep.dir=s")


@pytest.mark.parametrize(
    ("flags", "is_first"),
    [(["--config-dir=my/conf"], True), pytest.param(["-cd", "my/conf"], False, marks=pytest.mark.slow)],
)
def test_sweep_with_yaml_of_user_is_forecast_and_resumed(typed, flags, is_first):
    line = [*flags, *MINE] if is_first else [*MINE, *flags]
    assert typed(".", *line, "--dry-run") == (0, [])
    assert typed(".", *line) == (0, [1, 2])
    assert typed(".", "--resume", "s", "--dry-run") == (0, [])
    assert typed(".", "--resume", "s") == (0, [1, 2])
    assert typed("elsewhere", "--resume", "../s") == (0, [1, 2])
    assert typed(".", *flags, "--resume", "s") == (0, [1, 2])


def test_one_command_begins_a_sweep_and_goes_on(cli):
    line = ["--resume", "outputs/s", "--retry", "failed", *FAULTY, "fault=none,raise"]
    assert cli(*line, "--dry-run").returncode == 0
    assert not (cli.folder / "outputs" / "s").exists()
    assert cli(*line).returncode == 1
    assert cli(*line).returncode == 1
    assert {folder: record["attempt"] for folder, record in folders(cli).items()} == {"0": 1, "1": 2}


def test_folder_of_yaml_may_move(typed, tmp_path):
    assert typed(".", "--config-dir", "my/conf", *MINE)[0] == 0
    (tmp_path / "my").rename(tmp_path / "ours")
    assert typed(".", "--resume", "s") == (2, [])
    assert typed("elsewhere", "--resume", "../s", "--config-dir", "../ours/conf") == (0, [1, 2])
    (tmp_path / "elsewhere" / "my").symlink_to(tmp_path / "ours")
    assert typed("elsewhere", "--resume", "../s") == (2, [])
