"""A workload as one rank runs it: its operands, the phases of a step, and the check of what came out."""

from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from benchkit.api.regions import region
from benchkit.suites.auto_shard.operands import Exact, Part, Random, Source, part_of
from benchkit.suites.auto_shard.plans import REPLICATED, Plan
from benchkit.suites.auto_shard.workloads import Workload

CREATE, COMPUTE, COMMUNICATE, FETCH = "create", "compute", "communicate", "fetch"
PHASES = (CREATE, COMPUTE, COMMUNICATE, FETCH)
"""Of a step end to end; where operands and result stay where they are, the two in the middle."""


@dataclass
class Program:
    """One rank's side. A step creates its operands where `end_to_end`, else finds them there, and runs the chain.

    Subclasses say how operands lie, how the chain runs and how a result is fetched. After a step `output` is what this
    rank has of the result, its part as `produced` says, or None.
    """

    workload: Workload
    plan: Plan
    device: torch.device
    dtype: torch.dtype
    index: int
    seed: int
    end_to_end: bool
    source: Source = field(init=False)
    held: list[Tensor] = field(init=False, default_factory=list)
    output: Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.turns = count()
        generator = torch.Generator(self.device).manual_seed(hash((self.seed, self.index)) % 2**63)
        self.random = Random(self.workload, generator, self.dtype)
        self.load(self.random)

    def load(self, source: Source) -> None:
        """Takes operands from another source, and puts those there that a step does not create."""
        self.source, self.held, self.output = source, [], None
        created = self.num_created()
        self.held = [self.operand(number) for number in range(created, 1 + len(self.plan.layers))]

    def num_created(self) -> int:
        """How many operands a step creates itself: none, the input, or all."""
        if not self.end_to_end:
            return 0
        return 1 + len(self.plan.layers) if self.workload.creates_weights else 1

    def step(self) -> None:
        """Computing and communicating; end to end also creating the operands before and fetching the result after."""
        self.output = None  # a step needs no room for two
        with torch.no_grad():
            if not self.end_to_end:
                self.output = self.run(self.held)
                return
            with region(CREATE):
                created = [self.operand(number) for number in range(self.num_created())]
                self.all_created()
            output = self.run([*created, *self.held])
            with region(FETCH):
                self.output = self.fetch(output)

    def operand(self, number: int) -> Tensor:
        """This rank's part of an operand, 0 being the input."""
        return self.source(number, self.part(self.shape(number), self.layout_at_rest(number)))

    def all_created(self) -> None:
        """Called when a step has created its operands."""

    def run(self, operands: list[Tensor]) -> Tensor:
        """The chain."""
        with region(COMPUTE):
            x = operands[0]
            if not self.workload.weights:
                return x.relu() * 2
            for weight in operands[1:]:
                x = self.activated(x @ weight)
            return x

    def activated(self, x: Tensor) -> Tensor:
        return x.relu() if self.workload.activation else x

    def fetch(self, output: Tensor) -> Tensor | None:
        """The whole result in the first rank's host memory; None elsewhere."""
        return output.cpu()

    def shape(self, number: int) -> tuple[int, int]:
        """Of an operand as a whole."""
        return self.workload.weights[number - 1] if number else (self.workload.rows, self.workload.widths[0])

    def layout_at_rest(self, number: int) -> str:
        return self.plan.layers[number - 1].weight_at_rest if number else self.plan.at_start

    def part(self, shape: tuple[int, int], layout: str) -> Part:
        return part_of(shape, layout, self.plan.devices, self.index)

    def produced(self) -> Part:
        """What `output` is of the result."""
        return self.part(self.workload.output, REPLICATED if self.end_to_end else self.plan.layout)

    def verify(self) -> None:
        """Runs a step on exact operands of this turn alone; raises InvalidResult where an element is wrong."""
        exact = Exact(self.workload, self.device, self.dtype, self.seed, next(self.turns))
        self.load(exact)
        try:
            self.step()
            if self.output is not None:
                exact.require(self.result(self.output), self.produced())
        finally:
            self.load(self.random)

    def result(self, output: Tensor) -> Tensor:
        """An output as a plain tensor."""
        return output
