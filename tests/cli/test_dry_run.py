"""What --dry-run says of points before any rank starts."""

import json
import os
import re

import pytest
from benchkit.sweep import dry_run
from benchkit.sweep.resume import DRY_RUN

from tests.support.configs import own_suites

MEMORY = {
    r"[\d.]+ [GM]iB there": "MEMORY there",
    r", \d+ ranks on .*cores of \w+": "",
    r"about [\d.hmins ]+(?= \()": "about TIME",
    r"about [\d.hmins ]+(?=,)": "about TIME",
    r"at most [\d.hmins ]+(?= \()": "at most TIME",
    r"at most [\d.hmins ]+(?=,)": "at most TIME",
    r", may exceed timeout_s=\d+": "",
}
WITH_MODEL = ("ring_model", "transformer")


def test_time_and_memory_are_known_of_every_suite(told, golden):
    """But for compile, of which only its ranks know what they need."""
    here = ["world_size=2", "hardware=cpu", "measure.max_seconds=10", "measure.max_warmup_seconds=1", "--dry-run"]
    plain = ",".join(name for name in own_suites() if name not in WITH_MODEL)
    found = [told(f"+suite={plain}", *here), told(f"+suite={','.join(WITH_MODEL)}", "model=tiny", *here)]
    assert [code for code, _, _ in found] == [0, 0]
    golden("\n".join(out for _, out, _ in found), MEMORY)


@pytest.mark.parametrize(
    ("few", "many"),
    [
        ("allreduce data_size=1", "allreduce data_size=[1,2,3]"),
        ("matmul_lut sizes=[8] hardware.slowdown=1", "matmul_lut sizes=[8,16,32] hardware.slowdown=1"),
        ("pair_matrix sizes=[1]", "pair_matrix sizes=[1,2,3]"),
        ("rank_speed tests=[copy]", "rank_speed tests=[copy,triad,disk_write]"),
        ("auto_shard devices=[2] workload=relu_64x64", "auto_shard devices=[1,2,4] workload=relu_64x64"),
        ("ring_attention strategies=[even]", "ring_attention strategies=[even,uneven,zigzag]"),
        ("ring_model phases=[decode]", "ring_model phases=[prefill,decode]"),
        ("transformer model=tiny passes=[forward]", "transformer model=tiny"),
        ("tp_rowwise implementations.pipeline=null", "tp_rowwise implementations.pipeline.chunks=[2,3,4,5,6,7,8,9]"),
        ("compile compiler=eager", "compile compiler=default"),
    ],
)
def test_time_follows_number_of_cases(told, tmp_path, few, many):
    path = tmp_path / "all.json"
    times = []
    for line in (few, many):
        told(f"+suite={line.split()[0]}", *line.split()[1:], "hardware=cpu", "measure=fixed", f"{DRY_RUN}={path}")
        found = json.loads(path.read_text())
        times.append((found["seconds"], found["most_s"]))
    assert times[0][0] < times[1][0] < times[1][1]
    assert times[0][1] <= times[1][1]


def test_point_that_cannot_run_says_why(told, golden, tmp_path):
    here = ["world_size=2", "hardware=cpu", "measure=quick", "--dry-run"]
    some = told("+suite=allreduce", "data_size=0.001,9999999", "backend=gloo,nccl", *here)
    none = told("+suite=compile", "compiler=cuda_graph", *here)
    assert [code for code, _, _ in (some, none)] == [0, 1]
    golden(some[1] + none[1], MEMORY)
    assert told("+suite=allreduce", "data_size=x", "--dry-run")[0] == 2
    assert not list(tmp_path.iterdir())


def test_oversubscribed_point_says_so(told):
    line = f"+suite=allreduce world_size=1,{2 * os.cpu_count()} threads_per_rank=1 hardware=cpu --dry-run"
    roomy, oversubscribed = told(*line.split())[1].splitlines()[:2]
    assert not re.search(r"ranks on .* cores", roomy)
    assert re.search(r"ranks on .* cores", oversubscribed)


def test_cases_that_lack_memory_are_skipped_alone(told, monkeypatch, tmp_path):
    path = tmp_path / "all.json"
    line = ["+suite=transformer", "model=tiny", "hardware=cpu", "measure=quick", f"{DRY_RUN}={path}"]
    told(*line, "passes=[forward,train_step]")
    both_s = json.loads(path.read_text())["seconds"]
    monkeypatch.setattr(dry_run, "host_available_bytes", lambda: 360e6)
    code, out, _ = told(*line, "passes=[forward,train_step]")
    assert code == 0
    assert "pass=train_step SKIPPED" in out
    assert "pass=forward SKIPPED" not in out
    assert json.loads(path.read_text())["seconds"] < both_s
    code, out, _ = told(*line, "passes=[train_step]")
    assert (code, out.count("SKIPPED: needs")) == (1, 1)


def test_point_that_would_time_out_says_so_and_fails(told):
    line = ["+suite=transformer", "model=tiny", "passes=[forward]", "timeout_s=0.01", "hardware=cpu"]
    code, out, _ = told(*line, "--dry-run")
    assert code == 1
    assert "TIMEOUT: about " in out
    assert "1 timeout" in out


def test_forecast_of_all_is_written_where_a_study_reads_it(told, tmp_path):
    path = tmp_path / "all.json"
    told("+suite=allreduce", "-m", "data_size=0.001,1", "hardware=cpu", f"{DRY_RUN}={path}")
    found = json.loads(path.read_text())
    assert found["statuses"] == ["ok", "ok"]
    assert found["seconds"] < found["most_s"]


@pytest.mark.slow
def test_resumed_points_are_those_left(cli):
    line = ["+suite=allreduce", "-m", "data_size=0.001", "measure=quick", "measure.max_iterations=10"]
    assert cli(*line).returncode == 0
    done = cli("--resume", "outputs/latest", "--dry-run")
    assert (done.returncode, done.stdout.splitlines()[-2]) == (0, "1 measured already")
    assert "  about " in cli(*line, "seed=0", "--dry-run").stdout
    [record] = cli.records()
    [path] = (cli.folder / "outputs").glob("2*/0/record.json")
    path.write_text(json.dumps(record | {"status": "crash", "error": {"message": "it fell", "rank": 1}}))
    codes = [cli("--resume", "outputs/latest", *flags).returncode for flags in (["--dry-run"], [])]
    assert codes == [1, 1]


@pytest.mark.parametrize(("asked", "device"), [(["hydra.launcher.gpus_per_node=2"], "nccl cuda"), ([], "gloo cpu")])
def test_hardware_of_slurm_jobs_is_what_they_ask_for(told, asked, device):
    code, out, _ = told("+suite=allreduce", "launcher=slurm", *asked, "--dry-run")
    assert code == 0
    assert f" {device} x" in out
    assert " gloo cpu x" in told("+suite=allreduce", "launcher=slurm", *asked, "hardware=cpu", "--dry-run")[1]
