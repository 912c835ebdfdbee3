"""A workload as one rank runs it: its operands, the phases of a step, the check of the result."""

from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from benchkit.api.case import Call
from benchkit.api.regions import region
from benchkit.errors import InvalidResult
from benchkit.suites.auto_shard.layouts import REPLICATED, Layout
from benchkit.suites.auto_shard.names import COMPUTE, CREATE, FETCH
from benchkit.suites.auto_shard.operands import Exact, Part, Random, Source, part_of
from benchkit.suites.auto_shard.plans import Plan
from benchkit.suites.auto_shard.workloads import Workload


@dataclass
class Program:
    """One rank's part of a workload.

    Subclasses define how operands lie, how the chain runs and how a result is fetched.

    Attributes:
        workload: the chain of products.
        plan: how it is sharded.
        device: the device of this rank.
        dtype: of all operands.
        index: which device of the plan this is.
        seed: determines the operands.
        end_to_end: whether a step creates its operands; otherwise they are there beforehand.
        source: where operands come from.
        held: this rank's parts of the operands that a step does not create.
        output: after a step, this rank's part of the result, as produced() describes, or None.
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
        """Takes operands from another source; those that a step does not create stay in place."""
        self.source = source
        self.output = None
        for index, number in enumerate(range(self.num_created(), 1 + len(self.plan.layers))):
            operand = self.operand(number)
            if index == len(self.held):
                self.held.append(operand)
            else:
                self.result(self.held[index]).copy_(self.result(operand))

    def num_created(self) -> int:
        """Counts the operands that a step creates itself: none, the input, or all."""
        return self.workload.num_created if self.end_to_end else 0

    def step(self) -> None:
        """Computes and communicates; end to end also creates operands and fetches the result."""
        self.output = None  # so that a step needs no memory for two results
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
        """Returns this rank's part of an operand; operand 0 is the input."""
        return self.source(number, self.part(self.shape(number), self.plan.at_rest[number]))

    def all_created(self) -> None:
        """Is called when a step has created its operands."""

    def run(self, operands: list[Tensor]) -> Tensor:
        """Runs the chain and returns this rank's part of its output."""
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
        """Returns the whole result in the first rank's host memory; None elsewhere."""
        return output.cpu()

    def shape(self, number: int) -> tuple[int, int]:
        """Returns the shape of a whole operand."""
        if number == 0:
            return self.workload.rows, self.workload.widths[0]
        return self.workload.weights[number - 1]

    def part(self, shape: tuple[int, int], layout: Layout) -> Part:
        return part_of(shape, layout, self.plan.devices, self.index)

    def produced(self) -> Part:
        """Returns which part of the result `output` is."""
        return self.part(self.workload.output, REPLICATED if self.end_to_end else self.plan.layout)

    def verify(self, call: Call) -> None:
        """Makes a call on exact operands that are new in each turn.

        Raises:
            InvalidResult: an element of the output is wrong.
        """
        exact = Exact(self.workload, self.device, self.dtype, self.seed, next(self.turns))
        self.load(exact)
        try:
            call(self.spoil)
            if self.output is None and not (self.end_to_end and self.index):
                raise InvalidResult("the call left no output")
            if self.output is not None:
                exact.require(self.result(self.output), self.produced())
        finally:
            self.load(self.random)

    def spoil(self) -> None:
        """Overwrites the output of an earlier step, which must not be the output again."""
        if self.output is not None:
            self.result(self.output).fill_(float("nan"))
        self.output = None

    def result(self, output: Tensor) -> Tensor:
        """Returns this rank's part of an output or an operand as a plain tensor."""
        return output
