"""The configurations of the tensor-parallel suites; imports no torch."""

from dataclasses import dataclass
from typing import Any, ClassVar

from benchkit.api.float8 import FLOAT8, FLOAT8_STEP
from benchkit.api.groups import ModelConfig
from benchkit.api.keys import key
from benchkit.api.parameters import LAYERS, layer_shape
from benchkit.api.schema import RunConfig
from benchkit.errors import ConfigError
from benchkit.suites.tensor_parallel import memory, names
from benchkit.suites.tensor_parallel.options import Allowed, expand

BACKENDS = (names.DEFAULT, "gloo", "nccl", "ucc", "ucc/tl/nccl", "ucc/tl/cuda", "ucc/tl/ucp")
"""Backends of a single case; names.DEFAULT is the job's."""
ORDERS = ("AG_before", "AG_after")
COLLECTIVES = ("reduce_scatter", "all_reduce")
WHOLE = {names.IMPLEMENTATION: names.COMPUTE_ONLY, names.SIZE: "unsharded"}
"""The options of the case that multiplies whole matrices."""


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
        "element type; products of float8 are bfloat16",
        choices=("float16", "bfloat16", "float32", "float64", FLOAT8),
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
            value = getattr(self, name)
            if self.dtype == FLOAT8 and value % FLOAT8_STEP:
                allowed = f"allowed with dtype={FLOAT8} are multiples of {FLOAT8_STEP}"
                raise ConfigError(f"{name}={value}: {allowed}")

    @property
    def shape(self) -> memory.Shape:
        return self.m, self.n, self.k

    def operand_bytes(self, world_size: int, needs_whole: bool) -> tuple[int, int]:
        """Returns the bytes of the operands of a rank and of its scratch memory."""
        raise NotImplementedError

    def most_cases(self) -> int:
        return len(expand(self.implementations, self.allowed))

    def needed_bytes(self, world_size: int) -> float:
        needs_whole = WHOLE in expand(self.implementations, self.allowed)
        operands = sum(self.operand_bytes(world_size, needs_whole))
        return operands + memory.checking_bytes(self.shape)

    def host_bytes(self, world_size: int) -> float:
        return memory.drawn_bytes(self.shape)

    def check_layer(self) -> None:
        """Raises ConfigError where model, layer and shape contradict each other."""
        if self.model is None:
            if self.layer is not None:
                raise ConfigError(f"layer={self.layer}: needs a model, such as model=small")
            return
        if self.layer is None:
            chosen = f"model={self.model.name}"
            raise ConfigError(f"{chosen}: choose layer={'|'.join(LAYERS)}, or leave it out")
        shape = self.product_of(self.model, self.layer)
        for name, expected in zip(("k", "n"), shape, strict=True):
            if (value := getattr(self, name)) != expected:
                has = f"layer={self.layer} of model={self.model.name} has {name}={expected}"
                raise ConfigError(f"{name}={value}: {has}; leave one of both out")

    def product_of(self, model: ModelConfig, layer: str) -> tuple[int, int]:
        """Returns k and n of a model's layer; the inner dimension of A and B is shared out."""
        return layer_shape(model, layer)


def layer_rows(model: ModelConfig | None, layer: str | None, default: int) -> int:
    """Returns k of a model's layer; without one, the default."""
    if model is None or layer not in LAYERS:
        return default
    return layer_shape(model, layer)[0]


def layer_columns(
    model: ModelConfig | None, layer: str | None, default: int, ranks: int | str = 1
) -> int:
    """Returns n of a model's layer, whose columns are shared out over ranks; else the default."""
    if model is None or layer not in LAYERS:
        return default
    return layer_shape(model, layer)[1] // (max(1, ranks) if isinstance(ranks, int) else 1)


@dataclass
class TpColumnwiseConfig(TensorParallelConfig):
    allowed: ClassVar[Allowed] = {
        names.COMPUTE_ONLY: {names.SIZE: ("sharded", "unsharded")},
        names.COMM_ONLY: {names.ORDER: ORDERS, "backend": BACKENDS},
        names.P2P_COMM_ONLY: {names.ORDER: ORDERS, "backend": BACKENDS},
        names.PYTORCH: {names.ORDER: ORDERS, "backend": BACKENDS},
        "pipeline": {names.ORDER: ORDERS, names.CHUNKS: int, "backend": BACKENDS},
        "p2p_pipeline": {names.ORDER: ORDERS, names.CHUNKS: int, "backend": BACKENDS},
        "symmetric_memory": {},
        names.AUTO: {"backend": BACKENDS},
    }

    def product_of(self, model: ModelConfig, layer: str) -> tuple[int, int]:
        """Returns k and n of a column-parallel layer, of which each rank has a part of the columns.

        Raises:
            ConfigError: the number of ranks is not known, or does not divide the columns.
        """
        rows, columns = layer_shape(model, layer)
        given = f"world_size={self.world_size}: layer={layer} of model={model.name}"
        if not isinstance(self.world_size, int):
            allowed = "allowed is a number, such as world_size=2"
            raise ConfigError(f"{given} shares its columns out; {allowed}")
        if columns % self.world_size:
            raise ConfigError(
                f"{given} has {columns} columns; allowed are numbers that divide them"
            )
        return rows, columns // self.world_size

    def operand_bytes(self, world_size: int, needs_whole: bool) -> tuple[int, int]:
        return memory.columnwise_bytes(self.shape, self.dtype, world_size, needs_whole)


@dataclass
class TpRowwiseConfig(TensorParallelConfig):
    allowed: ClassVar[Allowed] = {
        names.COMPUTE_ONLY: {names.SIZE: ("sharded", "unsharded")},
        names.COMM_ONLY: {names.COLLECTIVE: COLLECTIVES, "backend": BACKENDS},
        names.P2P_COMM_ONLY: {"backend": BACKENDS},
        names.PYTORCH: {names.COLLECTIVE: COLLECTIVES, "backend": BACKENDS},
        "pipeline": {names.CHUNKS: int, "backend": BACKENDS},
        "p2p_pipeline": {names.CHUNKS: int, "backend": BACKENDS},
        names.AUTO: {"backend": BACKENDS},
    }

    def operand_bytes(self, world_size: int, needs_whole: bool) -> tuple[int, int]:
        return memory.rowwise_bytes(self.shape, self.dtype, world_size, needs_whole)
