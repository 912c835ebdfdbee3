"""The transformer suite on one rank: the models that cases share, and the cases."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from benchkit.api import p2p, verification
from benchkit.api.case import (
    CAUSAL_FLOPS,
    PEAK_FROM,
    PEAK_TFLOP_PER_S,
    TOKENS_PER_CALL,
    Call,
    Case,
    Components,
    Details,
    Rank,
)
from benchkit.api.keys import count_parameters
from benchkit.api.p2p import first_reason
from benchkit.errors import Reason
from benchkit.suites.transformer import model, peak_flops
from benchkit.suites.transformer.checks import TOLERANCE, Checks, average_over_ranks, mask_targets
from benchkit.suites.transformer.data import Batches
from benchkit.suites.transformer.model import Network, build, sharding, wrap_network
from benchkit.suites.transformer.passes import REGIONS, Communication, PassWorkload, Steps
from benchkit.suites.transformer.suite import (
    COMMUNICATION,
    FORWARD,
    FORWARD_BACKWARD,
    OUTSIDE_BYTES,
    PARAMETERS,
    PART,
    PASS,
    PEAK_BYTES,
    RANKS,
    RESERVED_BYTES,
    TRAIN_STEP,
    WHOLE,
    TransformerConfig,
)

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class PassCase:
    def __init__(
        self, job: "TransformerJob", name: str, steps: Steps, on_one_rank: bool, details: Details
    ) -> None:
        self._name = name
        self._steps = steps
        self._memory = job.rank.memory
        self._models = job.models
        self._sent_bytes = job.sent_bytes
        self._batches = job.batches()
        self.details = dict(details)
        self._rows = job.config.batch_size if job.config.compile != "none" else 1
        self._checks = Checks(steps, job.config.dtype)
        if job.shared and not on_one_rank and job.config.parallel != "tp":
            copies = job.rank.world_size
            self._checks = replace(self._checks, mean=average_over_ranks, copies=copies)

    def step(self) -> object:
        inputs, targets = self._batches.inputs, self._batches.targets
        if self._name == FORWARD:
            return self._steps.forward(inputs)
        if self._name == FORWARD_BACKWARD:
            return self._steps.forward_backward(inputs, targets)
        return self._steps.train_step(inputs, targets)

    def reset(self) -> None:
        self._batches.draw()
        for steps in self._models():
            steps.forget_gradients()
        if PEAK_BYTES not in self.details:  # only once, in the warm-up, since it disturbs timing
            self._memory.reset()

    def observe(self, regions_s: Mapping[str, float]) -> None:
        if PEAK_BYTES in self.details:
            return
        others = [steps for steps in self._models() if steps is not self._steps]
        # memory that only other cases of this job need
        unused = sum(steps.held_bytes() for steps in others) + self._sent_bytes()
        if self._name != TRAIN_STEP:
            unused += self._steps.state_bytes()
        self.details[PEAK_BYTES] = self._memory.peak_bytes() - unused
        if beside := self._memory.reserved_and_outside():
            self.details |= zip((RESERVED_BYTES, OUTSIDE_BYTES), beside, strict=True)

    def verify(self, call: Call) -> None:
        """Check what the pass computes of the first sequence of a fresh batch.

        The weights do not move in a timed training step: a separate step checks the update.
        """
        self._batches.draw()
        inputs, targets = self._batches.inputs.clone(), self._batches.targets.clone()
        mask_targets(targets)

        def prepare() -> None:
            self._batches.inputs.copy_(inputs)
            self._batches.targets.copy_(targets)
            self._steps.forget_gradients()

        output = verification.require_tensor(call(prepare))
        if self._name == FORWARD:
            self._checks.forward(output, inputs)
            return
        self._checks.gradients(output, inputs, targets)
        if self._name == TRAIN_STEP:
            rows = self._rows
            self._checks.update(inputs[:rows], targets[:rows])


def assemble(
    kind: str,
    config: TransformerConfig,
    weight: torch.dtype,
    rank: Rank,
    mesh: "DeviceMesh | None",
) -> Steps:
    device = rank.device
    naive = config.attention == "naive"
    blank = partial(Network, config.known_model(), naive, config.activation_checkpointing)
    network = build(blank, weight, device, rank.seed, sharding(kind, mesh))
    if config.compile != "none":
        network.compile(mode=None if config.compile == "default" else config.compile)
    distributed = wrap_network(kind, network, mesh, config.bucket_mib)
    # FSDP2 writes to its buffers again later, which inference mode forbids. DTensors that were
    # made in inference mode hold on to each other until the garbage collector finds them.
    no_graph = torch.no_grad if kind in ("fsdp", "tp") else torch.inference_mode
    is_autocast = config.dtype == "autocast"
    autocast = partial(torch.autocast, device.type, torch.bfloat16, enabled=is_autocast)
    return Steps(
        network, distributed, partial(model.select_kernel, config.attention), autocast, no_graph
    )


Labels = dict[str, str | int | float]
UPDATE = "the optimizer's update, which is checked by another step"
ONE_SUM = "whether a rank is missing in one layer's sum alone, which changes logits too little"


class TransformerJob:
    """The cases of one job.

    All ranks make the job together, and then its cases in the same order. Models are built when a
    case that fits needs them. `lacking` is equal on all ranks. `peak` is None if no pass can
    run, or if the rate is unknown.
    """

    def __init__(self, config: TransformerConfig, rank: Rank) -> None:
        self.config = config
        self.rank = rank
        self.model = config.known_model()
        self.shared = config.parallel != "none" and rank.world_size > 1
        self.workload = PassWorkload(config, self.model, rank.world_size)
        self.messages = Communication(
            kind=config.parallel,
            model=self.model,
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
        """Set `lacking` and `peak`, on all ranks together, before models take the memory."""
        config, device = self.config, self.rank.device
        head_dim = self.model.d_model // self.model.num_heads
        compiled = config.compile != "none"
        mine = model.attention_missing(config.attention, config.dtype, head_dim, compiled, device)
        if self.shared and config.parallel in ("fsdp", "tp"):  # the check of FSDP2 gathers, too
            mine = mine or p2p.dtensor_missing(device)
        self.lacking = first_reason(mine)
        self.peak: peak_flops.Peak | None = None
        if not all(self.reason_not_to_run(name) for name in config.passes):
            self.peak = peak_flops.peak(config, self.workload.tokens, self.rank)

    def case(
        self, name: str, ranks: int, baseline: Case | None = None, communication: Case | None = None
    ) -> Case:
        on_one_rank = self.shared and ranks == 1
        labels: Labels = {PASS: name, RANKS: ranks, PART: WHOLE}
        labels |= {"parallel": "none"} if on_one_rank else {}  # so that jobs of any kind share it
        if self.lacking:
            return Case(labels=labels, unavailable=self.lacking)
        if reason := self.obstacle() or self.shortage(name, on_one_rank):
            return Case(labels=labels, skip=reason)
        case = Case(
            labels=labels,
            work=self.workload.work(name, ranks),
            regions=REGIONS[name],
            baseline=baseline,
            ranks=ranks,
            components=Components(communication=communication),
            includes_launches=True,
            unchecked=self.describe_unchecked(name, on_one_rank),
        )
        if on_one_rank and self.rank.index:
            return case
        model = self.model_of(self.config.parallel if self.shared and not on_one_rank else "none")
        pass_case = PassCase(self, name, model, on_one_rank, self.details_of(name, ranks))
        return replace(
            case,
            step=pass_case.step,
            reset=pass_case.reset,
            verify=pass_case.verify,
            observe=pass_case.observe,
            details=lambda: pass_case.details,
        )

    def communication(self, name: str) -> Case | None:
        ranks = self.rank.world_size
        labels: Labels = {PASS: name, RANKS: ranks, PART: COMMUNICATION}
        if self.reason_not_to_run(name):
            return None
        step = self.messages.of(name)
        return None if step is None else Case(step=step, labels=labels, is_component=True)

    def describe_unchecked(self, name: str, on_one_rank: bool) -> str:
        """Return what the check does not cover: the update, one of many ranks in one of many sums.

        With tensor parallelism each half layer adds a sum of N ranks' parts. Without one part,
        logits of random weights were off by 0.35 / sqrt(layers N) and more.
        """
        unseen = [UPDATE] if name == TRAIN_STEP else []
        if self.shared and not on_one_rank and self.config.parallel == "tp":
            off = 0.35 / (self.model.num_layers * self.rank.world_size) ** 0.5
            unseen += [ONE_SUM] if off < TOLERANCE[self.config.dtype] else []
        return "; ".join(unseen)

    def reason_not_to_run(self, name: str) -> str:
        return self.lacking or self.obstacle() or self.shortage(name, on_one_rank=False)

    def obstacle(self) -> Reason:
        size = self.rank.world_size
        heads, d_ff = self.model.num_heads, self.model.d_ff
        if self.shared and self.config.parallel == "tp" and (heads % size or d_ff % size):
            return f"{heads} heads and d_ff {d_ff} do not divide over {size} ranks"
        if self.config.parallel != "none" and not self.shared:
            return f"parallel={self.config.parallel} needs more than one rank"
        return ""

    def shortage(self, name: str, on_one_rank: bool) -> Reason:
        """Return why a pass does not fit, if `on_one_rank` beside the shared model; or ""."""
        needed = self.config.bytes_of_pass(name, self.rank.world_size)
        if on_one_rank:
            needed += self.config.footprint("none", 1).of(name)
        return self.rank.memory_shortage(needed)

    def details_of(self, name: str, ranks: int) -> Details:
        return {
            TOKENS_PER_CALL: self.workload.copies(ranks) * self.workload.tokens,
            PARAMETERS: count_parameters(self.model),
            CAUSAL_FLOPS: self.workload.flops(name, ranks, causal=True),
            PEAK_TFLOP_PER_S: self.peak.of(ranks) / 1e12 if self.peak else None,
            PEAK_FROM: self.peak.source if self.peak else None,
        }

    def batches(self) -> Batches:
        """Return new batches; each case and each copy of the model has its own."""
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
        return self.messages.allocated_bytes() if self.shared else 0

    def models(self) -> list[Steps]:
        return list(self._models.values())

    def model_of(self, kind: str) -> Steps:
        """Return the model of a kind of parallelism, built at its first use.

        All ranks call this together, unless the kind is "none".
        """
        if kind not in self._models:
            every_rank = range(self.rank.world_size)
            group = None if kind == "none" else self.rank.subgroup(every_rank)
            mesh = p2p.mesh_of(group, self.rank.device)
            weight = self.workload.weight
            self._models[kind] = assemble(kind, self.config, weight, self.rank, mesh)
        return self._models[kind]


def cases_of(config: TransformerConfig, rank: Rank) -> list[Case]:
    job = TransformerJob(config, rank)
    return [case for name in config.passes for case in cases_of_pass(job, name)]


def cases_of_pass(training: TransformerJob, name: str) -> list[Case]:
    """Return a pass on all ranks and, where they share its work, on one rank and its communication.

    The last two are built first, since the pass on all ranks refers to them.
    """
    one_rank = communication = None
    if training.shared:
        one_rank, communication = training.case(name, 1), training.communication(name)
    all_ranks = training.case(name, training.rank.world_size, one_rank, communication)
    return [case for case in (all_ranks, one_rank, communication) if case is not None]
