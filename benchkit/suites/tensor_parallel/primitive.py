"""Base of both tensor-parallel products: buffers, and cases with their bounds and checks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any, ClassVar, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.case import Call, CapturableStep, Case, Components, Details, Rank, Work, noop
from benchkit.api.p2p import first_reason
from benchkit.api.products import float8_missing, matmul_of, multiply
from benchkit.api.regions import COMPUTE, WAIT
from benchkit.api.sizes import FLOAT8_STEP
from benchkit.errors import Reason, Unavailable
from benchkit.suites.tensor_parallel import operands
from benchkit.suites.tensor_parallel.chooser import Probe, Step, choose_for
from benchkit.suites.tensor_parallel.config import (
    AUTO,
    BOUNDS,
    COMM_BACKEND,
    COMPUTE_ONLY,
    DEFAULT,
    WHOLE,
    Options,
    TensorParallelConfig,
    checking_bytes,
)
from benchkit.suites.tensor_parallel.operands import Factory, Scratch, Shards

Labels = Mapping[str, str | int | float]


def resolve_backend(labels: Labels, job_backend: str) -> Labels:
    return {**labels, COMM_BACKEND: job_backend} if labels.get(COMM_BACKEND) == DEFAULT else labels


def counterpart(wanted: Labels, candidates: Sequence[Case], job_backend: str) -> Case | None:
    """Return the case of these labels; an exact match wins over the job's own backend."""
    resolved = resolve_backend(wanted, job_backend)
    matches = [case for case in candidates if resolve_backend(case.labels, job_backend) == resolved]
    return min(matches, key=lambda case: case.labels != wanted, default=None)


def baseline_of(
    labels: Labels, baseline: Options, candidates: Sequence[Case], job_backend: str
) -> Case | None:
    """Return the baseline on an implementation's own backend, else the first; None for a baseline.

    `baseline` has its options without the backend.
    """
    if is_on_a_backend(labels, baseline):
        return None
    on_backends = [case for case in candidates if is_on_a_backend(case.labels, baseline)]
    wanted = {**baseline, COMM_BACKEND: labels.get(COMM_BACKEND, DEFAULT)}
    return counterpart(wanted, on_backends, job_backend) or next(iter(on_backends), None)


def is_on_a_backend(labels: Labels, baseline: Options) -> bool:
    return {name: value for name, value in labels.items() if name != COMM_BACKEND} == baseline


def labels_of(options: Options) -> Options:
    return {COMM_BACKEND if name == "backend" else name: value for name, value in options.items()}


Handle = Any
Factors = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, int]]


def whole_factors(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, int]:
    return a, b, 0


@dataclass(frozen=True)
class Implementation:
    """One implementation, ready to run.

    Attributes:
        factors: returns, for whole A and B, the two matrices whose product the output is, and the
            first of its rows in C.
        parts: the options of its bounds, computation and communication.
        verify: checks a turn instead of `output` and `factors`; its call is prepared further, after
            scratch memory was poisoned.
        prepare: called after new operands were loaded.
    """

    step: Step
    work: Work
    output: Callable[[], Tensor] | None = None
    factors: Factors = whole_factors
    parts: tuple[Options, Options] | None = None
    details: Details = field(default_factory=dict)
    verify: Callable[[int, Call], None] | None = None
    prepare: Callable[[], object] = noop


@dataclass(frozen=True)
class ProductBuffers:
    rows: Shards
    rank: int
    group: dist.ProcessGroup | None
    a: Tensor
    b: Tensor
    c: Tensor
    scratch: Scratch
    matmul: Callable[[Tensor, Tensor, Tensor], object] = multiply


AnyBuffers = TypeVar("AnyBuffers", bound=ProductBuffers)


def share_scratch(job: AnyBuffers) -> AnyBuffers:
    """Return the buffers for one of several steps that use the same scratch memory in turn."""
    return replace(job, scratch=Scratch(job.scratch.memory))


def chunks_of(rows: int, count: int) -> list[slice]:
    """Divide rows into at most `count` nearly equal pieces, none of them empty."""
    pieces = Shards(rows, min(count, rows))
    return [pieces.of(i) for i in range(pieces.world_size)]


TIMED = -1  # the turn whose matrices are timed; checks draw others


NAN_BYTE = 0xFF
"""A floating-point number of these bytes is NaN in every dtype."""


class Primitive:
    """One rank's part of a job. Every rank draws the same whole matrices and keeps its parts.

    A subclass is one product. Its methods take its own buffers (`job`) and build its `part` of the
    product, its `communication`, and the whole `product` or a `step` of it; `auto` measures its
    `probes` and tries its `kinds`.
    """

    baseline: ClassVar[Options] = {}
    """Options of the implementation that the others are compared with, on any backend."""
    whole: tuple[Tensor, Tensor, Tensor]
    job: Callable[[dist.ProcessGroup | None], Any]
    part: Callable[[Any], Implementation]
    communication: Callable[[Any, Options], Implementation]
    product: Callable[[Any, Options, Details], Implementation]
    step: Callable[[Options, Any], Step]
    probes: Callable[[Any], tuple[Probe, Probe, Probe]]
    kinds: Callable[[str], Iterable[tuple[Options, float, float]]]

    def __init__(self, config: TensorParallelConfig, rank: Rank, chosen: Sequence[Options]) -> None:
        self.rank = rank
        self.inputs = config.inputs
        self.chosen = chosen
        self.backend = config.backend.name
        self.shape = config.m, config.n, config.k
        self.flops = 2.0 * config.m * config.n * config.k
        self.matmul = matmul_of(config.dtype, rank.device)
        self.rows = Shards(config.m, rank.world_size)
        self.factory = Factory(*self.shape, rank.seed, rank.device)
        self.needs_whole = WHOLE in chosen
        self.memory_bytes = config.operand_bytes(rank.world_size, self.needs_whole)
        self.turns = count()

    def allocate(self) -> None:
        """Allocate what all implementations read and write, and `whole` where it is needed."""
        raise NotImplementedError

    def load(self, a: Tensor, b: Tensor) -> None:
        """Copy this rank's parts of whole A and B to where all implementations read them."""
        raise NotImplementedError

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        """Build an implementation; raise Unavailable where it cannot run."""
        job, kind = self.job(group), options["implementation"]
        if kind == COMPUTE_ONLY:
            return self.whole_product() if options == WHOLE else self.part(job)
        if kind in BOUNDS:
            return self.communication(job, options)
        details: Details = {}
        if kind == AUTO:
            options, details = choose_for(
                self.rank.seconds_of,
                self.probes(job),
                self.kinds(str(options["backend"])),
                lambda tried: self.step(tried, share_scratch(job)),
            )
        return self.product(job, options, details)

    def whole_product(self) -> Implementation:
        """Build the product of all of A and B, without communication."""
        a, b, c = self.whole
        work = Work(useful_flops=self.flops, executed_flops=self.flops * self.rank.world_size)
        return Implementation(partial(self.matmul.multiply, a, b, c), work, lambda: c)

    def work_of_part(self) -> Work:
        """Return the work of this rank's part of the product."""
        return Work(useful_flops=self.flops / self.rank.world_size, executed_flops=self.flops)

    def drawing(
        self, draw: Callable[..., Tensor], op: str, dtype: torch.dtype, columns: int
    ) -> Callable[..., Tensor]:
        """Bind `draw`, a function of `verification`, to this rank's padded rows."""
        return partial(
            draw,
            seed=self.rank.seed,
            world_size=self.rank.world_size,
            dtype=dtype,
            op=op,
            length=self.rows.most * columns,
        )

    def cases(self) -> list[Case]:
        if lacking := self.lacking():
            return [Case(labels=labels_of(options), unavailable=lacking) for options in self.chosen]
        operand_bytes, scratch_bytes = self.memory_bytes
        needed_bytes = operand_bytes + scratch_bytes + checking_bytes(self.shape, self.inputs)
        if shortage := self.rank.memory_shortage(needed_bytes):
            return [Case(labels=labels_of(options), skip=shortage) for options in self.chosen]
        self.allocate()
        self.scratch_memory = torch.zeros(scratch_bytes, dtype=torch.uint8, device=self.rank.device)
        self.load(*self.timed_operands)
        built = [(options, self.attempt(options)) for options in self.chosen]
        cases: dict[int, Case] = {}
        for index in sorted(range(len(built)), key=lambda index: self.order(self.chosen[index])):
            built_cases = [case for case in cases.values() if not case.unavailable]
            cases[index] = self.case(*built[index], built_cases)
        return [cases[index] for index in range(len(built))]

    @property
    def inner(self) -> slice:
        """The columns of A that this rank multiplies."""
        return slice(0, self.shape[2])

    def lacking(self) -> Reason:
        if not self.matmul.is_float8:
            return ""
        width = self.inner.stop - self.inner.start
        reason = float8_missing(self.matmul)
        if width % FLOAT8_STEP:
            reason = f"a rank has {width} columns of A; float8 needs a multiple of {FLOAT8_STEP}"
        return first_reason(reason)

    def order(self, options: Options) -> int:
        if options["implementation"] in BOUNDS:
            return 0
        return 1 if is_on_a_backend(labels_of(options), self.baseline) else 2

    def attempt(self, options: Options) -> Implementation | str:
        backend = str(options.get("backend", DEFAULT))
        try:
            built = self.build(options, self.rank.group(backend))
        except Unavailable as error:
            return str(error)
        built.prepare()
        capture_backend = "" if options["implementation"] == COMPUTE_ONLY else backend
        return replace(built, step=CapturableStep(built.step, capture_backend))

    def case(
        self, options: Options, built: Implementation | str, built_cases: Sequence[Case]
    ) -> Case:
        """Build the case of one implementation, or of why it cannot run here.

        `built_cases` are the cases built before that can run; a bound's have no baseline.
        """
        labels = labels_of(options)
        if isinstance(built, str):
            return Case(labels=labels, unavailable=built)
        return Case(
            step=built.step,
            labels=labels,
            verify=partial(self.verify, built),
            work=built.work,
            regions=(COMPUTE, WAIT),
            details=lambda: {**self.matmul.details, **built.details},
            components=self.components(built, built_cases),
            is_component=options["implementation"] in BOUNDS,
            baseline=baseline_of(labels, self.baseline, built_cases, self.backend),
            unchecked="" if built.verify else self.describe_unchecked(options),
        )

    def describe_unchecked(self, options: Options) -> str:
        """Return what the check of a product does not cover, or ""."""
        return "" if self.inputs == "exact" else operands.UNSAMPLED

    def components(self, built: Implementation, built_cases: Sequence[Case]) -> Components:
        """Return the bounds that can run here; one rank sends nothing and has none."""
        if built.parts is None or self.rank.world_size == 1:
            return Components()
        wanted = map(labels_of, built.parts)
        return Components(*(counterpart(part, built_cases, self.backend) for part in wanted))

    def verify(self, built: Implementation, call: Call) -> None:
        """Run on new matrices; check all rows of exact inputs, sampled ones of real numbers."""
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
            self.load(*self.timed_operands)
            built.prepare()
        return None

    @cached_property
    def timed_operands(self) -> tuple[Tensor, Tensor]:
        """The timed matrices: always real numbers, since a GPU multiplies zeros faster."""
        return self.factory.real(TIMED)
