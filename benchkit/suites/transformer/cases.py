"""The transformer suite on one rank: what can run here, the models that cases share, the cases."""

from typing import Any

import torch

from benchkit.api import details, device_mesh
from benchkit.api.case import Case, Components, Rank
from benchkit.api.gather import first_reason
from benchkit.api.parameters import parameters
from benchkit.suites.transformer import kernels, names, parallel, peak_flops
from benchkit.suites.transformer.assembly import assemble
from benchkit.suites.transformer.communication import Communication
from benchkit.suites.transformer.config import TransformerConfig
from benchkit.suites.transformer.data import Batches
from benchkit.suites.transformer.pass_case import PassCase
from benchkit.suites.transformer.passes import REGIONS, Steps
from benchkit.suites.transformer.workload import Workload

Labels = dict[str, str | int | float]
UPDATE = "the optimizer's update, which is checked by another step"


class TransformerJob:
    """The cases of one job.

    All ranks make the job together, and then its cases in the same order. Models are built when a
    case that fits needs them.

    Attributes:
        lacking: what the machine of any rank lacks, alike on all ranks; "" if nothing.
        peak: the peak rate; None where no pass can run, or where it is not known.
    """

    def __init__(self, config: TransformerConfig, rank: Rank) -> None:
        assert config.model is not None
        self.config = config
        self.rank = rank
        self.model = config.model
        self.shared = config.parallel != "none" and rank.world_size > 1
        self.workload = Workload(config, config.model, rank.world_size)
        self.messages = Communication(
            kind=config.parallel,
            model=config.model,
            tokens=self.workload.tokens,
            world_size=rank.world_size,
            bucket_mib=config.bucket_mib,
            weight=self.workload.weight,
            activation=self.workload.activation,
            device=rank.device,
            checkpointing=config.activation_checkpointing,
        )
        self._models: dict[str, Steps] = {}
        torch.set_float32_matmul_precision("high" if config.dtype == "tf32" else "highest")
        self.ask_all_ranks()

    def ask_all_ranks(self) -> None:
        """Sets what only all ranks know; they call this together, before models take the memory."""
        config, device = self.config, self.rank.device
        head_dim = self.model.d_model // self.model.num_heads
        compiled = config.compile != "none"
        mine = kernels.missing(config.attention, config.dtype, head_dim, compiled, device)
        if self.shared:
            mine = mine or parallel.missing(config.parallel, device)
        self.lacking = first_reason(mine)
        self.peak: peak_flops.Peak | None = None
        if not all(self.why_not(name) for name in config.passes):
            self.peak = peak_flops.peak(config, self.workload.tokens, self.rank)

    def case(
        self, name: str, ranks: int, baseline: Case | None = None, communication: Case | None = None
    ) -> Case:
        """Returns the case of a pass on all ranks, or on the first rank alone.

        Args:
            name: the pass.
            ranks: the number of ranks that take part: all, or 1.
            baseline: the case of the pass on one rank alone, if this one is compared with it.
            communication: the case of the pass's communication alone, if there is one.
        """
        labels: Labels = {names.PASS: name, names.RANKS: ranks, names.PART: names.WHOLE}
        alone = self.shared and ranks == 1
        if self.lacking:
            return Case(labels=labels, unavailable=self.lacking)
        if why := self.obstacle() or self.shortage(name, alone):
            return Case(labels=labels, skip=why)
        if alone and self.rank.index:
            return Case(labels=labels, regions=REGIONS[name], ranks=1)
        model = self.model_of(self.config.parallel if self.shared and not alone else "none")
        running = PassCase(self, name, model, alone, self.details_of(name, ranks))
        return Case(
            step=running.step,
            labels=labels,
            reset=running.reset,
            verify=running.verify,
            work=self.workload.work(name, ranks),
            regions=REGIONS[name],
            observe=running.observe,
            details=lambda: running.details,
            baseline=baseline,
            ranks=ranks,
            components=Components(communication=communication),
            unchecked=UPDATE if name == names.TRAIN_STEP else "",
        )

    def communication(self, name: str) -> Case | None:
        """Returns the case of a pass's communication alone; None where the pass sends nothing."""
        ranks = self.rank.world_size
        labels: Labels = {names.PASS: name, names.RANKS: ranks, names.PART: names.COMMUNICATION}
        if self.why_not(name):
            return None
        step = self.messages.of(name)
        return None if step is None else Case(step=step, labels=labels, is_component=True)

    def why_not(self, name: str) -> str:
        """Returns why a pass cannot run on all ranks; "" where it can."""
        return self.lacking or self.obstacle() or self.shortage(name, alone=False)

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
        needed = self.config.bytes_of_pass(name, self.rank.world_size)
        if alone:
            needed += self.config.footprint("none", 1).of(name)
        return self.rank.memory_shortage(needed)

    def details_of(self, name: str, ranks: int) -> dict[str, Any]:
        """Returns the details that the record keeps of a pass on these ranks."""
        return {
            details.TOKENS_PER_CALL: self.workload.copies(ranks) * self.workload.tokens,
            names.PARAMETERS: parameters(self.model),
            details.CAUSAL_FLOPS: self.workload.flops(name, ranks, causal=True),
            details.PEAK_TFLOP_PER_S: self.peak.of(ranks) / 1e12 if self.peak else None,
            details.PEAK_FROM: self.peak.source if self.peak else None,
        }

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

    def sent_bytes(self) -> int:
        """Returns the bytes of the buffers that communication alone uses."""
        return self.messages.allocated() if self.shared else 0

    def models(self) -> list[Steps]:
        """Returns the models that have been built."""
        return list(self._models.values())

    def model_of(self, kind: str) -> Steps:
        """Returns the model of a kind of parallelism, built at its first use.

        All ranks call this together, unless the kind is "none".
        """
        if kind not in self._models:
            shared = kind != "none"
            size, where = self.rank.world_size, (self.rank.device, self.config.timeout_s)
            mesh = device_mesh.mesh_of_first(size, *where) if shared else None
            weight = self.workload.weight
            self._models[kind] = assemble(kind, self.config, weight, self.rank, mesh)
        return self._models[kind]
