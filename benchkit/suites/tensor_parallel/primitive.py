"""What both tensor-parallel products share: buffers, checks, bounds, and the choice `auto`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from benchkit.api.case import (
    PREDICTED_S,
    Call,
    CapturableStep,
    Case,
    Components,
    Details,
    Rank,
    SecondsOf,
    Work,
    noop,
)
from benchkit.api.p2p import first_reason
from benchkit.api.products import float8_missing, matmul_of, multiply
from benchkit.api.regions import COMPUTE, WAIT
from benchkit.api.sizes import FLOAT8_STEP
from benchkit.errors import Reason, Unavailable
from benchkit.suites.tensor_parallel import operands
from benchkit.suites.tensor_parallel.config import (
    AUTO,
    BOUNDS,
    CHOSEN,
    CHUNKS,
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


def over(labels: Labels, job_backend: str) -> Labels:
    return {**labels, COMM_BACKEND: job_backend} if labels.get(COMM_BACKEND) == DEFAULT else labels


def counterpart(wanted: Labels, there: Sequence[Case], job_backend: str) -> Case | None:
    """Return the case of these labels; an exact match wins over the job's own backend."""
    resolved = over(wanted, job_backend)
    same = [case for case in there if over(case.labels, job_backend) == resolved]
    return min(same, key=lambda case: case.labels != wanted, default=None)


def baseline_of(
    labels: Labels, baseline: Options, there: Sequence[Case], job_backend: str
) -> Case | None:
    """Return the baseline on an implementation's own backend, else the first; None for a baseline.

    `baseline` has its options without the backend.
    """
    if is_on_a_backend(labels, baseline):
        return None
    on_backends = [case for case in there if is_on_a_backend(case.labels, baseline)]
    wanted = {**baseline, COMM_BACKEND: labels.get(COMM_BACKEND, DEFAULT)}
    return counterpart(wanted, on_backends, job_backend) or next(iter(on_backends), None)


def is_on_a_backend(labels: Labels, baseline: Options) -> bool:
    return {name: value for name, value in labels.items() if name != COMM_BACKEND} == baseline


def labels_of(options: Options) -> Options:
    return {COMM_BACKEND if name == "backend" else name: value for name, value in options.items()}


Step = Callable[[], object]
Handle = Any
Probe = tuple[float, Step]  # bytes or operations of a call, and the call
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


def in_turns(job: AnyBuffers) -> AnyBuffers:
    """Return the buffers for one of several steps that use one scratch memory in turns."""
    return replace(job, scratch=Scratch(job.scratch.memory))


def chunks_of(rows: int, count: int) -> list[slice]:
    """Divide rows into at most `count` nearly equal pieces, none of them empty."""
    pieces = Shards(rows, min(count, rows))
    return [pieces.of(i) for i in range(pieces.world_size)]


TIMED = -1  # the turn whose matrices are timed; checks draw others


NAN_BYTE = 0xFF
"""A floating-point number of these bytes is NaN in every dtype."""


class Primitive(Generic[AnyBuffers]):
    """One rank's part of a job. Every rank draws the same whole matrices and keeps its parts."""

    baseline: ClassVar[Options] = {}
    """Options of the implementation that the others are compared with, on any backend."""
    whole: tuple[Tensor, Tensor, Tensor]

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
        self.factory = Factory(*self.shape, rank.seed, rank.device)
        self.needs_whole = WHOLE in chosen
        self.turns = count()

    def allocate(self) -> None:
        """Allocate what all implementations read and write, and `whole` where it is needed."""
        raise NotImplementedError

    def nbytes(self) -> tuple[int, int]:
        raise NotImplementedError

    def load(self, a: Tensor, b: Tensor) -> None:
        """Copy this rank's parts of whole A and B to where all implementations read them."""
        raise NotImplementedError

    def job(self, group: dist.ProcessGroup | None) -> AnyBuffers:
        raise NotImplementedError

    def part(self, job: AnyBuffers, work: Work) -> Implementation:
        raise NotImplementedError

    def communication(self, job: AnyBuffers, options: Options) -> Implementation:
        raise NotImplementedError

    def product(self, job: AnyBuffers, options: Options, details: Details) -> Implementation:
        raise NotImplementedError

    def step(self, options: Options, job: AnyBuffers) -> Step:
        raise NotImplementedError

    def probes(self, job: AnyBuffers) -> tuple[Probe, Probe, Probe]:
        """Return a small and a large collective, and a rank's product, to fit the costs."""
        raise NotImplementedError

    def kinds(self) -> Iterator[tuple[Options, float, float]]:
        """Yield the options that `auto` tries, each with its operations and collective bytes."""
        raise NotImplementedError

    def build(self, options: Options, group: dist.ProcessGroup | None) -> Implementation:
        job, kind = self.job(group), options["implementation"]
        if kind == COMPUTE_ONLY:
            return self.computation(job, str(options["size"]))
        if kind in BOUNDS:
            return self.communication(job, options)
        details: Details = {}
        if kind == AUTO:
            options, details = self.choose(job, str(options["backend"]))
        return self.product(job, options, details)

    def computation(self, job: AnyBuffers, size: str) -> Implementation:
        """Build the matmul alone: A times B if `size` is unsharded, else this rank's part."""
        ranks = self.rank.world_size
        if size != "unsharded":
            work = Work(useful_flops=self.flops / ranks, executed_flops=self.flops)
            return self.part(job, work)
        a, b, c = self.whole
        work = Work(useful_flops=self.flops, executed_flops=self.flops * ranks)
        return Implementation(partial(job.matmul, a, b, c), work, lambda: c)

    def drawing(
        self, draw: Callable[..., Tensor], op: str, dtype: torch.dtype, columns: int
    ) -> Callable[..., Tensor]:
        """Return `verification.pattern` or `reduced` for this rank's padded rows."""
        return partial(
            draw,
            seed=self.rank.seed,
            world_size=self.rank.world_size,
            dtype=dtype,
            op=op,
            length=self.rows.most * columns,
        )

    def choose(self, job: AnyBuffers, backend: str) -> tuple[Options, Details]:
        costs = measure_costs(self.rank.seconds_of, *self.probes(job))
        kinds: list[tuple[Options, float]] = []
        for options, flops, num_bytes in self.kinds():
            kinds.append(({**options, "backend": backend}, costs.limit_s(flops, num_bytes)))
        return choose(costs, kinds, partial(self.timed_s, job=job))

    def timed_s(self, choices: Sequence[Options], job: AnyBuffers) -> list[float]:
        """Return each choice's seconds on the slowest rank; they share scratch memory in turns."""
        steps = [self.step(options, in_turns(job)) for options in choices]
        return list(map(max, self.rank.seconds_of(*steps)))

    def cases(self) -> list[Case]:
        if lacking := self.lacking():
            return [Case(labels=labels_of(options), unavailable=lacking) for options in self.chosen]
        operand_bytes, scratch_bytes = self.nbytes()
        needed_bytes = operand_bytes + scratch_bytes + checking_bytes(self.shape, self.inputs)
        if shortage := self.rank.memory_shortage(needed_bytes):
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
        over = "" if options["implementation"] == COMPUTE_ONLY else backend
        return replace(built, step=CapturableStep(built.step, over))

    def case(self, options: Options, built: Implementation | str, there: Sequence[Case]) -> Case:
        """Build the case of one implementation, or of why it cannot run here.

        `there` are the cases built before that can run; a bound's have no baseline.
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
            components=self.components(built, there),
            is_component=options["implementation"] in BOUNDS,
            baseline=baseline_of(labels, self.baseline, there, self.backend),
            unchecked="" if built.verify else self.unchecked(options),
        )

    def unchecked(self, options: Options) -> str:
        """Return what the check of a product does not see, or ""."""
        return "" if self.inputs == "exact" else operands.UNSAMPLED

    def components(self, built: Implementation, there: Sequence[Case]) -> Components:
        """Return the bounds that can run here; one rank sends nothing and has none."""
        if built.parts is None or self.rank.world_size == 1:
            return Components()
        wanted = map(labels_of, built.parts)
        return Components(*(counterpart(part, there, self.backend) for part in wanted))

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
            self.load(*self.timed)
            built.prepare()
        return None

    @cached_property
    def timed(self) -> tuple[Tensor, Tensor]:
        """The timed matrices: always real numbers, since a GPU multiplies zeros faster."""
        return self.factory.real(TIMED)


MEASURED, EXTRAPOLATED = (1, 2), (4, 8)
"""Numbers of chunks that are timed, and those that the model predicts from them."""
MOST_FINALISTS, NEAR = 5, 1.15
"""At most this many are timed again, predicted within this factor of the best."""


@dataclass(frozen=True)
class Trial:
    options: Options
    seconds: float
    limit_s: float


def overlapping() -> Iterator[tuple[str, Options]]:
    for name in ("pipeline", "p2p_pipeline"):
        for chunks in MEASURED:
            yield name, {"chunks": chunks}


@dataclass(frozen=True)
class ProductCosts:
    """A cost model of the slowest rank.

    A collective takes latency_s + byte_s x bytes (Hockney, 1994), a matmul flop_s x operations.
    """

    latency_s: float
    byte_s: float
    flop_s: float

    def limit_s(self, flops: float, num_bytes: float) -> float:
        return max(self.flop_s * flops, self.latency_s + self.byte_s * num_bytes)

    def predicted(self, trials: Sequence[Trial]) -> list[tuple[float, Options]]:
        """Return the seconds and options of all trials and of more chunks, the fastest first.

        With c chunks, an implementation takes A + latency c + E / c, where E is exposed until the
        first chunk is complete. The times of one chunk and of two give A and E. The limit is its
        longest part alone.
        """
        found = [(trial.seconds, trial.options) for trial in trials]
        by_options = {tuple(trial.options.items()): trial for trial in trials}
        for one in trials:
            two_chunks = {**one.options, "chunks": MEASURED[1]}
            two = by_options.get(tuple(two_chunks.items()))
            if one.options.get("chunks") != MEASURED[0] or two is None:
                continue
            exposed_s = 2 * (one.seconds - two.seconds + self.latency_s)
            for chunks in EXTRAPOLATED:
                hidden_s = exposed_s * (1 / 2 - 1 / chunks)
                seconds = two.seconds + (chunks - 2) * self.latency_s - hidden_s
                found.append((max(seconds, two.limit_s), {**one.options, "chunks": chunks}))
        return sorted(found, key=lambda prediction: prediction[0])

    def finalists(self, trials: Sequence[Trial]) -> list[Options]:
        """Return the options that may be best: few trials do not tell similar times apart."""
        predicted = self.predicted(trials)
        best_s, _ = predicted[0]
        near = [options for seconds, options in predicted if seconds <= NEAR * best_s]
        return near[:MOST_FINALISTS]


def choose(
    costs: ProductCosts,
    kinds: Sequence[tuple[Options, float]],
    timed: Callable[[Sequence[Options]], list[float]],
) -> tuple[Options, dict[str, object]]:
    """Choose the fastest of the finalists.

    `kinds` are the options to try, each with its least seconds. `timed` returns the seconds of each
    of some options, equal on all ranks. The details are the name of the choice, such as "pipeline
    AG_after 4 chunks", its time and the costs.
    """
    measured_s = timed([options for options, _ in kinds])
    trials = []
    for (options, limit_s), seconds in zip(kinds, measured_s, strict=True):
        trials.append(Trial(options, seconds, limit_s))
    finalists = costs.finalists(trials)
    seconds, best = min(zip(timed(finalists), range(len(finalists)), strict=True))
    chosen = finalists[best]
    shown = {key: value for key, value in chosen.items() if key != "backend"}
    words = [f"{value} {CHUNKS}" if key == CHUNKS else str(value) for key, value in shown.items()]
    return chosen, {CHOSEN: " ".join(words), PREDICTED_S: seconds, **asdict(costs)}


def measure_costs(
    seconds_of: SecondsOf,
    small: Probe,
    large: Probe,
    compute: Probe,
) -> ProductCosts:
    small_bytes, call_small = small
    large_bytes, call_large = large
    flops, call_compute = compute
    small_s, large_s, compute_s = map(max, seconds_of(call_small, call_large, call_compute))
    byte_s = 0.0
    if large_bytes > small_bytes:
        byte_s = max(0.0, large_s - small_s) / (large_bytes - small_bytes)
    latency_s = max(0.0, small_s - byte_s * small_bytes)
    return ProductCosts(latency_s, byte_s, compute_s / flops)
