"""One rank's side of a job: what fits and can run here, the models that its cases share, and the cases."""

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch

from benchkit.case import Case, Rank, Work
from benchkit.models.transformer import kernels, parallel, peaks
from benchkit.models.transformer.counts import Footprint, forward_flops, parameters, pass_flops
from benchkit.models.transformer.network import Network, build
from benchkit.models.transformer.running import Running
from benchkit.models.transformer.steps import REGIONS, Steps
from benchkit.models.transformer.tokens import Batches

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from benchkit.suites.transformer import TransformerConfig

Labels = dict[str, str | int | float]
SPARE_BYTES = 300 * 10**6
"""Beyond what is counted: buffers of the kernels, and what the allocator cannot use."""


class Training:
    """The cases of one job; models are built when a case that fits needs them. All ranks make them in one order."""

    def __init__(self, config: "TransformerConfig", rank: Rank) -> None:
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
        if lacking := self.lacking():
            return Case(labels=labels, unavailable=lacking)
        if why := self.obstacle() or self.shortage(name):
            return Case(labels=labels, skip=why)
        alone = self.shared and ranks == 1
        if alone and self.rank.index:
            return Case(labels=labels, regions=REGIONS[name], name=f"{name} on 1", ranks=1)
        running = Running(self, name, self.alone if alone else self.together, alone)
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
            name=f"{name} on {ranks}",
            parts=(f"communication of {name}",) if self.shared and not alone else (),
        )

    def communication(self, name: str) -> list[Case]:
        """What a pass sends, alone; nothing where it sends nothing."""
        labels: Labels = {"pass": name, "ranks": self.rank.world_size, "part": "communication"}
        if self.lacking() or self.obstacle() or self.shortage(name):
            return []
        step = self.messages.of(name)
        return [Case(step=step, labels=labels, bound=True, name=f"communication of {name}")] if step else []

    def lacking(self) -> str:
        """What this machine has not."""
        compiled, head_dim = self.config.compile != "none", self.model.d_model // self.model.num_heads
        return kernels.missing(self.config.attention, self.activation, head_dim, compiled, self.rank.device)

    def obstacle(self) -> str:
        """Why this model cannot be shared out so."""
        size = self.rank.world_size
        if self.shared and self.config.parallel == "tp" and (self.model.num_heads % size or self.model.d_ff % size):
            return f"{self.model.num_heads} heads and d_ff {self.model.d_ff} do not divide over {size} ranks"
        if self.config.parallel != "none" and not self.shared:
            return f"parallel={self.config.parallel} needs more than one rank"
        return ""

    def shortage(self, name: str) -> str:
        """Why a pass does not fit in memory. Where ranks share the work, one of them has a whole model, too."""
        needed = self.footprint(self.config.parallel).of(name) + SPARE_BYTES
        if self.shared:
            needed += self.footprint("none").of(name) + self.messages.nbytes()
        return self.rank.memory_shortage(needed)

    def footprint(self, kind: str) -> Footprint:
        """What one rank holds."""
        config = self.config
        return Footprint(
            self.model,
            config.batch_size,
            config.context_length,
            weight=self.weight.itemsize,
            activation=self.activation.itemsize,
            naive_attention=config.attention == "naive",
            checkpointing=config.activation_checkpointing,
            shards=self.rank.world_size if kind in ("fsdp", "tp") else 1,
        )

    def copies(self, ranks: int) -> int:
        """How many copies of the model compute on so many ranks, each its own batch."""
        return ranks if self.config.parallel != "tp" else 1

    def flops(self, name: str, ranks: int, causal: bool = False, executed: bool = False) -> float:
        """Of a pass on so many ranks together."""
        config = self.config
        forward = forward_flops(self.model, config.batch_size, config.context_length, causal)
        head = 2.0 * self.tokens * self.model.d_model * self.model.vocab_size  # outside of all layers
        again = forward - head if executed and config.activation_checkpointing else 0.0
        return self.copies(ranks) * pass_flops(name, forward, again)

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
    def peak(self) -> peaks.Peak:
        """Measured where no data sheet says it: hence by all ranks together."""
        table = self.config.hardware.peak_tflop_per_s
        return peaks.peak(table, self.config.dtype, self.model, self.tokens, self.rank)

    @cached_property
    def messages(self) -> parallel.Communication:
        """What the ranks send each other."""
        return parallel.Communication(
            self.config.parallel, self.model, self.tokens, self.rank.world_size, self.config.bucket_mib,
            self.weight, self.activation, self.rank.device,
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
        no_graph = torch.no_grad if kind == "fsdp" else torch.inference_mode  # FSDP2 writes to its buffers again later
        return Steps(
            network, model, partial(kernels.chosen, config.attention, config.dtype == "autocast", device), no_graph
        )
