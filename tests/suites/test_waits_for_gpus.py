"""The host waits in torch.cuda, where a hang is told from its cause, before it reads what a GPU has computed."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from benchkit.api import p2p, products, verification
from benchkit.api.memory import wait_for_device
from benchkit.api.regions import COMPUTE
from benchkit.suites.auto_shard.program import ExactIntegers as ExactProduct
from benchkit.suites.auto_shard.workloads import parse
from benchkit.suites.collective import cases
from benchkit.suites.ring_attention import planner
from benchkit.suites.ring_attention import reference as ring_reference
from benchkit.suites.ring_attention.cases import RingCase, RingJob
from benchkit.suites.ring_attention.planner import Online, RingPlanner
from benchkit.suites.ring_attention.reference import ExactLayer
from benchkit.suites.ring_attention.ring import PROJECT, AttentionLayer
from benchkit.suites.ring_attention.splits import CostModel
from benchkit.suites.tensor_parallel import operands
from benchkit.suites.transformer import checks
from benchkit.suites.transformer.checks import Checks, Update

from tests.support import fakes
from tests.support.configs import made
from tests.support.devices import OnGpu
from tests.support.entries.launch_ranks import WAITING_PLACES

CPU = torch.device("cpu")
EVERYTHING = (slice(0, 2), slice(0, 2))


@pytest.fixture
def noted(monkeypatch):
    """What the host waits for, in order."""
    OnGpu.noted.clear()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: OnGpu.noted.append("synchronize"))
    return OnGpu.noted


def on_gpu(tensor):
    return tensor.as_subclass(OnGpu)


def products_of(dtype=torch.float32):
    a = b = torch.eye(4, dtype=dtype)
    return on_gpu(a @ b), a, b


def ring():
    x = torch.randn(64, 32)
    layer = AttentionLayer.random(64, 4, 8, dtype=torch.float32, device=CPU, seed=1)
    job = RingJob(0, layer, x, True, RingPlanner(64, 4, [100.0], {}, CostModel(), [1.0]), ExactLayer(layer, x, True))
    case = RingCase(job, "even")
    found = case._ring
    case._ring = SimpleNamespace(step=lambda: on_gpu(found.step()), positions=found.positions, x=found.x)
    fakes.verify(case)


def update():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight])
    before = Update([("weight", weight)], optimizer)
    before._before = [(name, weight, on_gpu(value), *rest) for name, weight, value, *rest in before._before]
    weight.grad = torch.ones(3)
    optimizer.step()
    before.check()


def forward():
    network = SimpleNamespace()
    rows = torch.ones(1, 2, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "inputs_of", lambda *given: [on_gpu(rows[0].double())])
        Checks(SimpleNamespace(network=network), "float32", None).forward(rows, rows)


CHECKS = {
    "tiled": lambda: verification.require_tiled(on_gpu(torch.ones(6)), torch.ones(2)),
    "rows": lambda: products.require_rows(*products_of(), torch.arange(2)),
    "exact": lambda: operands.require_exact(*products_of(), first_row=0, seed=1),
    "close": lambda: operands.require_close(*products_of(), first_row=0, seed=1),
    "sharded": lambda: ExactProduct(parse("matmul_2x2x2"), CPU, torch.float32, 1, 1).require(
        on_gpu(ExactProduct(parse("matmul_2x2x2"), CPU, torch.float32, 1, 1).result(EVERYTHING)), EVERYTHING
    ),
    "ring": ring,
    "decoder": lambda: ring_reference.compare(on_gpu(torch.ones(1, 2)), torch.ones(1, 2).double(), "row", [0]),
    "logits": forward,
    "update": update,
}


@pytest.mark.parametrize("name", CHECKS)
def test_check_waits_before_it_reads(noted, name):
    CHECKS[name]()
    assert noted[0] == "synchronize"
    assert len(noted) > 1  # the host has read


@pytest.mark.parametrize(
    ("module", "exchanges", "call"),
    [
        (p2p, 2, lambda: p2p.all_gather_json("a")),
        (
            planner,
            1,
            lambda: Online(RingPlanner(8, 1, [100.0], {}, CostModel(), [1.0]), CPU).observe(
                {PROJECT: 1.0, COMPUTE: 1.0}
            ),
        ),
    ],
    ids=["json", "online split"],
)
def test_exchange_waits_before_it_reads(monkeypatch, module, exchanges, call):
    calls = []

    def all_gather(into, tensor, group=None):
        calls.append("all_gather")
        into[0].copy_(tensor)

    fake = SimpleNamespace(get_backend=lambda group: "gloo", get_world_size=lambda group: 1, all_gather=all_gather)
    monkeypatch.setattr(module, "dist", fake)
    monkeypatch.setattr(module, "wait_for_device", lambda tensor: calls.append("wait"))
    call()
    assert calls == ["all_gather", "wait"] * exchanges


def test_collective_is_waited_for_before_expected_values_are_copied(noted, monkeypatch):
    def values_of(held, *given):
        noted.append("copy")
        return torch.ones(2)

    monkeypatch.setattr(cases, "values_of", values_of)
    collective = SimpleNamespace(world_size=1, dtype=torch.float32, op="max")
    held = SimpleNamespace(buffer=on_gpu(torch.ones(6)), rank=0, part=0)
    made(cases.CollectiveCheck, collective=collective, seed=1).require(held, turn=1)
    assert noted[:2] == ["synchronize", "copy"]


def test_wait_is_where_a_hang_counts_as_waiting():
    assert any(place in str(Path(torch.cuda.synchronize.__code__.co_filename)) for place in WAITING_PLACES)


def test_no_wait_without_gpu(noted):
    wait_for_device(torch.ones(1))
    assert noted == []
