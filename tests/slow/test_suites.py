"""More of what the suites can measure, beyond one sweep of each kind."""

import re
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from benchkit.suites.collective.suite import COLLECTIVES, RAGGED

from tests.support import transformer_bodies as bodies
from tests.support.cli import ROOT, Cli

QUICK = ["measure=few", "threads_per_rank=1"]
DTYPES = "dtype=float16,bfloat16,float64"
BOTH = "+suite=tp_columnwise,tp_rowwise"


def test_one_rank_sends_nothing(cli: Cli):
    """On a GPU not even a kernel runs, and its row would be the distance of two events."""
    names = ",".join(name for name in COLLECTIVES if name != "send_recv")
    done = cli("+suite=collective", f"collective={names}", "data_size=1KiB", "world_size=1", *QUICK)
    assert done.returncode == 1, done.stdout + done.stderr
    assert {record["status"] for record in cli.records()} == {"skipped"}


def test_allreduce_selects_collective_suite(cli: Cli):
    done = cli("+suite=allreduce", "data_size=1KiB", "reduce_op=avg", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert (record["suite"], record["config"]["collective"]) == ("collective", "all_reduce")
    assert record["config"]["data_size"] == 2**-10
    assert done.stdout.startswith("all_reduce gloo cpu x2")


@pytest.mark.parametrize(
    ("shape", "several", "points"),
    [("m=choice(36) k=choice(29)", "world_size=1,4", 8), ("m=choice(66) k=choice(500) world_size=3", DTYPES, 12)],
)
def test_implementations_handle_even_shapes_and_every_dtype(cli: Cli, shape, several, points):
    done = cli(BOTH, *shape.split(), "n=choice(24)", several, "inputs=exact,real", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(cli.records()) == points


def test_missing_backend_is_unavailable_case(cli: Cli):
    given = "implementations={pytorch:{order:AG_after,backend:[gloo,nccl,ucc/tl/cuda]},pipeline:null,auto:null}"
    done = cli("+suite=tp_columnwise", "m=64", "n=24", "k=48", given, *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = {case["labels"]["comm_backend"]: case for case in cli.records()[0]["cases"] if "order" in case["labels"]}
    assert cases["gloo"]["status"] == "ok"
    assert cases["nccl"]["status"] == cases["ucc/tl/cuda"]["status"] == "unavailable"
    assert "ucc" in cases["ucc/tl/cuda"]["reason"]


def test_weak_scaling_multiplies_flops(cli: Cli):
    done = cli("+suite=auto_shard", "devices=[1,2]", "workload=matmul_32x16x8", "scaling=weak", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    flops = {tuple(case["labels"].values()): case["useful_flops"] for case in cli.records()[0]["cases"]}
    alone = flops["none", 1, "resident"]
    assert flops["auto", 2, "resident"] == 2 * alone == flops["independent", 2, "resident"]


def test_sweep_covers_all_device_workloads(cli: Cli):
    done = cli(
        "sweep=auto_shard_quick", "workloads.cpu=[relu_8x4,matmul_8x4x4]", "planner=axis0", "engine=dtensor", *QUICK
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    assert [record["config"]["workload"] for record in records] == ["relu_8x4", "matmul_8x4x4"]
    shardings = [case["labels"]["sharding"] for case in records[0]["cases"]]
    assert shardings == ["none", "axis0", "independent", "none", "axis0"]


def test_ring_works_with_staged_messages(cli: Cli):
    """As a GPU's go over gloo."""
    cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    given = ["+suite=ring_attention", "strategies=[even,balanced,zigzag]", "seq_len=257", "fault=staged"]
    done = cli(*given, "measure=few", "num_heads=2", "head_dim=8", "world_size=3")
    assert done.returncode == 0, done.stdout + done.stderr


def test_wrong_slowdown_count_is_unavailable(cli: Cli):
    done = cli("+suite=ring_attention", "hardware.slowdown=[1,2,3]")
    assert "3 ranks" in done.stdout
    assert cli.records()[0]["status"] == "unavailable"


def test_impossible_pass_has_reason(cli: Cli):
    huge = "model.vocab_size=1000000000"
    done = cli("+suite=transformer", "-m", "model=tiny", "measure=quick", "passes=[forward],[train_step]", huge)
    assert done.returncode == 1  # nothing was measured
    reasons = [case["reason"] for record in cli.records() for case in record["cases"]]
    assert [re.fullmatch(r"needs ([\d.]+) TiB, .* GiB there", reason)[1] for reason in reasons] == ["2.329", "7.451"]
    heads = ["model.num_heads=1", "world_size=2", "parallel=tp", "passes=[forward]"]
    done = cli("+suite=transformer", "-m", "model=tiny", "measure=quick", *heads, "attention=efficient,auto")
    statuses = [(case["status"], case["reason"]) for record in cli.records() for case in record["cases"]]
    assert statuses[0][0] == "unavailable"
    assert "efficient" in statuses[0][1]
    assert any(status == "skipped" and "1 heads" in reason for status, reason in statuses)


def test_ragged_parts_run_except_all_gather(cli: Cli):
    done = cli(
        "+suite=collective", f"collective={','.join(RAGGED)}", "data_size=90KiB", "ragged=true", "world_size=3", *QUICK
    )
    statuses = {record["config"]["collective"]: record["status"] for record in cli.records()}
    assert statuses == {"all_gather": "unavailable", "reduce_scatter": "ok", "all_to_all": "ok"}, done.stdout
    assert cli.records()[2]["cases"][0]["payload_bytes"] == 90 * 1024


@pytest.mark.parametrize("world_size", [1, 2])
def test_ring_strategies_are_right_in_float64(cli: Cli, world_size):
    given = ["+suite=ring_attention", "causal=true,false", "dtype=float64", "seq_len=331", f"world_size={world_size}"]
    done = cli(*given, "num_heads=2", "head_dim=8", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr


def test_network_matches_hugging_face_llama():
    pytest.importorskip("transformers")  # needs Python 3.11
    from tests.support.llama import Logits, llama_like, llama_name

    ours = bodies.network()
    theirs = Logits(llama_like(ours, bodies.MODEL))
    inputs, targets = bodies.batch(3)
    torch.testing.assert_close(ours(inputs), theirs(inputs), atol=1e-6, rtol=1e-5)
    for model in (ours, theirs):
        F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
    gradients = {name: weight.grad for name, weight in theirs.llama.named_parameters()}
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[llama_name(name)], atol=1e-7, rtol=1e-4)


def test_preload_starts_no_thread_or_cuda():
    """A forked rank inherits neither threads nor a CUDA context."""
    program = (
        "import importlib, os, torch, torch.distributed, tests.support.entries.rank\n"
        "from benchkit.api.registry import load_suites\n"
        "threads = len(os.listdir('/proc/self/task'))\n"
        "for suite in load_suites().values():\n"
        "    for name in suite.preload: importlib.import_module(name)\n"
        "print(len(os.listdir('/proc/self/task')) - threads, torch.cuda.is_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["0", "False"]
