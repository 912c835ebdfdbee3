"""The cases of a tensor-parallel product: shared memory, checks of every element, and bounds."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api import torch_internals
from benchkit.api.capture import CapturableStep
from benchkit.api.case import Call, Case, Components, Rank
from benchkit.api.float8 import FLOAT8_STEP
from benchkit.api.gather import first_reason
from benchkit.api.products import matmul_of
from benchkit.api.regions import COMPUTE, WAIT
from benchkit.errors import Unavailable
from benchkit.suites.tensor_parallel import memory, operands, references
from benchkit.suites.tensor_parallel.buffers import in_turns
from benchkit.suites.tensor_parallel.config import WHOLE, TensorParallelConfig
from benchkit.suites.tensor_parallel.implementation import Implementation
from benchkit.suites.tensor_parallel.names import BOUNDS, COMPUTE_ONLY, DEFAULT
from benchkit.suites.tensor_parallel.operands import Factory, Shards
from benchkit.suites.tensor_parallel.references import Options, labels_of

TIMED = -1
"""The turn whose matrices are timed; checks draw others."""


NAN_BYTE = 0xFF
"""A floating-point number all of whose bytes are this one is NaN in every dtype."""


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
        self.dtype = config.dtype
        self.matmul = matmul_of(config.dtype, rank.device)
        self.rows = Shards(config.m, rank.world_size)
        self.factory = Factory(*self.shape, rank.seed)
        self.needs_whole = WHOLE in chosen
        self.turns = count()

    def allocate(self) -> None:
        """Allocates the operands."""
        raise NotImplementedError

    def nbytes(self) -> tuple[int, int]:
        """Returns the bytes of the operands and of scratch memory."""
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

    def cases(self) -> list[Case]:
        """Returns a case for each choice; all are skipped if memory is short."""
        if lacking := self.lacking():
            return [Case(labels=labels_of(options), unavailable=lacking) for options in self.chosen]
        operand_bytes, scratch_bytes = self.nbytes()
        needed_bytes = operand_bytes + scratch_bytes + memory.checking_bytes(self.shape)
        if shortage := self.rank.memory_shortage(needed_bytes, memory.drawn_bytes(self.shape)):
            return [Case(labels=labels_of(options), skip=shortage) for options in self.chosen]
        self.allocate()
        self.scratch_memory = torch.zeros(scratch_bytes, dtype=torch.uint8, device=self.rank.device)
        self.load(*self.timed)
        built = [(options, self.attempt(options)) for options in self.chosen]
        cases: dict[int, Case] = {}
        for index in sorted(range(len(built)), key=lambda index: self.order(self.chosen[index])):
            there = [case for case in cases.values() if not case.unavailable]
            cases[index] = self.case(*built[index], there)
        return [cases[index] for index in range(len(built))]

    @property
    def inner(self) -> slice:
        """This rank's columns of A, and rows of B."""
        return slice(0, self.shape[2])

    def lacking(self) -> str:
        """Returns why a rank cannot multiply matrices of this dtype; "" if all can."""
        if not self.matmul.is_float8:
            return ""
        width = self.inner.stop - self.inner.start
        reason = torch_internals.float8_matmul_missing(self.matmul.device)
        if width % FLOAT8_STEP:
            reason = f"a rank has {width} columns of A; float8 needs a multiple of {FLOAT8_STEP}"
        return first_reason(reason)

    def order(self, options: Options) -> int:
        """Returns 0 for a bound and 1 for a baseline: cases are built after those they refer to."""
        if options["implementation"] in BOUNDS:
            return 0
        return 1 if references.is_on_a_backend(labels_of(options), self.baseline) else 2

    def attempt(self, options: Options) -> Implementation | str:
        """Builds one implementation, or returns why it cannot run here."""
        backend = str(options.get("backend", DEFAULT))
        try:
            built = self.build(options, self.rank.group(backend))
        except Unavailable as error:
            return str(error)
        built.prepare()
        over = "" if options["implementation"] == COMPUTE_ONLY else backend
        return replace(built, step=CapturableStep(built.step, over))

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
            details=lambda: {**self.matmul.details, **built.details},
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

    def verify(self, built: Implementation, call: Call) -> None:
        """Runs on new matrices and checks the output.

        With exact inputs every element is checked, and with real numbers sampled rows.
        """
        turn = next(self.turns)

        def on_poisoned_scratch(prepare: Callable[[], object]) -> Any:
            def prepare_all() -> None:
                self.scratch_memory.fill_(NAN_BYTE)
                prepare()

            return call(prepare_all)

        if built.verify is not None:
            return built.verify(turn, on_poisoned_scratch)
        output = built.output
        assert output is not None
        exact, draw = self.inputs == "exact", self.factory
        a, b = draw.exact(turn) if exact else draw.rounded(turn, self.matmul.dtype)
        self.load(a, b)
        built.prepare()
        on_poisoned_scratch(lambda: output().fill_(float("nan")))
        try:
            check = operands.require_exact if exact else operands.require_close
            check(output(), *built.factors(a, b), seed=turn)
        finally:
            self.load(*self.timed)
            built.prepare()
        return None

    @functools.cached_property
    def timed(self) -> tuple[Tensor, Tensor]:
        """The timed matrices: real numbers in either mode, since a GPU multiplies zeros faster."""
        return self.factory.real(TIMED)
