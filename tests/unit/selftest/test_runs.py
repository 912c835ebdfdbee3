import json
import math
import sys

import pytest
from benchkit.config import compose as composition
from benchkit.record.files import FILE_NAME
from benchkit.selftest.runs import (
    ALL_REDUCE,
    MATRIX_PRODUCT,
    SelftestFailed,
    SelftestOptions,
    SizeRuns,
    group_runs,
    sweep,
)
from hydra import compose, initialize_config_dir

from tests.support.cli import ROOT
from tests.support.entries.point import is_reusable
from tests.support.records import as_record, make_record


def test_runs_give_spread():
    runs = SizeRuns("x", [1.0, math.exp(0.1)] * 6)
    floor = runs.floor()
    assert floor.num_runs == 12
    assert floor.sigma_run == pytest.approx(0.05 * math.sqrt(12 / 11))
    assert floor.median_s == pytest.approx((1 + math.exp(0.1)) / 2)


@pytest.mark.parametrize(("num_runs", "is_known"), [(1, False), (5, False), (6, True)])
def test_few_runs_give_no_floor(num_runs, is_known):
    """A single run would tell that runs do not differ."""
    runs = SizeRuns("x", [1.0, 1.1, 1.2, 1.3, 1.4, 1.5][:num_runs] + [math.nan] * (12 - num_runs))
    assert (runs.floor() is not None) is is_known


def run(size, seed, seconds, *timings):
    overrides = ["+suite=allreduce", f"data_size={size}"]
    record = make_record(seconds=seconds, title="all_reduce", overrides=overrides)
    [case] = record["cases"]
    cases = [case | {"labels": {"timing": timing}} for timing in timings]
    return as_record(record | {"config": record["config"] | {"seed": seed}, "cases": cases})


def test_runs_are_grouped_by_size_and_case():
    both = ("latency", "back_to_back")
    records = [run("1KiB", 0, 1e-4, *both), run("1MiB", 0, 1e-3, *both), run("1KiB", 1, 2e-4, *both)]
    found = {each.what: each for each in group_runs([*records, run("1MiB", 1, 2e-2, "back_to_back")])}
    assert {what: each.medians_s for what, each in found.items()} == {
        "all_reduce 1KiB latency": pytest.approx([1e-4, 2e-4]),
        "all_reduce 1KiB back_to_back": pytest.approx([1e-4, 2e-4]),
        "all_reduce 1MiB latency": pytest.approx([1e-3, math.nan], nan_ok=True),
        "all_reduce 1MiB back_to_back": pytest.approx([1e-3, 2e-2]),
    }
    assert found["all_reduce 1MiB latency"].num_runs == 1
    assert not any(each.slow_shares for each in found.values())


def test_two_modes_are_counted_by_run():
    record = make_record(samples=200, spread=0.01)
    [case] = record["cases"]
    row = [value * (5 if i % 4 == 0 else 1) for i, value in enumerate(case["samples_s"][0])]
    [found] = group_runs([as_record(record | {"cases": [case | {"samples_s": [row, row]}]})])
    assert found.slow_shares == [0.25]


@pytest.mark.parametrize(("seconds", "runs"), [(60, 12), (45, 8), (0.1, 6)])
def test_runs_are_even_in_number(seconds, runs, tmp_path):
    assert SelftestOptions("gloo", 2, seconds, tmp_path).num_runs == runs


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize("suite", [ALL_REDUCE[0], MATRIX_PRODUCT[0]])
def test_every_run_has_fresh_processes(suite, backend, tmp_path):
    """On GPUs, too, where ranks stay for the next point unless they are told not to."""
    composition.register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        composed = compose("config", [suite, *SelftestOptions(backend, 2, 60.0, tmp_path).overrides()])
    assert not is_reusable(composition.to_structured_config(composed))


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Puts a script in place of the interpreter that sweeps are started with."""

    def put(script):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        return SelftestOptions("gloo", 2, 1.0, tmp_path)

    return put


def test_sweep_that_is_refused_says_why(python):
    setting = python("echo a line; echo 'benchkit: backend=x: no such option' >&2; exit 2")
    with pytest.raises(SelftestFailed, match=r"^benchkit: backend=x"):
        sweep(setting, "points", ["+suite=allreduce"])


def test_sweep_is_in_order_and_told_its_settings(python, tmp_path):
    setting = python(f'echo "$@" > {tmp_path}/arguments; echo $SOME >> {tmp_path}/arguments')
    for number in (10, 2):
        (tmp_path / "points" / str(number)).mkdir(parents=True)
        record = make_record(number)
        (tmp_path / "points" / str(number) / FILE_NAME).write_text(json.dumps(record))
    found = sweep(setting, "points", ["+suite=allreduce"], {"SOME": "thing"})
    assert [record.config["data_size"] for record in found] == [2, 10]
    arguments, variable = (tmp_path / "arguments").read_text().splitlines()
    assert {"+suite=allreduce", "hardware=cpu", "backend=gloo", "world_size=2"} <= set(arguments.split())
    assert variable == "thing"


def test_point_that_failed_is_named(python, tmp_path):
    setting = python("true")
    (tmp_path / "points" / "0").mkdir(parents=True)
    (tmp_path / "points" / "0" / FILE_NAME).write_text(json.dumps(make_record(status="unavailable")))
    with pytest.raises(SelftestFailed, match="unavailable"):
        sweep(setting, "points", [])
