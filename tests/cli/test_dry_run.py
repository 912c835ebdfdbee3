"""What --dry-run says of points before any rank starts."""

import json
import os

import pytest
import torch.distributed as dist
from benchkit.config import compose as composition
from benchkit.point.point import Point
from benchkit.sweep import dry_run, earlier
from benchkit.sweep.dry_run import Forecast, described
from benchkit.sweep.earlier import earlier_seconds
from benchkit.sweep.entries import Entry
from benchkit.sweep.manifest import Manifest
from hydra import compose, initialize_config_dir

from tests.support.cli import ROOT
from tests.support.configs import own_suites
from tests.support.records import make_record


def sweep_of(folder, seconds, status="ok", key="k"):
    """A sweep of one point that took some seconds."""
    (folder / "0").mkdir(parents=True)
    Manifest([], {}, [Entry(key, 0, "0", [])]).write(folder)
    record = make_record(status=status) | {"phases_s": {"total": seconds}}
    (folder / "0" / "record.json").write_text(json.dumps(record))


def test_time_is_that_of_newest_success_that_can_be_read(tmp_path, monkeypatch):
    for name, seconds, status in (("a", 3.0, "ok"), ("b", 5.0, "ok"), ("c", 7.0, "error"), ("d", 8.0, "ok")):
        sweep_of(tmp_path / name, seconds, status)
    (tmp_path / "d" / "0" / "record.json").write_text("{")
    sweep_of(tmp_path / "e", 9.0)
    (tmp_path / "e" / "sweep.json").write_text("{")
    (tmp_path / "latest").symlink_to("a")
    (tmp_path / "other").mkdir()
    assert earlier_seconds({"k", "unknown"}, tmp_path) == {"k": 5.0}
    assert earlier_seconds({"k"}, tmp_path / "none") == {}
    monkeypatch.setattr(earlier, "MOST_SWEEPS", 0)
    assert earlier_seconds({"k"}, tmp_path) == {}


def test_all_points_are_summed_up(golden):
    found = [
        Forecast("a", "2 x 8 MB", "ok", "", 90.0, 20.0),
        Forecast("b", "", "ok", "", None, 20.0),
        Forecast("c", "2 x 4 MB", "ok", "", None, 20.0, most_s=60.0),
        Forecast("d", "", "unavailable", "needs 1 GPU", None, 20.0),
    ]
    golden("\n".join(described(found, 4)))


def forecast(*words):
    """What is said of a point of these overrides on this host, which has 1 GB of memory."""
    composition.register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = composition.typed(compose("config", ["hardware=cpu", *words]))
    [found] = dry_run.forecasts([Point(config, ROOT / "absent", [])], ["k"], ROOT / "absent", runs_here=True)
    return found


IMPOSSIBLE = {
    "+suite=allreduce data_size=10000": "skipped",
    "+suite=transformer model=xl context_length=2048 batch_size=64": "skipped",
    "+suite=auto_shard workload=matmul_100000x100000x100": "skipped",
    "+suite=allreduce backend=nccl": "unavailable",
    "+suite=allreduce backend=ucc": "unavailable",
    "+suite=allreduce measure=graph": "unavailable",
    "+suite=compile compiler=cuda_graph": "unavailable",
}


def test_point_that_cannot_run_says_why(monkeypatch, golden):
    monkeypatch.setattr(dry_run, "host_available_bytes", lambda: 10**9)
    monkeypatch.setattr(dist, "is_backend_available", lambda name: name == "gloo")
    found = {line: forecast(*line.split(), "world_size=2") for line in IMPOSSIBLE}
    assert {line: each.status for line, each in found.items()} == IMPOSSIBLE
    golden("\n".join(each.problem for each in found.values()), {r"torch \S+": "torch VERSION"})


def test_crowded_point_says_so():
    for ranks, is_crowded in ((1, False), (2 * os.cpu_count(), True)):
        found = forecast("+suite=allreduce", f"world_size={ranks}", "threads_per_rank=1")
        assert (found.status, bool(found.crowding)) == ("ok", is_crowded)
        assert str(found).endswith(found.crowding)


@pytest.mark.parametrize("name", sorted(set(own_suites()) - {"compile"}))
def test_memory_is_known_before_ranks_start(name):
    model = ["model=tiny"] if name in ("transformer", "ring_model") else []
    assert forecast(f"+suite={name}", "world_size=2", *model).needed.startswith("2 x ")


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("+suite=allreduce data_size=[1,2,3]", 6 * 11),
        ("+suite=matmul_lut sizes=[8,16]", 2 * 11),
        ("+suite=transformer model=tiny passes=[forward] world_size=2 parallel=ddp", 3 * 11),
        ("+suite=pair_matrix minutes=5 world_size=2", 120),
        ("+suite=auto_shard", None),
    ],
)
def test_time_follows_number_of_cases(line, seconds):
    measure = ["measure.max_seconds=10", "measure.max_warmup_seconds=1"]
    assert forecast(*line.split(), *measure).most_s == seconds


def test_nothing_runs_and_nothing_is_written(told, golden, tmp_path):
    line = ["+suite=allreduce", "data_size=0.001,9999999", "measure=quick", "world_size=2", "hardware=cpu", "--dry-run"]
    code, out, _ = told(*line)
    assert code == 0
    golden(out, {r"[\d.e+]+ GB there": "MEMORY there"})
    assert not list(tmp_path.iterdir())


def test_exit_code_tells_that_nothing_can_run(told):
    code, out, _ = told("+suite=allreduce", "hardware=cuda", "world_size=1", "--dry-run")
    assert (code, "UNAVAILABLE" in out) == (1, True)
    assert told("+suite=allreduce", "data_size=x", "--dry-run")[0] == 2


@pytest.mark.slow
def test_resumed_points_are_those_left(cli):
    line = ["+suite=allreduce", "-m", "data_size=0.001", "measure=quick", "measure.max_iterations=10"]
    assert cli(*line).returncode == 0
    done = cli("--resume", "outputs/latest", "--dry-run")
    assert done.stdout.splitlines()[-2] == "1 measured already"
    assert "  about " in cli(*line, "seed=0", "--dry-run").stdout
    assert len(cli.records()) == 1
