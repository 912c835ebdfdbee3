"""What --dry-run says of points before any rank starts."""

import json
import os

import pytest
from benchkit.config import compose as composition
from benchkit.point.point import Point
from benchkit.rank import backends
from benchkit.sweep import dry_run, earlier
from benchkit.sweep.dry_run import Forecast, described
from benchkit.sweep.earlier import earlier_seconds
from benchkit.sweep.entries import Entry
from benchkit.sweep.manifest import Manifest
from benchkit.sweep.point_lines import duration
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


def test_time_is_that_of_newest_success(tmp_path):
    for name, seconds, status in (("a", 3.0, "ok"), ("b", 5.0, "ok"), ("c", 7.0, "error")):
        sweep_of(tmp_path / name, seconds, status)
    (tmp_path / "latest").symlink_to("a")
    (tmp_path / "other").mkdir()
    assert earlier_seconds({"k", "unknown"}, tmp_path) == {"k": 5.0}
    assert earlier_seconds({"k"}, tmp_path / "none") == {}


def test_unreadable_sweeps_are_left_out(tmp_path, monkeypatch):
    sweep_of(tmp_path / "a", 3.0)
    sweep_of(tmp_path / "b", 5.0)
    (tmp_path / "b" / "0" / "record.json").write_text("{")
    sweep_of(tmp_path / "c", 6.0)
    (tmp_path / "c" / "sweep.json").write_text("{")
    assert earlier_seconds({"k"}, tmp_path) == {"k": 3.0}
    monkeypatch.setattr(earlier, "MOST_SWEEPS", 0)
    assert earlier_seconds({"k"}, tmp_path) == {}


def test_all_points_are_summed_up():
    found = [
        Forecast("a", "2 x 8 MB", "ok", "", 90.0, 20.0),
        Forecast("b", "", "ok", "", None, 20.0),
        Forecast("c", "2 x 4 MB", "ok", "", None, 20.0, most_s=60.0),
        Forecast("d", "", "unavailable", "needs 1 GPU", None, 20.0),
    ]
    assert described(found, 4)[:4] == [
        "[1/4] a  about 1 min 30 s, as before, 2 x 8 MB",
        "[2/4] b  up to 20 s per case, memory not known",
        "[3/4] c  up to 1 min 0 s of timing, 2 x 4 MB",
        "[4/4] d  UNAVAILABLE: needs 1 GPU",
    ]
    assert described(found, 4)[-2] == (
        "3 of 4 points can run; 1 unavailable; 4 measured already; 1 took 1 min 30 s together before; "
        "1 new, up to 1 min 0 s of timing; 1 new, up to 20 s for one case of each"
    )


def forecast(*words):
    """What is said of a point of these overrides on this host, which has 1 GB of memory."""
    composition.register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = composition.typed(compose("config", ["hardware=cpu", *words]))
    [found] = dry_run.forecasts([Point(config, ROOT / "absent", [])], ["k"], ROOT / "absent", runs_here=True)
    return found


@pytest.mark.parametrize(
    ("line", "status", "problem"),
    [
        ("+suite=tp_columnwise m=10000000", "skipped", "needs 2 ranks x "),
        ("+suite=tp_rowwise m=10000000", "skipped", "needs 2 ranks x "),
        ("+suite=transformer model=xl context_length=2048 batch_size=64", "skipped", "needs "),
        ("+suite=auto_shard workload=matmul_100000x100000x100", "skipped", "needs 2 ranks x "),
        ("+suite=matmul_lut sizes=[100000]", "skipped", "needs 2 ranks x "),
        ("+suite=rank_speed memory_size=1GiB", "skipped", "needs 2 ranks x "),
        ("+suite=allreduce data_size=10000", "skipped", "needs 2 ranks x "),
        ("+suite=allreduce backend=nccl", "unavailable", "nccl communicates cuda tensors"),
        ("+suite=allreduce backend=ucc", "unavailable", "built without ucc"),
        ("+suite=allreduce measure=graph", "unavailable", "measure.mode=graph: needs hardware.device=cuda"),
        ("+suite=compile compiler=cuda_graph", "unavailable", "CUDA graphs need hardware.device=cuda"),
    ],
)
def test_point_that_cannot_run_says_why(monkeypatch, line, status, problem):
    monkeypatch.setattr(dry_run, "host_available_bytes", lambda: 10**9)
    monkeypatch.setattr(backends.dist, "is_backend_available", lambda name: name == "gloo")
    found = forecast(*line.split(), "world_size=2")
    assert found.status == status
    assert problem in found.problem


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
        ("+suite=allreduce measure=loop", 11),
        ("+suite=matmul_lut sizes=[8,16]", 2 * 11),
        ("+suite=transformer model=tiny passes=[forward]", 11),
        ("+suite=transformer model=tiny passes=[forward] world_size=2 parallel=ddp", 3 * 11),
        ("+suite=rank_speed minutes=5", 30),
        ("+suite=pair_matrix minutes=5 world_size=2", 120),
        ("+suite=auto_shard", None),
    ],
)
def test_time_follows_number_of_cases(line, seconds):
    measure = ["measure.max_seconds=10", "measure.max_warmup_seconds=1"]
    assert forecast(*line.split(), *measure).most_s == seconds


@pytest.mark.parametrize(("seconds", "text"), [(4.21, "4.2 s"), (200, "3 min 20 s"), (7500.4, "2 h 5 min")])
def test_duration_has_units_that_people_use(seconds, text):
    assert duration(seconds) == text


def test_nothing_runs_and_nothing_is_written(cli):
    line = ["+suite=allreduce", "-m", "data_size=0.001,9999999", "measure=quick", "world_size=2", "--dry-run"]
    done = cli(*line)
    assert done.returncode == 0, done.stderr
    first, second, _, total, last = done.stdout.splitlines()
    assert first.startswith("[1/2] all_reduce gloo cpu x2  data_size=0.001 measure=quick  up to ")
    assert first.endswith(" of timing, 2 x 2.047 KiB")
    assert "  SKIPPED: needs 2 ranks x 2.097e+04 GB, " in second
    assert total.startswith("1 of 2 points can run; 1 skipped; 1 new, up to ")
    assert last == "Nothing was run (--dry-run)."
    assert not (cli.folder / "outputs").exists()


def test_exit_code_tells_that_nothing_can_run(cli):
    done = cli("+suite=allreduce", "hardware=cuda", "world_size=1", "--dry-run")
    assert done.returncode == 1
    assert "UNAVAILABLE: needs 1 GPU on " in done.stdout
    assert cli("+suite=allreduce", "data_size=x", "--dry-run").returncode == 2


@pytest.mark.slow
def test_resumed_points_are_those_left(cli):
    line = ["+suite=allreduce", "-m", "data_size=0.001", "measure=quick", "measure.max_iterations=10"]
    assert cli(*line).returncode == 0
    done = cli("--resume", "outputs/latest", "--dry-run")
    assert done.stdout.splitlines()[-2] == "1 measured already"
    again = cli(*line, "seed=0", "--dry-run")
    assert "  about " in again.stdout
    assert len(cli.records()) == 1
