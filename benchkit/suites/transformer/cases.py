"""The transformer suite on one rank: what can run here, the models that cases share, the cases."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from benchkit.api.case import Case, Parts, Rank
from benchkit.api.gather import gather_json
from benchkit.suites.transformer import kernels, parallel, peak_flops
from benchkit.suites.transformer.assembly import assemble
from benchkit.suites.transformer.communication import Communication, communicates
from benchkit.suites.transformer.config import TransformerConfig
from benchkit.suites.transformer.data import Batches
from benchkit.suites.transformer.flops import parameters
from benchkit.suites.transformer.pass_case import PassCase
from benchkit.suites.transformer.passes import REGIONS, Steps
from benchkit.suites.transformer.workload import Workload

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


Labels = dict[str, str | int | float]
SPARE_BYTES = 300 * 10**6
"""Memory beyond what is counted: buffers of the kernels, and what the allocator cannot use."""


class TransformerJob:
    """The cases of one job.

    Models are built when a case that fits needs them. All ranks make the cases in the same order.
    """

    def __init__(self, config: TransformerConfig, rank: Rank) -> None:
        assert config.model is not None
        self.config = config
        self.rank = rank
        self.model = config.model
        self.shared = config.parallel != "none" and rank.world_size > 1
        self.workload = Workload(config, config.model, rank.world_size)
        torch.set_float32_matmul_precision("high" if config.dtype == "tf32" else "highest")

    def case(self, name: str, ranks: int) -> Case:
        """Returns the case of a pass on all ranks, or on the first rank alone."""
        labels: Labels = {"pass": name, "ranks": ranks, "part": "whole"}
        case_name = f"{name} on {ranks}"
        alone = self.shared and ranks == 1
        if self.lacking:
            return Case(labels=labels, name=case_name, unavailable=self.lacking)
        if why := self.obstacle() or self.shortage(name, alone):
            return Case(labels=labels, name=case_name, skip=why)
        # The details come before a model takes the memory: the peak rate may have to be measured.
        details = self.told(name, ranks)
        if alone and self.rank.index:
            return Case(labels=labels, regions=REGIONS[name], name=case_name, ranks=1)
        communicating = self.shared and not alone and communicates(self.config.parallel, name)
        running = PassCase(self, name, self.alone if alone else self.together, alone, details)
        return Case(
            step=running.step,
            labels=labels,
            reset=running.reset,
            verify=running.verify,
            work=self.workload.work(name, ranks),
            regions=REGIONS[name],
            observe=running.observe,
            details=lambda: running.told,
            against=f"{name} on 1" if self.shared and not alone else "",
            ranks=ranks,
            name=case_name,
            parts=Parts(communication=f"communication of {name}" if communicating else ""),
        )

    def communication(self, name: str) -> list[Case]:
        """Returns the case of a pass's communication alone; none where the pass sends nothing."""
        labels: Labels = {"pass": name, "ranks": self.rank.world_size, "part": "communication"}
        if self.lacking or self.obstacle() or self.shortage(name, alone=False):
            return []
        step = self.messages.of(name)
        if step is None:
            return []
        return [Case(step=step, labels=labels, bound=True, name=f"communication of {name}")]

    @cached_property
    def lacking(self) -> str:
        """What the machine of any rank lacks; the same on all ranks."""
        config, device = self.config, self.rank.device
        head_dim = self.model.d_model // self.model.num_heads
        compiled = config.compile != "none"
        mine = kernels.missing(config.attention, config.dtype, head_dim, compiled, device)
        return next(filter(None, gather_json(mine)), "")

    def obstacle(self) -> str:
        """Returns why the ranks cannot share this model in this way; "" where they can."""
        size = self.rank.world_size
        heads, d_ff = self.model.num_heads, self.model.d_ff
        if self.shared and self.config.parallel == "tp" and (heads % size or d_ff % size):
            return f"{heads} heads and d_ff {d_ff} do not divide over {size} ranks"
        if self.config.parallel != "none" and not self.shared:
            return f"parallel={self.config.parallel} needs more than one rank"
        return ""

    def shortage(self, name: str, alone: bool) -> str:
        """Returns why a pass does not fit in memory; "" where it does.

        The model of one rank alone is in memory beside the model that all ranks share.
        """
        needed = self.workload.footprint(self.config.parallel).of(name) + SPARE_BYTES
        if self.shared:
            needed += self.messages.nbytes()
        if self.shared and alone:
            needed += self.workload.footprint("none").of(name)
        return self.rank.memory_shortage(needed)

    def told(self, name: str, ranks: int) -> dict[str, Any]:
        """Returns the details that the record keeps of a pass on these ranks."""
        return {
            "tokens_per_call": self.workload.copies(ranks) * self.workload.tokens,
            "parameters": parameters(self.model),
            "causal_flops": self.workload.flops(name, ranks, causal=True),
            "peak_tflop_per_s": self.peak.of(ranks) / 1e12,
            "peak_from": self.peak.source,
        }

    @cached_property
    def peak(self) -> peak_flops.Peak:
        """The peak rate; all ranks measure it together where no data sheet states it."""
        return peak_flops.peak(self.config, self.workload.tokens, self.rank)

    @cached_property
    def messages(self) -> Communication:
        """What the ranks send each other."""
        return Communication(
            kind=self.config.parallel,
            model=self.model,
            tokens=self.workload.tokens,
            world_size=self.rank.world_size,
            bucket_mib=self.config.bucket_mib,
            weight=self.workload.weight,
            activation=self.workload.activation,
            device=self.rank.device,
            checkpointing=self.config.activation_checkpointing,
        )

    @cached_property
    def mesh(self) -> "DeviceMesh":
        return parallel.mesh_of(self.rank.device, self.rank.world_size)

    def batches(self) -> Batches:
        """Returns new batches for one case.

        Each case has its own, since some cases run on one rank alone. Each copy of the model has
        its own, too.
        """
        copy = 0 if self.config.parallel == "tp" else self.rank.index
        return Batches(
            self.config.batch_size,
            self.config.context_length,
            self.model.vocab_size,
            self.config.data_path,
            self.rank.device,
            seed=self.rank.seed + copy,
        )

    @cached_property
    def together(self) -> Steps:
        """The model of all ranks."""
        return self.build(self.config.parallel if self.shared else "none")

    @cached_property
    def alone(self) -> Steps:
        """A whole model on this rank."""
        return self.build("none")

    def sent_bytes(self) -> int:
        """Returns the bytes of the buffers that communication alone uses."""
        return self.messages.allocated() if self.shared else 0

    def models(self) -> list[Steps]:
        """Returns the models that have been built."""
        return [steps for name, steps in vars(self).items() if name in ("together", "alone")]

    def build(self, kind: str) -> Steps:
        mesh = self.mesh if kind != "none" else None
        return assemble(kind, self.config, self.workload.weight, self.rank, mesh)
