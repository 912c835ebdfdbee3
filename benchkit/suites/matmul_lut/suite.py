"""The suite matmul_lut: square matrix products on each share of a device."""

from benchkit.api.case import Case, Rank
from benchkit.api.registry import suite
from benchkit.suites.matmul_lut.config import MatmulLutConfig, matmul_sizes

PRELOAD = ("benchkit.suites.matmul_lut.cases",)
RESOLVERS = {"matmul_sizes": matmul_sizes}


@suite
def matmul_lut(config: MatmulLutConfig, rank: Rank) -> list[Case]:
    """Time and TFLOP/s of square matrix products on each share of a device, as a look-up table."""
    from benchkit.suites.matmul_lut.cases import cases_of

    return cases_of(config, rank)
