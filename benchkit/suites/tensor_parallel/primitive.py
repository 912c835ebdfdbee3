"""The cases of a tensor-parallel product: shared memory, checks of every element, and bounds."""

import functools
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.case import Case, Components, Rank
from benchkit.api.regions import COMPUTE, WAIT
from benchkit.errors import Unavailable
from benchkit.suites.tensor_parallel import operands, references
from benchkit.suites.tensor_parallel.buffers import in_turns
from benchkit.suites.tensor_parallel.config import TensorParallelConfig
from benchkit.suites.tensor_parallel.implementation import Implementation
from benchkit.suites.tensor_parallel.names import BOUNDS, COMPUTE_ONLY, DEFAULT
from benchkit.suites.tensor_parallel.operands import Factory, Shards
from benchkit.suites.tensor_parallel.references import Options, labels_of

TIMED = -1
"""The turn whose matrices are timed; checks draw others."""


class Primitive:
    """One rank's part of a job.

    Every rank draws the same whole matrices and keeps its parts of them. A primitive defines what
    it allocates, how much that is, what it loads, and how it builds an implementation.
    """

    baseline: ClassVar[Options] = {}
    """Options of the implementation that the others are compared with, on any backend."""

    def __init__(self, config: TensorParallelConfig, rank: Rank, chosen: Sequence[Options]) -> None:
        self.rank = rank
        self.inputs = config.inputs
        self.chosen = chosen
        self.backend = config.backend.name
        self.shape = config.m, config.n, config.k
        self.flops = 2.0 * config.m * config.n * config.k
        self.dtype = getattr(torch, config.dtype)
        self.rows = Shards(config.m, rank.world_size)
        self.factory = Factory(*self.shape, rank.seed)
        self.needs_whole = {"implementation": COMPUTE_ONLY, "size": "unsharded"} in chosen
        self.turns = count()

    def allocate(self) -> None:
        """Allocates the operands."""
        raise NotImplementedError

    def numbers(self) -> tuple[int, int]:
        """Returns the number of elements of the operands and of scratch memory."""
        raise NotImplementedError

    def load(self, a: Tensor, b: Tensor) -> None:
        """Copies this rank's parts of whole A and B to where all implementations read them."""
        raise NotImplementedError

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        """Builds one implementation, or raises Unavailable where it cannot run."""
        raise NotImplementedError

    def step(self, options: Options, job: Any) -> Callable[[], object]:
        """Builds the step of an implementation with fixed options."""
        raise NotImplementedError

    def timed_s(self, choices: Sequence[Options], job: Any) -> list[float]:
        """Returns the seconds of each choice on the slowest rank.

        The choices take turns and use the same scratch memory.
        """
        steps = [self.step(options, in_turns(job)) for options in choices]
        return list(map(max, self.rank.seconds_of(*steps)))

    def new(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.rank.device)

    def on_device(self, values: Tensor) -> Tensor:
        return values.to(self.rank.device, self.dtype)

    def cases(self) -> list[Case]:
        """Returns a case for each choice; all are skipped if memory is short."""
        num_operands, num_scratch = self.numbers()
        m, n, k = self.shape
        drawn_bytes = 5 * (m * k + k * n)  # per element 4 to time and 1 to check, on the host
        check_bytes = 8 * (m * k + k * n + m * n)  # in float64
        needed_bytes = (num_operands + num_scratch) * self.dtype.itemsize + check_bytes
        if shortage := self.rank.memory_shortage(needed_bytes, drawn_bytes):
            return [Case(labels=labels_of(options), skip=shortage) for options in self.chosen]
        self.allocate()
        self.scratch_memory = self.new(num_scratch)
        self.load(*self.timed)
        built = [(options, self.attempt(options)) for options in self.chosen]
        cases: dict[int, Case] = {}
        for index in sorted(range(len(built)), key=lambda index: self.order(self.chosen[index])):
            there = [case for case in cases.values() if not case.unavailable]
            cases[index] = self.case(*built[index], there)
        return [cases[index] for index in range(len(built))]

    def order(self, options: Options) -> int:
        """Returns 0 for a bound and 1 for a baseline: cases are built after those they refer to."""
        if options["implementation"] in BOUNDS:
            return 0
        return 1 if references.is_on_a_backend(labels_of(options), self.baseline) else 2

    def attempt(self, options: Options) -> Implementation | str:
        """Builds one implementation, or returns why it cannot run here."""
        try:
            group = self.rank.group(str(options.get("backend", DEFAULT)))
            built = self.build(options, group)
        except Unavailable as error:
            return str(error)
        built.prepare()
        return built

    def case(self, options: Options, built: Implementation | str, there: Sequence[Case]) -> Case:
        """Builds the case of one implementation.

        Args:
            options: of the implementation.
            built: the implementation, or why it cannot run here.
            there: the cases built before that can run here, no baseline among them for a bound.
        """
        labels = labels_of(options)
        if isinstance(built, str):
            return Case(labels=labels, unavailable=built)
        return Case(
            step=built.step,
            labels=labels,
            verify=functools.partial(self.verify, built),
            work=built.work,
            regions=(COMPUTE, WAIT),
            details=lambda: built.details,
            components=self.components(built, there),
            is_component=options["implementation"] in BOUNDS,
            baseline=references.baseline_of(labels, self.baseline, there, self.backend),
        )

    def components(self, built: Implementation, there: Sequence[Case]) -> Components:
        """Returns the bounds that can run here; one rank sends nothing and has none."""
        if built.parts is None or self.rank.world_size == 1:
            return Components()
        wanted = map(labels_of, built.parts)
        return Components(*(references.counterpart(part, there, self.backend) for part in wanted))

    def verify(self, built: Implementation) -> None:
        """Runs on new matrices and checks the output.

        With exact inputs every element is checked, and with real numbers sampled rows.
        """
        turn = next(self.turns)
        self.scratch_memory.fill_(float("nan"))
        if built.verify is not None:
            return built.verify(turn)
        assert built.output is not None
        a, b = self.factory.exact(turn) if self.inputs == "exact" else self.factory.real(turn)
        built.output().fill_(float("nan"))
        self.load(a, b)
        built.prepare()
        built.step()
        try:
            exact = self.inputs == "exact"
            check = operands.require_exact if exact else operands.require_close
            check(built.output(), *built.factors(a, b), seed=turn)
        finally:
            self.load(*self.timed)
            built.prepare()
        return None

    @functools.cached_property
    def timed(self) -> tuple[Tensor, Tensor]:
        """The timed matrices: real numbers in either mode, since a GPU multiplies zeros faster."""
        return self.factory.real(TIMED)
