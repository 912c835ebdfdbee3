"""What --dry-run says of points before any rank starts."""

import json

import pytest
from benchkit.sweep import dry_run
from benchkit.sweep.dry_run import Forecast, described, earlier_seconds
from benchkit.sweep.entries import Entry
from benchkit.sweep.manifest import Manifest
from benchkit.sweep.point_lines import duration

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
    monkeypatch.setattr(dry_run, "MOST_SWEEPS", 0)
    assert earlier_seconds({"k"}, tmp_path) == {}


def test_all_points_are_summed_up():
    found = [
        Forecast("a", "2 x 8 MB", "ok", "", 90.0, 20.0),
        Forecast("b", "", "ok", "", None, 20.0),
        Forecast("c", "", "unavailable", "needs 1 GPU", None, 20.0),
    ]
    assert described(found, 4)[:3] == [
        "[1/3] a  about 1 min 30 s, as before, 2 x 8 MB",
        "[2/3] b  up to 20 s per case",
        "[3/3] c  UNAVAILABLE: needs 1 GPU",
    ]
    assert described(found, 4)[-2] == (
        "2 of 3 points can run; 1 unavailable; 4 measured already; 1 took 1 min 30 s together before; "
        "1 new one, up to 20 s for one case of each"
    )


@pytest.mark.parametrize(("seconds", "text"), [(4.21, "4.2 s"), (200, "3 min 20 s"), (7500.4, "2 h 5 min")])
def test_duration_has_units_that_people_use(seconds, text):
    assert duration(seconds) == text


def test_nothing_runs_and_nothing_is_written(cli):
    line = ["+suite=allreduce", "-m", "data_size=0.001,9999999", "measure=quick", "world_size=2", "--dry-run"]
    done = cli(*line)
    assert done.returncode == 0, done.stderr
    first, second, _, total, last = done.stdout.splitlines()
    assert first.startswith("[1/2] all_reduce gloo cpu x2  data_size=0.001 measure=quick  up to ")
    assert first.endswith("per case, 2 x 2.047 KiB")
    assert "  SKIPPED: needs 2 ranks x 2.097e+04 GB, " in second
    assert total.startswith("1 of 2 points can run; 1 skipped; 1 new one, up to ")
    assert last == "Nothing was run (--dry-run)."
    assert not (cli.folder / "outputs").exists()


def test_exit_code_tells_that_nothing_can_run(cli):
    done = cli("+suite=allreduce", "hardware=cuda", "world_size=1", "--dry-run")
    assert done.returncode == 1
    assert "UNAVAILABLE: needs 1 GPU on " in done.stdout
    assert cli("+suite=allreduce", "data_size=x", "--dry-run").returncode == 2


def test_resumed_points_are_those_left(cli):
    line = ["+suite=allreduce", "-m", "data_size=0.001", "measure=quick", "measure.max_iterations=10"]
    assert cli(*line).returncode == 0
    done = cli("--resume", "outputs/latest", "--dry-run")
    assert done.stdout.splitlines()[-2] == "1 measured already"
    again = cli(*line, "seed=0", "--dry-run")
    assert "  about " in again.stdout
    assert len(cli.records()) == 1
