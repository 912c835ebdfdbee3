"""The cases of a tensor-parallel product: memory that they share, checks of every element, bounds to compare with."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.case import Case, Parts, Rank, Work, noop
from benchkit.api.regions import COMPUTE, WAIT
from benchkit.errors import Unavailable
from benchkit.suites.tensor_parallel.config import TensorParallelConfig
from benchkit.suites.tensor_parallel.operands import Factory, Scratch, Shards, require_close, require_exact
from benchkit.suites.tensor_parallel.references import Options, baseline_of, counterpart, labels_of, name_of

Details = Mapping[str, Any]
BOUNDS = ("compute_only", "comm_only", "p2p_comm_only")
TIMED = -1
"""The turn whose matrices are timed; checks draw others."""


@dataclass(frozen=True)
class Buffers:
    """What an implementation works with on one rank; each primitive says what a, b and c are to it."""

    rows: Shards
    rank: int
    group: dist.ProcessGroup | None
    a: Tensor
    b: Tensor
    c: Tensor
    scratch: Scratch


@dataclass(frozen=True)
class Implementation:
    """One implementation, ready to run.

    output: where `step` leaves what is checked. prepare: called after new operands were loaded. factors: of whole A and
    B, the two whose product the output is, and the first of its rows in C. verify: instead of these, checks a turn by
    itself. parts: the options of its bounds, computation and communication.
    """

    step: Callable[[], object]
    work: Work
    output: Callable[[], Tensor] | None = None
    factors: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, int]] = lambda a, b: (a, b, 0)
    parts: tuple[Options, Options] | None = None
    details: Details = field(default_factory=dict)
    verify: Callable[[int], None] | None = None
    prepare: Callable[[], object] = noop


class Primitive:
    """One rank's side of a job: whole matrices are drawn everywhere alike, and each rank keeps its parts of them.

    A primitive says what it allocates, how much that is, what it loads, and how it builds an implementation.
    """

    baseline: ClassVar[Options] = {}
    """What the others are compared with, on whichever backend."""

    def __init__(self, config: TensorParallelConfig, rank: Rank, chosen: Sequence[Options]) -> None:
        self.rank, self.inputs, self.chosen = rank, config.inputs, chosen
        self.backend = config.backend.name
        self.shape = config.m, config.n, config.k
        self.flops = 2.0 * config.m * config.n * config.k
        self.dtype = getattr(torch, config.dtype)
        self.rows = Shards(config.m, rank.world_size)
        self.factory = Factory(*self.shape, rank.seed)
        self.needs_whole = {"implementation": "compute_only", "size": "unsharded"} in chosen
        self.turns = count()

    def allocate(self) -> None:
        """Makes the operands."""
        raise NotImplementedError

    def numbers(self) -> tuple[int, int]:
        """Elements of the operands and of scratch memory."""
        raise NotImplementedError

    def load(self, a: Tensor, b: Tensor) -> None:
        """Puts this rank's parts of whole A and B where all implementations read them."""
        raise NotImplementedError

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        """One implementation; raises Unavailable where it cannot run here."""
        raise NotImplementedError

    def step(self, options: Options, job: Any) -> Callable[[], object]:
        """What a fixed choice does."""
        raise NotImplementedError

    def timed_s(self, choices: Sequence[Options], job: Any) -> list[float]:
        """The time of each, in turns, on the slowest rank; all in the same scratch memory."""
        steps = []
        for options in choices:
            self.scratch.used = 0
            steps.append(self.step(options, job))
        self.scratch.used = 0
        return list(map(max, self.rank.seconds_of(*steps)))

    def new(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.rank.device)

    def on_device(self, values: Tensor) -> Tensor:
        return values.to(self.rank.device, self.dtype)

    def cases(self) -> list[Case]:
        """One per choice; all are skipped where memory is short."""
        operands, scratch = self.numbers()
        m, n, k = self.shape
        checking = 13 * (m * k + k * n) + 8 * m * n  # A and B as drawn, 4 to time, 1 to check; and all in float64
        if shortage := self.rank.memory_shortage((operands + scratch) * self.dtype.itemsize + checking):
            return [Case(labels=labels_of(options), name=name_of(options), skip=shortage) for options in self.chosen]
        self.allocate()
        self.scratch = Scratch(self.new(scratch))
        self.load(*self.timed)
        built = [self.attempt(options) for options in self.chosen]
        there = [options for options, each in zip(self.chosen, built, strict=True) if isinstance(each, Implementation)]
        return [self.case(options, each, there) for options, each in zip(self.chosen, built, strict=True)]

    def attempt(self, options: Options) -> Implementation | str:
        """One implementation, or why it cannot run here."""
        try:
            group = self.rank.group(str(options.get("backend", "default")))
            self.scratch.used = 0
            built = self.build(options, group)
        except Unavailable as error:
            return str(error)
        built.prepare()
        return built

    def case(self, options: Options, built: Implementation | str, there: Sequence[Options]) -> Case:
        """The case of one implementation. there: the options of all that can run here."""
        if isinstance(built, str):
            return Case(labels=labels_of(options), name=name_of(options), unavailable=built)
        bound = options["implementation"] in BOUNDS
        baseline = None if bound else baseline_of(options, self.baseline, there, self.backend)
        return Case(
            step=built.step,
            labels=labels_of(options),
            verify=functools.partial(self.verify, built),
            work=built.work,
            regions=(COMPUTE, WAIT),
            details=lambda: built.details,
            name=name_of(options),
            parts=self.parts(built, there),
            bound=bound,
            against=name_of(baseline),
        )

    def parts(self, built: Implementation, there: Sequence[Options]) -> Parts:
        """The bounds that can run here; none on one rank, which sends nothing."""
        if built.parts is None or self.rank.world_size == 1:
            return Parts()
        return Parts(*(name_of(counterpart(part, there, self.backend)) for part in built.parts))

    def verify(self, built: Implementation) -> None:
        """Runs on matrices of this turn alone and checks every element, or sampled rows of real numbers."""
        turn = next(self.turns)
        self.scratch.memory.fill_(float("nan"))
        if built.verify is not None:
            return built.verify(turn)
        assert built.output is not None
        a, b = self.factory.exact(turn) if self.inputs == "exact" else self.factory.real(turn)
        built.output().fill_(float("nan"))
        self.load(a, b)
        built.prepare()
        built.step()
        try:
            check = require_exact if self.inputs == "exact" else require_close
            check(built.output(), *built.factors(a, b), seed=turn)
        finally:
            self.load(*self.timed)
            built.prepare()
        return None

    @functools.cached_property
    def timed(self) -> tuple[Tensor, Tensor]:
        """What is timed: real numbers in either mode, since a GPU multiplies zeros faster."""
        return self.factory.real(TIMED)
