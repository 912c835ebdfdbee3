"""One rank's side of a job: what fits and can run here, the models that its cases share, and the cases."""

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch

from benchkit.api.case import Case, Parts, Rank, Work
from benchkit.api.gather import gather_json
from benchkit.suites.transformer import kernels, parallel, peak_flops
from benchkit.suites.transformer.communication import Communication, communicates
from benchkit.suites.transformer.config import TransformerConfig
from benchkit.suites.transformer.data import Batches
from benchkit.suites.transformer.flops import (
    Footprint,
    forward_flops,
    layer_parameters,
    parameters,
    pass_flops,
    recomputed_flops,
)
from benchkit.suites.transformer.model import Network, build
from benchkit.suites.transformer.pass_case import PassCase
from benchkit.suites.transformer.passes import REGIONS, Steps

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


Labels = dict[str, str | int | float]
SPARE_BYTES = 300 * 10**6
"""Beyond what is counted: buffers of the kernels, and what the allocator cannot use."""


class TransformerJob:
    """The cases of one job; models are built when a case that fits needs them. All ranks make them in one order."""

    def __init__(self, config: TransformerConfig, rank: Rank) -> None:
        assert config.model is not None
        self.config, self.rank, self.model = config, rank, config.model
        self.shared = config.parallel != "none" and rank.world_size > 1
        self.weight = torch.bfloat16 if config.dtype == "bfloat16" else torch.float32
        self.activation = torch.float32 if config.dtype in ("float32", "tf32") else torch.bfloat16
        self.tokens = config.batch_size * config.context_length
        torch.set_float32_matmul_precision("high" if config.dtype == "tf32" else "highest")

    def case(self, name: str, ranks: int) -> Case:
        """A pass on all ranks, or on the first alone."""
        labels: Labels = {"pass": name, "ranks": ranks, "part": "whole"}
        own_name = f"{name} on {ranks}"
        alone = self.shared and ranks == 1
        if self.lacking:
            return Case(labels=labels, name=own_name, unavailable=self.lacking)
        if why := self.obstacle() or self.shortage(name, alone):
            return Case(labels=labels, name=own_name, skip=why)
        told = self.told(name, ranks)  # before a model takes the memory: its peak rate may have to be measured
        if alone and self.rank.index:
            return Case(labels=labels, regions=REGIONS[name], name=own_name, ranks=1)
        communicating = self.shared and not alone and communicates(self.config.parallel, name)
        running = PassCase(self, name, self.alone if alone else self.together, alone, told)
        return Case(
            step=running.step,
            labels=labels,
            reset=running.reset,
            verify=running.verify,
            work=Work(useful_flops=self.flops(name, ranks), executed_flops=self.flops(name, ranks, executed=True)),
            regions=REGIONS[name],
            observe=running.observe,
            details=lambda: running.told,
            against=f"{name} on 1" if self.shared and not alone else "",
            ranks=ranks,
            name=own_name,
            parts=Parts(communication=f"communication of {name}" if communicating else ""),
        )

    def communication(self, name: str) -> list[Case]:
        """What a pass sends, alone; nothing where it sends nothing."""
        labels: Labels = {"pass": name, "ranks": self.rank.world_size, "part": "communication"}
        if self.lacking or self.obstacle() or self.shortage(name, alone=False):
            return []
        step = self.messages.of(name)
        return [Case(step=step, labels=labels, bound=True, name=f"communication of {name}")] if step else []

    @cached_property
    def lacking(self) -> str:
        """What any rank's machine has not; all ranks say the same."""
        config, head_dim = self.config, self.model.d_model // self.model.num_heads
        device = self.rank.device
        mine = kernels.missing(config.attention, config.dtype, head_dim, config.compile != "none", device)
        return next(filter(None, gather_json(mine)), "")

    def obstacle(self) -> str:
        """Why this model cannot be shared out so."""
        size = self.rank.world_size
        if self.shared and self.config.parallel == "tp" and (self.model.num_heads % size or self.model.d_ff % size):
            return f"{self.model.num_heads} heads and d_ff {self.model.d_ff} do not divide over {size} ranks"
        if self.config.parallel != "none" and not self.shared:
            return f"parallel={self.config.parallel} needs more than one rank"
        return ""

    def shortage(self, name: str, alone: bool) -> str:
        """Why a pass does not fit in memory. The model of one rank alone is there beside the one that all share."""
        needed = self.footprint(self.config.parallel).of(name) + SPARE_BYTES
        if self.shared:
            needed += self.messages.nbytes() + (self.footprint("none").of(name) if alone else 0)
        return self.rank.memory_shortage(needed)

    def footprint(self, kind: str) -> Footprint:
        """What one rank holds."""
        config, fsdp = self.config, kind == "fsdp" and self.shared
        return Footprint(
            self.model,
            config.batch_size,
            config.context_length,
            weight=self.weight.itemsize,
            activation=self.activation.itemsize,
            naive_attention=config.attention in ("naive", "math"),
            checkpointing=config.activation_checkpointing,
            shards=self.rank.world_size if kind in ("fsdp", "tp") else 1,
            gathered=2 * layer_parameters(self.model) + self.model.vocab_size * self.model.d_model if fsdp else 0,
            autocast=config.dtype == "autocast",
        )

    def copies(self, ranks: int) -> int:
        """How many copies of the model compute on so many ranks, each its own batch."""
        return ranks if self.config.parallel != "tp" else 1

    def flops(self, name: str, ranks: int, causal: bool = False, executed: bool = False) -> float:
        """Of a pass on so many ranks together."""
        config = self.config
        sizes = (self.model, config.batch_size, config.context_length, causal)
        again = recomputed_flops(*sizes) if executed and config.activation_checkpointing else 0.0
        return self.copies(ranks) * pass_flops(name, forward_flops(*sizes), again)

    def told(self, name: str, ranks: int) -> dict[str, Any]:
        """What the record says of a pass on so many ranks."""
        return {
            "tokens_per_call": self.copies(ranks) * self.tokens,
            "parameters": parameters(self.model),
            "causal_flops": self.flops(name, ranks, causal=True),
            "peak_tflop_per_s": self.peak.of(ranks) / 1e12,
            "peak_from": self.peak.source,
        }

    @cached_property
    def peak(self) -> peak_flops.Peak:
        """Measured where no data sheet says it: hence by all ranks together."""
        return peak_flops.peak(self.config, self.tokens, self.rank)

    @cached_property
    def messages(self) -> Communication:
        """What the ranks send each other."""
        return Communication(
            self.config.parallel, self.model, self.tokens, self.rank.world_size, self.config.bucket_mib,
            self.weight, self.activation, self.rank.device, self.config.activation_checkpointing,
        )  # fmt: skip

    @cached_property
    def mesh(self) -> "DeviceMesh":
        return parallel.mesh_of(self.rank.device, self.rank.world_size)

    def batches(self) -> Batches:
        """Each case has its own, since some run on one rank alone; and each copy of the model."""
        own = 0 if self.config.parallel == "tp" else self.rank.index
        return Batches(
            self.config.batch_size, self.config.context_length, self.model.vocab_size, self.config.data_path,
            self.rank.device, self.rank.seed + own,
        )  # fmt: skip

    @cached_property
    def together(self) -> Steps:
        """The model of all ranks."""
        return self.build(self.config.parallel if self.shared else "none")

    @cached_property
    def alone(self) -> Steps:
        """A whole model on this rank."""
        return self.build("none")

    def sent_bytes(self) -> int:
        """Of the buffers for what is sent alone."""
        return self.messages.allocated() if self.shared else 0

    def models(self) -> list[Steps]:
        """Those that have been built."""
        return [each for name, each in vars(self).items() if name in ("together", "alone")]

    def build(self, kind: str) -> Steps:
        config, device = self.config, self.rank.device
        shard = parallel.sharding(kind, self.mesh) if kind != "none" else lambda part: None
        blank = partial(Network, self.model, config.attention == "naive", config.activation_checkpointing)
        network = build(blank, self.weight, device, self.rank.seed, shard)
        if config.compile != "none":
            network.compile(mode=None if config.compile == "default" else config.compile)
        model = parallel.wrapped(kind, network, self.mesh, config.bucket_mib) if kind != "none" else network
        # FSDP2 writes to its buffers again later; in inference mode DTensors hold on to each other, for gc to find
        no_graph = torch.no_grad if kind in ("fsdp", "tp") else torch.inference_mode
        autocast = partial(torch.autocast, device.type, torch.bfloat16, enabled=config.dtype == "autocast")
        return Steps(network, model, partial(kernels.chosen, config.attention), autocast, no_graph)
