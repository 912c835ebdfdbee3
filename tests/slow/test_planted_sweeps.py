"""Sweeps over one key whose points are planted unlike: rows, sides and the first screen tell them apart."""

import pytest

from tests.support.planted import compare, runs
from tests.support.planted.oracle import Plant
from tests.support.planted.world import planted_world

FEW = ["measure.max_iterations=20", "hardware=cpu"]
FIXED = ["measure=fixed", "measure.min_blocks=7", "measure.block_seconds=0.01", *FEW]
CALL_S = (1e-3, 0.61e-3, 1.7e-3)
SWEPT = {
    "collective": [
        "async_op=false,true", "data_size=1KiB,4KiB,16KiB", "world_size=2,3", "reduce_op=sum,max", "seed=0,1,2",
        "threads_per_rank=1,2", "start_method=forkserver,spawn", "hardware.slowdown=1,2", "+backend.env.GLOO_X=1,2",
        "measure.calls_per_sample=1,20", "measure.warmup_iterations=0,5", "measure.max_iterations=7,20",
    ],
    "ring_attention": [
        "seq_len=256,512", "hardware.slowdown=1,2", "causal=true,false", "align=32,64", "world_size=2,3",
        "dtype=float32,float64",
    ],
    "ring_model": ["seq_len=64,128", "world_size=2,3"],
    "tp_columnwise": ["m=66,132", "world_size=2,3", "inputs=exact,real"],
    "tp_rowwise": ["n=8,16"],
    "auto_shard": ["workload=mlp_9x8x7x6,matmul_8x8x8", "scaling=strong,weak"],
    "transformer": [
        "batch_size=1,2", "parallel=ddp,fsdp", "attention=auto,math", "bucket_mib=1,25",
        "activation_checkpointing=false,true",
    ],
    "matmul_lut": ["hardware.slowdown=1,2", "dtype=float32,float64"],
    "compile": ["compiler=eager,aot_eager", "world_size=1,2", "depth=1,2", "batch_sizes=[2],[4]"],
    "rank_speed": ["memory_size=1KiB,2KiB"],
    "pair_matrix": ["world_size=2,3"],
}  # fmt: skip
"""By suite: keys with the values of their points."""


@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize(("suite", "swept"), [(suite, key) for suite, keys in SWEPT.items() for key in keys])
def test_points_of_a_sweep_are_told_apart(suite, swept, repeat, tmp_path):
    name, _, values = swept.partition("=")
    own = [f"+suite=smallest_{suite}", *(FEW if suite == "compile" else FIXED)]
    own += [] if name == "world_size" or suite in ("auto_shard", "compile") else ["world_size=2"]
    own += ["measure.mode=loop"] if name == "measure.calls_per_sample" else []
    points = [[*own, f"{name}={value}"] for value in values.split(",")]
    plants = [Plant(noise="jitter", call_s=call_s) for call_s in CALL_S[: len(points)]]
    with planted_world() as stage:
        sweep = runs.run(stage, tmp_path / "sweep", points, plants, repeat)
    assert [*map(str, compare.compare(sweep).differences)] == []
