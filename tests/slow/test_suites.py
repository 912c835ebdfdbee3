"""More of what the suites can measure, beyond one sweep of each kind."""

import re

from benchkit.models.collectives.sizes import COLLECTIVES
from tests.support.cli import Cli

QUICK = ["measure=few", "threads_per_rank=1"]
BOTH = "+suite=tp_columnwise,tp_rowwise"


def test_one_rank_has_no_bandwidth(cli: Cli):
    names = ",".join(name for name in COLLECTIVES if name != "send_recv")
    done = cli("+suite=collective", f"collective={names}", "data_size=1KiB", "world_size=1", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GB/s" not in done.stdout


def test_allreduce_is_a_preset(cli: Cli):
    done = cli("+suite=allreduce", "data_size=1KiB", "reduce_op=avg", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    [record] = cli.records()
    assert (record["suite"], record["config"]["collective"]) == ("collective", "all_reduce")
    assert record["config"]["data_size"] == 2**-10
    assert done.stdout.startswith("all_reduce gloo cpu x2")


def test_every_dtype_is_right(cli: Cli):
    types = "dtype=float16,bfloat16,float64"
    done = cli(BOTH, "m=66", "n=24", "k=500", "world_size=3", types, "inputs=exact,real", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(cli.records()) == 12


def test_a_backend_that_is_not_here_is_a_row(cli: Cli):
    given = "implementations={pytorch:{order:AG_after,backend:[gloo,nccl,ucc/tl/cuda]},pipeline:null,auto:null}"
    done = cli("+suite=tp_columnwise", "m=64", "n=24", "k=48", given, *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = {case["labels"]["comm_backend"]: case for case in cli.records()[0]["cases"] if "order" in case["labels"]}
    assert cases["gloo"]["status"] == "ok"
    assert cases["nccl"]["status"] == cases["ucc/tl/cuda"]["status"] == "unavailable"
    assert "ucc" in cases["ucc/tl/cuda"]["reason"]


def test_weak_scaling_brings_as_many_rows_as_devices(cli: Cli):
    done = cli("+suite=auto_shard", "devices=[1,2]", "workload=matmul_32x16x8", "scaling=weak", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    flops = {case["name"]: case["useful_flops"] for case in cli.records()[0]["cases"]}
    assert flops["auto 2 resident"] == 2 * flops["none 1 resident"] == flops["independent 2 resident"]


def test_without_a_workload_all_of_the_device_are_swept(cli: Cli):
    done = cli(
        "sweep=auto_shard_quick", "workloads.cpu=[relu_8x4,matmul_8x4x4]", "planner=axis0", "engine=dtensor", *QUICK
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = cli.records()
    assert [record["config"]["workload"] for record in records] == ["relu_8x4", "matmul_8x4x4"]
    shardings = [case["labels"]["sharding"] for case in records[0]["cases"]]
    assert shardings == ["none", "axis0", "independent", "none", "axis0"]


def test_messages_by_way_of_the_host_arrive(cli: Cli):
    """As a GPU's go over gloo."""
    cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    given = ["+suite=ring_attention", "strategies=[even,balanced,zigzag]", "seq_len=257", "fault=staged"]
    done = cli(*given, "measure=few", "num_heads=2", "head_dim=8", "world_size=3")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_list_of_slowdowns_that_fits_no_auto_world_is_unavailable(cli: Cli):
    done = cli("+suite=ring_attention", "hardware.slowdown=[1,2,3]")
    assert "names 3 ranks, and there are 2" in done.stdout
    assert cli.records()[0]["status"] == "unavailable"


def test_what_cannot_run_is_a_row_with_its_reason_beside_what_can(cli: Cli):
    huge = "model.vocab_size=1000000000"
    done = cli("+suite=transformer", "-m", "model=tiny", "measure=quick", "passes=[forward],[train_step]", huge)
    assert done.returncode == 1  # nothing was measured
    reasons = [case["reason"] for record in cli.records() for case in record["cases"]]
    assert [re.fullmatch(r"needs (\d+) GB, .* GB there", reason)[1] for reason in reasons] == ["2560", "8192"]
    heads = ["model.num_heads=1", "world_size=2", "parallel=tp", "passes=[forward]"]
    done = cli("+suite=transformer", "-m", "model=tiny", "measure=quick", *heads, "attention=efficient,auto")
    statuses = [(case["status"], case["reason"]) for record in cli.records() for case in record["cases"]]
    assert statuses[0] == ("unavailable", "no efficient attention for float32 on cpu")
    assert ("skipped", "1 heads and d_ff 256 do not divide over 2 ranks") in statuses


def test_a_sweep_by_name_can_be_narrowed(cli):
    done = cli("sweep=gloo_cpu", "data_size=0.001", "world_size=2", "measure=quick")
    assert done.returncode == 0
    assert len(cli.records()) == 1


def test_a_sweep_over_suites_takes_their_keys(cli):
    done = cli("sweep=tensor_parallel", "world_size=1", "m=6", "n=2", "k=4", "measure.max_iterations=3")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [(record["suite"], record["config"]["m"], record["config"]["k"]) for record in cli.records()]
    assert told == [("tp_columnwise", 6, 4), ("tp_rowwise", 6, 4)]
