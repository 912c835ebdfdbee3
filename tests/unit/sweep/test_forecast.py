"""How long points are said to take: by earlier records of a machine like this one, else by the model."""

import json
from dataclasses import replace

import pytest
from benchkit.api.keys import as_dict
from benchkit.suites.collective.suite import CollectiveConfig
from benchkit.sweep import forecast
from benchkit.sweep.forecast import GUESS, NEAR, SAME, Machine, PointModel, Total, read_history

from tests.support.configs import config
from tests.support.records import make_record, write_plan

HERE = Machine("a cpu", 4)
PHASES = {"spawn": 0.1, "init": 0.1, "build": 0.1, "verify": 0.2, "measure": 4.0, "verify_again": 0.2, "exit": 0.1}
TAKEN_S = sum(PHASES.values())


def job(size=1.0, **changes):
    values = {"data_size": size, "collective": "all_reduce", "dtype": "float32", "reduce_op": "sum"}
    common = vars(config(**{"timeout_s": 600.0} | changes))
    return PointModel(CollectiveConfig(**common, **values, async_op=False, ragged=False), 2, 1, 1.0, (1.0, 1.0))


def write_sweep(folder, *jobs, status="ok", factor=1.0, cpu="a cpu"):
    """An earlier sweep, whose points took TAKEN_S times a factor."""
    folder.mkdir(parents=True)
    write_plan(folder, [str(number) for number in range(len(jobs))])
    for number, each in enumerate(jobs):
        record = make_record(
            suite="collective", seconds=2e-3 * factor, status=status, config=as_dict(each.config),
            environment={"host": "a", "cpu": cpu, "available_cores": 4},
            phases_s={name: factor * seconds for name, seconds in PHASES.items()},
        )  # fmt: skip
        (folder / str(number)).mkdir(exist_ok=True)
        (folder / str(number) / "record.json").write_text(json.dumps(record))


def test_same_point_takes_what_it_took(tmp_path):
    write_sweep(tmp_path / "a", job(1.0), job(64.0), factor=3.0)
    found = read_history(tmp_path, HERE).expect(job(1.0))
    assert found.basis == SAME
    assert found.seconds == pytest.approx(3 * TAKEN_S, rel=0.2)
    assert found.ranks_s == found.seconds
    assert found.most_s > 2 * found.seconds


def test_like_point_tells_by_its_size(tmp_path):
    write_sweep(tmp_path / "small", job(1.0), factor=0.1)
    write_sweep(tmp_path / "large", job(256.0), factor=4.0)
    before = read_history(tmp_path, HERE)
    small, large = before.expect(job(2.0)), before.expect(job(128.0))
    assert (small.basis, large.basis) == (NEAR, NEAR)
    assert small.seconds < TAKEN_S < large.seconds


def test_only_sound_records_of_alike_machines_tell(tmp_path):
    write_sweep(tmp_path / "elsewhere", job(), cpu="another")
    write_sweep(tmp_path / "failed", job(), status="crash")
    write_sweep(tmp_path / "torn", job())
    (tmp_path / "torn" / "0" / "record.json").write_text("{")
    write_sweep(tmp_path / "planless", job())
    (tmp_path / "planless" / "sweep.json").write_text("{")
    write_sweep(tmp_path / "linked", job())
    (tmp_path / "linked").rename(tmp_path.parent / "linked")
    (tmp_path / "latest").symlink_to(tmp_path.parent / "linked")
    write_sweep(tmp_path / "other_keys", replace(job(), config=config(suite="collective")))
    assert read_history(tmp_path, HERE).expect(job()).basis == GUESS
    assert read_history(tmp_path / "none", HERE).expect(job()).basis == GUESS
    assert read_history(tmp_path, None).expect(job()).basis == SAME  # of a job that runs elsewhere
    write_sweep(tmp_path / "other_backend", job(backend="ucc"))
    assert read_history(tmp_path, HERE).expect(job()).basis == GUESS


def test_steps_of_studies_are_sweeps(tmp_path, monkeypatch):
    write_sweep(tmp_path / "study" / "step", job())
    (tmp_path / "study" / forecast.manifest.STUDY).write_text("{}")
    write_sweep(tmp_path / "no_study" / "step", job())
    assert forecast.newest_sweeps(tmp_path) == [tmp_path / "study" / "step"]
    assert forecast.newest_sweeps(tmp_path / "study") == [tmp_path / "study" / "step"]
    assert read_history(tmp_path, HERE).expect(job()).basis == SAME
    monkeypatch.setattr(forecast, "MOST_SWEEPS", 0)
    assert read_history(tmp_path, HERE).expect(job()).basis == GUESS


@pytest.mark.parametrize(("size", "timeout_s"), [(1.0, 600.0), (1e6, 5.0)])
def test_timeout_bounds_each_run_of_ranks(size, timeout_s):
    found = forecast.Expectation().expect(job(size, timeout_s=timeout_s))
    ends_s = timeout_s + forecast.ENDING_S
    assert found.seconds <= found.most_s <= ends_s
    assert (found.ranks_most_s > ends_s) == (size > 1)
    reused = forecast.Expectation().expect(job(size, timeout_s=timeout_s, ranks="reuse"))
    assert reused.most_s == 2 * found.most_s  # it may be measured again in fresh ranks


def test_totals_add_up():
    both = Total(["ok"], 1.0, 10.0) + Total(["skipped", "ok"], 60.0, 120.0)
    assert both == Total(["ok", "skipped", "ok"], 61.0, 130.0)
