"""What suites do differently on GPUs, up to the calls of the device itself."""

from types import SimpleNamespace

import pytest
import torch
from benchkit.api import p2p, torch_internals
from benchkit.api.keys import ModelConfig
from benchkit.errors import Unavailable
from benchkit.suites.auto_shard.cases import AutoShard
from benchkit.suites.auto_shard.suite import DISPATCHER, INDEPENDENT, RESIDENT, UNSHARDED
from benchkit.suites.auto_shard.workloads import parse
from benchkit.suites.ring_attention import cases as ring_cases
from benchkit.suites.ring_attention import ring
from benchkit.suites.ring_attention.cases import RingJob
from benchkit.suites.ring_attention.suite import ring_attention
from benchkit.suites.ring_model.suite import ring_model
from benchkit.suites.tp_columnwise.cases import ColumnwiseCases
from benchkit.suites.tp_rowwise.cases import RowwiseCases
from benchkit.suites.transformer import cases
from benchkit.suites.transformer.data import Batches

from tests.support import devices

CUDA = torch.device("cuda")


@pytest.fixture
def over_gloo(monkeypatch):
    monkeypatch.setattr(p2p.dist, "get_backend", lambda *group: "gloo")


@pytest.mark.usefixtures("over_gloo")
def test_auto_shard_over_gloo_shards_nothing():
    """The rank takes no part in these cases, so that it needs no memory of the device."""
    config = SimpleNamespace(dtype="float32", timeout_s=600, devices=[2, 1], shardings=lambda: ["auto", DISPATCHER])
    config.workload_on = lambda devices: parse("matmul_8x8x8")
    rank = SimpleNamespace(index=2, device=CUDA, available_bytes=1e9, sharers=1, group=lambda name: None)
    rank.memory_shortage = lambda needed_bytes, host_bytes: ""
    lacking = {case.labels["sharding"]: case.unavailable for case in AutoShard(config, rank).cases()}
    assert {name for name, why in lacking.items() if not why} == {UNSHARDED, INDEPENDENT}
    assert lacking["auto"] == lacking[DISPATCHER] == p2p.GLOO_ON_GPUS


@pytest.mark.usefixtures("over_gloo")
def test_torch_ring_over_gloo_is_unavailable():
    job = RingJob(0, None, SimpleNamespace(device=CUDA), True, None, None)
    assert ring_cases.case_of(job, "torch", None).unavailable == p2p.GLOO_ON_GPUS
    assert job.lacking("even") == ""


@pytest.mark.parametrize("suite", [ring_attention, ring_model], ids=lambda suite: suite.name)
def test_ring_without_attention_kernel_is_unavailable(suite, monkeypatch):
    """As in half precision on GPUs older than Ampere."""

    def refuse(*given):
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer.\nat f")

    monkeypatch.setattr(torch_internals, "fused_attention", refuse)
    monkeypatch.setattr(ring, "first_reason", lambda reason: reason)
    model = ModelConfig("tiny", vocab_size=32, d_model=16, num_layers=1, num_heads=2, d_ff=32)
    config = SimpleNamespace(seq_len=8, num_heads=2, head_dim=8, dtype="bfloat16", phases=["prefill"], strategies=[])
    config.implementations, config.known_model, config.decode_tokens = [], lambda: model, 1
    config.needed_bytes, config.choices = (lambda world_size: 0), list
    rank = SimpleNamespace(device=torch.device("cpu"), world_size=2, seed=0, memory_shortage=lambda needed: "")
    with pytest.raises(Unavailable, match=r"Ampere GPUs.*newer.$"):
        suite.build(config, rank)


@pytest.mark.usefixtures("over_gloo")
@pytest.mark.parametrize(("parallel", "lacks"), [("tp", True), ("fsdp", True), ("ddp", False)])
def test_sharded_model_over_gloo_is_unavailable(parallel, lacks, monkeypatch):
    monkeypatch.setattr(cases.model, "attention_missing", lambda *given: "")
    monkeypatch.setattr(cases, "first_reason", lambda mine: mine)
    job = cases.TransformerJob.__new__(cases.TransformerJob)
    job.config = SimpleNamespace(parallel=parallel, attention="auto", dtype="float32", compile="none", passes=[])
    job.model = SimpleNamespace(d_model=8, num_heads=2)
    job.rank, job.shared = SimpleNamespace(device=CUDA, world_size=2), True
    job.ask_all_ranks()
    assert job.lacking == (p2p.GLOO_ON_GPUS if lacks else "")


@pytest.mark.parametrize("primitive", [ColumnwiseCases, RowwiseCases])
def test_drawn_operands_are_counted(primitive):
    asked = []
    rank = SimpleNamespace(index=0, world_size=2, seed=0, device=CUDA)
    rank.memory_shortage = lambda *needed: asked.append(needed) or "needs more"
    shape = {"m": 8, "n": 4, "k": 6, "dtype": "float32", "inputs": "exact"}
    config = SimpleNamespace(**shape, backend=SimpleNamespace(name="nccl"), operand_bytes=lambda *_: (100, 20))
    job = primitive(config, rank, [{"implementation": "pytorch", "backend": "default"}])
    assert job.cases()[0].skip == "needs more"
    assert asked == [(120 + 8 * (48 + 24 + 32) + 5 * (48 + 24),)]


def test_auto_shard_leaves_memory_for_checks():
    config = SimpleNamespace(dtype="float32", timeout_s=600, devices=[1], shardings=list)
    config.workload_on = lambda devices: parse("matmul_8x16x4")
    asked = []
    rank = SimpleNamespace(index=2, device=CUDA, available_bytes=1e9, sharers=1)
    rank.memory_shortage = lambda *needed: asked.append(needed) or ""
    job = AutoShard(config, rank)
    job.cases()
    alone = job.variants(RESIDENT)[0]
    checking_bytes = 5 * 8 * 16 + 4 * 5 * 8 * 16  # the input, and five copies of eight rows
    host_bytes = 4 * (8 * 4 + 8 * 16)
    assert asked[0] == (4 * job.planner(alone, 0).everywhere().elements + checking_bytes, host_bytes)
    assert job.planner(alone, 1e8).memory_elements == (1e9 - 1e8 - checking_bytes) / 4


def test_random_tokens_are_drawn_on_device(monkeypatch):
    monkeypatch.setattr(torch, "Generator", devices.Generator)
    with devices.Copies() as copies:
        batches = Batches(2, 8, 100, None, devices.META, seed=1)
        batches.draw()
        batches.inputs.copy_(torch.zeros(2, 8))
    assert copies.from_host == ["aten.copy_.default"]  # the last line's
