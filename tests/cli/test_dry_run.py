"""What --dry-run says of points before any rank starts."""

import json
import os
import re

import pytest
from benchkit.sweep import tally

from tests.support.configs import own_suites
from tests.support.records import make_record, write_plan

MEMORY = {r"[\d.e+]+ GB there": "MEMORY there", r", \d+ ranks on .*cores.*": ""}
WITH_MODEL = ("ring_model", "transformer")


def test_time_and_memory_are_known_of_every_suite(told, golden):
    """But for compile, of which only its ranks know what they need."""
    here = ["world_size=2", "hardware=cpu", "measure.max_seconds=10", "measure.max_warmup_seconds=1", "--dry-run"]
    plain = ",".join(name for name in own_suites() if name not in WITH_MODEL)
    found = [told(f"+suite={plain}", *here), told(f"+suite={','.join(WITH_MODEL)}", "model=tiny", *here)]
    assert [code for code, _, _ in found] == [0, 0]
    golden("\n".join(out for _, out, _ in found), MEMORY)


def test_time_follows_number_of_cases(told, golden):
    here = ["hardware=cpu", "world_size=2", "measure.max_seconds=10", "measure.max_warmup_seconds=1", "--dry-run"]
    suites = ("allreduce data_size=[1,2,3]", "matmul_lut sizes=[8,16] hardware.slowdown=1", "pair_matrix minutes=1,5")
    golden("\n".join(told(*f"+suite={suite}".split(), *here)[1] for suite in suites), MEMORY)


def test_point_that_cannot_run_says_why(told, golden, tmp_path):
    here = ["world_size=2", "hardware=cpu", "measure=quick", "--dry-run"]
    some = told("+suite=allreduce", "data_size=0.001,9999999", "backend=gloo,nccl", *here)
    none = told("+suite=compile", "compiler=cuda_graph", *here)
    assert [code for code, _, _ in (some, none)] == [0, 1]
    golden(some[1] + none[1], MEMORY)
    assert told("+suite=allreduce", "data_size=x", "--dry-run")[0] == 2
    assert not list(tmp_path.iterdir())


def test_crowded_point_says_so(told):
    line = f"+suite=allreduce world_size=1,{2 * os.cpu_count()} threads_per_rank=1 hardware=cpu --dry-run"
    roomy, crowded = told(*line.split())[1].splitlines()[:2]
    assert not re.search(r"ranks on .* cores", roomy)
    assert re.search(r"ranks on .* cores", crowded)


def sweep_of(folder, seconds, status="ok"):
    """A sweep of one point that took some seconds."""
    (folder / "0").mkdir(parents=True)
    write_plan(folder, ["k"])
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
    assert tally.earlier_seconds({"k", "unknown"}, tmp_path) == {"k": 5.0}
    assert tally.earlier_seconds({"k"}, tmp_path / "none") == {}
    monkeypatch.setattr(tally, "MOST_SWEEPS", 0)
    assert tally.earlier_seconds({"k"}, tmp_path) == {}


@pytest.mark.slow
def test_resumed_points_are_those_left(cli):
    line = ["+suite=allreduce", "-m", "data_size=0.001", "measure=quick", "measure.max_iterations=10"]
    assert cli(*line).returncode == 0
    done = cli("--resume", "outputs/latest", "--dry-run")
    assert done.stdout.splitlines()[-2] == "1 measured already"
    assert "  about " in cli(*line, "seed=0", "--dry-run").stdout
    assert len(cli.records()) == 1
