"""What ranks run in tests of models: started by launch.ranks.pool, so importable by name."""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from benchkit.api.keys import ModelConfig
from benchkit.api.p2p import mesh_of
from benchkit.suites.transformer import model
from benchkit.suites.transformer.checks import full_float64
from benchkit.suites.transformer.model import Network, build
from benchkit.suites.transformer.passes import Communication, Steps
from torch.distributed.tensor.debug import CommDebugMode

MODEL = ModelConfig(name="test", d_model=16, d_ff=24, num_layers=2, num_heads=4, vocab_size=31)


def batch(sequences: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets [sequences, 10]."""
    drawn = torch.randint(MODEL.vocab_size, (sequences, 11), generator=torch.Generator().manual_seed(5))
    return drawn[:, :-1], drawn[:, 1:]


def network(shard: Any = lambda part: None) -> Network:
    return build(lambda: Network(MODEL), torch.float32, torch.device("cpu"), 3, shard)


def two_steps(steps: Steps, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, Any]:
    """The loss and gradients of a second step, with a forward pass before it, and the weights after it."""
    with steps.learning_rate(1e-3):
        steps.train_step(inputs, targets)
        steps.forward(inputs)
        loss = steps.train_step(inputs, targets)
    parts = {"gradients": {}, "weights": {}}
    for name, weight in steps.network.named_parameters():
        parts["gradients"][name] = full_float64(weight.grad).tolist()
        parts["weights"][name] = full_float64(weight).tolist()
    return {"loss": float(loss), **parts}


def shared_out(task: tuple[str, int, int, str]) -> dict[str, Any]:
    """One rank's part of a step: (kind of parallelism, rank, world size, file to meet at)."""
    kind, rank, world_size, meeting = task
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
    mesh = mesh_of(dist.group.WORLD, torch.device("cpu"))
    mine = network(model.sharding(kind, mesh))
    steps = Steps(mine, model.wrap_network(kind, mine, mesh, bucket_mib=0.001), no_graph=torch.no_grad)
    inputs, targets = batch(4)
    if kind != "tp":
        inputs, targets = (each.chunk(world_size)[rank] for each in (inputs, targets))
    found = two_steps(steps, inputs, targets)
    dist.barrier()
    return found


def all_reduces(task: tuple[int, str]) -> list[tuple[int, int]]:
    """Of a tensor-parallel model how many all-reduces a pass makes, and how many are sent in their place."""
    rank, meeting = task
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    mesh, cpu, found = mesh_of(dist.group.WORLD, torch.device("cpu")), torch.device("cpu"), []
    for checkpointing in (False, True):
        blank = partial(Network, MODEL, checkpointing=checkpointing)
        mine = build(blank, torch.float32, cpu, 3, model.sharding("tp", mesh))
        steps = Steps(mine, mine, no_graph=torch.no_grad)
        sent = Communication("tp", MODEL, 20, 2, 25, torch.float32, torch.float32, cpu, checkpointing)
        for forward in (True, False):
            with CommDebugMode() as counter:
                steps.forward(batch(2)[0]) if forward else steps.forward_backward(*batch(2))
            counts = {str(name): count for name, count in counter.get_comm_counts().items()}
            reduced = sum(count for name, count in counts.items() if "all_reduce" in name)
            found.append((reduced, sent.all_reduces(forward)))
    dist.barrier()
    return found
