"""The networks to compile: a few small ones, each of which a compiler treats differently."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchkit.api.keys import ModelConfig
from benchkit.suites.compile.suite import (
    BRANCHING,
    MATMUL_CHAIN,
    MLP,
    TRANSFORMER_LAYER,
    CompileConfig,
)

Function = Callable[[Tensor], Tensor]


class Pointwise(nn.Module):
    """Elementwise operations, which a compiler makes one kernel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))
        self.shift = nn.Parameter(torch.randn(width))

    def forward(self, rows: Tensor) -> Tensor:
        return rows + torch.relu(self.gain * rows + self.shift)


class Branch(nn.Module):
    """A branch on a value of the data, at which a compiler has to break its graph."""

    def forward(self, rows: Tensor) -> Tensor:
        return 0.5 * rows if rows.square().mean() >= 0 else -rows  # always the first


def build(config: CompileConfig, device: torch.device) -> nn.Module:
    with device:
        network = nn.Sequential(*layers(config))
    return network.to(getattr(torch, config.dtype))


def layers(config: CompileConfig) -> list[nn.Module]:
    width, model, modules = config.width, config.model, list[nn.Module]()
    for index in range(config.depth):
        if config.workload == MATMUL_CHAIN:
            modules.append(nn.Linear(width, width, bias=False))
        elif config.workload == MLP:
            modules += [nn.Linear(width, width), nn.GELU()]
        elif config.workload == TRANSFORMER_LAYER:
            assert model is not None
            modules.append(transformer_layer(model))
        else:
            modules.append(Pointwise(width))
        if config.workload == BRANCHING and index == (config.depth - 1) // 2:
            modules.append(Branch())
    return modules


def transformer_layer(model: ModelConfig) -> nn.Module:
    return nn.TransformerEncoderLayer(
        model.d_model,
        model.num_heads,
        model.d_ff,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )


def shape(config: CompileConfig, rows: int) -> tuple[int, ...]:
    if config.workload != TRANSFORMER_LAYER:
        return rows, config.width
    return rows, config.context_length, config.width


def needed_bytes(config: CompileConfig) -> float:
    """Estimate the memory of one rank in bytes, with the check in float64."""
    network = build(config, torch.device("meta"))
    weights = sum(weight.numel() for weight in network.parameters())
    rows = torch.Size(shape(config, max(config.batch_sizes))).numel()
    item = getattr(torch, config.dtype).itemsize
    # activations of a layer that backward needs
    kept = 16 if config.workload == TRANSFORMER_LAYER else 4
    return float((weights * 2 + rows * kept * config.depth) * (item + 8))


def step_of(
    network: nn.Module, backward: bool, prepare: Callable[[Function], Function]
) -> Function:
    """Return a step: the result [batch, ...] of the network, or its loss and all gradients.

    `prepare` compiles the forward computation; a step with gradients ends it with a loss.
    """

    def loss(rows: Tensor) -> Tensor:
        mean: Tensor = network(rows).float().square().mean()
        return mean

    forward = prepare(loss if backward else network)

    def step(rows: Tensor) -> Tensor:
        if not backward:
            with torch.no_grad():
                return forward(rows)
        network.zero_grad(set_to_none=True)
        result = forward(rows)
        result.backward()
        return result.detach()

    return step
