"""The configurations of the tensor-parallel suites; imports no torch.

A shape is (m, n, k) of the product of A [m, k] and B [k, n].
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from benchkit.api.case import Case
from benchkit.api.keys import LAYERS, ModelConfig, RunConfig, as_list, key, layer_shape
from benchkit.api.sizes import FLOAT8, FLOAT8_STEP, product_bytes
from benchkit.errors import ConfigError
from benchkit.suites.tensor_parallel import names
from benchkit.suites.tensor_parallel.names import COMM_BACKEND, DEFAULT, IMPLEMENTATION

Values = tuple[str, ...] | type[int]
Allowed = Mapping[str, Mapping[str, Values]]
"""Values of each option of each implementation.

The first value is the default; `int` allows any number from 1.
"""
DEFAULT_INT = 4


def expand(given: Mapping[str, Any], allowed: Allowed) -> list[dict[str, str | int]]:
    """Return every implementation with every combination of its options.

    A group of options adds only the combinations that no earlier group has.

    Args:
        given: a dictionary of options for each implementation, or a list of such dictionaries,
            each of which is expanded by itself; None removes an implementation.

    Raises:
        ConfigError: for names and values that do not exist.
    """
    found: list[dict[str, str | int]] = []
    for name, groups in given.items():
        if name not in allowed:
            known = ", ".join(allowed)
            raise ConfigError(
                f"implementations.{name}: no such implementation; allowed are {known}"
            )
        for group in groups_of(groups):
            expanded = combinations(name, group, allowed[name])
            found += [options for options in expanded if options not in found]
    if not found:
        raise ConfigError(f"implementations: none is left; allowed are {', '.join(allowed)}")
    return found


def groups_of(value: Any) -> list[Any]:
    """Return the groups of options of an implementation: a list of them, a single one or None."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def combinations(
    name: str, group: Any, options: Mapping[str, Values]
) -> Iterator[dict[str, str | int]]:
    """Yield every combination of one group of options."""
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
        values.append([checked(f"{name}.{option}", value, choices) for value in wanted])
    for chosen in itertools.product(*values):
        yield {IMPLEMENTATION: name, **dict(zip(options, chosen, strict=True))}


def checked(name: str, value: Any, choices: Values) -> str | int:
    """Return a value that is allowed; raise ConfigError for any other."""
    if isinstance(choices, tuple):
        if value not in choices:
            raise ConfigError(f"implementations.{name}={value}: allowed are {', '.join(choices)}")
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"implementations.{name}={value}: allowed are whole numbers >= 1")
    return value


Shape = tuple[int, int, int]


def columnwise_bytes(
    shape: Shape, dtype: str, world_size: int, needs_whole: bool
) -> tuple[int, int]:
    """Return the bytes of the operands and of scratch memory, with the rows of A sharded.

    Args:
        needs_whole: whether a case multiplies whole matrices.
    """
    m, n, k = shape
    most = -(-m // world_size)
    factors = most * k + k * n + (m * k if needs_whole else 0)
    gathered_a, gathered_c = (world_size + 3) * most * k, (world_size + 1) * most * n
    scratch = max(product_bytes(dtype, gathered_a, 0), product_bytes(dtype, 0, gathered_c))
    return product_bytes(dtype, factors, m * n), scratch


def rowwise_bytes(shape: Shape, dtype: str, world_size: int, needs_whole: bool) -> tuple[int, int]:
    """Return the same with the columns of A and the rows of B sharded."""
    m, n, k = shape
    most, width = -(-m // world_size), -(-k // world_size)
    factors, products = world_size * most * width + width * n, most * n
    if needs_whole:
        factors, products = factors + m * k + k * n, products + m * n
    scratch = product_bytes(dtype, 0, (world_size + 4) * most * n)
    return product_bytes(dtype, factors, products), scratch


def checking_bytes(shape: Shape) -> int:
    """Return the bytes of all matrices in float64, in which results are checked."""
    m, n, k = shape
    return 8 * (m * k + k * n + m * n)


def drawn_bytes(shape: Shape) -> int:
    """Return the bytes of the host memory in which factors are drawn.

    Per element these are 4 to time and 1 to check.
    """
    m, n, k = shape
    return 5 * (m * k + k * n)


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
    def shape(self) -> Shape:
        return self.m, self.n, self.k

    def operand_bytes(self, world_size: int, needs_whole: bool) -> tuple[int, int]:
        """Return the bytes of the operands of a rank and of its scratch memory."""
        raise NotImplementedError

    def most_cases(self) -> int:
        return len(expand(self.implementations, self.allowed))

    def needed_bytes(self, world_size: int) -> float:
        needs_whole = WHOLE in expand(self.implementations, self.allowed)
        operands = sum(self.operand_bytes(world_size, needs_whole))
        return operands + checking_bytes(self.shape)

    def host_bytes(self, world_size: int) -> float:
        return drawn_bytes(self.shape)

    def check_layer(self) -> None:
        """Raise ConfigError where model, layer and shape contradict each other."""
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
        """Return k and n of a model's layer; the inner dimension of A and B is shared out."""
        return layer_shape(model, layer)


def layer_rows(model: ModelConfig | None, layer: str | None, default: int) -> int:
    """Return k of a model's layer; without one, the default."""
    if model is None or layer not in LAYERS:
        return default
    return layer_shape(model, layer)[0]


def layer_columns(
    model: ModelConfig | None, layer: str | None, default: int, ranks: int | str = 1
) -> int:
    """Return n of a model's layer, whose columns are shared out over ranks; else the default."""
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
        """Return k and n of a column-parallel layer, of which each rank has a part of the columns.

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
        return columnwise_bytes(self.shape, self.dtype, world_size, needs_whole)


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
        return rowwise_bytes(self.shape, self.dtype, world_size, needs_whole)


Options = Mapping[str, str | int]
"""An implementation with its options, among them `backend` if it communicates."""
Labels = Mapping[str, str | int | float]
"""Labels of a case: its options, with `comm_backend` in place of `backend`."""


def over(labels: Labels, job_backend: str) -> Labels:
    """Return the labels with the job's backend instead of `default`."""
    return {**labels, COMM_BACKEND: job_backend} if labels.get(COMM_BACKEND) == DEFAULT else labels


def counterpart(wanted: Labels, there: Sequence[Case], job_backend: str) -> Case | None:
    """Return the case with the wanted labels of those there, or None.

    `default` and the name of the job's backend are the same backend; an exact match comes first.
    """
    resolved = over(wanted, job_backend)
    same = [case for case in there if over(case.labels, job_backend) == resolved]
    return min(same, key=lambda case: case.labels != wanted, default=None)


def baseline_of(
    labels: Labels, baseline: Options, there: Sequence[Case], job_backend: str
) -> Case | None:
    """Return the baseline of an implementation on its own backend, else the first baseline there.

    Args:
        labels: of the implementation; a baseline itself has None.
        baseline: options of the baseline, without the backend.
        there: all baselines that can run, among other cases.
        job_backend: what `default` stands for.
    """
    if is_on_a_backend(labels, baseline):
        return None
    on_backends = [case for case in there if is_on_a_backend(case.labels, baseline)]
    wanted = {**baseline, COMM_BACKEND: labels.get(COMM_BACKEND, DEFAULT)}
    return counterpart(wanted, on_backends, job_backend) or next(iter(on_backends), None)


def is_on_a_backend(labels: Labels, baseline: Options) -> bool:
    """Whether labels are those of the baseline on any backend."""
    return {name: value for name, value in labels.items() if name != COMM_BACKEND} == baseline


def labels_of(options: Options) -> Options:
    """Return the options as columns, where the name `backend` belongs to the job."""
    return {COMM_BACKEND if name == "backend" else name: value for name, value in options.items()}
