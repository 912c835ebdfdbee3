"""What suites do differently on GPUs, up to the calls of the device itself."""

from types import SimpleNamespace

import pytest
import torch
from benchkit.api import device_mesh
from benchkit.suites.auto_shard.cases import AutoShard
from benchkit.suites.auto_shard.names import DISPATCHER, INDEPENDENT, UNSHARDED
from benchkit.suites.auto_shard.workloads import parse
from benchkit.suites.ring_attention import suite as ring_attention
from benchkit.suites.ring_attention.cases import RingJob
from benchkit.suites.transformer import cases as transformer

CUDA = torch.device("cuda")


@pytest.fixture
def over_gloo(monkeypatch):
    monkeypatch.setattr(device_mesh.dist, "get_backend", lambda *group: "gloo")


@pytest.mark.usefixtures("over_gloo")
def test_auto_shard_over_gloo_shards_nothing():
    """The rank takes no part in these cases, so that it needs no memory of the device."""
    config = SimpleNamespace(dtype="float32", devices=[2, 1], shardings=lambda: ["auto", DISPATCHER])
    config.workload_on = lambda devices: parse("matmul_8x8x8")
    rank = SimpleNamespace(index=2, device=CUDA, available_bytes=1e9, sharers=1, group=lambda name: None)
    rank.memory_shortage = lambda *needed, **host: ""
    lacking = {case.labels["sharding"]: case.unavailable for case in AutoShard(config, rank).cases()}
    assert {name for name, why in lacking.items() if not why} == {UNSHARDED, INDEPENDENT}
    assert lacking["auto"] == lacking[DISPATCHER] == device_mesh.GLOO_ON_GPUS


@pytest.mark.usefixtures("over_gloo")
def test_torch_ring_over_gloo_is_unavailable():
    job = RingJob(0, None, SimpleNamespace(device=CUDA), True, None, None)
    assert ring_attention.case_of(job, "torch", None).unavailable == device_mesh.GLOO_ON_GPUS
    assert job.lacking("even") == ""


@pytest.mark.usefixtures("over_gloo")
@pytest.mark.parametrize(("parallel", "lacks"), [("tp", True), ("fsdp", True), ("ddp", False)])
def test_sharded_model_over_gloo_is_unavailable(parallel, lacks, monkeypatch):
    monkeypatch.setattr(transformer.kernels, "missing", lambda *given: "")
    monkeypatch.setattr(transformer, "first_reason", lambda mine: mine)
    job = transformer.TransformerJob.__new__(transformer.TransformerJob)
    job.config = SimpleNamespace(parallel=parallel, attention="auto", dtype="float32", compile="none", passes=[])
    job.model = SimpleNamespace(d_model=8, num_heads=2)
    job.rank, job.shared = SimpleNamespace(device=CUDA, world_size=2), True
    job.ask_all_ranks()
    assert job.lacking == (device_mesh.GLOO_ON_GPUS if lacks else "")
