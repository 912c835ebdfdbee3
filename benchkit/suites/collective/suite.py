"""The suite collective: the collectives of torch.distributed."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from benchkit.api.case import ONE_CALL, CallsPerSample, Case, Rank
from benchkit.api.keys import LOOP, ModelConfig, Planned, RunConfig, as_list, count_parameters, key
from benchkit.api.question import BUSBW, FIRST, LEAST, TIME, Comparison, Question
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import ITEM_BYTES, mebibytes
from benchkit.errors import ConfigError
from benchkit.statistics import BACK_TO_BACK, LATENCY

TIMING = "timing"  # label of a case: LATENCY or BACK_TO_BACK
ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all_reduce", "all_gather", "reduce_scatter"
BROADCAST, REDUCE, GATHER, SCATTER = "broadcast", "reduce", "gather", "scatter"
ALL_TO_ALL, RING_SHIFT, SEND_RECV, BARRIER = "all_to_all", "ring_shift", "send_recv", "barrier"
COLLECTIVES = (
    ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, GATHER, SCATTER, ALL_TO_ALL,
    RING_SHIFT, SEND_RECV, BARRIER,
)  # fmt: skip
REDUCTIONS = (ALL_REDUCE, REDUCE_SCATTER, REDUCE)
SHARED_OUT = (ALL_GATHER, REDUCE_SCATTER, GATHER, SCATTER, ALL_TO_ALL)
SHORT_S = 0.01
"""Shorter calls are timed as latency and back to back; for longer ones both are equal."""
RAGGED = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL)  # torch supports parts of different sizes


def sizes_of(data_size: float | str | list[float | str]) -> float | list[float]:
    """Return the sizes in MiB: a number for one size, else a list without duplicates."""
    if not isinstance(data_size, list):
        return mebibytes(data_size)
    sizes = [mebibytes(size) for size in data_size]
    if len(set(sizes)) < len(sizes) or not sizes:
        problem = "a size is there twice" if sizes else "it is empty"
        raise ConfigError(
            f"data_size={data_size}: {problem}; allowed is a list of different sizes, or one size"
        )
    return sizes if len(sizes) > 1 else sizes[0]


def bus_factor(collective: str, world_size: int) -> float | None:
    """Return f in busbw = algbw x f (nccl-tests, doc/PERFORMANCE.md).

    None on one rank, which moves nothing, and for a barrier, which has no payload.
    """
    if world_size == 1 or collective == BARRIER:
        return None
    if collective == ALL_REDUCE:
        return 2 * (world_size - 1) / world_size
    return (world_size - 1) / world_size if collective in SHARED_OUT else 1.0


def part_sizes(collective: str, world_size: int, num_elements: int, ragged: bool) -> list[int]:
    """Return the elements of each rank's part; ragged ones are 2/3 to 4/3 of the mean."""
    if collective not in SHARED_OUT:
        return [num_elements]
    mean = max(1, round(num_elements / world_size))
    if not ragged or world_size == 1:
        return [mean] * world_size
    slopes = [2 * rank / (world_size - 1) - 1 for rank in range(world_size)]
    return [max(1, round(mean * (1 + slope / 3))) for slope in slopes]


DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
GRADIENTS = "gradients"
TRAFFIC = {GRADIENTS: 0, "tensor": 1, "sequence": 2}
"""Messages of a model, with their elements per token in units of d_model.

Data parallel all-reduces all gradients. Tensor parallel all-reduces the activations of a layer, or
all-gathers and reduce-scatters them. Sequence parallel all-gathers a layer's keys and values."""
TOKENS = ("tensor:TOKENS", "sequence:TOKENS")
REDUCE_OPS = ("sum", "avg", "min", "max", "product")


@dataclass
class CollectiveConfig(RunConfig):
    uses_model: ClassVar[bool] = True

    collective: str = key(
        "which one; ring_shift: each rank to the next, nccl-tests' sendrecv; send_recv: there and "
        "back between two ranks",
        choices=COLLECTIVES,
    )
    data_size: Any = key(
        "size S of nccl-tests, a number of MiB or with its unit (4B, 1KiB); of model=NAME: "
        "gradients, tensor:TOKENS, sequence:TOKENS; a list: sizes of one job, interleaved",
        unit="MiB",
    )
    dtype: str = key("element type", choices=DTYPES)
    reduce_op: str = key("reduction, where there is one", choices=REDUCE_OPS)
    async_op: bool = key("whether calls return at once and are waited for, each timed apart")
    ragged: bool = key("whether ranks' parts are of unlike sizes")

    def parse(self) -> "CollectiveConfig":
        return replace(self, data_size=sizes_of(self.model_sizes()))

    @property
    def sizes_mib(self) -> list[float]:
        """The sizes, once they are parsed."""
        return as_list(self.data_size)

    def check(self) -> None:
        super().check()
        name = self.collective
        if self.reduce_op == "avg" and self.dtype.startswith("int"):
            raise ConfigError(
                f"reduce_op=avg: allowed with a floating-point dtype, not dtype={self.dtype}"
            )
        if name not in REDUCTIONS and self.reduce_op != "sum":
            raise ConfigError(f"reduce_op={self.reduce_op}: {name} has none; leave it at sum")
        if self.ragged and name not in RAGGED:
            allowed = "|".join(RAGGED)
            raise ConfigError(f"ragged=true: allowed with collective={allowed}, not {name}")
        if self.async_op and name == SEND_RECV:
            raise ConfigError("async_op=true: a ping-pong waits for each message; leave it false")
        if name == SEND_RECV and self.world_size == 1:
            raise ConfigError("collective=send_recv: needs two ranks; allowed is world_size >= 2")
        least_bytes = ITEM_BYTES[self.dtype]
        for size in self.sizes_mib:
            if size * 2**20 < least_bytes * (1 - 1e-9):
                given = f"data_size={size * 2**20:g}B"
                allowed = f"allowed are {least_bytes}B, an element of {self.dtype}, and more"
                raise ConfigError(f"{given}: {allowed}")
        if isinstance(self.data_size, list):
            self.check_list(self.data_size)

    def model_sizes(self) -> Any:
        """Return data_size in MiB; it must name a model that is chosen."""
        entries = as_list(self.data_size)
        sizes = [self.model_size(size) for size in entries]
        if self.model is not None and sizes == entries != [gradient_mib(self.model, self.dtype)]:
            traffic = f"data_size={'|'.join((GRADIENTS, *TOKENS))}"
            raise ConfigError(
                f"data_size={self.data_size}: says nothing of model={self.model.name}; choose "
                f"{traffic}, or leave the model out"
            )
        return sizes if isinstance(self.data_size, list) else sizes[0]

    def model_size(self, size: Any) -> Any:
        traffic, _, tokens = str(size).partition(":")
        if traffic not in TRAFFIC:
            return size
        if self.model is None:
            raise ConfigError(f"data_size={size}: needs a model, such as model=small")
        if traffic == GRADIENTS and not tokens:
            return gradient_mib(self.model, self.dtype)
        if traffic == GRADIENTS or not (tokens.isdecimal() and int(tokens)):
            allowed = ", ".join((GRADIENTS, *TOKENS))
            raise ConfigError(f"data_size={size}: allowed of a model are {allowed}")
        elements = TRAFFIC[traffic] * int(tokens) * self.model.d_model
        return elements * ITEM_BYTES[self.dtype] / 2**20

    def check_list(self, sizes: list[float]) -> None:
        """Raise ConfigError if several sizes make no job, or may exceed timeout_s."""
        if self.collective == BARRIER:
            raise ConfigError(f"data_size={sizes}: a barrier has no size; allowed is one number")
        measure = self.measure
        seconds = (
            len(sizes) * self.cases_per_size * (measure.most_seconds() + measure.max_warmup_seconds)
        )
        if measure.target_rel_ci is not None and seconds > self.timeout_s:
            raise ConfigError(
                f"timeout_s={self.timeout_s:g}: {len(sizes)} sizes in one job may take "
                f"{seconds:g} s (measure.max_seconds and max_warmup_seconds of each case, "
                f"{self.cases_per_size} per size); allowed is a timeout_s beyond that"
            )

    def planned(self, world_size: int) -> list[Planned]:
        factor = bus_factor(self.collective, world_size) or 0.0
        cases = []
        for size in self.sizes_mib:
            payload_bytes = sum(self.parts(size, world_size)) * ITEM_BYTES[self.dtype]
            case = Planned(
                labels=f"data_size={size:g}",
                sent_bytes=factor * payload_bytes,
                needed_bytes=self.buffer_bytes(size, world_size),
            )
            if self.cases_per_size > 1:
                cases.append(replace(case, calls=ONE_CALL, below_s=SHORT_S))
            cases.append(replace(case, calls=self.calls()))
        return cases

    @property
    def cases_per_size(self) -> int:
        return 1 if self.measure.mode == LOOP else 2

    def calls(self) -> CallsPerSample:
        return super().calls() if self.measure.mode == LOOP else CallsPerSample(fill_s=SHORT_S)

    def idle_keys(self) -> dict[str, str]:
        reasons = super().idle_keys()
        if self.collective == BARRIER:
            reasons |= dict.fromkeys(("data_size", "dtype"), "a barrier has no data")
        return reasons

    def needed_bytes(self, world_size: int) -> float:
        return max(self.buffer_bytes(size, world_size) for size in self.sizes_mib)

    def buffer_bytes(self, size_mib: float, world_size: int) -> float:
        num_buffers = 3 if self.collective in (ALL_TO_ALL, RING_SHIFT) else 2
        return num_buffers * sum(self.parts(size_mib, world_size)) * ITEM_BYTES[self.dtype]

    def parts(self, size_mib: float, world_size: int) -> list[int]:
        num_elements = max(1, round(size_mib * 2**20 / ITEM_BYTES[self.dtype]))
        return part_sizes(self.collective, world_size, num_elements, self.ragged)

    def title(self) -> str:
        return self.collective


def gradient_mib(model: ModelConfig | None, dtype: str) -> float:
    if model is None:
        return 1.0
    item_bytes = ITEM_BYTES.get(dtype, 4)  # the ranges of keys are checked later
    return count_parameters(model) * item_bytes / 2**20


CASES = "benchkit.suites.collective.cases"
PRELOAD = (CASES,)
RESOLVERS = {"gradient_mib": gradient_mib}


QUESTION = Question(
    problem=("collective", "data_size", "world_size", "dtype", "reduce_op", "ragged", TIMING),
    comparisons=(
        Comparison(("backend",), baseline={"backend": "gloo"}),
        Comparison(("backend_env",), baseline={"backend_env": FIRST}),
        Comparison(("async_op",), baseline={"async_op": False}),
    ),
    metrics=(
        replace(TIME, scale_end=LEAST, row_filter={TIMING: LATENCY}),
        replace(BUSBW, row_filter={TIMING: BACK_TO_BACK}),
    ),
    scaling_columns=("data_size", "world_size"),
    panel_column=TIMING,
    words={
        "world_size": "{} ranks",
        f"{TIMING}={BACK_TO_BACK}": "back to back",
        "async_op=True": "async",
        "async_op=False": "blocking",
    },
    terms={
        "latency": "short calls after a barrier",
        "back to back": "calls in a row (and busbw)",
    },
    next_steps={
        "world_size": "world_size=2,4",
        "data_size": "data_size=1,10,100",
        "dtype": "dtype=float32,bfloat16",
    },
)


@suite
def collective(config: CollectiveConfig, rank: Rank) -> list[Case]:
    """Time and bandwidth of a collective of torch.distributed."""
    return cases_in(CASES, config, rank)
