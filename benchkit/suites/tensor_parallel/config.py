"""Keys, names and question of tp_columnwise and tp_rowwise.

C = A B with A [m, k] and B [k, n] is split over ranks.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from benchkit.api.keys import (
    LAYERS,
    ModelConfig,
    Planned,
    RunConfig,
    as_list,
    key,
    layer_shape,
    require_consistent_value,
)
from benchkit.api.question import TFLOP_PER_S, TIME, Cells, Comparison, Metric, Question
from benchkit.api.sizes import FLOAT8S, ITEM_BYTES, check_float8
from benchkit.errors import ConfigError

IMPLEMENTATION, SIZE, ORDER = "implementation", "size", "order"
COLLECTIVE, CHUNKS, COMM_BACKEND = "collective", "chunks", "comm_backend"  # labels of a case
COMPUTE_ONLY, COMM_ONLY, P2P_COMM_ONLY = "compute_only", "comm_only", "p2p_comm_only"
BOUNDS = (COMPUTE_ONLY, COMM_ONLY, P2P_COMM_ONLY)
PYTORCH, AUTO = "pytorch", "auto"
"""IMPLEMENTATION: one component after the other, or what a cost model chooses."""
DEFAULT = "default"
CHOSEN = "chosen"  # detail of AUTO: its choice, in words


Values = tuple[str, ...] | type[int]
Allowed = Mapping[str, Mapping[str, Values]]
"""Values of each option of each implementation, the default first; `int` is any from 1."""
DEFAULT_INT = 4


def expand(given: Mapping[str, Any], allowed: Allowed) -> list[dict[str, str | int]]:
    """Return every implementation with every combination of its options, each once.

    `given` has by implementation a dictionary of options, or a list of these; None removes one.
    Raises ConfigError for names and values that do not exist.
    """
    selected: list[dict[str, str | int]] = []
    for name, groups in given.items():
        if name not in allowed:
            names = ", ".join(allowed)
            raise ConfigError(
                f"implementations.{name}: no such implementation; allowed are {names}"
            )
        for group in groups_of(groups):
            expanded = combinations(name, group, allowed[name])
            selected += [options for options in expanded if options not in selected]
    if not selected:
        raise ConfigError(f"implementations: none is left; allowed are {', '.join(allowed)}")
    return selected


def groups_of(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def combinations(
    name: str, group: Any, options: Mapping[str, Values]
) -> Iterator[dict[str, str | int]]:
    if not isinstance(group, Mapping):
        raise ConfigError(
            f"implementations.{name}={group}: allowed is "
            "{option: value or list of values}, or null"
        )
    if unknown := set(group) - set(options):
        known = f"allowed are {', '.join(options)}" if options else "it has none"
        raise ConfigError(f"implementations.{name}.{min(unknown)}: no such option; {known}")
    values = []
    for option, choices in options.items():
        default = choices[0] if isinstance(choices, tuple) else DEFAULT_INT
        wanted = as_list(group.get(option, default))
        values.append([require_choice(f"{name}.{option}", value, choices) for value in wanted])
    for chosen in itertools.product(*values):
        yield {IMPLEMENTATION: name, **dict(zip(options, chosen, strict=True))}


def require_choice(name: str, value: Any, choices: Values) -> str | int:
    if isinstance(choices, tuple):
        if value not in choices:
            raise ConfigError(f"implementations.{name}={value}: allowed are {', '.join(choices)}")
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"implementations.{name}={value}: allowed are whole numbers >= 1")
    return value


Shape = tuple[int, int, int]  # (m, n, k) of the product of A [m, k] and B [k, n]
Options = Mapping[str, str | int]
"""An implementation with its options, among them `backend` if it communicates."""


def checking_bytes(shape: Shape, inputs: str) -> int:
    """Return the bytes of factors that are drawn, of 4 an element to time, and in float64."""
    m, n, k = shape
    factors = m * k + k * n
    to_check = 1 if inputs == "exact" else 8  # int8; float32, and rounded as the dtype does
    return (4 + to_check) * factors + 8 * (factors + m * n)


BACKENDS = (DEFAULT, "gloo", "nccl", "ucc", "ucc/tl/nccl", "ucc/tl/cuda", "ucc/tl/ucp")
"""Backends of a case; DEFAULT is that of the job."""
ORDERS = ("AG_before", "AG_after")
COLLECTIVES = ("reduce_scatter", "all_reduce")
WHOLE = {IMPLEMENTATION: COMPUTE_ONLY, SIZE: "unsharded"}


@dataclass
class TensorParallelConfig(RunConfig):
    uses_model: ClassVar[bool] = True

    m: int = key("rows of A and C", at_least=1)
    n: int = key("columns of B and C", at_least=1)
    k: int = key("columns of A and rows of B", at_least=1)
    layer: str | None = key(
        "product of model=NAME that n and k are of, in tp_columnwise with the columns of one rank; "
        "m is its tokens, context length x batch",
        choices=LAYERS,
        identity=False,  # n and k say the same
    )
    dtype: str = key(
        "element type; products of float8 are bfloat16, by _fast with sums of fewer bits",
        choices=("float16", "bfloat16", "float32", "float64", *FLOAT8S),
    )
    inputs: str = key(
        "how results are checked: exact integers to the bit, real numbers to rounding",
        choices=("exact", "real"),
    )
    implementations: dict[str, Any] = key(
        "each with its options; lists multiply out, null takes one out"
    )

    allowed: ClassVar[Allowed] = {}

    @classmethod
    def unknown(cls, name: str, rest: str) -> str:
        implementation, _, option = rest.partition(".")
        if name != "implementations" or option in cls.allowed.get(implementation, {}):
            return ""
        try:
            expand({implementation: {option: None} if option else {}}, cls.allowed)
        except ConfigError as error:
            return str(error)
        return ""

    def check(self) -> None:
        super().check()
        self.check_layer()
        expand(self.implementations, self.allowed)
        for name in ("n", "k"):
            check_float8(self.dtype, self.hardware.device, name, getattr(self, name))

    @property
    def shape(self) -> Shape:
        return self.m, self.n, self.k

    def operand_bytes(self, world_size: int, needs_whole: bool) -> tuple[int, int]:
        """Return the bytes of the operands and of scratch memory."""
        raise NotImplementedError

    def planned(self, world_size: int) -> list[Planned]:
        return [
            Planned(
                labels=" ".join(f"{name}={value}" for name, value in options.items()),
                flops=self.flops_of(options, world_size),
                sent_bytes=self.sent_bytes(options),
                group="" if options[IMPLEMENTATION] in BOUNDS else "all",
            )
            for options in expand(self.implementations, self.allowed)
        ]

    def flops_of(self, options: Options, world_size: int) -> float:
        """Return the operations of one rank; all of them if it gathers A first."""
        if options[IMPLEMENTATION] in (COMM_ONLY, P2P_COMM_ONLY):
            return 0.0
        is_whole = options.get(ORDER) == ORDERS[0] or options.get(SIZE) == WHOLE[SIZE]
        return 2.0 * math.prod(self.shape) / (1 if is_whole else world_size)

    def sent_bytes(self, options: Options) -> float:
        """Return the bytes of A if it is gathered before the product, else those of C."""
        m, n, k = self.shape
        if options[IMPLEMENTATION] == COMPUTE_ONLY:
            return 0.0
        return float(m * (k if options.get(ORDER) == ORDERS[0] else n) * ITEM_BYTES[self.dtype])

    def needed_bytes(self, world_size: int) -> float:
        needs_whole = WHOLE in expand(self.implementations, self.allowed)
        operands = sum(self.operand_bytes(world_size, needs_whole))
        return operands + checking_bytes(self.shape, self.inputs)

    def check_layer(self) -> None:
        if self.model is None:
            if self.layer is not None:
                raise ConfigError(f"layer={self.layer}: needs a model, such as model=small")
            return
        if self.layer is None:
            chosen = f"model={self.model.name}"
            raise ConfigError(f"{chosen}: choose layer={'|'.join(LAYERS)}, or leave it out")
        shape = self.product_of(self.model, self.layer)
        for name, expected in zip(("k", "n"), shape, strict=True):
            owner = f"layer={self.layer} of model={self.model.name}"
            require_consistent_value(name, getattr(self, name), owner, expected)

    def product_of(self, model: ModelConfig, layer: str) -> tuple[int, int]:
        return layer_shape(model, layer)


def layer_rows(model: ModelConfig | None, layer: str | None, default: int) -> int:
    if model is None or layer not in LAYERS:
        return default
    return layer_shape(model, layer)[0]


def layer_columns(
    model: ModelConfig | None, layer: str | None, default: int, ranks: int | str = 1
) -> int:
    if model is None or layer not in LAYERS:
        return default
    return layer_shape(model, layer)[1] // (max(1, ranks) if isinstance(ranks, int) else 1)


OF_LIMIT = Metric("limit_share", "of limit", "%", 100)


def question(plain: Cells) -> Question:
    factors = (IMPLEMENTATION, SIZE, ORDER, COLLECTIVE, CHUNKS, COMM_BACKEND)
    return Question(
        problem=("m", "n", "k", "dtype", "inputs", "world_size"),
        comparisons=(
            Comparison(
                factors,
                baseline={IMPLEMENTATION: PYTORCH, **plain},
                bounds={IMPLEMENTATION: COMPUTE_ONLY},
            ),
        ),
        metrics=(TIME, OF_LIMIT, TFLOP_PER_S),
        scaling_columns=("m", "n", "k"),
        words={
            "inputs=exact": "",
            CHUNKS: "{} chunks",
            f"{CHUNKS}=1": "1 chunk",
            f"{COMM_BACKEND}={DEFAULT}": "",
            "world_size": "{} ranks",
        },
        terms={
            "compute_only": "the product without communication",
            "unsharded": "all of C on each rank, as AG_before needs it",
            "of limit": "the longer of computing and communicating alone",
        },
        next_steps={
            "m": "m=1024,4096,16384",
            "world_size": "world_size=2,4",
        },
    )
