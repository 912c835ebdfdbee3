"""The suite matmul_lut: square matrix products on each share of a device."""

from dataclasses import dataclass

from benchkit.api.case import Case, Rank
from benchkit.api.keys import Planned, RunConfig, key
from benchkit.api.lut import SIZE
from benchkit.api.question import TFLOP_PER_S, TIME, Comparison, Question
from benchkit.api.registry import cases_in, suite
from benchkit.api.sizes import FLOAT8S, check_float8, product_bytes
from benchkit.errors import ConfigError


@dataclass
class MatmulLutConfig(RunConfig):
    sizes: list[int] = key(
        "rows and columns of the matrices, each size a case of the job", at_least=1
    )
    dtype: str = key(
        "element type; products of float8 are bfloat16, by _fast with sums of fewer bits",
        choices=("float16", "bfloat16", "float32", "float64", *FLOAT8S),
    )
    bg_streams: int = key(
        "further CUDA streams that multiply the same matrices; all begin and end together",
        at_least=0,
    )

    def planned(self, world_size: int) -> list[Planned]:
        """Return the sizes; a product stays in memory while later ones run."""
        sizes = self.sizes
        return [
            Planned(
                labels=f"size={size}",
                flops=2.0 * size**3,
                needed_bytes=sum(map(self.held_bytes, sizes[:number]))
                + checking_bytes(max(sizes[:number])),
            )
            for number, size in enumerate(sizes, 1)
        ]

    def most_seconds(self) -> float:
        return self.timeout_s

    def needed_bytes(self, world_size: int) -> float:
        return sum(map(self.held_bytes, self.sizes)) + checking_bytes(max(self.sizes))

    def held_bytes(self, size: int) -> int:
        return product_bytes(self.dtype, 2 * size**2, (1 + self.bg_streams) * size**2)

    def check(self) -> None:
        super().check()
        check_float8(self.dtype, self.hardware.device, "sizes", *self.sizes)
        if self.bg_streams and self.hardware.device != "cuda":
            device = self.hardware.device
            raise ConfigError(
                f"bg_streams={self.bg_streams}: allowed is 0 with hardware.device={device}"
            )


def checking_bytes(size: int) -> int:
    """Return the bytes of a float64 matrix, in which results are checked."""
    return 8 * size**2


def matmul_sizes(device: str) -> list[int]:
    """Return powers of two from 64 up to what a device multiplies in about a second."""
    largest_exponent = 15 if device == "cuda" else 10
    return [2**exponent for exponent in range(6, largest_exponent + 1)]


CASES = "benchkit.suites.matmul_lut.cases"
PRELOAD = (CASES,)
RESOLVERS = {"matmul_sizes": matmul_sizes}


QUESTION = Question(
    problem=(SIZE, "dtype", "bg_streams"),
    comparisons=(Comparison(("slowdown",), baseline={"slowdown": "1"}, is_curve=True),),
    metrics=(TIME, TFLOP_PER_S),
    scaling_columns=(SIZE,),
    replicates=("world_size",),
    words={"slowdown": "slowdown {}", "world_size": "{} ranks"},
    next_steps={"": "Use the table: +suite=ring_attention lut=FILE"},
)


@suite
def matmul_lut(config: MatmulLutConfig, rank: Rank) -> list[Case]:
    """Square matrix products on each share of a device, as a look-up table."""
    return cases_in(CASES, config, rank)
